"""Kernel features that a supervisor uses, with portable substitutes for other systems.

Linux: adoption of orphans. Elsewhere (macOS) and on old kernels: process groups behind the same names. Only
this module, `pids`, `filewatch` and the `Poller` of all loops depend on the operating system.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re: half of the supervisor's memory
import os

from launcher.schedulers.pids import LINUX, descendants, read, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from launcher.schedulers.pids import Process

SIGKILL: int = _signal.SIGKILL
SIGTERM: int = _signal.SIGTERM
SIGCONT: int = _signal.SIGCONT
SIGUSR1: int = _signal.SIGUSR1

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
F_SETPIPE_SZ = 1031


def oom_kills() -> int:
    """The number of processes that the OOM killer has killed since boot; 0 where unknown."""
    text = read("/proc/vmstat")
    at = text.find(b"\noom_kill ")
    return int(text[at + 10 :].split(None, 1)[0]) if at >= 0 else 0


# -- descendants of a supervisor -----------------------------------------------------------------------


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that all remain below this process."""
    if LINUX:
        libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent ends."""
    if LINUX:
        libc("prctl", PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)


def signal_rest(session: int, signum: int) -> bool:
    """Signal the processes that an ended session leader left behind; False when there are none.

    The pid of the leader may have been reused, so only descendants of this process are signalled.
    """
    if not LINUX:
        return signal_group(session, signum)
    left = [p for p in descendants([os.getpid()]) if p.alive and session in (p.session, p.group)]
    _signal_each(left, signum)
    return bool(left)


def kill_descendants() -> bool:
    """KILL every descendant of this process; False when there is none."""
    left = [p for p in descendants([os.getpid()]) if p.alive]
    _signal_each(left, SIGKILL)
    return bool(left)


def kill_children() -> None:
    """KILL the children of this process, whose pids cannot be reused yet, without reading all processes.

    Source: proc_pid_task_children(5); without that file nothing happens.
    """
    for pid in read("/proc/thread-self/children").split():
        try:
            os.kill(int(pid), SIGKILL)
        except PermissionError:  # it runs as another user by now
            pass


def _signal_each(found: "Iterable[Process]", signum: int) -> None:
    for each in found:
        try:
            send(each.pid, each.start, signum)
        except PermissionError:  # the child runs as another user by now and cannot be signalled
            pass


def signal_group(group: int, signum: int) -> bool:
    """Signal a process group (0: only test it); False when it has no member. Zombies are members."""
    try:
        os.killpg(group, signum)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def enlarge_pipe(fd: int, size: int) -> None:
    """Let a pipe hold `size` bytes where the system and the user's quota allow it."""
    if LINUX:
        try:
            import fcntl  # few replicas print that much

            fcntl.fcntl(fd, F_SETPIPE_SZ, size)
        except (ImportError, OSError):
            pass


def trim_memory() -> None:
    """Return freed memory to the system: a large app's request takes more memory than its supervision."""
    if LINUX:
        libc("malloc_trim", 0)


def close_from(first: int) -> None:
    """Close every inherited descriptor from `first` on."""
    try:
        names = os.listdir("/dev/fd")
    except FileNotFoundError:  # a container without /proc
        os.closerange(first, 1024)
        return
    for name in names:
        if int(name) >= first:
            try:
                os.close(int(name))
            except OSError:  # the descriptor that listed the folder
                pass


def libc(name: str, *args: "int | bytes") -> int:
    """Call a function of the C library; -1 on failure. `ctypes` costs ten times as much as `_ctypes`."""
    try:
        import _ctypes

        function = _ctypes.dlsym(_ctypes.dlopen(None, 0), name)  # type: ignore[arg-type]
        return int(_ctypes.call_cdeclfunction(function, args))
    except (ImportError, AttributeError, OSError):
        return -1
