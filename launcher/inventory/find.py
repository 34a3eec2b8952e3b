"""Which app a word means: a handle, an app id, a job's name, `job@3`; `/role/replica` may stand behind it.

A word may mean several: a pattern, or the name of a matrix. See `launcher.inventory.groups`.
"""

from __future__ import annotations

from launcher.errors import LauncherError, UsageError
from launcher.inventory import recorded
from launcher.inventory.held import held_by_engines, with_newer
from launcher.inventory.project import project_here
from launcher.text import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from launcher.schedulers.api import Scheduler
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord

SYNTAX = "an app is a job's name, JOB@ATTEMPT, an app id or a handle (SCHEDULER://SESSION/APP_ID)"
_WILD = "*?["  # no name of a job and no app id holds one of them


class Selected:
    """An app that a word means, and which part of it.

    Attributes:
        role, replicas: what stood behind the app: "" and () mean all of them.
    """

    __slots__ = ("app", "replicas", "role")

    def __init__(self, app: AppRecord, role: str = "", replicas: tuple[int, ...] = ()) -> None:
        self.app = app
        self.role = role
        self.replicas = replicas


class Found:
    """What a word means: one app, or the apps of a group, in natural order of their names.

    Attributes:
        is_group: whether it was a pattern or the name of a matrix, however many apps that means.
    """

    __slots__ = ("is_group", "selected")

    def __init__(self, selected: list[Selected], *, is_group: bool) -> None:
        self.selected = selected
        self.is_group = is_group

    @property
    def apps(self) -> list[AppRecord]:
        return [each.app for each in self.selected]


class Word:
    """What was typed, taken apart.

    Attributes:
        target: whose jobs a name means; "" for any.
        is_pattern: whether it may match several names.
    """

    __slots__ = ("is_pattern", "name", "number", "replicas", "role", "scheduler", "session", "target")

    def __init__(self, text: str, target: str = "") -> None:
        """Raises UsageError."""
        self.scheduler = self.session = ""
        self.target = target
        rest = text
        if "://" in text:
            self.scheduler, _, rest = text.partition("://")
            self.session, slash, rest = rest.partition("/")
            if not self.scheduler or not slash:
                raise malformed(text)
        name, *parts = rest.split("/")
        if not name or len(parts) > 2 or not all(parts):
            raise malformed(text)
        self.is_pattern = any(char in self.scheduler + self.session + name for char in _WILD)
        self.name, at, number = name.partition("@")
        is_number = number.isascii() and number.isdigit() and self.name and not self.is_pattern
        if at and not (is_number and not self.scheduler):
            raise UsageError(f"`{text}`: want JOB@ATTEMPT with a number, such as train@3")
        self.number = int(number) if at else None
        self.role = parts[0] if parts else ""
        self.replicas = _replicas(parts[1], text) if len(parts) == 2 else ()


def _replicas(text: str, whole: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise UsageError(f"`{whole}`: want replicas as numbers, such as trainer/0 or trainer/0,2")
    return tuple(dict.fromkeys(map(int, numbers)))


def malformed(text: str) -> UsageError:
    return UsageError(f"`{text}` does not name an app", hint=SYNTAX)


def whole(text: str, target: str = "") -> AppRecord:
    """`find`, for commands that act on a whole app. Raises UsageError where a role stands behind."""
    found = find(text, target)
    if found.role:
        raise _part(text, found.role)
    return found.app


def wholes(text: str, target: str = "") -> Found:
    """`find_all`, for commands that act on whole apps. Raises UsageError where a role stands behind."""
    found = find_all(text, target)
    if found.selected[0].role:
        raise _part(text, found.selected[0].role)
    return found


def _part(text: str, role: str) -> UsageError:
    return UsageError(f"`{text}`: this command takes whole apps, without /{role}", hint=SYNTAX)


def find(text: str, target: str = "") -> Selected:
    """The one app that `text` means; see `find_all`. Raises LauncherError for a group."""
    found = find_all(text, target)
    if found.is_group:
        what = f"`{text}` means {plural(len(found.apps), 'app')}, and this takes one"
        raise LauncherError(what, hint=f"say which: {_listed(found.apps)}")
    return found.selected[0]


def find_all(text: str, target: str = "") -> Found:
    """The app that `text` means, or the apps of a pattern or a matrix: at least one.

    A job's name means its latest attempt in the project of the current directory, as store and engines
    know it: an engine may be shared with others, and remembers what was removed here.

    Args:
        target: the only target whose jobs are meant; "" for any.

    Raises UsageError for what names nothing by its form, LauncherError for what is unknown or ambiguous.
    """
    word = Word(text, target)
    is_group = word.is_pattern
    if is_group:
        from launcher.inventory.groups import matching

        apps, unasked = matching(word.name, word.scheduler, word.session, word.target)
        if not apps:
            raise _unknown(word, unasked)
    elif word.scheduler:
        apps = [_by_handle(word)]
    else:
        apps, is_group = _by_name(word)
    return Found([Selected(app, word.role, word.replicas) for app in apps], is_group=is_group)


def called(job: str, handle: str) -> str:
    """What to call an app in a command typed in this directory: its job's name, where that means it here."""
    try:
        return job if find(job).app.handle == handle else handle
    except LauncherError:
        return handle


def _by_handle(word: Word) -> AppRecord:
    from launcher.state.records import AppRecord

    app = AppRecord(word.scheduler, word.session, word.name)
    app = recorded.app(word.name, app.handle) or app
    if word.target and app.target not in (None, word.target):
        raise LauncherError(f"{app.handle} is of target `{app.target}`, not of `{word.target}`")
    return app


def _by_name(word: Word) -> tuple[list[AppRecord], bool]:
    """The app of that name or, where no job has it, the apps of the matrix; and whether it is a matrix."""
    latest = recorded.find(word.name, target=word.target)
    named = (
        latest if word.number is None else recorded.find(word.name, target=word.target, number=word.number)
    )
    by_id = recorded.app(word.name) if word.number is None else None
    apps = [by_id] if by_id else []
    if not latest and not apps and word.number is None:
        from launcher.inventory.groups import matrix

        if family := matrix(word.name, word.target):
            return family, True
    project = project_here()
    jobs = {each.key: each for each in named}
    held: list[Attempt] = []
    unasked = ""
    if not apps and not (word.number is not None and any(key[0] == project for key in jobs)):
        known = [each.scheduler for each in latest if each.project == project]
        held, unasked = held_by_engines(known, lambda scheduler: _held(scheduler, word, project, latest))
        jobs = with_newer(jobs, [each for each in held if each.key.job == word.name])
    apps += [app for key, app in jobs.items() if key[0] == project]
    if jobs and not apps:
        raise LauncherError(
            f"there is no job `{word.name}` in project `{project}`, the one of this directory",
            hint=f"elsewhere there is {_listed(list(jobs.values()))}",
        )
    if len(apps) > 1:
        by_target = " or, with --target, of which target" if len({app.target for app in apps}) > 1 else ""
        raise LauncherError(
            f"`{word.name}` can mean several apps", hint=f"say which{by_target}: {_listed(apps)}"
        )
    if not apps and word.number is None and held:
        from launcher.inventory.groups import held_matrix

        if family := held_matrix(word.name, held):
            return family, True
    if not apps and word.number is None and _looks_like_an_app_id(word.name):
        apps = _known_to_engines(word.name)
    if not apps:
        raise _unknown(word, unasked)
    return apps, False


def _held(
    scheduler: Scheduler[Any], word: Word, project: str, latest: Sequence[AppRecord]
) -> Iterable[Attempt]:
    """The latest attempts of a job and of those whose names begin with its own, or the one asked for."""
    from launcher.specs.jobkey import DEFAULT_TARGET, JobKey, attempt_id

    keys = {
        JobKey(project, word.target or DEFAULT_TARGET, word.name),
        *(JobKey(*each.key) for each in latest),
    }
    if word.number is None:
        found = [each for each in scheduler.observe(keys) if f"{each.key.job}-".startswith(f"{word.name}-")]
    else:
        asked = (scheduler.attempt(attempt_id(key, word.number)) for key in keys)
        found = [each for each in asked if each is not None]
    return [each for each in found if word.target in ("", each.key.target)]


def _listed(apps: Sequence[AppRecord]) -> str:
    return ", ".join(app.handle for app in apps[:5]) + (" …" if len(apps) > 5 else "")


def _looks_like_an_app_id(name: str) -> bool:
    """Attempts end in a hash and other apps in a random id: for a misspelt job no engine is asked."""
    start, dash, end = name.rpartition("-")
    return bool(start and dash) and len(end) >= 5 and end.isascii() and end.isalnum() and end.islower()


def _known_to_engines(app_id: str) -> list[AppRecord]:
    """An app that only an engine knows: its records were removed, or are on another machine."""
    from launcher.inventory.installed import schedulers
    from launcher.state.records import AppRecord

    found = []
    for scheduler in schedulers():
        try:
            listed = scheduler.list() if scheduler.shared_engine else []
        except LauncherError:
            continue  # then it does not know the app
        handles = [each.app_handle for each in listed if each.app_id == app_id]
        sessions = [handle.partition("://")[2].partition("/")[0] for handle in handles]
        found += [AppRecord(scheduler.backend, session, app_id) for session in sessions]
    return found


def _unknown(word: Word, unasked: str) -> LauncherError:
    from launcher.inventory.unknown import matches_nothing, means_nothing

    if word.is_pattern:
        return matches_nothing(word.name, unasked)
    return means_nothing(word.name, word.number, word.target, unasked)
