"""What engines that others may use as well hold of jobs: newer attempts than those on record here."""

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
    """What engines that others may use as well hold of jobs; and which of them could not be asked, in words.

    Of targets that are not on record, only what has not settled is found.

    Args:
        known: the schedulers that the jobs are known to have run on; where there is none, all are asked.
        ask: what to ask one of them.
    """
    from launcher.inventory.installed import schedulers

    held: list[Attempt] = []
    unasked = ""
    for scheduler in schedulers(dict.fromkeys(known) or None, detach=True, readonly=True):
        if not scheduler.shared_engine:
            continue
        try:
            held += ask(scheduler)
        except LauncherError as error:  # the record is all there is then
            if scheduler.is_in_use():
                unasked += f"; {scheduler.shared_engine} could not be asked: {error}"
        finally:
            scheduler.close()
    return held, unasked


def with_newer(jobs: Mapping[Key, AppRecord], held: Sequence[Attempt]) -> dict[Key, AppRecord]:
    """The latest attempt of each job. A submission that is not done counts where there is nothing else."""
    from launcher.state.records import of_attempt

    out = dict(jobs)
    for attempt in sorted(held, key=_standing):
        known = jobs.get(attempt.key)
        if known is None or _standing(attempt) > (True, known.number or 0):
            out[attempt.key] = of_attempt(attempt)
    return out


def _standing(attempt: Attempt) -> tuple[bool, int]:
    return attempt.state not in ("reserved", "created"), attempt.number
