"""Which processes belong to a test, looked up in /proc. Elsewhere than on Linux nothing is found."""

import ctypes
import os
import select
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import pytest

HOLDERS = tuple(b"launcher.schedulers.local." + name for name in (b"supervisor", b"line_holder", b"starter"))
"""In the command lines of the processes that hold local apps: one each, many, and one each again."""
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_EXECUTED_S = 5.0
AGAIN_S = 0.25  # Linux 6.18 at times does not report that a process with several threads has ended


def of_home(home: str, without: Collection[int] = ()) -> list[int]:
    """Return every live process of this LAUNCHER_HOME: clients, supervisors, replicas and their children.

    Args:
        without: pids that are known to be of other processes.
    """
    marks = (f"LAUNCHER_HOME={home}\0", f"LAUNCHER_SCRATCH={home}/")
    return [
        pid
        for pid in everything()
        if pid not in without
        and (
            _environ_holds(pid, marks) or _held(pid, home) or _is_watcher(pid, home) or _is_of_line(pid, home)
        )
    ]


def below(folder: str) -> list[int]:
    """Return every live process whose LAUNCHER_HOME lies below a folder, in any home of a test."""
    return [
        pid
        for pid in everything()
        if _environ_holds(pid, [f"LAUNCHER_HOME={folder}/"]) or _watches_below(pid, folder)
    ]


def of_app(home: str, app_id: str) -> list[int]:
    """Return the supervisor or watcher of an app, its replicas and descendants with its environment."""
    marks = (f"LAUNCHER_SCRATCH={home}/local/apps/{app_id}/",)
    return [
        pid
        for pid in everything()
        if _environ_holds(pid, marks) or app_id in map(os.path.basename, _held(pid, home))
    ]


def of_scratch(end: str) -> list[int]:
    """Return every live process whose LAUNCHER_SCRATCH has this end: replicas on a cluster."""
    found = []
    for pid in everything():
        variables = _read(pid, "environ").split(b"\0")
        if any(each.startswith(b"LAUNCHER_SCRATCH=") and each.endswith(end.encode()) for each in variables):
            found.append(pid)
    return found


def supervisors(home: str) -> dict[str, int]:
    """Return by app id the pid of the process that holds its lock, or of the watcher of its containers."""
    return {os.path.basename(folder): pid for pid in everything() for folder in _held(pid, home)}


def watchers(home: str) -> list[int]:
    """Return every live watcher of this LAUNCHER_HOME."""
    return [pid for pid in everything() if _is_watcher(pid, home)]


def with_argument(text: str) -> list[int]:
    """Return every live process with `text` as one whole argument, even without its environment."""
    return [pid for pid in everything() if text.encode() in _words(pid)]


def mentioning(text: str) -> list[int]:
    """Return every live process with `text` in one of its arguments, in a container, too."""
    return [pid for pid in everything() if any(text.encode() in word for word in _words(pid))]


def of_user(uid: int) -> list[int]:
    """Return every live process of a user, by its effective uid."""
    found = []
    for pid in everything():
        status = _read(pid, "status").split(b"\n")
        uids = next((line.split() for line in status if line.startswith(b"Uid:")), [])
        if uids[2:3] == [b"%d" % uid] and b"State:\tZ (zombie)" not in status:
            found.append(pid)
    return found


def parent(pid: int) -> int:
    """Return the pid of a process's parent; 0 when it has ended."""
    lines = _read(pid, "status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"PPid:")), 0)


def gone(pids: Iterable[int], *, timeout_s: float) -> bool:
    """Wait until none of the processes lives: the kernel reports most ends, a look finds the others."""
    deadline = time.monotonic() + timeout_s
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            while not poll.poll(max(0.0, min(deadline - time.monotonic(), AGAIN_S)) * 1000):
                if time.monotonic() > deadline:
                    return False
        finally:
            os.close(fd)
    return True


def kill(pids: Iterable[int]) -> None:
    """Send SIGKILL to the live processes among `pids`."""
    for pid in pids:
        assert pid > 0, "0 is the group of this process"
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@contextmanager
def held(pid: int) -> Iterator[None]:
    """Keep a process suspended as a debugger does: no SIGCONT reaches it. Skips where that is denied."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(_PTRACE_ATTACH, pid, None, None):
        pytest.skip(f"ptrace is not allowed: {os.strerror(ctypes.get_errno())}")
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    try:
        yield
    finally:
        libc.ptrace(_PTRACE_DETACH, pid, None, None)


def until_it_waits(pid: int, sleep: bytes = b"poll") -> None:
    """Wait until a process sleeps in poll, or as told: its handlers are set then, and it waits for an app."""
    while sleep not in _read(pid, "wchan"):
        pass


def describe(pid: int) -> str:
    """Return a line about a process, for the message of a failed test."""
    argv = _command(pid).replace(b"\0", b" ").decode(errors="replace").strip()
    return f"{pid}: {argv[:300] or '(no command line)'}"


def everything() -> list[int]:
    """Return the pids of all live processes."""
    if not os.path.isdir("/proc/self"):
        return []
    me = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != me]


def _environ_holds(pid: int, marks: Iterable[str]) -> bool:
    environ = b"\0" + _read(pid, "environ")  # a zombie's is empty: it does not count as alive
    return any(b"\0" + mark.encode() in environ for mark in marks)


def _held(pid: int, home: str) -> list[str]:
    """Return the app folders below LAUNCHER_HOME whose locks this process holds."""
    command = _command(pid)
    if any(each in command for each in HOLDERS):
        below = f"{home}/local/apps/"
    elif _is_watcher(pid, home):
        below = f"{home}/docker/apps/"
    else:
        return []
    links = [_link(f"/proc/{pid}/fd/{fd}") for fd in _names(f"/proc/{pid}/fd")]
    return [os.path.dirname(link) for link in links if link.startswith(below) and link.endswith("/lock")]


def _is_watcher(pid: int, home: str) -> bool:
    return f"{home}/docker/apps".encode() in _words(pid)


def _watches_below(pid: int, folder: str) -> bool:
    start = f"{folder}/".encode()
    return any(word.startswith(start) and word.endswith(b"/docker/apps") for word in _words(pid))


def _is_of_line(pid: int, home: str) -> bool:
    """Return whether the process holds a line, or starts supervisors for such a process."""
    return f"{home}/local/apps".encode() in _words(pid)


def _words(pid: int) -> list[bytes]:
    return _command(pid).split(b"\0")


def _command(pid: int) -> bytes:
    """Return the command line. During an exec a process has memory for a moment before it has words."""
    deadline = time.monotonic() + _EXECUTED_S
    while not (found := _read(pid, "cmdline")) and time.monotonic() < deadline:
        if _read(pid, "statm")[:2] in (b"", b"0 "):  # of the kernel, or a zombie
            break
        time.sleep(0.001)
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _link(path: str) -> str:
    """Return the target of a link, "" when it is gone: a process closes descriptors meanwhile."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""
