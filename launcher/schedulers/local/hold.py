"""Hold an app before its start, within the loop of its process: see `launcher.holding.hold`.

The process of a needed app is watched by a pidfd, and its record is read when it has ended: until then this
process sleeps. An app in the line of another process is followed by its record, too. No import here may load
more than a supervisor has.
"""

from __future__ import annotations

import os

from launcher.holding.hold import way_to_start
from launcher.schedulers import pids
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from launcher.schedulers.local.filewatch import FileWatch
    from launcher.schedulers.local.held import UnstartedApp
    from launcher.schedulers.loop import Loop

    Then = Callable[[str], None]

AGAIN_S = 1.0
"""How soon to try again: a full disk may get space, an app without a process may be submitted again."""

REMOVED = "removed"
_TAIL = 16 * 1024


class Hold:
    """One app, until it starts or ends.

    Args:
        needs: job and folder of each app that has to succeed first.
        needed: follows the needed apps.
    """

    def __init__(
        self, app: UnstartedApp, loop: Loop, needs: Iterable[tuple[str, str]], needed: Needed
    ) -> None:
        self._app = app
        self._loop = loop
        self._needs = dict(needs)
        self._needed = needed
        self._has_failed = False
        self._way = way_to_start(list(self._needs), self)

    def go_on(self, happened: Any = None) -> None:
        """Resume the way to the start, with the value that it waits for."""
        if self._app.has_ended:
            return
        try:
            self._way.send(happened)
        except StopIteration as over:
            if over.value:
                self._app.go()

    # -- what the way asks for -----------------------------------------------------------------------------

    def accept(self, kind: str, **fields: Any) -> bool:
        return self._app.accept(kind, **fields)

    def note(self, kind: str, **fields: Any) -> None:
        self._app.note(kind, **fields)

    def give_up(self, why: str) -> None:
        self._app.end_unstarted("unmet", why=why)

    def compare(self) -> bool:
        comparison = self._app.comparison
        if comparison is None or not self._app.is_accepted:
            return False
        comparison.begin(self.go_on)
        return True

    def decide(self) -> bool | None:
        if not self._app.is_accepted:
            return True
        try:
            decision = rundir.decide(self._app.app_dir, rundir.START)
        except OSError:  # the disk is full
            self._loop.after(AGAIN_S, self.go_on)
            return None
        if decision != rundir.START:
            self._app.end_unstarted("withdrawn")
        return decision == rundir.START

    def follow_needs(self) -> None:
        for job, folder in self._needs.items():
            self._needed.follow(folder, lambda state, job=job: self.go_on((job, state)))  # type: ignore[misc]

    def has_share(self) -> bool:
        return self._app.share is None or self._app.share.has(self.go_on, self._cannot_queue)

    def _cannot_queue(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            why = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
            self.note("warning", message=f"cannot take its place in line, and tries again: {why}")


class Needed:
    """The apps that the apps of this process need, each followed once."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: dict[str, list[Then]] = {}  # folder → callbacks for the end of its app
        self._watched: dict[str, int] = {}  # folder → the pidfd of its process
        self._files: FileWatch | None = None  # files of apps in the lines of other processes

    def follow(self, folder: str, then: Then) -> None:
        """Call `then` with the state of an app once it has ended: `removed` where its folder is gone."""
        if folder in self._waiting:
            self._waiting[folder].append(then)
        else:
            self._waiting[folder] = [then]
            self._loop.after(0, lambda: self.look(folder))

    def look(self, folder: str) -> None:
        """Look at an app that may have ended, or may have another process now."""
        if folder not in self._waiting:
            return
        self._unwatch(folder)
        state = outcome(folder)
        kind, pid, start = ("", 0, 0) if state else holder(folder)
        if pid == os.getpid():
            return  # this process looks again when it lets go of the app
        fd = pids.open_pid(pid, start) if pid else None
        if fd is None:
            self._judge(folder, state)
            return
        self._watched[folder] = fd
        self._loop.watch(fd, lambda: self._exited(folder))
        if kind != SUPERVISOR:
            self._follow_record(folder)

    def _exited(self, folder: str) -> None:
        self._unwatch(folder)
        state = outcome(folder)
        if not state and holder(folder)[0] != SUPERVISOR:
            self.look(folder)  # the line has ended: its last app may have started
        else:
            self._judge(folder, state)

    def _judge(self, folder: str, state: str) -> None:
        """Judge an app without a process: by its record, or with a JSON parser, as every command does."""
        if not state:
            from launcher.schedulers.local import appview

            view = appview.read_state(folder)
            state = REMOVED if view is None else view.state if view.has_ended else ""
        if not state:
            self._loop.after(AGAIN_S, lambda: self.look(folder))
            return
        for then in self._waiting.pop(folder, ()):
            then(state)

    def _unwatch(self, folder: str) -> None:
        fd = self._watched.pop(folder, -1)
        if fd >= 0:
            self._loop.remove(fd)
            os.close(fd)

    def _follow_record(self, folder: str) -> None:
        if self._files is None:
            from launcher.schedulers.local.filewatch import FileWatch

            self._files = FileWatch()
            if self._files.fd >= 0:
                self._loop.watch(self._files.fd, self._changed)
        try:
            self._files.add(rundir.events(folder))
        except FileNotFoundError:
            pass
        if self._files.fd < 0:  # no inotify, or too many watches
            self._loop.after(AGAIN_S, lambda: self.look(folder))
        elif holder(folder)[0] == SUPERVISOR or outcome(folder):  # changed since the record was read
            self._loop.after(0, lambda: self.look(folder))

    def _changed(self) -> None:
        assert self._files is not None
        for path in self._files.wait(0):
            self.look(os.path.dirname(path))


# -- records, without a parser of JSON -----------------------------------------------------------------------

SUPERVISOR, HOLDER = "supervisor", "holder"
"""The kinds of events that name the process of an app: of its own, and of a line."""


def outcome(folder: str) -> str:
    """The state that the process of an app recorded at the app's end; "" before, or when the process died."""
    record = _read(folder, tail=True)
    found = record.rfind(b'{"e":"ended"')
    if found < 0 or not record.endswith(b"\n"):
        return ""
    return _value(record[found:], b"state").decode()


def holder(folder: str) -> tuple[str, int, int]:
    """The process that the record of an app names last: its kind, pid and start time.

    ("", 0, 0) before there is a process, or after a reboot.
    """
    head = _read(folder)
    for kind in (SUPERVISOR, HOLDER):
        found = head.find(b'"e":"%b"' % kind.encode())
        line, end, _ = head[found:].partition(b"\n")
        pid, start = _value(line, b"pid"), _value(line, b"start")
        if found >= 0 and end and pid.isdigit() and start.isdigit():
            is_here = _value(line, b"boot").decode() == pids.boot_id()
            return (kind, int(pid), int(start)) if is_here else ("", 0, 0)
    return "", 0, 0


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
