"""A fake engine behind a socket, which gives each request the answer that the test chooses."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.schedulers.docker.client.engine import Engine, connect

Answer = Callable[[str, str], bytes]


def reply(status: int, body: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body.encode())}", *headers]
    return "\r\n".join([*lines, "", body]).encode()


PING = reply(200, "OK", "Api-Version: 1.41", "Server: Docker/20.10.24 (linux)")
PODMAN_PING = reply(200, "OK", "Api-Version: 1.41", "Server: Libpod/4.3.1 (linux)")


class FakeEngine:
    """Answers each request with `answer(method, path)` and hangs up after an incomplete answer.

    Attributes:
        asked: every "METHOD path" so far.
        headers: the headers of each request, names in lower case.
        ping: the answer to `/_ping`, None for PING.
    """

    ping: bytes | None = None

    def __init__(self, path: Path | None, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._answer = answer
        self._tls = tls
        self._socket = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
        self._socket.bind(str(path) if path else ("127.0.0.1", 0))
        self._socket.listen()
        self.port = 0 if path else self._socket.getsockname()[1]
        self._open: list[socket.socket] = []
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,))
                self.threads.append(thread)
                thread.start()

    def _serve(self, plain: socket.socket) -> None:
        with plain, contextlib.suppress(OSError):
            self._converse(self._tls.wrap_socket(plain, server_side=True) if self._tls else plain)

    def _converse(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as asked:
            while line := asked.readline():
                headers = {}
                while header := asked.readline().strip():
                    name, _, value = header.decode().partition(": ")
                    headers[name.lower()] = value
                asked.read(int(headers.get("content-length", 0)))
                self.headers.append(headers)
                method, path, _ = line.decode().split()
                self.asked.append(f"{method} {path}")
                ping = PING if self.ping is None else self.ping
                state_text = ping if path.endswith("/_ping") else self._answer(method, path)
                connection.sendall(
                    state_text if method != "HEAD" else state_text.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
                )
                if b"\r\n\r\n" not in state_text or b"Broken: 1" in state_text:
                    return

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()


NEEDS_OPENSSL = pytest.mark.skipif(
    not shutil.which("openssl"), reason="there is no `openssl` command to make certificates with"
)


def certificates(folder: Path, *more: str) -> Path:
    """ca.pem, cert.pem and key.pem: one certificate for 127.0.0.1 that vouches for itself."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", *(more or ["-nodes"]), *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    shutil.copy(folder / "cert.pem", folder / "ca.pem")
    return folder


def server_tls(folder: Path) -> ssl.SSLContext:
    """Return the TLS context of a server that asks its clients for one of these certificates."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    tls.load_verify_locations(folder / "ca.pem")
    tls.verify_mode = ssl.CERT_REQUIRED
    return tls


@contextlib.contextmanager
def fake_engine(folder: Path, answer: Answer) -> Iterator[tuple[FakeEngine, Engine]]:
    folder.mkdir(exist_ok=True)
    path = folder / "e.sock"
    fake = FakeEngine(path, answer)
    client = connect(environ={"DOCKER_HOST": f"unix://{path}"})
    try:
        yield fake, client
    finally:
        client.close()
        fake.close()
