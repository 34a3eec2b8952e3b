"""The apps there are: as recorded, and what is live as it is now. Unrecorded ends are recorded."""

from __future__ import annotations

from launcher.inventory import recorded
from launcher.inventory.ends import DOCKER, LOCAL, EndRecorder, settle
from launcher.state.records import AppRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from launcher.schedulers.responses import ListAppResponse


def newest(
    limit: int | None, scheduler: str | None = None, *, warn: Callable[[str], None] | None = None
) -> list[AppRecord]:
    """The newest apps, the newest first.

    Args:
        limit: how many; None for all.
        scheduler: only its apps.
        warn: called when an engine would have to be asked, and cannot be.
    """
    if scheduler is not None and scheduler not in LOCAL:
        return of_engine(scheduler)[:limit]
    return _present(lambda: recorded.newest(limit, scheduler), warn)


def live(*, warn: Callable[[str], None] | None = None) -> list[AppRecord]:
    """The apps that run or are about to. `warn`: see `newest`."""
    return [each for each in _present(recorded.live, warn) if each.is_live]


def _present(read: Callable[[], list[AppRecord]], warn: Callable[[str], None] | None) -> list[AppRecord]:
    """What was read, with the live apps brought up to date by the records that their schedulers keep here.

    An engine is asked only where no watcher keeps the record of an app: it was killed, or is elsewhere.
    """
    apps = read()
    if any(_look(each) for each in apps if each.is_live and each.scheduler in LOCAL):
        settle()
        apps = read()
        for each in apps:
            if each.is_live and each.scheduler in LOCAL:
                _look(each)
    unkept = [each for each in apps if each.is_live and each.scheduler == DOCKER and not _look_docker(each)]
    if unkept:
        gone = _update(unkept, warn)
        apps = [each for each in apps if each not in gone]
    return apps


def _look(app: AppRecord) -> bool:
    """Bring a live local app up to date by its record; True when it has ended."""
    from launcher import paths
    from launcher.schedulers.local import rundir

    view = rundir.read_state(rundir.app_dir(paths.local(), app.app_id))
    if view is None:
        return True
    app.state, app.message, app.exit_code = view.state, view.message, view.exit_code
    app.started_at, app.ended_at = view.started_at, view.ended_at
    return not app.is_live


def _look_docker(app: AppRecord) -> bool:
    """Bring a live app up to date by what its watcher writes down; False when none does that here."""
    from launcher.schedulers.docker.records.kept import kept

    seen = kept(app.app_id)
    if seen is None:
        return False
    app.started_at = app.started_at or seen.started_at
    if seen.state not in ("reserved", "running"):
        app.state, app.message, app.exit_code = seen.state, seen.message, seen.exit_code
        app.ended_at = seen.ended_at
        EndRecorder().record(app)
        return True
    if seen.started_at is not None:
        app.state = "running"
    return seen.is_tended


def of_engine(scheduler: str) -> list[AppRecord]:
    """Every app that the engine or the store knows, the newest first."""
    from launcher.schedulers.registry import get_scheduler

    answers = get_scheduler(scheduler, "").list()
    known = _known(scheduler)
    if _has_ended(answers, known):
        settle((scheduler,))
        known = _known(scheduler)
    for answer in answers:
        session = answer.app_handle.partition("://")[2].partition("/")[0]
        seen = AppRecord(scheduler, session, answer.app_id, name=answer.name, created_at=answer.created_at)
        app = known.setdefault(seen.handle, seen)
        app.state = finer(str(answer.state).lower(), app.state)
    return sorted(known.values(), key=lambda each: each.created_at or 0.0, reverse=True)


def _known(scheduler: str) -> dict[str, AppRecord]:
    from launcher.schedulers.appstore import open_store

    with open_store(readonly=True) as store:
        return {each.handle: each for each in store.newest(-1) if each.scheduler == scheduler}


def _has_ended(answers: Sequence[ListAppResponse], known: Mapping[str, AppRecord]) -> bool:
    """Whether the engine holds less live than the store thinks."""
    from launcher.specs.status import is_terminal

    going_on = {answer.app_id for answer in answers if not is_terminal(answer.state)}
    return any(each.is_live and each.app_id not in going_on for each in known.values())


def _update(apps: Sequence[AppRecord], warn: Callable[[str], None] | None) -> Sequence[AppRecord]:
    """Bring apps of Docker up to date that are live by their record, which no watcher keeps.

    Ends are recorded. Returns those of `apps` of which nothing ever ran.
    """
    from launcher.errors import LauncherError
    from launcher.schedulers.registry import get_scheduler
    from launcher.specs.status import is_terminal

    try:
        answers = {answer.app_id: answer for answer in get_scheduler(DOCKER, "").list()}
        if any(each.app_id not in answers or is_terminal(answers[each.app_id].state) for each in apps):
            settle((DOCKER,))
    except LauncherError as error:
        if warn is not None:
            what = "1 app of local_docker is" if len(apps) == 1 else f"{len(apps)} apps of local_docker are"
            warn(f"{what} shown as last seen: {error}")
        return ()
    known = _known(DOCKER)
    gone = []
    for app in apps:
        entry, answer = known.get(app.handle), answers.get(app.app_id)
        if entry is not None and not entry.is_live:
            app.update(entry)
        elif answer is not None:
            app.state = finer(str(answer.state).lower(), app.state)
        elif entry is None and app.job is not None:
            gone.append(app)
    return gone


def finer(state: str, recorded: str) -> str:
    """An AppState in an attempt's words: lost and reserved are finer than what it can say."""
    if recorded == "lost" and state == "failed":
        return recorded
    return {"submitted": "reserved", "pending": "created", "unsubmitted": "reserved"}.get(state, state)
