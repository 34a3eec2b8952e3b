"""Files, child processes, output and probes of replicas, for the programs on the nodes.

Python 3.6 and its standard library are enough.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import stat
import time
from functools import lru_cache
from typing import Any, Dict, Iterator, Optional, Tuple

from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.probes import HOSTS, ProbedRun

PR_SET_PDEATHSIG = 1
MOST_TEXT = 300  # bytes of a reason within an event


_CGROUP_BYTES = 65536  # bytes of a file with the cgroup of a process, or with its use


def now_ns() -> int:
    return int(time.time() * 1e9)


def say(text: str) -> None:
    """Write a line to the output of the Slurm job."""
    try:
        os.write(2, (text + "\n").encode(errors="replace"))
    except OSError:
        pass


def put(path: str, text: str) -> None:
    """Write a file whole."""
    folder, name = os.path.split(path)
    AppFolder(folder).write(name, text)


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The JSON object in a file; None where it is missing or damaged, or cannot be read."""
    folder, name = os.path.split(path)
    try:
        return AppFolder(folder).read_json(name)
    except OSError:
        return None


def plain_text(path: Any, most: int) -> str:
    """The first `most` bytes of a file as text; "" where it is missing, or no plain file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return ""
    with open(fd, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        try:
            return (file.read(most) or b"").decode("utf-8", "replace")
        except OSError:
            return ""


def short(text: str) -> str:
    """The beginning of a text, short enough for a line of an event."""
    if len(json.dumps(text)) <= MOST_TEXT:
        return text
    room = MOST_TEXT
    while len(json.dumps(text[:room])) > MOST_TEXT:
        room -= 10
    return text[:room] + " \u2026"


def prctl(option: int, value: int) -> None:
    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass


# -- processes -------------------------------------------------------------------------------------------


PR_SET_CHILD_SUBREAPER = 36
KILL_S = 5.0  # how long to look for remaining processes


class CannotStart(Exception):
    """A replica cannot be started; `code` is a shell's exit code for that."""

    def __init__(self, message: str, code: int = 127) -> None:
        Exception.__init__(self, message)
        self.code = code


def reap() -> tuple:
    """Collect ended children; returns (whether any child is left, {pid: (wait status, rusage)})."""
    ended: dict = {}
    try:
        while True:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return True, ended
            ended[pid] = status, used
    except ChildProcessError:
        return False, ended


def peak_of_task() -> int:
    """The peak memory in bytes of the cgroup that Slurm has made for this task; 0 where there is none.

    Source: cgroup.conf(5) of Slurm, "the cgroup hierarchy"; Linux, admin-guide/cgroup-v2, memory.peak.
    """
    for line in plain_text("/proc/self/cgroup", _CGROUP_BYTES).splitlines():
        _, controllers, path = line.split(":", 2)
        if "/task_" not in path:
            continue
        if not controllers:
            name = f"/sys/fs/cgroup{path}/memory.peak"
        elif "memory" in controllers.split(","):
            name = f"/sys/fs/cgroup/memory{path}/memory.max_usage_in_bytes"
        else:
            continue
        text = plain_text(name, _CGROUP_BYTES).strip()
        if text.isdigit():
            return int(text)
    return 0


def descendants() -> list:
    """The pids of all processes below this one."""
    children: dict = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def kill_rest() -> None:
    """KILL every process below this one, which adopts orphans, until it has no child."""
    end = time.monotonic() + KILL_S
    while reap()[0] and time.monotonic() < end:
        for pid in descendants():
            kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def kill(pid: int, number: int, send: Any = os.kill) -> None:
    try:
        send(pid, number)
    except OSError:
        pass


def exit_of(status: int) -> tuple:
    """The (exit code as in a shell, signal) of a wait status."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return (128 + number, number) if number else (os.WEXITSTATUS(status), 0)


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def find_executable(name: bytes, path: bytes, cwd: bytes) -> bytes:
    """The executable of a replica: argv[0], looked up in its own PATH, relative to its own directory."""
    shown = name.decode(errors="replace")
    try:
        os.makedirs(cwd, mode=0o700, exist_ok=True)
    except OSError:
        pass
    if not os.path.isdir(cwd):
        raise CannotStart("no such working directory: " + cwd.decode(errors="replace"))
    if not name:
        raise CannotStart("the entrypoint is empty")
    folders = [b""] if b"/" in name else path.split(b":")
    found = [each for each in (os.path.join(cwd, one, name) for one in folders) if os.path.isfile(each)]
    for each in found:
        if os.access(each, os.X_OK):
            return each
    if found:
        raise CannotStart("not executable: " + found[0].decode(errors="replace"), 126)
    where = "" if b"/" in name else " in PATH ({})".format(path.decode(errors="replace"))
    raise CannotStart(f"no such executable: {shown}{where}")


def start_child(run: Any, problem: Any = None) -> None:
    """Call `run`, which ends this child process; write the reason of a failure to `problem`."""
    try:
        worker = os.getppid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != worker:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):  # signals that the C library keeps for itself
                    pass
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.setsid()
        run()
        os._exit(0)
    except BaseException as error:
        text = str(getattr(error, "errno", None) or error)
        if problem is not None:
            os.write(problem, text.encode())
        os._exit(126)


def become(path: bytes, argv: list, env: dict, cwd: bytes, out: int, err: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, number in ((null, 0), (out, 1), (err, 2)):
        os.dup2(fd, number)
    os.chdir(cwd)
    try:
        os.execve(path, argv, env)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve(b"/bin/sh", [b"sh", path, *argv[1:]], env)  # a script without its first line, as shells do


def spawn(path: bytes, argv: list, env: dict, cwd: bytes) -> Tuple[int, int, int]:
    """Start a program; returns its pid, and what it writes to stdout and stderr. Raises CannotStart."""
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    problem, problem_end = os.pipe()
    pid = os.fork()
    if not pid:
        start_child(lambda: become(path, argv, env, cwd, out_end, err_end), problem_end)
    for fd in (out_end, err_end, problem_end):
        os.close(fd)
    with open(problem, "rb") as file:
        text = file.read().decode()
    if text:
        os.close(out)
        os.close(err)
        os.waitpid(pid, 0)
        why = os.strerror(int(text)) if text.isdigit() else text
        raise CannotStart("{}: {}".format(argv[0].decode(errors="replace"), why), 126)
    os.set_blocking(out, False)
    os.set_blocking(err, False)
    return pid, out, err


# -- output ------------------------------------------------------------------------------------------------


class Log:
    """The output of a replica, and the index with the time and stream of each part."""

    def __init__(self, stem: str, on_loss: Any) -> None:
        self._on_loss = on_loss
        self._files: dict = {}
        self._lost = False
        self._stem = stem
        self._ends = {".log": 0, ".index": 0}

    def mark(self, kind: str) -> bool:
        """Write an index line for the output that follows; False when the line is lost."""
        self.open()
        line = "{} {} {}\n".format(self._ends[".log"], now_ns(), kind)
        at = self._ends[".index"]
        if self._write(".index", line.encode()):
            return True
        try:
            os.ftruncate(self._files[".index"], at)
            self._ends[".index"] = at
        except (OSError, KeyError):
            pass
        return False

    def add(self, kind: str, data: memoryview) -> None:
        if self.mark(kind):
            self._write(".log", data)

    def open(self) -> None:
        """Open the log at once, so that a replica without output has an empty log."""
        for name in self._ends:
            self._open(name)

    def _open(self, name: str) -> bool:
        if name not in self._files:
            try:
                path = self._stem + name
                fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self._loss(error)
                return False
            self._files[name] = fd
            self._ends[name] = os.fstat(fd).st_size
        return True

    def _write(self, name: str, data: Any) -> bool:
        """Append data; data that does not fit is lost, as a replica must not wait for space."""
        if not self._open(name):
            return False
        rest = memoryview(data)
        try:
            while rest:
                count = os.write(self._files[name], rest)
                self._ends[name] += count
                rest = rest[count:]
        except OSError as error:
            self._loss(error)
            return False
        return True

    def _loss(self, error: OSError) -> None:
        if not self._lost:
            self._lost = True
            self._on_loss(error)


# -- probes ------------------------------------------------------------------------------------------------


class WorkerProbes(ProbedRun):
    """The probes of one start of a worker's replica, which has this environment and working directory."""

    def __init__(self, worker: Any, probe: dict, env: dict, cwd: bytes) -> None:
        ProbedRun.__init__(self, probe, worker.loop, os.path.join(cwd, raw(probe.get("file", ""))))
        self.worker = worker
        self.env = env
        self.cwd = cwd

    def is_open(self) -> bool:
        it = self.worker
        return it.probed is self and it.status is None and not (it.is_stopped or it.is_ready or it.late)

    def on_ready(self) -> None:
        self.worker.ready()

    def on_late(self, why: str) -> None:
        self.worker.is_late(why)

    def start(self, argv: list, then: Any) -> Tuple[int, str]:
        words = [raw(each) for each in argv]
        try:
            path = find_executable(words[0], self.env.get(b"PATH", os.defpath.encode()), self.cwd)
            pid = os.fork()
        except (CannotStart, OSError) as error:
            return 0, str(error)
        if not pid:
            null = os.open(os.devnull, os.O_WRONLY)
            start_child(lambda: become(path, words, self.env, self.cwd, null, null))
        self.worker.others[pid] = then
        return pid, ""

    def hosts(self) -> Iterator[Tuple[int, str]]:
        """The addresses of localhost, then those of this node's name."""
        yield from HOSTS
        for address in _addresses():
            yield socket.AF_INET, address


@lru_cache(maxsize=None)  # a name server may take long to answer
def _addresses() -> Tuple[str, ...]:
    try:
        return (socket.gethostbyname(socket.gethostname()),)
    except OSError:
        return ()
