"""Wait for apps: until their files change, by inotify or by polling, or until their processes exit."""

from __future__ import annotations

import os
import stat
import time
from _heapq import heappop, heappush  # heapq is mostly documentation

from launcher import paths
from launcher.errors import LauncherError
from launcher.schedulers import pids
from launcher.schedulers.local import appview, kernel, rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")
    Course = Generator["Pause", bool | None, T]
    """A generator that yields each `Pause`, is sent whether its event has happened, and returns a result."""
    Signature = tuple[Any, ...] | None
    Process = tuple[int, int, str]

CLOEXEC_NONBLOCK = 0o2000000 | 0o4000
# Files that are written, moved, made or removed, and the folder itself.
CHANGES = 0x2 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800

_MOST = 256  # processes to watch at once, with a descriptor each; the exits of others are found later
_SPARE = 100
_POLL_FILE_S = 1e-4  # pause for each polled file: a look at thousands of files takes its time
_UNOWNED_S = 0.5  # pause before there is a supervisor: the client may die without touching a file


class FileWatch:
    """Waits until files are written, created, renamed or removed; they may come later than their folders.

    Changes after `add` are never missed: watch first, read, then wait.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.fd = kernel.libc("inotify_init1", CLOEXEC_NONBLOCK) if pids.LINUX else -1
        self._folders: dict[int, str] = {}  # inotify's number of a folder → its path
        self._watched: set[str] = set()  # the same folders
        self._whole: set[str] = set()  # folders whose files are all watched
        self._signatures: dict[str, Signature] = {}
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        """Watch a file, unless it is watched. Raises FileNotFoundError when its folder is not there."""
        if path not in self._signatures:
            self._watch(os.path.dirname(path) or ".")
            self._signatures[path] = _signature(path)

    def add_folder(self, folder: str) -> None:
        """Watch all files of a folder; changes are reported as the folder's. Raises FileNotFoundError."""
        self._watch(folder)
        self._whole.add(folder)
        self._signatures[folder] = _signature(folder)

    def _watch(self, folder: str) -> None:
        if self.fd >= 0 and folder not in self._watched:
            number = kernel.libc("inotify_add_watch", self.fd, os.fsencode(folder), CHANGES)
            if number >= 0:
                self._folders[number] = folder
                self._watched.add(folder)
            else:
                os.stat(folder)
                self.close()  # no watches are left: poll instead

    def wait(self, timeout_s: float | None = None, *fds: int) -> set[str]:
        """The watched paths that changed since the last call; empty when `timeout_s` is over, or when one of
        `fds`, such as that of `open_pid`, can be read."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if self.fd >= 0:
                ready = pids.wait_readable((self.fd, *fds), left)
            else:
                pause_s = max(pids.POLL_S, _POLL_FILE_S * len(self._signatures))
                ready = pids.wait_readable(fds, pause_s if left is None else min(left, pause_s))
            changed = self._changed()
            if changed or any(fd in ready for fd in fds) or (left is not None and left <= 0):
                return changed

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _changed(self) -> set[str]:
        if self.fd < 0:
            return self._differing()
        try:
            events = os.read(self.fd, 65536)
        except BlockingIOError:
            return set()
        changed: set[str] = set()
        at = 0
        while at < len(events):  # struct inotify_event {int wd; uint32_t mask, cookie, len; char name[len];}
            number = int.from_bytes(events[at : at + 4], "little", signed=True)
            size = int.from_bytes(events[at + 12 : at + 16], "little")
            name = os.fsdecode(events[at + 16 : at + 16 + size].rstrip(b"\0"))
            at += 16 + size
            if number < 0 or not name:  # events were dropped, or the folder itself was removed
                changed.update(self._signatures)
            else:
                folder = self._folders.get(number, "")
                changed.add(folder if folder in self._whole else os.path.join(folder, name))
        return changed & self._signatures.keys()

    def _differing(self) -> set[str]:
        now = {path: _signature(path) for path in self._signatures}
        changed = {path for path in now if now[path] != self._signatures[path]}
        self._signatures = now
        return changed


def _signature(path: str) -> Signature:
    """Return a value that changes with a file, or with any file of a folder."""
    try:
        found = os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            return found.st_ino, found.st_size, found.st_mtime_ns
        files = [(entry.name, entry.stat()) for entry in os.scandir(path)]
    except OSError:
        return None
    return tuple((name, each.st_ino, each.st_size, each.st_mtime_ns) for name, each in sorted(files))


class AppsWatch:
    """Finds the apps of a display that have written an event."""

    def __init__(self) -> None:
        self._files = FileWatch()
        self._events: dict[str, str] = {}  # watched path → app id

    def changed(self, app_ids: set[str], timeout_s: float = 0.0) -> set[str]:
        """See `Scheduler.changed`."""
        if len(self._events) > 2 * len(app_ids) + _SPARE:  # most apps have ended: a watch cannot be removed
            self.close()
            self._files, self._events = FileWatch(), {}
        new = app_ids.difference(self._events.values())
        for app_id in new:
            events = rundir.events(paths.local_app(app_id))
            try:
                self._files.add(events)
            except OSError:
                continue  # the app has no folder yet, or none any more
            self._events[events] = app_id
        written = {self._events[path] for path in self._files.wait(0.0 if new else max(0.0, timeout_s))}
        return new | (written & app_ids)

    def close(self) -> None:
        self._files.close()


class AppWatch:
    """Wakes up when watched files change or the app's supervisor exits. Use as a context manager."""

    def __init__(self, app_dir: str) -> None:
        self._app_dir = app_dir
        self._files = FileWatch()
        self._pid_fd = -1  # pidfd of the supervisor
        self._holder: Process | None = None  # holder before there is a supervisor
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

    def wait(self, timeout_s: float | None = None) -> set[str]:
        """Wait; returns the folders in which files changed, none when the app has ended or was started."""
        if self.ended:
            return set()
        if self._pid_fd < 0:
            changed = self._wait_for_news(timeout_s)
            self._look()
            return changed
        changed = self._files.wait(timeout_s, self._pid_fd)
        self.ended = bool(pids.wait_readable((self._pid_fd,), 0))
        return changed

    def _look(self) -> None:
        """Find the supervisor; until there is one, `wait` waits for the events of the app."""
        try:
            self._files.add(rundir.events(self._app_dir))  # before reading, so that no line is missed
        except FileNotFoundError:
            pass
        view = appview.read_state(self._app_dir)
        if view is None or view.has_ended:
            self.ended = True
        elif view.supervisor is not None:
            pid, start, _ = view.supervisor
            fd = pids.open_pid(pid, start)
            self._pid_fd = -1 if fd is None else fd
            self.ended = fd is None
        elif not view.lock_held:
            self.ended = True
        else:
            self._holder = view.holder

    def _wait_for_news(self, timeout_s: float | None) -> set[str]:
        """Wait until files change, or until the process ends that holds the app with others.

        A client that submits an app may die without touching a file.
        """
        fd = None if self._holder is None else pids.open_pid(*self._holder[:2])
        if fd is None:
            return self._files.wait(_UNOWNED_S if timeout_s is None else min(_UNOWNED_S, timeout_s))
        try:
            return self._files.wait(timeout_s, fd)
        finally:
            os.close(fd)


# -- many apps at once ---------------------------------------------------------------------------------------


class Pause:
    """A pause until a process has exited, or a file has changed, for at most `timeout_s` seconds.

    Attributes:
        process: pid and start time; None for a file, or for the time alone.
        path: the path of the file; "" for none. Where its folder is gone, the pause is over at once.
    """

    __slots__ = ("fd", "path", "process", "timeout_s")

    def __init__(self, timeout_s: float, *, process: tuple[int, int] | None = None, path: str = "") -> None:
        self.timeout_s = timeout_s
        self.process = process
        self.path = path
        self.fd = -1


def together(courses: Mapping[str, Course[T]]) -> Iterator[tuple[str, T | LauncherError]]:
    """Run all courses; yields the key of each when it is over, with its result or error."""
    waiting = _Waiting()
    happened: Iterable[tuple[str, bool | None]] = [(key, None) for key in courses]
    try:
        while happened or waiting.pauses:
            for key, what in happened:
                try:
                    pause = courses[key].send(what)
                except StopIteration as over:
                    yield key, over.value
                except LauncherError as error:
                    yield key, error
                else:
                    waiting.add(key, pause)
            happened = waiting.happened() if waiting.pauses else ()
    finally:
        waiting.close()


class _Waiting:
    """The present pauses of courses, by the keys of the courses."""

    def __init__(self) -> None:
        self.pauses: dict[str, Pause] = {}
        self._unwatched: dict[str, Pause] = {}
        self._times: list[tuple[float, int, str, Pause]] = []
        self._made = 0  # number of pauses so far: those with the same time end in this order
        self._by_fd: dict[int, str] = {}
        self._by_path: dict[str, str] = {}
        self._files: FileWatch | None = None

    def add(self, key: str, pause: Pause) -> None:
        self.pauses[key] = pause
        timeout_s = pause.timeout_s
        if pause.process is not None:
            self._unwatched[key] = pause
        elif pause.path and not self._watch_file(key, pause.path):
            timeout_s = 0.0
        self._made += 1
        heappush(self._times, (time.monotonic() + timeout_s, self._made, key, pause))

    def happened(self) -> list[tuple[str, bool | None]]:
        """Wait for an event; returns keys, each with whether the course's event has happened."""
        found: dict[str, bool | None] = dict.fromkeys(self._watch_processes(), True)
        changed, exited = self._wait(0.0 if found else max(0.0, self._times[0][0] - time.monotonic()))
        found.update((self._by_path[path], True) for path in changed if path in self._by_path)
        found.update((self._by_fd[fd], True) for fd in exited)
        while self._times and self._times[0][0] <= time.monotonic():
            *_, key, pause = heappop(self._times)
            if self.pauses.get(key) is pause and key not in found:
                found[key] = pause.process is not None and not pids.is_running(*pause.process)
        for key in found:
            self._forget(key)
        return list(found.items())

    def _watch_processes(self) -> list[str]:
        """Watch more processes; returns the keys of those that have exited before."""
        gone = []
        while self._unwatched and len(self._by_fd) < _MOST:
            key, pause = next(iter(self._unwatched.items()))
            del self._unwatched[key]
            assert pause.process is not None
            fd = pids.open_pid(*pause.process)
            if fd is None:
                gone.append(key)
            else:
                pause.fd = fd
                self._by_fd[fd] = key
        return gone

    def _watch_file(self, key: str, path: str) -> bool:
        """Watch a file; False where its folder has gone."""
        self._files = self._files or FileWatch()
        self._by_path[path] = key
        try:
            self._files.add(path)
        except FileNotFoundError:
            return False
        return True

    def _wait(self, timeout_s: float) -> tuple[Iterable[str], Iterable[int]]:
        """The files that have changed, and the descriptors of processes that have exited."""
        if self._files is None:
            return (), pids.wait_readable(self._by_fd, timeout_s)
        changed = self._files.wait(timeout_s, *self._by_fd)
        return changed, pids.wait_readable(self._by_fd, 0.0)

    def _forget(self, key: str) -> None:
        pause = self.pauses.pop(key)
        self._unwatched.pop(key, None)
        self._by_path.pop(pause.path, None)
        if pause.fd >= 0:
            del self._by_fd[pause.fd]
            os.close(pause.fd)

    def close(self) -> None:
        for key in [*self.pauses]:
            self._forget(key)
        if self._files is not None:
            self._files.close()
