"""An engine for one test alone, which may kill it: beside the shared engine, in its own namespace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import processes
from tests.engines import docker, required
from tests.engines.images import RECIPES, SHELL_IMAGE

_HERE = Path(__file__).resolve().parent
_DEAD_S = 60.0
_PANIC = "reservePools"  # of libnetwork, in the trace of dockerd
_GUARD = """
import os, select, shutil, subprocess, sys
starter, dockerd, folder = sys.argv[1:]
ended = select.poll()
ended.register(os.pidfd_open(int(starter)), select.POLLIN)
while not ended.poll(1000):
    pass
subprocess.run([dockerd, "down", f"{folder}/d"])
shutil.rmtree(folder, ignore_errors=True)
"""


def reason() -> str:
    """Return why no further engine can be started here; "" when one can."""
    if os.geteuid() != 0:
        return "only root can start a Docker engine"
    return docker.reason() or ("" if shutil.which("dockerd") else "there is no `dockerd` command")


def require_own() -> None:
    """Skip the running test where no further engine can be started, or fail it: see `engines.require`."""
    if not (why := reason()):
        return
    if "docker" in required():
        pytest.fail(f"LAUNCHER_REQUIRE names docker, but {why}")
    pytest.skip(why)


class OwnEngine:
    """Below a short path: the engine's sockets lie there, and their names end at 107 bytes.

    As on any machine, its data are not below the folder of its socket, which watchers on the engine mount:
    else the engine would mount the folder within itself for each look into such a container.

    When this process is killed, a process beside the engine removes the engine.

    Args:
        options: of `dockerd`, at each start.
    """

    def __init__(self, *options: str) -> None:
        self._options = options
        self.folder = Path(tempfile.mkdtemp(prefix="lt-"))
        self._socket = self.folder / "r" / "s"
        self._socket.parent.mkdir()
        self.host = f"unix://{self._socket}"

    def __enter__(self) -> OwnEngine:
        guard = [sys.executable, "-I", "-c", _GUARD, str(os.getpid()), str(_HERE / "dockerd")]
        self._guard = subprocess.Popen(
            [*guard, str(self.folder)], env=self._environ(), stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.up()
        subprocess.run([_HERE / RECIPES[SHELL_IMAGE], SHELL_IMAGE], env=self._environ(), check=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._dockerd("down")
        os.killpg(self._guard.pid, signal.SIGKILL)
        self._guard.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def up(self) -> None:
        """Start the daemon.

        dockerd 20.10 that was ended while it made a network panics at each start, until its database of
        networks is removed: an operator would do that, and loses the networks with it.
        """
        try:
            self._dockerd("up", *self._options)
        except subprocess.CalledProcessError:
            if _PANIC not in (self.folder / "d" / "log").read_text():
                raise
            (self.folder / "d" / "data" / "network" / "files" / "local-kv.db").unlink()
            self._dockerd("up", *self._options)

    def kill(self) -> None:
        """SIGKILL the daemon, and wait until it and its containerd are dead.

        The next daemon would take containerd's zombie for alive: the file that names it goes.
        """
        pids = self.pids
        processes.kill(pids)
        assert processes.gone(pids, timeout_s=_DEAD_S)
        self._pid_files()[1].unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop the daemon as `systemctl stop docker` does: it ends all containers, then itself."""
        daemon, _ = self._pid_files()
        pid = int(daemon.read_text())
        os.kill(pid, signal.SIGTERM)
        assert processes.gone([pid], timeout_s=_DEAD_S)

    @property
    def pids(self) -> list[int]:
        """The daemon and its containerd."""
        return [int(file.read_text()) for file in self._pid_files()]

    def _pid_files(self) -> list[Path]:
        return [self.folder / "d" / "pid", self.folder / "d" / "exec" / "containerd" / "containerd.pid"]

    def _environ(self) -> dict[str, str]:
        own = {"DOCKER_HOST": self.host, "SOCKET": str(self._socket)}
        return {**{name: each for name, each in os.environ.items() if name != "LAUNCHER_HOME"}, **own}

    def _dockerd(self, word: str, *options: str) -> None:
        command = [str(_HERE / "dockerd"), word, str(self.folder / "d"), *options]
        subprocess.run(command, env=self._environ(), check=True, stdin=subprocess.DEVNULL)
