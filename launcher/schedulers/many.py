"""Do one thing to several apps at once, where an engine takes one app at a time."""

from __future__ import annotations

from launcher.errors import LauncherError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

_AT_ONCE = 16  # each may take the whole grace period of its app


def in_threads(act: Callable[[str], T], app_ids: Iterable[str]) -> Iterator[tuple[str, T | LauncherError]]:
    """Call `act` with each app id, with several at once; yields each id with the result or the error.

    Raises the errors of `act` that are no LauncherError.
    """
    from launcher.schedulers.readback import as_they_come

    left = list(reversed(list(app_ids)))
    return as_they_come([_outcomes(act, left) for _ in range(min(_AT_ONCE, len(left)))])


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


def the_one(results: Iterable[tuple[str, T | LauncherError]]) -> T:
    """The result of the only app. Raises its error."""
    ((_, result),) = results
    if isinstance(result, LauncherError):
        raise result
    return result
