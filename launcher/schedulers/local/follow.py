"""Follow a local app: its start, its logs and its restarts until it has ended, woken by the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from launcher.holding.journal import read_events
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from launcher.schedulers.local.filewatch import FileWatch
from launcher.schedulers.local.logrecords import RecordReader
from launcher.schedulers.logs import LogRecord, Where
from launcher.schedulers.restarts import RecordedEvents, RestartNotes

_UNOWNED_S = 0.5  # before there is a supervisor: the client may die without touching a file


class AppWatch:
    """Wakes up when watched files change or the app's supervisor exits. Use as a context manager."""

    def __init__(self, app_dir: str) -> None:
        self._app_dir = app_dir
        self._files = FileWatch()
        self._pid_fd = -1
        self.ended = False
        """Whether the app has ended; its output is then complete in the files."""
        self._look()

    def __enter__(self) -> AppWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()
        if self._pid_fd >= 0:
            os.close(self._pid_fd)
            self._pid_fd = -1

    def add(self, folder: str) -> None:
        """Wake up when files of the folder change, too."""
        self._files.add_folder(folder)

    def wait(self) -> set[str]:
        """The folders in which files changed; none of them when the app has ended or was started."""
        fds = (self._pid_fd,) if self._pid_fd >= 0 else ()
        changed = self._files.wait(None if fds else _UNOWNED_S, *fds)
        if fds and pids.wait_readable(fds, 0):
            self.ended = True
        elif not fds:
            self._look()
        return changed

    def _look(self) -> None:
        """Find the supervisor; until there is one, wait for its event file."""
        events = rundir.events(self._app_dir)
        if os.path.isdir(self._app_dir):
            self._files.add(events)  # watched before it is read, so that no line is missed
        view = rundir.read_state(self._app_dir)
        if view is None or view.has_ended:
            self.ended = True
        elif view.supervisor is not None:
            pid, start, _ = view.supervisor
            fd = pids.open_pid(pid, start)
            self._pid_fd = -1 if fd is None else fd
            self.ended = fd is None
        elif not view.lock_held:
            self.ended = True


def wait_for_start(app_dir: str) -> None:
    """Return once a held app has started or ended, or its supervisor has died."""
    with AppWatch(app_dir) as watch:
        while not watch.ended:
            view = rundir.read_state(app_dir)
            if view is None or view.state not in rundir.UNSTARTED:
                return
            watch.wait()


def follow_logs(
    app_dir: str,
    folders: Mapping[Where, str],
    readers: Mapping[Where, RecordReader],
    notes: RestartNotes | None,
) -> Iterator[tuple[Where, LogRecord]]:
    """The records of replicas as they are written, until the app has ended or all readers are finished.

    Args:
        readers: one for each of the folders. They are closed at the end.
        notes: reports restarts, each after the output before it.
    """
    names = {folder: where for where, folder in folders.items()}
    try:
        with AppWatch(app_dir) as watch:
            for folder in names:
                watch.add(folder)
            changed = set(readers)
            while True:
                ended = watch.ended  # before reading: data read after the end is complete
                seen = notes.look() if notes else 0.0  # all output before these restarts is on disk
                if notes and seen:
                    changed |= notes.waiting()
                for where in readers if ended else sorted(changed):
                    for record in readers[where].read():
                        yield where, record
                if all(reader.finished for reader in readers.values()):
                    return
                if notes:
                    notes.flush(seen)
                if ended:
                    return
                changed = {names[folder] for folder in watch.wait() & names.keys()}
    finally:
        for reader in readers.values():
            reader.close()


def recorded_events(app_dir: str) -> RecordedEvents:
    return RecordedEvents(rundir.events(app_dir), read_events)


def rounds(app_dir: str) -> Iterator[bool]:
    """Before each read of the app's record: whether it has ended, so that all of it can be read."""
    yield False  # most apps restart nothing, as their record says
    with AppWatch(app_dir) as watch:
        while True:
            yield watch.ended
            watch.wait()
