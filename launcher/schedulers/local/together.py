"""Wait for many apps at once: each course goes on when its event has happened, or its time is over.

A course is a generator. It yields a `Pause`, is sent whether the event has happened, and returns its result.
"""

from __future__ import annotations

import os
import time
from _heapq import heappop, heappush  # heapq is mostly documentation

from launcher.errors import LauncherError
from launcher.schedulers import pids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping
    from typing import TypeVar

    from launcher.schedulers.local.filewatch import FileWatch

    T = TypeVar("T")
    Course = Generator["Pause", bool | None, T]

_MOST = 256  # processes to watch at once, with a descriptor each; the exits of others are found later


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
    """The pauses of courses, by their keys."""

    def __init__(self) -> None:
        self.pauses: dict[str, Pause] = {}
        self._unwatched: dict[str, Pause] = {}
        self._times: list[tuple[float, int, str, Pause]] = []
        self._made = 0  # number of pauses so far: those with the same time end in this order
        self._by_fd: dict[int, str] = {}
        self._by_path: dict[str, str] = {}
        self._watched: set[str] = set()
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
        """Watch a file, if it is not watched yet; False where its folder has gone."""
        from launcher.schedulers.local.filewatch import FileWatch

        self._files = self._files or FileWatch()
        self._by_path[path] = key
        if path not in self._watched:
            try:
                self._files.add(path)
            except FileNotFoundError:
                return False
            self._watched.add(path)
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
