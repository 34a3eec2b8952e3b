"""Identify processes by pid, start time and boot, because a pid alone is reused.

Linux: /proc and pidfds. Elsewhere (macOS) and on old kernels: short polling behind the same names.
Supervisors import this module, so it imports next to nothing.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re: half of the supervisor's memory
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINUX = sys.platform == "linux"
LONGEST_S = 2_000_000.0
"""The longest single wait in s, 23 days: the kernel counts milliseconds in 31 bits."""

POLL_S = 0.02  # pause between two looks where the kernel has no event


class Process:
    """One line of /proc/<pid>/stat: `start` counts clock ticks since boot; `state` "Z" is a zombie."""

    __slots__ = ("group", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split(None, 20)  # the command before `)` may hold anything
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = int(fields[19])

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"


# -- identity ------------------------------------------------------------------------------------------


def boot_id() -> str:
    """An id that differs after each boot of the machine; "" where the system has none."""
    return read("/proc/sys/kernel/random/boot_id").strip().decode()


def process(pid: int) -> "Process | None":
    """The entry of a pid in /proc, zombies included; None for no process."""
    stat = read(f"/proc/{pid}/stat", 4096)
    return Process(pid, stat) if stat else None


def start_time(pid: int) -> "int | None":
    """The start of the process, in clock ticks since boot, 0 without /proc; None when it has exited."""
    if LINUX:
        found = process(pid)
        return found.start if found else None
    return 0 if _exists(pid) else None


def is_running(pid: int, start: int) -> bool:
    """Whether exactly this process is running; a zombie does not count."""
    if LINUX:
        found = process(pid)
        return found is not None and found.start == start and found.alive
    return _exists(pid)


def processes() -> "Iterator[Process]":
    """Every process that /proc shows; none elsewhere."""
    if not LINUX:
        return
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := process(int(name))):
            yield found


def writers(path: str) -> "list[int]":
    """The processes that have a file open for writing, as far as visible here; none without /proc."""
    try:
        wanted = os.stat(path)
    except OSError:
        return []
    return [each.pid for each in processes() if _writes(each.pid, wanted)]


def _writes(pid: int, wanted: "os.stat_result") -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:  # the process has exited, or belongs to another user
        return False
    for number in numbers:
        try:
            is_written = os.lstat(f"{folder}/{number}").st_mode & 0o200  # see proc_pid_fd(5)
            if is_written and os.path.samestat(os.stat(f"{folder}/{number}"), wanted):
                return True
        except OSError:
            continue
    return False


def environment(pid: int) -> bytes:
    """The environment a process was started with, as NAME=VALUE\\0…; b"" when it is not readable."""
    return read(f"/proc/{pid}/environ")


def innermost(pid: int) -> int:
    """The pid in its own namespace, 0 if unknown. Source: proc_pid_status(5), NSpid, innermost last."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return 0


def descendants(roots: "Iterable[int]", among: "Iterable[Process] | None" = None) -> "list[Process]":
    """The processes below `roots`, parents before children."""
    children: dict[int, list[Process]] = {}
    for each in processes() if among is None else among:
        children.setdefault(each.parent, []).append(each)
    roots = set(roots)
    found = [each for root in roots for each in children.pop(root, ())]
    for each in found:  # grows during the loop; entries are removed because pids may be reused meanwhile
        found.extend(children.pop(each.pid, ()))
    return [each for each in found if each.pid not in roots]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def read(path: str, size: int = 0) -> bytes:
    """Read a kernel file; b"" when it does not exist (any more) or is not readable. `size`: its maximum."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    parts = []
    try:
        while part := os.read(fd, size or 65536):
            parts.append(part)
            if size:
                break
    except OSError:  # ESRCH: the process exited between open and read
        pass
    finally:
        os.close(fd)
    return b"".join(parts)


# -- signals that never hit a reused pid ---------------------------------------------------------------


def open_pid(pid: int, start: int) -> "int | None":
    """A file descriptor that turns readable when exactly this process ends; None when it has exited."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except (AttributeError, OSError):  # not Linux, before 5.3, or a sandbox
        return _watch_pid(pid, start)
    if start_time(pid) == start:  # checked after opening: so the descriptor means this process
        return fd
    os.close(fd)
    return None


def _watch_pid(pid: int, start: int) -> "int | None":
    """As `open_pid`, with a thread that polls every few milliseconds and at last closes its end of a pipe."""
    if not is_running(pid, start):
        return None
    import _thread

    ours, theirs = os.pipe()

    def look() -> None:
        while is_running(pid, start):
            time.sleep(POLL_S)
        os.close(theirs)

    _thread.start_new_thread(look, ())
    return ours


def wait_for_exit(pid: int, start: int, timeout_s: "float | None" = None) -> bool:
    """Wait until exactly this process has ended; False when it still runs after `timeout_s`."""
    fd = open_pid(pid, start)
    if fd is None:
        return True
    try:
        return bool(wait_readable((fd,), timeout_s))
    finally:
        os.close(fd)


def wait_readable(fds: "Iterable[int]", timeout_s: "float | None" = None) -> "list[int]":
    """Return the `fds` that can be read, or whose other end is closed; [] after `timeout_s`, or LONGEST_S."""
    import select

    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [
        fd for fd, _ in poll.poll(None if timeout_s is None else max(0.0, min(timeout_s, LONGEST_S) * 1000))
    ]


def send(pid: int, start: int, signum: int) -> bool:
    """Signal exactly this process; False when it has exited. Raises PermissionError for another user's."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):
        return _kill_checked(pid, start, signum)
    try:
        if start_time(pid) != start:
            return False
        _signal.pidfd_send_signal(fd, signum)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)


def _kill_checked(pid: int, start: int, signum: int) -> bool:
    if not is_running(pid, start):
        return False
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return False
    return True
