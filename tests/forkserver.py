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
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
STARTUP = ("PYTHON", "LC_", "LANG")
"""Beginnings of the names of variables that an interpreter reads when it starts."""
CLIENT = """\
#!{python} -IS
import json, os, signal, socket, sys
def is_startup(name):
    return name.startswith({startup!r}) and name != "PYTHONPATH"
path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
mine = {{name: value for name, value in os.environ.items() if is_startup(name)}}
if path[-1] != {root!r} or mine != {environ!r}:
    os.execv({python!r}, [{python!r}, "-m", "launcher", *sys.argv[1:]])
request = json.dumps({{"argv": sys.argv[1:], "cwd": os.getcwd(), "environ": dict(os.environ)}}).encode()
server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
socket.send_fds(server, [len(request).to_bytes(4, "little")], [0, 1, 2])
server.sendall(request)
pid = int.from_bytes(server.recv(4), "little")
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = int.from_bytes(server.recv(4), "little", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""A script `launcher` that has a server run the command, or runs it whole where that makes a difference."""


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
        self._folder = tempfile.TemporaryDirectory(prefix="forkserver-")
        self._path = os.path.join(self._folder.name, "socket")
        program = "from tests.forkserver import serve; serve()"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._path)
        listener.listen(64)
        fds = [theirs.fileno(), listener.fileno()]
        # Without LAUNCHER_HOME: it is no process of the test that happens to be the first.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LAUNCHER_")}
        self._environ = environ | {"PYTHONPATH": str(ROOT)}
        with theirs, listener:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, *map(str, fds)], cwd="/", env=self._environ, pass_fds=fds
            )
        atexit.register(self.close)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()
        self._folder.cleanup()

    def script(self) -> str:
        """Return the text of a script `launcher` whose commands this server runs."""
        environ = {name: value for name, value in self._environ.items() if name.startswith(STARTUP)}
        environ.pop("PYTHONPATH")
        return CLIENT.format(
            python=sys.executable, startup=STARTUP, root=str(ROOT), environ=environ, socket=self._path
        )

    def can_run(self, environ: Mapping[str, str]) -> bool:
        """Return whether a command with these variables and our limits would start as the server did."""
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
        """Return the exit code and output of a command. Raises TimeoutExpired, with the command killed."""
        with open(os.devnull) as null, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request = json.dumps({"argv": argv, "cwd": cwd, "environ": dict(environ)}).encode()
            socket.send_fds(
                self._socket,
                [len(request).to_bytes(4, "little")],
                [null.fileno(), out.fileno(), err.fileno()],
            )
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


_server: ForkServer | None = None  # of this process, made when the first test needs it


def server() -> ForkServer:
    global _server
    _server = _server or ForkServer()
    return _server


def launcher(argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], timeout_s: float = 300.0) -> Done:
    """Run `launcher ARGV`: forked from a loaded interpreter where that makes no difference, else whole."""
    if server().can_run(environ):
        return server().run(argv, cwd=cwd, environ=environ, timeout_s=timeout_s)
    return whole(argv, cwd=cwd, env=environ, timeout=timeout_s)


def whole(argv: Sequence[str], **popen: Any) -> Done:
    """Run `launcher ARGV` in an interpreter of its own."""
    command = [sys.executable, "-m", "launcher", *argv]
    popen = {"stdin": subprocess.DEVNULL, **popen}
    got = subprocess.run(command, capture_output=True, text=True, check=False, **popen)
    return Done(got.returncode, got.stdout, got.stderr)


def serve() -> None:
    """The server's loop. Its parent asks for one command at a time, scripts for any number at once."""
    _warm_up()
    parent, listener = (socket.socket(fileno=int(each)) for each in sys.argv[1:])
    handlers: set[int] = set()
    while True:
        if parent in (ready := select.select([parent, listener], [], [])[0]):
            if not _serve(parent):
                return
        elif listener in ready:
            connection, _ = listener.accept()
            with connection:
                if (pid := os.fork()) == 0:
                    _serve(connection)
                    os._exit(0)
            handlers.add(pid)
        handlers -= {pid for pid in handlers if os.waitpid(pid, os.WNOHANG)[0]}


def _serve(connection: socket.socket) -> bool:
    """Answer a request, which comes with three descriptors: the pid, then the exit code. False at the end."""
    head, fds, _, _ = socket.recv_fds(connection, 4, 3)
    if not head:
        return False
    request = json.loads(_exactly(connection, int.from_bytes(head, "little")))
    pid = os.fork()
    if pid == 0:
        connection.close()
        _command(request["argv"], request["cwd"], request["environ"], fds)
    for fd in fds:
        os.close(fd)
    connection.sendall(pid.to_bytes(4, "little"))
    _, status = os.waitpid(pid, 0)
    connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
    return True


def _warm_up() -> None:
    """Do once what each command would do again: load the modules, build the validators of job files."""
    from launcher.jobfile.model.types import model_classes
    from tests.soak import load

    load()
    for model in model_classes():
        model.model_rebuild()
    gc.freeze()


def _command(argv: Sequence[str], cwd: str, environ: Mapping[str, str], fds: Sequence[int]) -> NoReturn:
    """Become `launcher ARGV`."""
    from launcher.__main__ import main

    for number, fd in enumerate(fds):
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
