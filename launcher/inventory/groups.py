"""Names that select several apps: a pattern such as `train*`, and the name of a matrix for all of its jobs.

A job's name takes precedence over the name of a matrix. As for a single job, engines may know newer attempts.
"""

from __future__ import annotations

import os

from launcher.files import is_below, is_top, read_regular, upwards
from launcher.inventory.held import Question, with_newer
from launcher.inventory.project import MOST_BYTES, top_value
from launcher.schedulers.registry import open_reader
from launcher.text import natural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from launcher.inventory.held import Search
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord


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
    the matrix. If it does not exist, two jobs make a matrix. Where `name` of the file is a pattern, its
    `matrix.group` is the name of the matrix, and the names of its jobs may begin otherwise.
    """
    family: list[AppRecord] = []
    for start in (f"{name}-", ""):
        with open_reader() as store:
            named = store.matching(f"{start}*", project=project, target=target or None, matrix=name)
            found = [app for app in named if app.job]
            files = store.files(_older(found))
        family = _family(name, start, found, files)
        if family and all((app.job or "").startswith(start) for app in family):
            break
    if not family:
        return []
    known = {app.key for app in family}
    apps, _ = yield from _as_engines_hold(family, lambda attempt: attempt.key in known)
    return _in_order(apps)


def held_matrix(name: str, project: str, held: Sequence[Attempt]) -> list[AppRecord]:
    """`matrix`, for attempts that only engines know."""
    found = with_newer({}, [attempt for attempt in held if attempt.key.project == project])
    older = {*_older(held)}
    files = {each.app_id: (each.origin, each.path) for each in held if each.app_id in older}
    return _in_order(_family(name, f"{name}-", list(found.values()), files))


def _older(found: Sequence[AppRecord | Attempt]) -> list[str]:
    """Return the ids of attempts without a matrix on record: single jobs, or attempts of an older version."""
    return [each.app_id for each in found if not each.matrix]


def _family(
    name: str, start: str, found: Sequence[AppRecord], files: Mapping[str, tuple[str, str]]
) -> list[AppRecord]:
    """The attempts among `found` that belong to a matrix, if the names of all of its jobs begin with `start`.

    Args:
        files: app id → origin and path of the job file, for attempts without a recorded matrix.
    """
    named_by = {place: declared(*place) for place in set(files.values())}
    otherwise = name, f"{name}-"
    of_app = {app.app_id: named_by.get(files.get(app.app_id, ("", ""))) or otherwise for app in found}
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


def matrix_of(job: str, declared: tuple[str, str] | None) -> str:
    """Return the name of the matrix that a job belongs to; "" for a job outside of a matrix.

    Args:
        declared: as `declared` returns it for the file of the job.
    """
    name, beginning = declared or ("", "")
    return name if job != name and job.startswith(beginning) else ""


def file_of(origin: str, path: str) -> str:
    """Return the absolute path of a job file from its origin and path; "" if it leads out of its root."""
    root = origin
    if not os.path.isabs(origin):  # the nearest folder upwards that contains `.git`, else the current one
        here = os.getcwd()
        *_, top = upwards(here)
        root = top if is_top(top) else here
    file = os.path.realpath(os.path.join(root, path))
    return file if is_below(file, os.path.realpath(root)) else ""


def declared(origin: str, path: str) -> tuple[str, str] | None:
    """Return the name of a file's matrix, and the beginning of its jobs' names; None without the file."""
    try:
        if file := file_of(origin, path):
            text = read_regular(file, MOST_BYTES).decode("utf-8-sig", "replace")
            name = top_value(text.splitlines(), "name", is_toml=path.endswith(".toml"))
            beginning, is_pattern, _ = name.partition("$<")
            if name:
                return (_group(text, path), beginning) if is_pattern else (name, f"{name}-")
    except (OSError, ValueError):
        pass
    return None


def _group(text: str, path: str) -> str:
    """Return the `matrix.group` of a job file. The file is parsed, as few matrices are named there."""
    from launcher.jobfile.text.document import Source
    from launcher.jobfile.text.parse import parse

    document = parse(Source(path, "toml" if path.endswith(".toml") else "yaml", text))
    matrix = (document.value or {}).get("matrix")
    group = matrix.get("group") if isinstance(matrix, dict) else None
    return group if isinstance(group, str) else ""
