"""Sends one line to the server, and prints the answer."""

import socket
import sys

host, port = sys.argv[1:]
with socket.create_connection((host, int(port)), timeout=10) as connection:
    connection.sendall(b"hello\n")
    print(connection.makefile().readline().strip())
