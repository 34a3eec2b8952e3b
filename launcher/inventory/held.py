"""Ask shared engines what they hold: each engine once for all names of a command."""

from __future__ import annotations

from launcher.errors import LauncherError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from launcher.schedulers.api import Scheduler
    from launcher.specs.attempt import Attempt
    from launcher.specs.jobkey import JobKey
    from launcher.state.records import AppRecord

    T = TypeVar("T")
    Key = tuple[str, str, str]
    Search = Generator["Question", None, T]
    """Yields questions, goes on once they are answered, and returns what it has found: see `together`."""


class Question:
    """A question for the attempts of jobs. Without keys, engines name only unfinished attempts.

    Attributes:
        known: the schedulers on which the jobs are known to have run; if empty, all are asked.
        app_ids: single attempts to ask for instead of those of the jobs in `keys`.
        recorded: the app ids of attempts that need no answer: of each job, the latest one on record.
        is_list: whether to ask for the handles of all apps instead: app id → `handles`.
        held: for each engine, name of a job → its attempts, including answers to other questions.
        unreached: a text about the engines that could not be reached.
    """

    __slots__ = ("app_ids", "handles", "held", "is_list", "keys", "known", "recorded", "unreached")

    def __init__(
        self,
        known: Iterable[str] = (),
        keys: Collection[JobKey] = (),
        *,
        app_ids: Collection[str] = (),
        recorded: Collection[str] = (),
        is_list: bool = False,
    ) -> None:
        self.known = dict.fromkeys(known)
        self.keys = keys
        self.app_ids = app_ids
        self.recorded = recorded
        self.is_list = is_list
        self.held: list[dict[str, list[Attempt]]] = []
        self.handles: dict[str, list[str]] = {}
        self.unreached = ""

    def attempts(self) -> list[Attempt]:
        """All attempts that the engines have named."""
        return [attempt for held in self.held for found in held.values() for attempt in found]

    def attempts_of(self, job: str) -> list[Attempt]:
        """All attempts of jobs of that name."""
        return [attempt for held in self.held for attempt in held.get(job, ())]


def together(searches: Sequence[Search[T]]) -> list[T]:
    """The results of searches, in their order."""
    found: dict[int, T] = {}
    while len(found) < len(searches):
        questions = []
        for number, search in enumerate(searches):
            try:
                if number not in found:
                    questions.append(next(search))
            except StopIteration as end:
                found[number] = end.value
        if questions:
            _ask(questions)
    return [found[number] for number in range(len(searches))]


def _ask(questions: Sequence[Question]) -> None:
    from launcher.inventory.recorded import schedulers

    is_any = not all(each.known for each in questions)
    names = None if is_any else {name: None for each in questions for name in each.known}
    for scheduler in schedulers(names, detach=True, readonly=True):
        asked = [each for each in questions if not each.known or scheduler.backend in each.known]
        if not scheduler.shared_engine:
            continue
        unreached = ""
        held: dict[str, list[Attempt]] = {}
        for each in asked:
            each.held.append(held)
        try:
            for attempt in _attempts(scheduler, asked):
                held.setdefault(attempt.key.job, []).append(attempt)
            lists = [each for each in asked if each.is_list]
            for app in scheduler.list() if lists else ():
                for each in lists:
                    each.handles.setdefault(app.app_id, []).append(app.app_handle)
        except LauncherError as error:  # without the engine, only the record is known
            if scheduler.is_in_use():
                unreached = f"; {scheduler.shared_engine} could not be reached: {error}"
        finally:
            scheduler.close()
        for each in asked:
            each.unreached += unreached


def _attempts(scheduler: Scheduler[Any], questions: Sequence[Question]) -> list[Attempt]:
    """Return the attempts that an engine names for all questions."""
    single = [scheduler.attempt(app_id) for each in questions for app_id in each.app_ids]
    of_jobs = [each for each in questions if not each.app_ids and not each.is_list]
    known = set.intersection(*({*each.recorded} for each in of_jobs)) if of_jobs else set()
    keys = {key for each in of_jobs for key in each.keys}
    found = scheduler.attempts_of(keys, settled=known) if of_jobs else ()
    return [*found, *filter(None, single)]


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
