"""The owner of an app: the process that submits it, identified by host, boot, pid and start time."""

from __future__ import annotations

import json
import os
import pwd
import time
from typing import Any

from launcher import paths
from launcher.dataclass import asdict, dataclass
from launcher.schedulers import pids

PATIENCE_S = 600.0
"""An owner on another machine counts as dead after this long without progress."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process. `start` is in clock ticks since boot, 0 where the system has no such count; `home` is its
    LAUNCHER_HOME, which has the record of its app."""

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
        """Whether the process is of this machine and its current boot, so that its pid can be checked."""
        return self.host == os.uname().nodename and self.boot == pids.boot_id()

    def is_alive(
        self, progress_at: float | None, *, take_over: bool = False, now: float | None = None
    ) -> bool:
        """Whether the process may still be running.

        Args:
            progress_at: time of its last known progress, epoch seconds; decides about a process elsewhere.
            take_over: an owner on another machine counts as dead: the user asked for `--take-over`.
        """
        if self.host == os.uname().nodename:
            return self.is_here and pids.is_running(self.pid, self.start)
        if take_over or progress_at is None:
            return False
        return (time.time() if now is None else now) - progress_at < PATIENCE_S


def this_process() -> Owner:
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    pid = os.getpid()
    return Owner(os.uname().nodename, pids.boot_id(), pid, pids.start_time(pid) or 0, user, paths.home())


def from_json(text: str) -> Owner | None:
    """The owner in a label; None for any other text: other programs may set labels, too."""
    try:
        return of(json.loads(text))
    except (ValueError, TypeError):
        return None


def of(about: Any) -> Owner | None:
    """The owner with these fields, others ignored; None for any other value."""
    try:
        texts = (str(about.get(name, "")) for name in ("user", "home"))
        return Owner(str(about["host"]), str(about["boot"]), int(about["pid"]), int(about["start"]), *texts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
