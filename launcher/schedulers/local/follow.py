"""Follow a local app: its start, its logs and its restarts until it has ended, woken by the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from launcher.limits import allow_open_files
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from launcher.schedulers.local.filewatch import FileWatch
from launcher.schedulers.local.logrecords import RecordReader
from launcher.schedulers.local.restarts import RestartNotes, RestartReader
from launcher.schedulers.logs import RESTART, LogRecord
from launcher.schedulers.restarts import Restart

_FILES_PER_READER = 2
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


def follow_chunks(
    app_dir: str,
    starts: Mapping[str, int],
    stream: str,
    names: Mapping[tuple[str, int], str],
    notes: RestartNotes | None = None,
) -> Iterator[tuple[str, bytes]]:
    """(folder, bytes) of a stream as they are written, until the app has ended and everything was read.

    Args:
        starts: log folder of a replica → place in its log to begin at. The folders must exist.
        names: (role, replica) → its folder.
        notes: reports restarts, each after the output before it and before the output after it.
    """
    keep_open = allow_open_files(_FILES_PER_READER * len(starts))
    readers = {
        folder: RecordReader(folder, stream, start=start, keep_open=keep_open)
        for folder, start in starts.items()
    }
    where = {folder: name for name, folder in names.items()}
    try:
        with AppWatch(app_dir) as watch:
            for folder in starts:
                watch.add(folder)
            changed = set(starts)
            while True:
                ended = watch.ended  # before reading: data read after the end is complete
                seen = notes.look() if notes else 0.0  # all output before these restarts is on disk
                if notes and seen:
                    changed = changed | {names[each] for each in notes.waiting()}
                for folder in starts if ended else sorted(changed):
                    for record in readers[folder].read():
                        if record.data:
                            yield folder, record.data
                        elif notes and record.stream == RESTART:
                            notes.before(*where[folder], record.time_ns)
                if notes:
                    notes.flush(seen)
                if ended:
                    return
                changed = watch.wait() & readers.keys()
    finally:
        for reader in readers.values():
            reader.close()


def follow_records(
    app_dir: str,
    source: tuple[str, int, str],
    stream: str,
    since: float | None,
    until: float | None,
    notes: RestartNotes | None = None,
) -> Iterator[LogRecord]:
    """Yield the records of one replica as they come, until the app has ended or one is after `until`.

    Args:
        source: role, replica and log folder.
        notes: as in `follow_chunks`.
    """
    role, k, folder = source
    reader = RecordReader(folder, stream, since, until)
    with AppWatch(app_dir) as watch:
        watch.add(folder)
        while True:
            ended = watch.ended
            seen = notes.look() if notes else 0.0
            for record in reader.read():
                if notes and record.stream == RESTART:
                    notes.before(role, k, record.time_ns)
                yield record
            if notes and not reader.finished:
                notes.flush(seen)
            if ended or reader.finished:
                return
            watch.wait()


def follow_restarts(app_dir: str) -> Iterator[Restart]:
    """The restarts of an app from its first one on, each as it comes, until the app has ended."""
    reader = RestartReader(app_dir)
    yield from reader.read()
    if reader.is_over():
        return
    with AppWatch(app_dir) as watch:
        while True:
            ended = watch.ended  # before reading: what is read after the end is complete
            yield from reader.read()
            if ended or reader.is_over():
                return
            watch.wait()
