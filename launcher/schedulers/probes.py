"""What the probes of every scheduler share: the HTTP request, what is wrong with an answer, the phrases.

Imports next to nothing: a supervisor must stay small.
"""

from __future__ import annotations

import _socket
import errno

HOSTS = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))
"""Family and address of this machine: what listens on localhost may do so on either."""

ENOUGH = len(b"HTTP/1.1 200")
"""Bytes of an answer that tell whether it is a good one."""


def http_request(path: str, port: int) -> bytes:
    return f"GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode()


def http_name(path: str, port: int) -> str:
    """The request in a phrase; the `what` of the functions below."""
    return f"GET {path} on port {port}"


def bad_answer(what: str, answer: bytes) -> str:
    """What is wrong with the beginning of an answer; "" for 2xx and 3xx."""
    code = answer[9:12]
    if not answer.startswith(b"HTTP/1.") or not code.isdigit():
        return f"{what} has an answer that is not HTTP" if answer else f"{what} has no answer"
    return "" if code[:1] in (b"2", b"3") else f"{what} answers {code.decode()}"


def no_answer_within(what: str, limit_s: float) -> str:
    return f"{what} has no answer within {limit_s:g} s"


def nothing_listens(port: int) -> str:
    return f"nothing listens on port {port}"


def taken_port(port: int) -> str:
    """Why no replica can start that is to listen on a port of this machine; "" when it is free."""
    for family, host in HOSTS:
        try:
            sock = _socket.socket(family, _socket.SOCK_STREAM)
        except OSError:  # no IPv6 here
            continue
        try:
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is in use by another process, so its probe would find that one"
        finally:
            sock.close()
    return ""


def no_file(name: str) -> str:
    return f"there is no file {name}"


def old_file(name: str) -> str:
    return f"the file {name} is older than the replica"


def not_ended(program: str) -> str:
    return f"`{program}` has not ended yet"


def bad_end(program: str, code: int) -> str:
    """What is wrong with an exit code, -N for signal N; "" for 0."""
    how = f"exited with {code}" if code >= 0 else f"was killed by signal {-code}"
    return f"`{program}` {how}" if code else ""
