"""A registry for images on this machine: Debian's docker-registry, on a port of its own, gone afterwards."""

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import required
from tests.ports import free_port
from tests.waiting import until

_ANSWER_S = 60.0


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Yield the registry's address, as `127.0.0.1:41234`, which needs no TLS. Its images are in `folder`."""
    if not shutil.which("docker-registry"):
        (pytest.fail if "docker" in required() else pytest.skip)("there is no `docker-registry` command")
    address = f"127.0.0.1:{free_port()}"
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
        "http": {"addr": address},
        "log": {"level": "error"},
    }
    file = folder / "registry.yml"
    file.write_text(json.dumps(config))  # JSON is YAML
    process = subprocess.Popen(["docker-registry", "serve", str(file)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(address, process)
        yield address
    finally:
        process.kill()
        process.wait()


def tags(address: str, repository: str) -> list[str]:
    """Return the tags that the registry has of a name."""
    connection = http.client.HTTPConnection(address, timeout=_ANSWER_S)
    try:
        connection.request("GET", f"/v2/{repository}/tags/list")
        return list(json.loads(connection.getresponse().read()).get("tags") or ())
    finally:
        connection.close()


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    host, _, port = address.partition(":")

    def listens() -> bool:
        assert process.poll() is None, "docker-registry ended at once"
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((host, int(port))).close()
            return True
        return False

    until(listens)
