"""Probe whether a replica is ready. Python >= 3.6, the standard library alone."""

import errno
import json
import os
import signal
import socket
import time
from typing import Any

from launcher.schedulers.slurm.site.process import (
    CannotStart,
    exit_of,
    find_executable,
    kill,
    raw,
    start_child,
)

PIPE_BYTES = 64 * 1024
ANSWER_S = 5.0
FIRST_PROBE_S = 0.02
UNPROBED = "it was not probed yet"


class Prober:
    """Probes one run of a replica in a process of its own, which may wait.

    Attributes:
        pid: of that process; 0 once it has ended.
        until: monotonic time at which the replica is late; None where that is no longer waited for.
        why: what is missing.
    """

    def __init__(self, loop: Any, on_ready: Any) -> None:
        self._loop = loop
        self._on_ready = on_ready
        self._fd = -1
        self._text = b""
        self._is_patient = False  # whether the first result is awaited beyond the time limit
        self.pid = 0
        self.until: Any = None
        self.why = UNPROBED

    def begin(self, probe: dict, env: dict, cwd: bytes, stamp: Any) -> None:
        self._fd, end = os.pipe()
        self._text, self.why, self._is_patient = b"", UNPROBED, False
        self.until = time.monotonic() + probe.get("timeout", 60)
        pid = os.fork()
        if not pid:
            start_child(lambda: probe_until_ready(probe, env, cwd, stamp, end))
        self.pid = pid
        os.close(end)
        self._loop.watch(self._fd, self._take)

    def _take(self) -> None:
        data = os.read(self._fd, PIPE_BYTES)
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            self.why = json.loads(line.decode())
        if not data or (lines and not self.why):
            self._close()
        if lines and self.why and self._is_patient:
            self.until = time.monotonic()
        if lines and not self.why and self._on_ready():
            self.until = None

    def is_late(self) -> bool:
        """Whether the time limit has passed; once true. A busy node may take longer for the first result."""
        if self.until is None or time.monotonic() < self.until:
            return False
        if self.why == UNPROBED and not self._is_patient:
            self._is_patient = True
            self.until = time.monotonic() + ANSWER_S
            return False
        self.until, self._is_patient = None, False
        return True

    def end(self) -> None:
        self.until = None
        if self.pid:
            kill(self.pid, signal.SIGKILL, os.killpg)
            kill(self.pid, signal.SIGKILL)
        if self._fd >= 0:
            self._close()

    def _close(self) -> None:
        self._loop.forget(self._fd)
        os.close(self._fd)
        self._fd = -1


def probe_until_ready(probe: dict, env: dict, cwd: bytes, stamp: Any, end: int) -> None:
    """Write what is missing, each time that it changes, and "" in the end."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    pause_s, last = FIRST_PROBE_S, None
    while last != "":
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, probe.get("every", 1))
        if "command" in probe and last is None:
            os.write(end, (json.dumps("`{}` has not ended yet".format(probe["command"][0])) + "\n").encode())
        why = probe_once(probe, env, cwd, stamp)
        if why != last:
            os.write(end, (json.dumps(why) + "\n").encode())
        last = why


def probe_once(probe: dict, env: dict, cwd: bytes, stamp: Any) -> str:
    """What is missing; "" when the replica is ready."""
    if "file" in probe:
        found = stamp_of(cwd, probe["file"])
        if found is None:
            return "there is no file " + probe["file"]
        return "" if found != stamp else "the file {} is older than the replica".format(probe["file"])
    if "command" in probe:
        return probe_command([raw(each) for each in probe["command"]], env, cwd)
    return probe_port(probe["port"], probe.get("http"))


def probe_command(argv: list, env: dict, cwd: bytes) -> str:
    program = argv[0].decode(errors="replace")
    try:
        path = find_executable(argv[0], env.get(b"PATH", os.defpath.encode()), cwd)
    except CannotStart as error:
        return str(error)
    pid = os.fork()
    if not pid:
        try:
            os.chdir(cwd)
            os.execve(path, argv, env)
        finally:
            os._exit(126)
    code, number = exit_of(os.waitpid(pid, 0)[1])
    if number:
        return f"`{program}` was killed by signal {number}"
    return f"`{program}` exited with {code}" if code else ""


def probe_port(port: int, path: Any) -> str:
    why = f"nothing listens on port {port}"
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "")):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        with sock:
            sock.settimeout(ANSWER_S)
            try:
                sock.connect((host or socket.gethostname(), port))
            except OSError:
                continue
            if sock.getsockname() == sock.getpeername():  # a free port may be the one that it comes from
                continue
            if path is None:
                return ""
            why = probe_http(sock, f"GET {path} on port {port}", str(path), port)
            if not why:
                return ""
    return why


def probe_http(sock: socket.socket, what: str, path: str, port: int) -> str:
    request = f"GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"
    answer = b""
    try:
        sock.sendall(request.encode())
        while len(answer) < len(b"HTTP/1.1 200"):
            data = sock.recv(4096)
            if not data:
                break
            answer += data
    except socket.timeout:
        return f"{what} has no answer within {ANSWER_S:g} s"
    except OSError as error:
        return f"{what}: {error.strerror}"
    code = answer[9:12]
    if not answer.startswith(b"HTTP/1.") or not code.isdigit():
        return what + (" has an answer that is not HTTP" if answer else " has no answer")
    return "" if code[:1] in (b"2", b"3") else f"{what} answers {code.decode()}"


def stamp_of(cwd: bytes, name: str) -> Any:
    """What changes when a file is written or made anew; None without a file."""
    try:
        found = os.stat(os.path.join(cwd, raw(name)))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def taken_port(port: int) -> str:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        with sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return f"port {port} is in use by another process, so its probe would find that one"
    return ""
