"""Ports of this machine for tests that run beside each other."""

import random
import socket

_LOWEST, _HIGHEST = 20_000, 29_999
"""Below the ports that the kernel gives to outgoing connections and to servers without a wish."""


def free_port() -> int:
    """Return a port on which nothing listens, and which no other process of the tests is given."""
    for port in random.SystemRandom().sample(range(_LOWEST, _HIGHEST + 1), 1000):
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0launcher-tests-port-{port}")
            socket.create_server(("", port)).close()
        except OSError:
            mark.close()
            continue
        mark.detach()  # open, and the name taken, until this process ends
        return port
    raise AssertionError("no port is free")
