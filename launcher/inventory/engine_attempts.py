"""Attempts on shared engines that are newer than those recorded here."""

from __future__ import annotations

from launcher.errors import LauncherError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.api import Scheduler
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord

    Key = tuple[str, str, str]


def held_by_engines(
    known: Collection[str], ask: Callable[[Scheduler[Any]], Iterable[Attempt]]
) -> tuple[list[Attempt], str]:
    """Query shared engines for attempts; return them, and a text about unreachable engines.

    Of targets without a record here, only unfinished attempts are found.

    Args:
        known: the schedulers on which the jobs are known to have run; if empty, all are queried.
        ask: the query.
    """
    from launcher.inventory.installed import schedulers

    held: list[Attempt] = []
    unreached = ""
    for scheduler in schedulers(dict.fromkeys(known) or None, detach=True, readonly=True):
        if not scheduler.shared_engine:
            continue
        try:
            held += ask(scheduler)
        except LauncherError as error:  # then the record is all that is known
            if scheduler.is_in_use():
                unreached += f"; {scheduler.shared_engine} could not be reached: {error}"
        finally:
            scheduler.close()
    return held, unreached


def with_newer(jobs: Mapping[Key, AppRecord], held: Sequence[Attempt]) -> dict[Key, AppRecord]:
    """The latest attempt of each job; an unfinished submission only if the job has no other attempt."""
    from launcher.state.records import of_attempt

    out = dict(jobs)
    for attempt in sorted(held, key=_rank):
        known = jobs.get(attempt.key)
        if known is None or _rank(attempt) > (True, known.number or 0):
            out[attempt.key] = of_attempt(attempt)
    return out


def _rank(attempt: Attempt) -> tuple[bool, int]:
    return attempt.state not in ("reserved", "created"), attempt.number
