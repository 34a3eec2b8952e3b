"""Do one thing to several apps at once, where an engine takes one app at a time."""

from __future__ import annotations

from launcher.errors import LauncherError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    T = TypeVar("T")

_AT_ONCE = 16  # each may take the whole grace period of its app


def in_threads(act: Callable[[str], T], app_ids: Iterable[str]) -> Iterator[tuple[str, T | LauncherError]]:
    """Call `act` with each app id, with several at once; yields each id with the result or the error.

    Raises the errors of `act` that are no LauncherError.
    """
    left = list(reversed(list(app_ids)))
    return merged([_outcomes(act, left) for _ in range(min(_AT_ONCE, len(left)))])


def _outcomes(act: Callable[[str], T], left: list[str]) -> Iterator[tuple[str, T | LauncherError]]:
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


def merged(sources: Sequence[Iterable[T]]) -> Iterator[T]:
    """The items of several sources as they come; each source runs in a thread of its own.

    Raises the errors of the sources.
    """
    if len(sources) < 2:
        for source in sources:
            yield from source
        return
    from queue import SimpleQueue
    from threading import Thread

    queue: SimpleQueue[tuple[T, ...] | BaseException] = SimpleQueue()  # an item; () at the end of a source

    def read(source: Iterable[T]) -> None:
        try:
            for item in source:
                queue.put((item,))
            queue.put(())
        except BaseException as error:
            queue.put(error)

    for source in sources:
        Thread(target=read, args=(source,), daemon=True).start()
    left = len(sources)
    while left:
        found = queue.get()
        if isinstance(found, BaseException):
            raise found
        left -= not found
        yield from found


def the_one(results: Iterable[tuple[str, T | LauncherError]]) -> T:
    """The result of the only app. Raises its error."""
    ((_, result),) = results
    if isinstance(result, LauncherError):
        raise result
    return result
