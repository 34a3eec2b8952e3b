"""Hold an app before its start, within the loop of its supervisor: see `launcher.holding.waiting`.

The supervisor of a needed app is watched by a pidfd, and its record is read when it has ended; an app in line
is woken by the change or the death of the one before it: until then this process sleeps. No import here may
load more than the supervisor has.
"""

from __future__ import annotations

import os

from launcher.holding.waiting import way_to_start
from launcher.schedulers import pids
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.local.replicas import RunningRole
    from launcher.schedulers.loop import Loop
    from launcher.schedulers.turns import Line

AGAIN_S = 1.0
"""How soon to try again: a needed app without a supervisor may be submitted again, a full disk get space."""

REMOVED = "removed"
VISIBLE = "CUDA_VISIBLE_DEVICES"
_TAIL = 16 * 1024


class Hold:
    """One app, until it starts or ends.

    Args:
        supervisor: the `Supervisor` of the app.
        needs: job and folder of each app that has to succeed first.
        ask: for its share of this machine; None for none.
    """

    def __init__(
        self,
        supervisor: Any,
        loop: Loop,
        needs: Iterable[tuple[str, str]],
        ask: Mapping[str, Any] | None,
    ) -> None:
        self._supervisor = supervisor
        self._loop = loop
        self._needs = dict(needs)
        self._line = _line(ask, supervisor.app_dir) if ask else None
        self._watched: tuple[int, ...] = ()
        self._is_stirred = False
        self._has_failed = False
        self._way = way_to_start(list(self._needs), self)

    def go_on(self, happened: Any = None) -> None:
        """Go on the way to the start, with what has happened."""
        if self._supervisor.has_ended:
            return
        try:
            self._way.send(happened)
        except StopIteration as over:
            if over.value:
                self._supervisor.go()

    # -- what the way asks for -----------------------------------------------------------------------------

    def accept(self, kind: str, **fields: Any) -> bool:
        is_accepted: bool = self._supervisor.accept(kind, **fields)
        return is_accepted

    def note(self, kind: str, **fields: Any) -> None:
        self._supervisor.note(kind, **fields)

    def give_up(self, why: str) -> None:
        self._supervisor.end_unstarted("unmet", why=why)

    def compare(self) -> bool:
        comparison = self._supervisor.comparison
        if comparison is None or not self._supervisor.is_accepted:
            return False
        comparison.begin(self.go_on)
        return True

    def decide(self) -> bool | None:
        if not self._supervisor.is_accepted:
            return True
        try:
            decision = rundir.decide(self._supervisor.app_dir, rundir.START)
        except OSError:  # the disk is full
            self._loop.after(AGAIN_S, self.go_on)
            return None
        if decision != rundir.START:
            self._supervisor.end_unstarted("withdrawn")
        return decision == rundir.START

    # -- other apps ----------------------------------------------------------------------------------------

    def follow_needs(self) -> None:
        for job in self._needs:
            self._loop.after(0, lambda job=job: self._look_at(job))  # type: ignore[misc]

    def _look_at(self, job: str) -> None:
        state = outcome(self._needs[job])
        holder = None if state else supervisor(self._needs[job])
        fd = pids.open_pid(*holder) if holder else None
        if fd is None:
            self._judge(job, state)
            return
        watched = fd

        def exited() -> None:
            self._loop.remove(watched)
            os.close(watched)
            self._judge(job, outcome(self._needs[job]))

        self._loop.watch(watched, exited)

    def _judge(self, job: str, state: str) -> None:
        """Judge an app without a supervisor: by its record, or as every command does, by a JSON parser."""
        if not state:
            from launcher.schedulers.local import appview

            view = appview.read_state(self._needs[job])
            state = REMOVED if view is None else view.state if view.has_ended else ""
        if state:
            self.go_on((job, state))
        elif not self._supervisor.has_ended:
            self._loop.after(AGAIN_S, lambda: self._look_at(job))

    # -- its share of the machine --------------------------------------------------------------------------

    def has_share(self) -> bool:
        self._unwatch()
        if self._line is None or self._line.look():
            return True
        if self._line.error is not None:
            self._cannot_queue(self._line.error)
            self._loop.after(AGAIN_S, self._go_on_in_line)
            return False
        place = self._line.place
        for fd in place.bells:
            self._loop.watch(fd, self._stir)
        for fd in place.watched:
            self._loop.watch_end(fd, self._stir)
        self._watched = (*place.bells, *place.watched)
        return False

    def _cannot_queue(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            why = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
            self.note("warning", message=f"cannot take its place in line, and tries again: {why}")

    def _stir(self) -> None:
        """Look again when the callbacks of all ready descriptors have returned: looking closes some."""
        if not self._is_stirred:
            self._is_stirred = True
            self._loop.after(0, self._go_on_in_line)

    def _go_on_in_line(self) -> None:
        self._is_stirred = False
        self.go_on()

    def _unwatch(self) -> None:
        for fd in self._watched:
            self._loop.remove(fd)
        self._watched = ()

    def leave(self) -> None:
        """Give up the place. May be called twice."""
        self._unwatch()
        if self._line is not None:
            try:
                self._line.place.leave()
            except OSError:  # the end of this process gives it up too
                pass

    def deal(self, roles: Sequence[tuple[RunningRole, int]]) -> None:
        """Fill in the GPUs of the replicas, given how many each replica of a role asks for.

        Replicas see all GPUs where this machine is not known to have any.
        """
        if self._line is None:
            return
        from launcher.schedulers.local.spawn import set_variable
        from launcher.turns.deal import GPUS, shares

        place = self._line.place
        replicas = [(replica, count) for role, count in roles for replica in role.replicas]
        dealt = shares(place.dealt, [count for _, count in replicas])
        for (replica, _), share in zip(replicas, dealt, strict=True):
            seen = share if place.ask.devices else None
            replica.packed = set_variable(replica.packed, replica.role.common, VISIBLE, seen, instead_of=GPUS)


def _line(ask: Mapping[str, Any], app_dir: str) -> Line:
    from launcher.schedulers.turns import Line
    from launcher.turns.ask import Ask
    from launcher.turns.table import Place

    place = Place(Ask.from_dict(ask))
    place.ask.folder = app_dir
    return Line(place)


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
