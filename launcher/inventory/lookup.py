"""Look apps up on record and at engines: by job, by pattern, by matrix.

Each shared engine is asked once for all names of a command: it may know newer attempts than the record. A
job's name takes precedence over the name of a matrix, which means all of its jobs.
"""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.inventory import recorded
from launcher.inventory.project import declared
from launcher.schedulers.registry import open_reader
from launcher.state.records import PENDING, of_attempt
from launcher.text import natural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
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
    """A question to engines about the attempts of jobs. Without keys, engines name only unfinished attempts.

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
    is_any = not all(each.known for each in questions)
    names = None if is_any else {name: None for each in questions for name in each.known}
    for scheduler in recorded.schedulers(names, detach=True, readonly=True):
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
        except LauncherError as error:  # without the engine, only recorded attempts are known
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
    """Return the latest attempt of each job; an unfinished submission only if there is no other attempt."""
    out = dict(jobs)
    for attempt in sorted(held, key=_rank):
        known = jobs.get(attempt.key)
        if known is None or _rank(attempt) > (True, known.number or 0):
            out[attempt.key] = of_attempt(attempt)
    return out


def _rank(attempt: Attempt) -> tuple[bool, int]:
    return attempt.state not in PENDING, attempt.number


# -- patterns, and the names of matrices ---------------------------------------------------------------------


def matching(
    pattern: str, project: str | None, scheduler: str = "", session: str = "", target: str = ""
) -> Search[tuple[list[AppRecord], str]]:
    """The apps whose job name or app id matches a pattern: latest attempts of jobs, and apps without a job.

    If none of them matches, older attempts are matched by their app ids.

    Args:
        project: of the jobs; None for any.
        scheduler, session: patterns; both "" for any.
        target: of the jobs; "" for any.

    Returns the apps, and a text that names the engines that could not be reached.
    """
    from fnmatch import fnmatchcase

    def has_name(name: str, app: AppRecord | Attempt, of_session: str) -> bool:
        if scheduler and not (fnmatchcase(of_session, session) and fnmatchcase(app.scheduler, scheduler)):
            return False
        return fnmatchcase(name, pattern) or fnmatchcase(app.app_id, pattern)

    def is_selected(attempt: Attempt) -> bool:
        key = attempt.key
        is_in_scope = project in (None, key.project) and target in ("", key.target)
        return is_in_scope and has_name(key.job, attempt, key.session)

    with open_reader() as store:
        recent = store.matching(pattern, project=project, target=target or None)
    recent = [app for app in recent if has_name(app.job or "", app, app.session)]
    apps, unreached = yield from _as_engines_hold(recent, is_selected)
    if not apps:
        with open_reader() as store:
            older = [app for app in store.matching_ids(pattern) if has_name("", app, app.session)]
        apps = [app for app in older if project in (None, app.project) and target in ("", app.target)]
    return _in_order(apps), unreached


def matrix(name: str, project: str, target: str = "") -> Search[list[AppRecord]]:
    """The latest attempts of the jobs of a matrix; empty if none is recorded.

    Each attempt has the name of its matrix on record. Attempts of older versions have only the names of jobs,
    `NAME-…`, and their job files. If such a file exists and declares another name, its jobs do not belong to
    the matrix. If it does not exist, two jobs make a matrix. If `name` of the file is a pattern,
    `matrix.group` is the name of the matrix, and its jobs may have other names.
    """
    family: list[AppRecord] = []
    for start in (f"{name}-", ""):
        with open_reader() as store:
            named = store.matching(f"{start}*", project=project, target=target or None, matrix=name)
        family = _family(name, start, [app for app in named if app.job])
        if family and all((app.job or "").startswith(start) for app in family):
            break
    if not family:
        return []
    known = {app.key for app in family}
    apps, _ = yield from _as_engines_hold(family, lambda attempt: attempt.key in known)
    return _in_order(apps)


def held_matrix(name: str, project: str, held: Sequence[Attempt]) -> list[AppRecord]:
    """Return the attempts of a matrix that only engines know; see `matrix`."""
    found = with_newer({}, [attempt for attempt in held if attempt.key.project == project])
    return _in_order(_family(name, f"{name}-", list(found.values())))


def _family(name: str, start: str, found: Sequence[AppRecord]) -> list[AppRecord]:
    """The attempts among `found` that belong to a matrix, if the names of all of its jobs begin with `start`.

    An attempt without a matrix on record is of a single job, or of an older version: its job file says.
    """
    older = [app for app in found if not app.matrix]
    named_by = {file: declared(*file) for file in {app.job_file for app in older if app.job_file}}
    otherwise = name, f"{name}-"
    of_app = {app.app_id: (app.job_file and named_by[app.job_file]) or otherwise for app in older}
    of_app |= {app.app_id: (app.matrix, start) for app in found if app.matrix}
    family = [
        app
        for app in found
        for group, beginning in (of_app[app.app_id],)
        if group == name and beginning.startswith(start)
        if app.matrix or (app.job or "").startswith(beginning)
    ]
    is_declared = any(each and each[0] == name for each in named_by.values())
    return family if len(family) > 1 or is_declared or any(app.matrix for app in family) else []


def _as_engines_hold(
    found: Sequence[AppRecord], is_selected: Callable[[Attempt], bool]
) -> Search[tuple[list[AppRecord], str]]:
    """Return the apps, replaced by newer attempts of engines, and the engines that could not be reached."""
    from launcher.specs.jobkey import JobKey

    keys = {JobKey(*app.key) for app in found if app.job}
    recorded_ids = [app.app_id for app in found if app.job]
    yield (asked := Question([app.scheduler for app in found], keys, recorded=recorded_ids))
    held = [attempt for attempt in asked.attempts() if is_selected(attempt)]
    jobs = with_newer({app.key: app for app in found if app.job}, held)
    return [*jobs.values(), *(app for app in found if not app.job)], asked.unreached


def _in_order(apps: Sequence[AppRecord]) -> list[AppRecord]:
    return sorted(apps, key=lambda app: (natural(app.job or app.app_id), app.session, app.number or 0))
