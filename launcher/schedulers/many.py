"""Call a function for several apps at once, and merge the items of several sources."""

from __future__ import annotations

import time

from launcher.errors import LauncherError, UnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from queue import Queue
    from threading import Thread
    from typing import Any, TypeVar

    T = TypeVar("T")

_AT_ONCE = 16  # calls, each of which may take the whole grace period of its app
_QUEUED = 64  # pieces of all sources that wait for the reader
_LEAVE_S = 2.0


def in_threads(act: Callable[[str], T], app_ids: Iterable[str]) -> Iterator[tuple[str, T | LauncherError]]:
    """Call `act` with each app id, several at once; yields each id with the result or the LauncherError."""
    left = list(reversed(list(app_ids)))

    def outcomes() -> Iterator[tuple[str, T | LauncherError]]:
        while True:
            try:
                app_id = left.pop()
            except IndexError:  # another thread may have taken the last one
                return
            try:
                result: T | LauncherError = act(app_id)
            except LauncherError as error:
                result = error
            yield app_id, result

    return as_they_come([outcomes() for _ in range(min(_AT_ONCE, len(left)))])


def in_turn(act: Callable[[str], T], app_ids: Iterable[str]) -> Iterator[tuple[str, T | LauncherError]]:
    """Call `act` with each app id in turn, with results as `in_threads`; stop after an UnreachableError."""
    away: UnreachableError | None = None
    for app_id in app_ids:
        try:
            result: T | LauncherError = away or act(app_id)
        except LauncherError as error:
            away = error if isinstance(error, UnreachableError) else None
            result = error
        yield app_id, result


def the_one(results: Iterable[tuple[str, T | LauncherError]]) -> T:
    """The result of the only app. Raises its error."""
    ((_, result),) = results
    if isinstance(result, LauncherError):
        raise result
    return result


def as_they_come(sources: Sequence[Iterable[T]], close: Callable[[], None] | None = None) -> Iterator[T]:
    """Merge sources, each in a thread, as items arrive. Raises their errors. `close` ends all of them."""
    threads: list[Thread] = []
    waiting: Queue[T | BaseException | None] | None = None
    try:
        if len(sources) < 2:
            for source in sources:
                yield from source
            return
        from queue import Queue
        from threading import Thread

        waiting = Queue(_QUEUED)
        for source in sources:
            threads.append(Thread(target=_pump, args=(source, waiting), daemon=True))
            threads[-1].start()
        left = len(sources)
        while left:
            found = waiting.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        if close is not None:
            close()
            if waiting is not None:
                _drain(waiting, threads)


def _pump(source: Iterable[T], into: Queue[T | BaseException | None]) -> None:
    try:
        for piece in source:
            into.put(piece)
    except BaseException as error:
        into.put(error)
    else:
        into.put(None)


def _drain(waiting: Queue[Any], threads: Sequence[Thread]) -> None:
    """Let threads end that wait for room in the queue. A thread whose source does not end then is left."""
    from queue import Empty

    until = time.monotonic() + _LEAVE_S
    while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
        try:
            waiting.get(timeout=0.05)
        except Empty:
            continue
