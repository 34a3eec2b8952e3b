"""Who submits an app, and whether they live: a process named by host, boot, pid and start time."""

from __future__ import annotations

import json
import os
import select
import time
from dataclasses import asdict, dataclass

from launcher import paths

PATIENCE_S = 600.0
"""Without progress for this long, somebody on another machine counts as dead."""

_POLL_S = 0.02  # where the kernel cannot wake us


@dataclass(frozen=True, slots=True)
class Owner:
    """A process. `start` counts clock ticks since boot, 0 where the system does not tell; `home` is its
    LAUNCHER_HOME, where the record of its app is."""

    host: str
    boot: str
    pid: int
    start: int
    user: str = ""
    home: str = ""

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @property
    def is_here(self) -> bool:
        """Whether it ran on this machine since its last boot, where we can look for it."""
        return self.host == os.uname().nodename and self.boot == boot_id()

    def is_alive(
        self, progress_at: float | None, *, take_over: bool = False, now: float | None = None
    ) -> bool:
        """Whether it may still be at work.

        Args:
            progress_at: when it was last seen to get on, epoch seconds; it decides for another machine.
            take_over: somebody on another machine is dead, the user says.
        """
        if self.host == os.uname().nodename:
            return self.is_here and is_running(self.pid, self.start)
        if take_over or progress_at is None:
            return False
        return (time.time() if now is None else now) - progress_at < PATIENCE_S

    def wait_for_exit(self, timeout_s: float) -> bool:
        """Wait until it has ended; False when it still runs after `timeout_s`. Only where `is_here`."""
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        except (AttributeError, OSError):
            return self._poll_for_exit(timeout_s)
        try:
            if not is_running(self.pid, self.start):  # asked after opening: the descriptor means this process
                return True
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            return bool(poll.poll(max(0.0, timeout_s) * 1000))
        finally:
            os.close(fd)

    def _poll_for_exit(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while is_running(self.pid, self.start):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


def this_process() -> Owner:
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    return Owner(os.uname().nodename, boot_id(), os.getpid(), start_time(os.getpid()), user, paths.home())


def from_json(text: str) -> Owner | None:
    """None for what is no owner: labels can be anybody's."""
    try:
        told = json.loads(text)
        words = (str(told.get(name, "")) for name in ("user", "home"))
        return Owner(str(told["host"]), str(told["boot"]), int(told["pid"]), int(told["start"]), *words)
    except (ValueError, KeyError, TypeError):
        return None


def boot_id() -> str:
    """Differs after each boot of the machine; "" where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def start_time(pid: int) -> int:
    """When a process began, in clock ticks since boot; 0 when it is gone or the system does not tell."""
    stat = _stat(pid)
    return int(stat[19]) if stat else 0


def is_running(pid: int, start: int) -> bool:
    """Whether exactly this process lives; one that nobody has reaped yet does not."""
    if os.path.isdir("/proc/self"):
        stat = _stat(pid)
        return stat is not None and int(stat[19]) == start and stat[0] not in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat after the command, which may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None
