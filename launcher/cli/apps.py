"""Which app a word means: a handle, an app id, a job's name, `job@3`; `/role/replica` may stand behind it."""

from __future__ import annotations

from launcher.errors import LauncherError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord

    Key = tuple[str, str, str]

SYNTAX = "an app is a job's name, JOB@ATTEMPT, an app id or a handle (SCHEDULER://SESSION/APP_ID)"


class App:
    """An app that was found.

    Attributes:
        job: (project, target, name), None for an app that no job file made.
        number: of the attempt, 0 without a job.
        role, replicas: what stood behind the app: "" and () mean all of them.
    """

    __slots__ = ("app_id", "job", "number", "replicas", "role", "scheduler", "session")

    def __init__(self, scheduler: str, session: str, app_id: str) -> None:
        self.scheduler = scheduler
        self.session = session
        self.app_id = app_id
        self.job: tuple[str, str, str] | None = None
        self.number = 0
        self.role = ""
        self.replicas: tuple[int, ...] = ()

    @property
    def handle(self) -> str:
        return f"{self.scheduler}://{self.session}/{self.app_id}"

    @classmethod
    def of_entry(cls, entry: AppRecord) -> App:
        app = cls(entry.scheduler, entry.session, entry.app_id)
        app.job, app.number = entry.key, entry.number or 0
        return app

    @classmethod
    def of_attempt(cls, attempt: Attempt) -> App:
        """Of one that an engine holds."""
        app = cls(attempt.scheduler, attempt.key.session, attempt.app_id)
        app.job, app.number = attempt.key, attempt.number
        return app


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


def whole(text: str) -> App:
    """`find`, for commands that act on whole apps. Raises UsageError where a role stands behind."""
    app = find(text)
    if app.role:
        raise UsageError(f"`{text}`: this command takes whole apps, without /{app.role}", hint=SYNTAX)
    return app


def find(text: str) -> App:
    """The app that `text` means.

    A job's name means its latest attempt in the project of the current directory, as ledger and engine
    know it: an engine may be shared with others, and remembers what was removed here.
    Raises UsageError for what names nothing by its form, LauncherError for what is unknown or ambiguous.
    """
    word = Word(text)
    app = _by_handle(word) if word.scheduler else _by_name(word)
    app.role, app.replicas = word.role, word.replicas
    return app


def called(job: str, handle: str) -> str:
    """What to call an app in a command typed in this directory: its job's name, where that means it here."""
    try:
        return job if find(job).handle == handle else handle
    except LauncherError:
        return handle


def _by_handle(word: Word) -> App:
    from launcher.state.store import Store

    app = App(word.scheduler, word.session, word.name)
    with Store.open(readonly=True) as store:
        entry = store.app(word.name)
    if entry is not None and entry.handle == app.handle:
        return App.of_entry(entry)
    return app


def _by_name(word: Word) -> App:
    from launcher.state.store import Store

    with Store.open(readonly=True) as store:
        latest = store.find(word.name)
        named = latest if word.number is None else store.find(word.name, number=word.number)
        by_id = store.app(word.name) if word.number is None else None
    apps = [App.of_entry(by_id)] if by_id else []
    if word.number is None and not by_id:
        apps += _in_local_index(word.name) or _kept_by_docker(word.name)
    project = project_here()
    jobs = {entry.key: App.of_entry(entry) for entry in named}
    unasked = ""
    if not apps and _may_be_newer(word, project, latest, jobs):
        try:
            jobs = _with_newer(jobs, _attempts_at_the_engine(word, project, latest))
        except LauncherError as error:  # the ledger is all there is then
            if _uses_docker():
                unasked = f"; the Docker engine could not be asked: {error}"
    apps += [app for key, app in jobs.items() if key[0] == project]
    if jobs and not apps:
        raise LauncherError(
            f"there is no job `{word.name}` in project `{project}`, the one of this directory",
            hint=f"elsewhere there is {_listed(list(jobs.values()))}",
        )
    if len(apps) > 1:
        raise LauncherError(f"`{word.name}` can mean several apps", hint=f"say which: {_listed(apps)}")
    if not apps and word.number is None and _looks_like_an_app_id(word.name):
        apps = _at_the_engine(word.name)
    if not apps:
        raise _unknown(word, unasked)
    return apps[0]


def _uses_docker() -> bool:
    """Whether the user has named an engine, or has used one from this state folder."""
    import os

    from launcher import paths

    return bool(os.environ.get("DOCKER_HOST")) or os.path.isdir(os.path.join(paths.home(), "docker"))


def _may_be_newer(word: Word, project: str, latest: Sequence[AppRecord], jobs: Collection[Key]) -> bool:
    """Whether an engine can know more of a job than the ledger. No look for one that never ran there."""
    known = [entry for entry in latest if entry.project == project]
    if word.number is not None and any(key[0] == project for key in jobs):
        return False  # that very attempt
    from launcher.cli.inventory import DOCKER

    return not known or any(entry.scheduler == DOCKER for entry in known)


def _attempts_at_the_engine(word: Word, project: str, latest: Sequence[AppRecord]) -> list[Attempt]:
    """What the Docker engine holds of a job: its latest attempts, or the one that is asked for.

    Of targets that the ledger does not know, only what has not settled is found.
    Raises LauncherError where no engine answers.
    """
    from launcher.apply.engines import Engines
    from launcher.cli.inventory import DOCKER
    from launcher.specs.jobkey import JobKey, attempt_id

    keys = {JobKey(project, "default", word.name), *(JobKey(*entry.key) for entry in latest)}
    with Engines(readonly=True) as engines:
        scheduler = engines.get(DOCKER)
        if word.number is None:
            return [each for each in scheduler.observe(keys) if each.key.job == word.name]
        found = (scheduler.attempt(attempt_id(key, word.number)) for key in keys)
        return [each for each in found if each is not None]


def _with_newer(jobs: Mapping[Key, App], held: Sequence[Attempt]) -> dict[Key, App]:
    """The latest attempt of each job. A submission that is not done counts where there is nothing else."""
    out = dict(jobs)
    for attempt in sorted(held, key=_standing):
        known = jobs.get(attempt.key)
        if known is None or _standing(attempt) > (True, known.number):
            out[attempt.key] = App.of_attempt(attempt)
    return out


def _standing(attempt: Attempt) -> tuple[bool, int]:
    return attempt.state not in ("reserved", "created"), attempt.number


def _listed(apps: Sequence[App]) -> str:
    return ", ".join(app.handle for app in apps[:5]) + (" …" if len(apps) > 5 else "")


def _in_local_index(app_id: str) -> list[App]:
    """An app of the local scheduler by its id: those that no job file made are known nowhere else."""
    from launcher import paths
    from launcher.schedulers.local.index import Index

    with Index.open(paths.local(), readonly=True) as index:
        row = index.find(app_id)
    return [App(row.scheduler, row.session, row.app_id)] if row else []


def _kept_by_docker(app_id: str) -> list[App]:
    """An app of local_docker by its record; the engine is not asked."""
    from os.path import isdir, join

    from launcher import paths
    from launcher.cli.inventory import DOCKER

    if not isdir(join(paths.home(), "docker")):
        return []
    from launcher.schedulers.docker.records.kept import kept

    seen = kept(app_id)
    return [App(DOCKER, seen.session, app_id)] if seen else []


def _looks_like_an_app_id(name: str) -> bool:
    """Attempts end in a hash and other apps in a random id: for a misspelt job no engine is asked."""
    start, dash, end = name.rpartition("-")
    return bool(start and dash) and len(end) >= 5 and end.isascii() and end.isalnum() and end.islower()


def _at_the_engine(app_id: str) -> list[App]:
    """An app that only a Docker engine knows: its records were removed, or are on another machine."""
    from launcher.cli.inventory import DOCKER
    from launcher.schedulers.registry import get_scheduler

    try:
        handles = [each.app_handle for each in get_scheduler(DOCKER, "").list() if each.app_id == app_id]
    except LauncherError:
        return []  # no engine here: then nobody knows the app
    return [App(DOCKER, handle.partition("://")[2].partition("/")[0], app_id) for handle in handles]


def project_here() -> str:
    """The project of the current directory: of the nearest launcher.toml up to the top of the work tree."""
    import os

    folder = os.getcwd()
    while True:
        config = os.path.join(folder, "launcher.toml")
        if os.path.exists(config):
            return _project_in(config)
        parent = os.path.dirname(folder)
        if parent == folder or os.path.exists(os.path.join(folder, ".git")):
            return "default"
        folder = parent


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
    from launcher.state.store import Store
    from launcher.text import nearest

    with Store.open(readonly=True) as store:
        newest = store.newest(1000)
        latest = store.find(word.name) if word.number is not None else []
    if latest:
        return LauncherError(
            f"job `{word.name}` has no attempt {word.number}",
            hint=f"its latest on record here is attempt {latest[0].number}",
        )
    near = nearest(word.name, {entry.name for entry in newest} | {entry.app_id for entry in newest})
    hint = f"did you mean `{near}`?" if near else f"`launcher list` shows what there is{unasked}"
    number = "" if word.number is None else f"@{word.number}"
    return LauncherError(f"there is no job or app `{word.name}{number}`", hint=hint)


def tell_warnings(app: App, console: Console) -> None:
    """Say what went wrong with an app beside how it ended. Not every scheduler of others can tell."""
    warnings = getattr(scheduler_of(app), "warnings", None)
    for warning in warnings(app.app_id) if warnings else ():
        console.warn(f"{app.app_id}: {warning}")


def scheduler_of(app: App) -> Any:
    """The scheduler that runs an app. Raises UnknownSchedulerException."""
    from launcher.schedulers.registry import get_scheduler

    return get_scheduler(app.scheduler, app.session)
