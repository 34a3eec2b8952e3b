"""An sshd on loopback, with the Docker engine of the tests behind it."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.engines.docker import Daemon

HOST = "engine1"
"""The name of this machine that OPTIONS of ssh give it: an engine there counts as one of another machine."""
OPTIONS = f"-o HostName=127.0.0.1 -o HostKeyAlias={HOST}"
_UP_S = 30.0
_POLL_S = 0.02
_PROGRAM = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or ""


def reason() -> str:
    """Return why no sshd can be started; "" when one can."""
    return "" if _PROGRAM else "there is no `sshd` command"


class Sshd:
    """A context manager: the server runs inside.

    Attributes:
        port: on 127.0.0.1.
        key: the private key that it accepts, as the text of a file.
        known_hosts: the line that names its host key.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        for name in ("key", "host_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tests", "-f", str(folder / name)],
                check=True,
            )
        self.key = (folder / "key").read_text()

    def __enter__(self) -> Sshd:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        config = self._folder / "sshd_config"
        config.write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self._folder}/host_key\nPidFile none\n"
            f"AuthorizedKeysFile {self._folder}/key.pub\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
            "MaxStartups 1000\nMaxSessions 1000\n"
            f"SetEnv DOCKER_HOST={Daemon().host}\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # of a service that may not be started
        self._process = subprocess.Popen(
            [_PROGRAM, "-D", "-f", str(config), "-E", str(self._folder / "log")],
            env={"PATH": os.environ["PATH"]},
        )
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    @property
    def address(self) -> str:
        return f"{getpass.getuser()}@{HOST}:{self.port}"

    @property
    def known_hosts(self) -> str:
        kind, key = (self._folder / "host_key.pub").read_text().split()[:2]
        return f"{HOST} {kind} {key}"

    def _wait(self) -> None:
        deadline = time.monotonic() + _UP_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, "sshd does not listen"
                time.sleep(_POLL_S)
