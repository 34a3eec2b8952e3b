"""Find apps by the names that users type: a job name, `JOB@ATTEMPT`, an app id or a handle.

`PROJECT/` or `PROJECT.TARGET/` may stand before the name of a job, and `/ROLE/REPLICA` may follow. A pattern
or the name of a matrix selects several: `launcher.inventory.lookup`.
"""

from __future__ import annotations

import os

from launcher.errors import AppNotFoundError, LauncherError, UsageError
from launcher.inventory import recorded
from launcher.inventory.lookup import Question, held_matrix, matching, matrix, together, with_newer
from launcher.inventory.project import declared_here, project_here, projects_here
from launcher.schedulers.registry import open_reader
from launcher.text import nearest, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from launcher.inventory.lookup import Search
    from launcher.specs.attempt import Attempt
    from launcher.state.reader import Reader
    from launcher.state.records import AppRecord


SYNTAX = "use [PROJECT/]JOB[@ATTEMPT], an app id or a handle (SCHEDULER://SESSION/APP_ID)"
_WILD = "*?["  # characters of patterns, which job names and app ids never contain
_LONGEST = 1000  # characters: no app has a longer name, and SQLite takes no longer pattern


class Selected:
    """A selected app, or a part of it.

    Attributes:
        role, replicas: the selected ones; "" and () for all.
        is_attempt: whether the name means this attempt, and not the latest one of a job.
    """

    __slots__ = ("app", "is_attempt", "replicas", "role")

    def __init__(
        self, app: AppRecord, role: str = "", replicas: tuple[int, ...] = (), *, is_attempt: bool = False
    ) -> None:
        self.app = app
        self.is_attempt = is_attempt
        self.role = role
        self.replicas = replicas


class SelectedApps:
    """The selected apps: one, or those of a group in natural order of their names.

    Attributes:
        is_group: whether a pattern or the name of a matrix selected them, even if it is only one app.
    """

    __slots__ = ("is_group", "selected")

    def __init__(self, selected: list[Selected], *, is_group: bool) -> None:
        self.selected = selected
        self.is_group = is_group

    @property
    def apps(self) -> list[AppRecord]:
        return [each.app for each in self.selected]


class AppName:
    """The parts of an app's name as typed, without the project of a job.

    Attributes:
        project, target: those of the job; "" for any.
        is_pattern: whether the name is a pattern.
    """

    __slots__ = (
        *("is_pattern", "name", "number", "project", "replicas", "role", "scheduler", "session", "target"),
    )

    def __init__(self, text: str, target: str = "", project: str = "") -> None:
        """Raises UsageError."""
        if len(text) > _LONGEST:
            raise UsageError(f"`{text[:20]}…` is too long for the name of an app", hint=SYNTAX)
        if any("\ud800" <= char <= "\udfff" for char in text + target):  # bytes that are not UTF-8
            raise malformed(text)
        self.scheduler = self.session = ""
        self.target, self.project = target, project
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
        is_number = number.isascii() and number.isdigit() and len(number) < 19  # SQLite's end at 2**63
        if at and not (is_number and self.name and not self.is_pattern and not self.scheduler):
            raise UsageError(f"`{text}`: expected JOB@ATTEMPT with a number, such as train@3")
        self.number = int(number) if at else None
        self.role = parts[0] if parts else ""
        self.replicas = _replicas(parts[1], text) if len(parts) == 2 else ()


def _readings(text: str, target: str, *, is_whole: bool) -> list[AppName]:
    """Return what a name may mean, the likeliest first: `A/B` is role B of job A, or job B of project A.

    Args:
        is_whole: whether the command takes whole apps, so that `A/B` is a job of a project first.

    Raises UsageError where it can mean nothing.
    """
    session, _, rest = text.partition("/")
    project, _, own = session.partition(".")
    is_project = project and not any(char in session for char in f":@{_WILD}")
    if not (rest and is_project):
        return [AppName(text, target)]
    if own and target not in ("", own):
        raise UsageError(f"`{text}` is of target `{own}`, not `{target}`", hint="leave --target out")
    made: list[AppName] = []
    wrong: list[UsageError] = []
    for words in ((text, target), (rest, own or target, project)):
        try:
            made.append(AppName(*words))
        except UsageError as error:
            wrong.append(error)
    if not made:
        raise wrong[0]
    with open_reader() as store:
        return sorted(made[::-1] if is_whole else made, key=lambda each: not _on_record(store, each))


def _replicas(text: str, whole: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise UsageError(f"`{whole}`: expected numbers of replicas, such as trainer/0 or trainer/0,2")
    return tuple(dict.fromkeys(map(int, numbers)))


def malformed(text: str) -> UsageError:
    return UsageError(f"`{text}` is not a valid name of an app", hint=SYNTAX)


def find_app(text: str, target: str = "") -> AppRecord:
    """`find` for commands that act on whole apps. Raises UsageError if a role is given."""
    return _single(text, find_apps(text, target)).app


def find_apps(text: str, target: str = "") -> SelectedApps:
    """`find_all` for commands that act on whole apps. Raises UsageError if a role is given."""
    return find_each((text,), target)[0]


def find_each(texts: Sequence[str], target: str = "") -> list[SelectedApps]:
    """`find_apps` of several names."""
    found = find_parts(texts, target, is_whole=True)
    for text, each in zip(texts, found, strict=True):
        _check_whole(text, each.selected[0])
    return found


def _check_whole(text: str, found: Selected) -> None:
    if found.role:
        raise UsageError(f"`{text}`: this command takes whole apps, without /{found.role}", hint=SYNTAX)


def find(text: str, target: str = "") -> Selected:
    """Find a single app by the rules of `find_all`. Raises LauncherError for a group."""
    return _single(text, find_all(text, target))


def _single(text: str, found: SelectedApps) -> Selected:
    if found.is_group:
        what = f"`{text}` matches {plural(len(found.apps), 'app')}, but this command takes one"
        raise LauncherError(what, hint=f"choose one: {_listed(found.apps)}")
    return found.selected[0]


def find_all(text: str, target: str = "") -> SelectedApps:
    """Find the app named `text`, or the apps of a pattern or matrix; returns at least one.

    A job name selects the latest attempt in the project that the job's file in the current directory
    declares, else in the directory's project. It is taken from the store and from engines: a shared engine
    knows newer attempts of other machines, and attempts that were removed here. PROJECT/JOB names a project.

    Args:
        target: consider only jobs of this target; "" for any.

    Raises UsageError for invalid syntax, LauncherError for an unknown or ambiguous name.
    """
    return find_parts((text,), target)[0]


def find_parts(texts: Sequence[str], target: str = "", *, is_whole: bool = False) -> list[SelectedApps]:
    """`find_all` of several names; each shared engine is asked once for all of them.

    Args:
        is_whole: whether `A/B` is a job of a project first, and a role of a job only where there is none.
    """
    return together([_first(each) for each in [_readings(text, target, is_whole=is_whole) for text in texts]])


def _first(readings: Sequence[AppName]) -> Search[SelectedApps]:
    """Return the apps of the first reading that there are any of.

    Raises AppNotFoundError about the reading that names a known project, else about the likeliest one.
    """
    missing: list[AppNotFoundError] = []
    for given in readings:
        try:
            return (yield from _found(given))
        except AppNotFoundError as error:
            missing.append(error)
    known = [bool(each.project and recorded.newest(1, project=each.project)) for each in readings]
    raise missing[known.index(True) if any(known) else 0]


def _found(given: AppName) -> Search[SelectedApps]:
    is_group = given.is_pattern
    if is_group:
        for project in (None,) if given.scheduler else _projects(given):
            wanted = (given.name, project, given.scheduler, given.session, given.target)
            apps, unreached = yield from matching(*wanted)
            if apps:
                break
        else:
            hint = _did_you_mean(given.name.strip("*?[]"), unreached, given.project)
            where = f" of project `{given.project}`" if given.project else ""
            raise AppNotFoundError(f"`{given.name}` matches no job or app{where}", hint=hint)
    elif given.scheduler:
        apps = [_by_handle(given)]
    else:
        apps, is_group = yield from _by_name(given)
    is_attempt = bool(given.number is not None or given.scheduler)
    return SelectedApps(
        [
            Selected(app, given.role, given.replicas, is_attempt=is_attempt or given.name == app.app_id)
            for app in apps
        ],
        is_group=is_group,
    )


def _projects(given: AppName) -> Iterable[str]:
    return (given.project,) if given.project else projects_here()


def shortest_name(job: str, handle: str) -> str:
    """The shortest name for an app in this directory: its job's name if that selects it, else its handle."""
    try:
        return job if find(job).app.handle == handle else handle
    except LauncherError:
        return handle


def _by_handle(given: AppName) -> AppRecord:
    from launcher.state.records import AppRecord

    app = AppRecord(given.scheduler, given.session, given.name)
    app = recorded.app(given.name, app.handle) or app
    if given.target and app.target not in (None, given.target):
        raise LauncherError(f"{app.handle} belongs to target `{app.target}`, not `{given.target}`")
    return app


def _check_one(name: str, apps: Sequence[AppRecord]) -> None:
    if len(apps) > 1:
        by_target = ", or a --target" if len({app.target for app in apps}) > 1 else ""
        hint = f"choose one{by_target}: {_listed(apps)}"
        raise LauncherError(f"`{name}` is ambiguous: it names several apps", hint=hint)


def _by_name(given: AppName) -> Search[tuple[list[AppRecord], bool]]:
    """Return the app of that name, or the apps of the matrix of that name, and whether it is a matrix."""
    apps = []
    with open_reader() as store:
        named = latest = _on_record(store, given)
        if given.number is not None:
            named = _on_record(store, given, given.number)
        elif (by_id := store.app(given.name)) and given.project in ("", by_id.project):
            apps = [by_id]
    if not latest and not apps and given.number is None:
        for project in _projects(given):
            if family := (yield from matrix(given.name, project, given.target)):
                return family, True
    projects = [_project_of(latest)] if latest and not given.project else [*_projects(given)]
    jobs = {each.key: each for each in named}
    held: list[Attempt] = []
    unreached = ""
    if not apps and not (given.number is not None and any(key[0] in projects for key in jobs)):
        known = [each.scheduler for each in latest if each.project in projects]
        held, unreached = yield from _held(given, projects, latest, known)
        jobs = with_newer(jobs, [each for each in held if each.key.job == given.name])
    of_each = ([app for key, app in jobs.items() if key[0] == project] for project in projects)
    apps += next(filter(None, of_each), [])
    if jobs and not apps:
        raise AppNotFoundError(
            f"project `{projects[0]}`, the one of this directory, has no job `{given.name}`",
            hint=f"give the handle or PROJECT/JOB of a job elsewhere: {_listed(list(jobs.values()))}",
        )
    _check_one(given.name, apps)
    if not apps and given.number is None and held:
        for project in projects:
            if family := held_matrix(given.name, project, held):
                return family, True
    if not apps and given.number is None and _looks_like_an_app_id(given.name):
        apps = yield from _known_to_engines(given.name)
    if not apps:
        raise no_app(given, unreached)
    return apps, False


def _on_record(store: Reader, given: AppName, number: int | None = None) -> list[AppRecord]:
    """Return the latest attempt, or that of a number, of each job that a name may mean."""
    found = store.find(given.name, target=given.target or None, number=number)
    return [each for each in found if given.project in ("", each.project)]


def _project_of(found: Sequence[AppRecord]) -> str:
    """Return the project to look a job up in: its file's in the current directory, else the directory's.

    Args:
        found: the latest attempts of the jobs of one name, in any project.
    """
    here = project_here()
    if all(each.project == here for each in found):
        return here
    declared = declared_here()
    own = {
        each.project or ""
        for each in found
        if each.job_file and declared.get(each.job_file[1].rpartition("/")[2]) == each.project
    }
    return own.pop() if len(own) == 1 else here


def _held(
    given: AppName, projects: Sequence[str], latest: Sequence[AppRecord], known: Sequence[str]
) -> Search[tuple[list[Attempt], str]]:
    """Return the engines' attempts of the job and of jobs named `NAME-…`, or the attempt `given`.

    The second item is a text about engines that could not be reached.

    Args:
        known: the schedulers on which the job is known to have run.
    """
    from launcher.specs.jobkey import DEFAULT_TARGET, JobKey, attempt_id

    keys = {
        *(JobKey(project, given.target or DEFAULT_TARGET, given.name) for project in projects),
        *(JobKey(*each.key) for each in latest),
    }
    ids = [] if given.number is None else [attempt_id(key, given.number) for key in keys]
    yield (asked := Question(known, keys, app_ids=ids))
    found = [each for each in asked.attempts_of(given.name) if given.number in (None, each.number)]
    if not found and given.number is None:
        name, start = given.name, f"{given.name}-"
        found = [each for each in asked.attempts() if each.matrix == name or each.key.job.startswith(start)]
    return [each for each in found if given.target in ("", each.key.target)], asked.unreached


def _listed(apps: Sequence[AppRecord]) -> str:
    return ", ".join(app.handle for app in apps[:5]) + (" …" if len(apps) > 5 else "")


def _looks_like_an_app_id(name: str) -> bool:
    """Whether a name ends in a hash or random id, like an app id. For other names, no engine is contacted."""
    start, dash, end = name.rpartition("-")
    return bool(start and dash) and len(end) >= 5 and end.isascii() and end.isalnum() and end.islower()


def _known_to_engines(app_id: str) -> Search[list[AppRecord]]:
    """Return apps that only an engine knows: their records were removed, or are on another machine."""
    from launcher.specs.jobkey import parse_app_handle
    from launcher.state.records import AppRecord

    yield (asked := Question(is_list=True))
    return [AppRecord(*parse_app_handle(handle)) for handle in asked.handles.get(app_id, ())]


_MOST = 1000  # newest apps whose names are suggested


def no_app(given: AppName, unreached: str) -> AppNotFoundError:
    """The error for the name of a job or app that there is not; `unreached` as above."""
    name, number, target = given.name, given.number, given.target
    with open_reader() as store:
        attempts = [each for each in store.find(name) if given.project in ("", each.project)]
    latest = [each for each in attempts if target in ("", each.target)]
    if attempts and not latest:
        hint = f"it has attempts in {', '.join(sorted({each.target or '' for each in attempts}))}"
        return AppNotFoundError(f"job `{name}` has no attempt in target `{target}`", hint=hint)
    if latest and number is not None:
        hint = f"its latest recorded attempt is {latest[0].number}"
        return AppNotFoundError(f"job `{name}` has no attempt {number}", hint=hint)
    hint = _did_you_mean(name, unreached, given.project)
    if not given.project and os.path.exists(name):
        hint = "it is a file here; quote patterns, such as 'train*', so that the shell does not expand them"
    shown = name if number is None else f"{name}@{number}"
    if given.project:
        return AppNotFoundError(f"project `{given.project}` has no job `{shown}`", hint=hint)
    return AppNotFoundError(f"no job or app is named `{shown}`", hint=hint)


def _did_you_mean(name: str, unreached: str, project: str = "") -> str:
    """The hint with the nearest name, of a job of the project if given; for a common prefix of several jobs,
    a pattern."""
    here = project or project_here()
    jobs = [each for each in recorded.newest(_MOST, project=project or None) if each.job]
    begun: dict[str, set[str]] = {}
    for each in jobs:
        parts = each.name.split("-")
        for end in range(1, len(parts) if each.project == here else 0):
            begun.setdefault("-".join(parts[:end]), set()).add(each.name)
    known = {start: f"{start}-*" for start, names in begun.items() if len(names) > 1}
    for each in jobs:
        known[each.name], known[each.app_id] = each.name, each.app_id
    if project:
        known = {each: f"{project}/{full}" for each, full in known.items()}
    known.pop(name, None)  # an app that a client is about to make, or could not make
    near = nearest(name, known)
    return f"did you mean `{known[near]}`?" if near else f"`launcher list` shows all apps{unreached}"
