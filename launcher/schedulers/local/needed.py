"""Follow the apps that the apps of a supervisor or line holder need, until they have ended.

The process of a needed app is watched by a pidfd, and its record is read when it has ended: until then this
process sleeps. An app in the line of another process is followed by its record, too. No import here may load
more than a supervisor has.
"""

from __future__ import annotations

import os

from launcher.schedulers import pids
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from launcher.schedulers.local.filewatch import FileWatch
    from launcher.schedulers.loop import Loop

    Then = Callable[[str], None]

_AGAIN_S = 1.0  # how soon to look again at an app without a process, which may be submitted again
_TAIL = 16 * 1024


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

        def exited() -> None:
            self._unwatch(folder)
            state = outcome(folder)
            if not state and holder(folder)[0] != SUPERVISOR:
                self.look(folder)  # the line has ended: its last app may have started
            else:
                self._judge(folder, state)

        self._watched[folder] = fd
        self._loop.watch(fd, exited)
        if kind != SUPERVISOR:
            self._follow_record(folder)

    def _judge(self, folder: str, state: str) -> None:
        """Judge an app without a process: by its record, or with a JSON parser, as every command does."""
        if not state:
            from launcher.schedulers.local import appview

            view = appview.read_state(folder)
            state = "removed" if view is None else view.state if view.has_ended else ""
        if not state:
            self._loop.after(_AGAIN_S, lambda: self.look(folder))
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
            self._loop.after(_AGAIN_S, lambda: self.look(folder))
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
