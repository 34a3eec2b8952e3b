"""Watch the apps that an app waits for, within the loop of its supervisor.

The supervisor of a needed app is watched by a pidfd, and its record is read when it has ended: until then
this process sleeps. No import here may load more than the supervisor has.
"""

from __future__ import annotations

import os

from launcher.schedulers import pids
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from launcher.schedulers.local.loop import Loop

AGAIN_S = 1.0
"""How soon to look again at an app without a supervisor: a later command may submit it again."""

REMOVED = "removed"
_TAIL = 16 * 1024


class Needs:
    """The apps that have not succeeded yet: (job, folder) of each.

    Callbacks: `on_met` with the job of each app that has succeeded, `on_all` once all have, `on_failed` with
    job and state of the first one that has ended otherwise; `removed` is the state of one without a folder.
    """

    def __init__(self, loop: Loop, needs: Iterable[tuple[str, str]]) -> None:
        self.on_met: Callable[[str], None]
        self.on_all: Callable[[], None]
        self.on_failed: Callable[[str, str], None]
        self._loop = loop
        self._left = dict(needs)

    def begin(self) -> None:
        for job in list(self._left):
            self._look(job)

    def forget(self) -> None:
        """Call no callback any more."""
        self._left = {}

    def _look(self, job: str) -> None:
        if job not in self._left:
            return
        state = outcome(self._left[job])
        if state:
            self._settle(job, state)
            return
        holder = supervisor(self._left[job])
        fd = pids.open_pid(*holder) if holder else None
        if fd is None:
            self._without_supervisor(job)
        else:
            watched = fd
            self._loop.watch(watched, lambda: self._exited(job, watched))

    def _exited(self, job: str, fd: int) -> None:
        self._loop.remove(fd)
        os.close(fd)
        if job in self._left:
            self._without_supervisor(job)

    def _without_supervisor(self, job: str) -> None:
        """Judge what a dead one leaves as every command does, at the price of a JSON parser."""
        folder = self._left[job]
        state = outcome(folder)
        if not state:
            view = rundir.read_state(folder)
            state = REMOVED if view is None else view.state if view.has_ended else ""
        if state:
            self._settle(job, state)
        else:
            self._loop.after(AGAIN_S, lambda: self._look(job))

    def _settle(self, job: str, state: str) -> None:
        if state != "succeeded":
            self.forget()
            self.on_failed(job, state)
            return
        del self._left[job]
        self.on_met(job)
        if not self._left:
            self.on_all()


def outcome(folder: str) -> str:
    """The state that the supervisor of an app recorded at its end; "" before, or when it died."""
    record = _read(folder, tail=True)
    found = record.rfind(b'{"e":"ended"')
    if found < 0 or not record.endswith(b"\n"):
        return ""
    return _value(record[found:], b"state").decode()


def supervisor(folder: str) -> tuple[int, int] | None:
    """Pid and start time of the supervisor that the record of an app begins with; None before there is one,
    or after a reboot."""
    line = _read(folder).partition(b"\n")[0]
    pid, start = _value(line, b"pid"), _value(line, b"start")
    if not (pid.isdigit() and start.isdigit()) or _value(line, b"boot").decode() != pids.boot_id():
        return None
    return int(pid), int(start)


def _value(line: bytes, name: bytes) -> bytes:
    """The first value of that name in an event, without quotes."""
    return line.partition(b'"%b":' % name)[2].partition(b",")[0].strip(b'"}')


def _read(folder: str, *, tail: bool = False) -> bytes:
    try:
        fd = os.open(rundir.events(folder), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, _TAIL, max(0, size - _TAIL) if tail else 0)
    finally:
        os.close(fd)
