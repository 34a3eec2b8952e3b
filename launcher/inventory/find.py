"""Which app a word means: a handle, an app id, a job's name, `job@3`; `/role/replica` may stand behind it."""

from __future__ import annotations

from launcher.errors import LauncherError, UsageError
from launcher.inventory import recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.api import Scheduler
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord

    Key = tuple[str, str, str]

_MOST = 1000  # apps that a misspelt name is compared with

SYNTAX = "an app is a job's name, JOB@ATTEMPT, an app id or a handle (SCHEDULER://SESSION/APP_ID)"


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


class Word:
    """What was typed, taken apart."""

    __slots__ = ("name", "number", "replicas", "role", "scheduler", "session")

    def __init__(self, text: str) -> None:
        """Raises UsageError."""
        self.scheduler = self.session = ""
        rest = text
        if "://" in text:
            self.scheduler, _, rest = text.partition("://")
            self.session, slash, rest = rest.partition("/")
            if not self.scheduler or not slash:
                raise malformed(text)
        name, *parts = rest.split("/")
        if not name or len(parts) > 2 or not all(parts):
            raise malformed(text)
        self.name, at, number = name.partition("@")
        if at and not (number.isascii() and number.isdigit() and self.name and not self.scheduler):
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


def whole(text: str) -> AppRecord:
    """`find`, for commands that act on whole apps. Raises UsageError where a role stands behind."""
    found = find(text)
    if found.role:
        raise UsageError(f"`{text}`: this command takes whole apps, without /{found.role}", hint=SYNTAX)
    return found.app


def find(text: str) -> Selected:
    """The app that `text` means.

    A job's name means its latest attempt in the project of the current directory, as store and engines
    know it: an engine may be shared with others, and remembers what was removed here.
    Raises UsageError for what names nothing by its form, LauncherError for what is unknown or ambiguous.
    """
    word = Word(text)
    return Selected(_by_handle(word) if word.scheduler else _by_name(word), word.role, word.replicas)


def called(job: str, handle: str) -> str:
    """What to call an app in a command typed in this directory: its job's name, where that means it here."""
    try:
        return job if find(job).app.handle == handle else handle
    except LauncherError:
        return handle


def _by_handle(word: Word) -> AppRecord:
    from launcher.state.records import AppRecord

    app = AppRecord(word.scheduler, word.session, word.name)
    return recorded.app(word.name, app.handle) or app


def _by_name(word: Word) -> AppRecord:
    latest = recorded.find(word.name)
    named = latest if word.number is None else recorded.find(word.name, number=word.number)
    by_id = recorded.app(word.name) if word.number is None else None
    apps = [by_id] if by_id else []
    project = project_here()
    jobs = {each.key: each for each in named}
    unasked = ""
    if not apps and not (word.number is not None and any(key[0] == project for key in jobs)):
        held, unasked = _held_by_engines(word, project, latest)
        jobs = _with_newer(jobs, held)
    apps += [app for key, app in jobs.items() if key[0] == project]
    if jobs and not apps:
        raise LauncherError(
            f"there is no job `{word.name}` in project `{project}`, the one of this directory",
            hint=f"elsewhere there is {_listed(list(jobs.values()))}",
        )
    if len(apps) > 1:
        raise LauncherError(f"`{word.name}` can mean several apps", hint=f"say which: {_listed(apps)}")
    if not apps and word.number is None and _looks_like_an_app_id(word.name):
        apps = _known_to_engines(word.name)
    if not apps:
        raise _unknown(word, unasked)
    return apps[0]


def _held_by_engines(word: Word, project: str, latest: Sequence[AppRecord]) -> tuple[list[Attempt], str]:
    """What engines hold of a job: its latest attempts, or the one that is asked for; and which engines
    could not be asked, in words.

    Only those engines are asked that the job is known to have run on; all of them for an unknown job. Of
    targets that are not on record, only what has not settled is found.
    """
    from launcher.inventory.installed import schedulers

    known = [each.scheduler for each in latest if each.project == project]
    held: list[Attempt] = []
    unasked = ""
    for scheduler in schedulers(dict.fromkeys(known) or None, detach=True, readonly=True):
        if not scheduler.shared_engine:
            continue
        try:
            held += _held(scheduler, word, project, latest)
        except LauncherError as error:  # the record is all there is then
            if scheduler.is_in_use():
                unasked += f"; {scheduler.shared_engine} could not be asked: {error}"
        finally:
            scheduler.close()
    return held, unasked


def _held(
    scheduler: Scheduler[Any], word: Word, project: str, latest: Sequence[AppRecord]
) -> Iterable[Attempt]:
    from launcher.specs.jobkey import JobKey, attempt_id

    keys = {JobKey(project, "default", word.name), *(JobKey(*each.key) for each in latest)}
    if word.number is None:
        return [each for each in scheduler.observe(keys) if each.key.job == word.name]
    found = (scheduler.attempt(attempt_id(key, word.number)) for key in keys)
    return [each for each in found if each is not None]


def _with_newer(jobs: Mapping[Key, AppRecord], held: Sequence[Attempt]) -> dict[Key, AppRecord]:
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


def project_here() -> str:
    """The project of the current directory: of the nearest launcher.toml up to the top of the work tree."""
    import os

    from launcher.files import project_file

    config = project_file(os.getcwd())
    return _project_in(config) if config else "default"


def _project_in(config: str) -> str:
    """`project = "name"` of a launcher.toml. A name is a DNS label: nothing in it needs a TOML parser."""
    try:
        with open(config, encoding="utf-8") as file:
            for line in file:
                name, equals, value = line.partition("=")
                if name.strip().startswith("["):
                    break
                if equals and name.strip().strip("\"'") == "project":
                    return value.partition("#")[0].strip().strip("\"'") or "default"
    except (OSError, UnicodeDecodeError) as error:
        raise LauncherError(f"cannot read {config}: {error}") from error
    return "default"


def _unknown(word: Word, unasked: str) -> LauncherError:
    from launcher.text import nearest

    latest = recorded.find(word.name) if word.number is not None else []
    if latest:
        return LauncherError(
            f"job `{word.name}` has no attempt {word.number}",
            hint=f"its latest on record here is attempt {latest[0].number}",
        )
    jobs = [each for each in recorded.newest(_MOST) if each.job]
    near = nearest(word.name, {each.name for each in jobs} | {each.app_id for each in jobs})
    hint = f"did you mean `{near}`?" if near else f"`launcher list` shows what there is{unasked}"
    number = "" if word.number is None else f"@{word.number}"
    return LauncherError(f"there is no job or app `{word.name}{number}`", hint=hint)
