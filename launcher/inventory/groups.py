"""Words that mean several apps: a pattern such as `train*`, and the name of a matrix for all of its jobs.

A name is a job's own before it is that of a matrix, and engines are asked for what has changed as for a
single job.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from launcher.files import is_below, read_regular
from launcher.inventory import recorded
from launcher.inventory.held import held_by_engines, with_newer
from launcher.inventory.project import project_here
from launcher.specs.jobkey import JobKey
from launcher.text import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord

_MOST_BYTES = 1 << 20  # of a job file, as far as its name is looked for


def matching(
    pattern: str, scheduler: str = "", session: str = "", target: str = ""
) -> tuple[list[AppRecord], str]:
    """The apps that a pattern matches: the latest attempt of each job, by the job's name or the app id, and
    apps without a job. Only where it matches none of them, older attempts by their app ids.

    Args:
        scheduler, session: patterns, of any project; both "" for the project of the current directory.
        target: of the jobs; "" for any.

    Returns the apps, none where nothing matches, and the engines that could not be asked, in words.
    """
    project = None if scheduler else project_here()

    def has_name(name: str, app: AppRecord | Attempt, of_session: str) -> bool:
        is_there = not scheduler or (
            fnmatchcase(of_session, session) and fnmatchcase(app.scheduler, scheduler)
        )
        return is_there and (fnmatchcase(name, pattern) or fnmatchcase(app.app_id, pattern))

    def is_ours(attempt: Attempt) -> bool:
        key = attempt.key
        is_asked = project in (None, key.project) and target in ("", key.target)
        return is_asked and has_name(key.job, attempt, key.session)

    recent = recorded.matching(pattern, project, target)
    recent = [app for app in recent if has_name(app.job or "", app, app.session)]
    apps, unasked = _as_engines_hold(recent, is_ours)
    if not apps:
        older = recorded.matching_ids(pattern)
        apps = [
            app
            for app in older
            if has_name("", app, app.session)
            and project in (None, app.project)
            and target in ("", app.target)
        ]
    return _in_order(apps), unasked


def matrix(name: str, target: str = "") -> list[AppRecord]:
    """The latest attempts of the jobs of the matrix of that name; none where none is on record.

    On record are the names of its jobs, `NAME-…`, and the file that they come from. Jobs of a file that is
    here and has another name are not of this matrix; of one that is not here, two jobs make a matrix.
    """
    found = [app for app in recorded.matching(f"{name}-*", project_here(), target) if app.job]
    family = _family(name, found, recorded.files([app.app_id for app in found]))
    if not family:
        return []
    known = {app.key for app in family}
    apps, _ = _as_engines_hold(family, lambda attempt: attempt.key in known)
    return _in_order(apps)


def held_matrix(name: str, held: Sequence[Attempt]) -> list[AppRecord]:
    """`matrix`, of attempts in the project of the current directory that only engines hold."""
    here = project_here()
    found = with_newer({}, [attempt for attempt in held if attempt.key.project == here])
    files = {attempt.app_id: (attempt.origin, attempt.path) for attempt in held}
    return _in_order(_family(name, list(found.values()), files))


def _family(name: str, found: Sequence[AppRecord], files: Mapping[str, tuple[str, str]]) -> list[AppRecord]:
    """Those of a matrix' jobs among attempts of jobs.

    Args:
        files: app id → origin and path of the job file.
    """
    names = {place: _declared(*place) for place in set(files.values())}
    named = [app for app in found if (app.job or "").startswith(f"{name}-")]
    family = [app for app in named if names.get(files.get(app.app_id, ("", "")), "") in ("", name)]
    return family if len(family) > 1 or name in names.values() else []


def _as_engines_hold(
    found: Sequence[AppRecord], is_meant: Callable[[Attempt], bool]
) -> tuple[list[AppRecord], str]:
    """The apps with newer attempts in place of older ones; and which engines could not be asked."""
    keys = {JobKey(*app.key) for app in found if app.job}
    held, unasked = held_by_engines(
        [app.scheduler for app in found],
        lambda scheduler: [attempt for attempt in scheduler.observe(keys) if is_meant(attempt)],
    )
    jobs = with_newer({app.key: app for app in found if app.job}, held)
    return [*jobs.values(), *(app for app in found if not app.job)], unasked


def _in_order(apps: Sequence[AppRecord]) -> list[AppRecord]:
    return sorted(apps, key=lambda app: (natural(app.job or app.app_id), app.session, app.number or 0))


def _declared(origin: str, path: str) -> str:
    """The `name:` of a job file, by its looks: parsing takes its time. "" where it is not here."""
    root = origin if os.path.isabs(origin) else _work_tree()
    file = os.path.realpath(os.path.join(root, path))
    try:
        if is_below(file, os.path.realpath(root)):
            return _name_in(read_regular(file, _MOST_BYTES).decode("utf-8-sig", "replace").splitlines())
    except (OSError, ValueError):
        pass
    return ""


def _name_in(lines: Iterable[str]) -> str:
    for line in lines:
        for sign in (":", "="):
            key, found, value = line.partition(sign)
            if found and key.strip("\"' ") == "name" and not line[:1].isspace():
                return value.partition("#")[0].strip().strip("\"'")
        if line.startswith("["):
            break  # a table of TOML
    return ""


def _work_tree() -> str:
    """The nearest folder above this one that has a `.git`, else this one."""
    here = folder = os.getcwd()
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return here
        folder = parent
    return folder
