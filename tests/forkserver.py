"""Run `launcher ARGV` in a process forked from an interpreter that has launcher loaded.

A command is a process of its own, as a user's is: only its modules are loaded and the validators of job files
built before it starts, which is most of the time that a short command takes. Tests of start-up itself start
whole interpreters.
"""

import atexit
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
STARTUP = ("PYTHON", "LC_", "LANG")
"""Beginnings of the names of variables that an interpreter reads when it starts."""


class Done(NamedTuple):
    """A finished command."""

    code: int
    out: str
    err: str


class ForkServer:
    """A child process that forks one command at a time. It ends with its parent."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._limits = _limits()
        command = [sys.executable, "-c", "from tests.forkserver import serve; serve()", str(theirs.fileno())]
        # Without LAUNCHER_HOME: it is no process of the test that happens to be the first.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LAUNCHER_")}
        self._environ = environ | {"PYTHONPATH": str(ROOT)}
        with theirs:
            self._process = subprocess.Popen(command, cwd="/", env=self._environ, pass_fds=[theirs.fileno()])
        atexit.register(self.close)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def can_run(self, environ: Mapping[str, str]) -> bool:
        """Whether a command with these variables and this process's limits would start as the server did."""
        return (
            _limits() == self._limits
            and environ.get("PYTHONPATH", "").split(os.pathsep)[-1] == str(ROOT)
            and all(
                environ.get(name) == self._environ.get(name)
                for name in {*environ, *self._environ} - {"PYTHONPATH"}
                if name.startswith(STARTUP)
            )
        )

    def run(self, argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], timeout_s: float) -> Done:
        """The exit code and output of a command. Raises TimeoutExpired, with the command killed."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request = json.dumps({"argv": argv, "cwd": cwd, "environ": dict(environ)}).encode()
            socket.send_fds(self._socket, [len(request).to_bytes(4, "little")], [out.fileno(), err.fileno()])
            self._socket.sendall(request)
            code = self._wait(argv, timeout_s)
            out.seek(0)
            err.seek(0)
            return Done(code, out.read().decode(), err.read().decode())

    def _wait(self, argv: Sequence[str], timeout_s: float) -> int:
        pid = int.from_bytes(_exactly(self._socket, 4), "little")
        deadline = time.monotonic() + timeout_s
        while not select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            os.kill(pid, signal.SIGKILL)
            _exactly(self._socket, 4)
            raise subprocess.TimeoutExpired([*argv], timeout_s)
        return int.from_bytes(_exactly(self._socket, 4), "little", signed=True)


def serve() -> None:
    """The server's loop: a request with two descriptors in, the pid and then the exit code out."""
    _warm_up()
    connection = socket.socket(fileno=int(sys.argv[1]))
    while True:
        head, fds, _, _ = socket.recv_fds(connection, 4, 2)
        if not head:
            return
        request = json.loads(_exactly(connection, int.from_bytes(head, "little")))
        pid = os.fork()
        if pid == 0:
            connection.close()
            _command(request["argv"], request["cwd"], request["environ"], *fds)
        for fd in fds:
            os.close(fd)
        connection.sendall(pid.to_bytes(4, "little"))
        _, status = os.waitpid(pid, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))


def _warm_up() -> None:
    """Do once what each command would do again: load the modules, build the validators of job files."""
    from launcher.jobfile.model.base import model_classes
    from tests.soak import load

    load()
    for model in model_classes():
        model.model_rebuild()
    gc.freeze()


def _command(argv: Sequence[str], cwd: str, environ: Mapping[str, str], out: int, err: int) -> NoReturn:
    """Become `launcher ARGV`."""
    from launcher.__main__ import main

    null = os.open(os.devnull, os.O_RDONLY)
    for fd, number in ((null, 0), (out, 1), (err, 2)):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["launcher", *argv]
    sys.path[:0] = environ["PYTHONPATH"].split(os.pathsep)[:-1]  # those of plug-ins
    try:
        main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    os._exit(70)  # main() ends the process


def _limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(each) for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)]


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError("the other side has ended")
        data += more
    return data
