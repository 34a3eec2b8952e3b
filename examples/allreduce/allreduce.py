"""Every replica brings a number and learns the sum of all, which replica 0 adds up and sends by TCP."""

import socket
import sys
import time


def listen(port: int, others: int, own: int) -> int:
    """Take a number from each of the others, and send them the sum."""
    with socket.create_server(("", port)) as server:
        connections = [server.accept()[0] for _ in range(others)]
        total = own + sum(int(each.makefile().readline()) for each in connections)
        for each in connections:
            with each:
                each.sendall(f"{total}\n".encode())
    return total


def ask(host: str, port: int, own: int) -> int:
    """Send a number to replica 0, and wait for the sum. It may start up to a minute after this replica."""
    for left in reversed(range(600)):
        try:
            connection = socket.create_connection((host, port), timeout=60)
            break
        except OSError:
            if not left:
                raise
            time.sleep(0.1)
    with connection:
        connection.sendall(f"{own}\n".encode())
        return int(connection.makefile().readline())


host, port, replica, replicas = sys.argv[1], *map(int, sys.argv[2:])
own = (replica + 1) ** 2
total = ask(host, port, own) if replica else listen(port, replicas - 1, own)
print(f"replica {replica} on {socket.gethostname()} brought {own}; the sum of all {replicas} is {total}")
