"""Apps as their containers, their labels and our records tell together. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from launcher.schedulers.docker import tombstones
from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.parallel import run_parallel
from launcher.schedulers.docker.client.view import INSPECTIONS, EngineView
from launcher.schedulers.docker.labels import APP_ID, PREFIX, SCHEDULER, Labels, read_labels
from launcher.schedulers.docker.records import record
from launcher.schedulers.docker.records.journal import Journal
from launcher.schedulers.docker.records.owner import Owner
from launcher.schedulers.docker.state import status
from launcher.schedulers.docker.state.app_containers import list_containers, own_containers
from launcher.schedulers.docker.state.replicas import expected_replicas, is_reservation
from launcher.schedulers.docker.state.status import DockerAppView
from launcher.schedulers.docker.tombstones import Tombstone
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey
from launcher.state.records import AppRecord

INSPECT_S = 15.0
"""How long containers of one app go on being inspected at a slow engine; the others are as listed."""
_MAX_READS = 4


@dataclass(frozen=True, slots=True)
class DockerApp:
    """One app.

    Attributes:
        journal: None where there is no record of it here.
        owner: who is at it: submitting it, or starting the rest; "" when nobody is, or none is needed.
    """

    labels: Labels
    containers: tuple[Container, ...]
    view: DockerAppView
    journal: Journal | None
    owner: str = ""

    @property
    def app_id(self) -> str:
        return self.labels.app_id

    @property
    def app_dir(self) -> str:
        return record.folder(self.app_id)

    @property
    def is_reaped(self) -> bool:
        return self.journal is not None and self.journal.reaped

    @property
    def expected_replicas(self) -> list[tuple[str, int]]:
        return expected_replicas(self.labels)

    def to_record(self) -> AppRecord:
        """What a list shows of it, without its replicas."""
        labels, view = self.labels, self.view
        return AppRecord(
            SCHEDULER,
            labels.session,
            self.app_id,
            name=labels.name,
            state=view.state,
            created_at=labels.created_at,
            started_at=view.started_at,
            ended_at=view.ended_at,
            message=view.message,
            exit_code=view.exit_code,
        )

    def ports_of(self, role: str) -> Mapping[str, int]:
        """The role's `port_map`: name → port in the container."""
        roles = self.labels.document.get("roles", ())
        return next((each.get("port_map", {}) for each in roles if each["name"] == role), {})


def facts(engine: EngineView, labels: Mapping[str, str]) -> dict[str, Any]:
    """What a record says of its app: the labels that its containers bear, and at which engine."""
    return {"labels": dict(labels), "engine": engine.engine_id(), "host": engine.host}


def find(
    engine: EngineView,
    app_id: str,
    *,
    inspected: bool = True,
    lock_held: bool = False,
    take_over: bool = False,
    confirm: bool = True,
    previous: DockerApp | None = None,
) -> DockerApp | None:
    """One app, None when there is nothing of it.

    A list, the inspects after it and the journal are not one moment: between them another client may create
    the rest of the app, start it or remove it. So what a look shows as ended, removed, interrupted or gone
    counts only when the next one, begun after that, shows it too.

    Args:
        inspected: with times, restarts, the OOM mark, ports and hostnames.
        lock_held: this process holds the lock of its record.
        take_over: who submits it on another machine counts as dead.
        confirm: without, one look has to do: right for whoever looks again.
        previous: what an earlier look showed.
    """
    if not is_id(app_id):
        return None
    stone, app = None, previous
    for attempt in range(_MAX_READS):
        if attempt or previous is not None:
            stone = tombstones.read(engine, app_id)
        journal = record.journal(record.folder(app_id))
        containers = list_containers(engine, app_id)
        if inspected:
            containers = engine.inspect_within(containers, INSPECT_S)
        last, app = (
            app,
            _app(
                engine,
                app_id,
                containers,
                journal,
                stone,
                lock_held=lock_held,
                take_over=take_over,
                named=True,
            ),
        )
        if not confirm or (app is not None and not needs_confirmation(app)):
            break
        if (attempt or previous is not None) and _conclusion(app) == _conclusion(last):
            break
    return app


def find_all(
    engine: EngineView,
    *labels: str,
    stones: Mapping[str, Tombstone] | None = None,
    take_over: bool = False,
) -> list[DockerApp]:
    """Every app, with what the engine's list alone tells, newest first: one look, as of `find`.

    Args:
        labels: that its containers have; records of apps without containers are current at for them, too.
        stones: how attempts ended, by app id.
        take_over: as in `find`.
    """
    journals = {app_id: record.journal(record.folder(app_id)) for app_id in record.app_ids()}
    by_app: dict[str, list[Container]] = {app_id: [] for app_id in journals}
    for container in own_containers(engine.containers(*(labels or (APP_ID,)))):
        by_app.setdefault(container.labels.get(APP_ID, ""), []).append(container)
    stones = stones or {}
    found = (
        _app(
            engine,
            app_id,
            many,
            journals.get(app_id),
            stones.get(app_id) if many else None,
            take_over=take_over,
        )
        for app_id, many in by_app.items()
    )
    apps = [each for each in found if each is not None and _has(each.labels, labels)]
    return sorted(apps, key=lambda each: each.labels.created_at, reverse=True)


def inspect(engine: EngineView, app: DockerApp, *, take_over: bool = False) -> DockerApp:
    """The same app, current at closely."""
    return find(engine, app.app_id, take_over=take_over, previous=app) or app


def needs_confirmation(app: DockerApp) -> bool:
    """Whether one look is not enough to act on it: it seems to be over, or left behind by its owner."""
    view = app.view
    if view.ended:
        return not view.final
    return not app.owner and (view.state != "running" or view.unstarted > 0)


def _conclusion(app: DockerApp | None) -> object:
    if app is None:
        return None
    replicas = [(each.role, each.k, each.id, each.state) for each in app.view.replicas]
    return app.view.state, app.view.message, app.owner, replicas


def _app(
    engine: EngineView,
    app_id: str,
    containers: Sequence[Container],
    journal: Journal | None,
    stone: Tombstone | None,
    *,
    lock_held: bool = False,
    take_over: bool = False,
    named: bool = False,
) -> DockerApp | None:
    found = tuple(containers)
    labels = _labels(engine, app_id, found, stone)
    if labels is None:
        return None
    complete = not named or (stone is not None and not found)
    effective = journal
    if stone is not None and (journal is None or journal.outcome is None):
        effective = replace(journal or Journal(), outcome=stone.outcome)
    view = status.view(found, effective, expected_replicas=() if complete else expected_replicas(labels))
    if view is None:
        return None
    if stone is not None and view.started_at is None:
        view = replace(view, started_at=stone.started_at)
    app = DockerApp(labels, found, view, journal)
    return replace(app, owner=_owner(app, lock_held=lock_held, take_over=take_over))


def _labels(
    engine: EngineView, app_id: str, found: Sequence[Container], stone: Tombstone | None
) -> Labels | None:
    """Of its replicas where there are any: another client's reservation may be there for a moment."""
    if found:
        return read_labels(next((each for each in found if not is_reservation(each)), found[0]).labels)
    return _recorded(engine, record.folder(app_id)) or (stone.labels if stone is not None else None)


def _recorded(engine: EngineView, app_dir: str) -> Labels | None:
    """The labels of an app of this engine that has no containers any more."""
    recorded = record.read_attempt(app_dir)
    if recorded is None or recorded.get("engine") != engine.engine_id():
        return None
    return read_labels(recorded.get("labels") or {})


def _owner(app: DockerApp, *, lock_held: bool, take_over: bool) -> str:
    view = app.view
    if view.state not in ("reserved", "created") and not (view.state == "running" and view.unstarted):
        return ""
    progress_at = max((each.created_at or 0.0 for each in app.containers), default=None)
    for submitter in _submitters(app):
        if submitter.is_alive(progress_at, take_over=take_over):
            return str(submitter)
        if record.is_locked_elsewhere(app.app_id, submitter):
            return f"a watcher below {submitter.home}"
    if not lock_held and record.is_locked(app.app_dir):
        return str(record.holder(app.app_dir) or "somebody")
    return ""


def _submitters(app: DockerApp) -> list[Owner]:
    """Its owner, and that of a reservation which another client makes or gives up in this moment."""
    of_all = {Labels(each.labels).text("owner"): Labels(each.labels) for each in app.containers}
    of_all.setdefault(app.labels.text("owner"), app.labels)
    return [owner for labels in of_all.values() if (owner := labels.owner) is not None]


def _has(labels: Labels, wanted: Iterable[str]) -> bool:
    return all(labels.text(key.removeprefix(PREFIX)) for key in wanted if "=" not in key)


def attempt_of(app: DockerApp) -> Attempt | None:
    """The attempt of a job as it is now; None for an app that is none."""
    attempt, view = app.labels.attempt, app.view
    if attempt is None:
        return None
    if view.ended and not view.final and record.is_locked_elsewhere(app.app_id, app.labels.owner):
        # Its watcher has the journal that tells a cancelled replica from a failed one, and concludes soon.
        return replace(attempt, state="running", started_at=view.started_at)
    return replace(
        attempt,
        state=view.state,
        started_at=view.started_at,
        ended_at=view.ended_at,
        owner=app.owner,
        message=view.message,
        exit_code=view.exit_code,
        unstarted=view.unstarted,
        drift=view.drift,
    )


def observe(
    engine: EngineView, keys: Collection[JobKey], settled: Collection[str], *, take_over: bool = False
) -> list[Attempt]:
    """As the contract of `StagedScheduler.observe` says.

    Ended attempts of jobs that nobody asks for are told of until they were reaped here. Containers are
    inspected only where the list is not enough: of what is over or left behind.
    """
    stones = tombstones.read_all(engine)
    found = find_all(engine, f"{PREFIX}job", stones=stones, take_over=take_over)
    latest = _latest(found, stones.values(), set(keys))
    wanted = [app for app in found if app.app_id not in settled and _is_asked_for(app, latest)]

    def confirmed(app: DockerApp) -> DockerApp | None:
        return find(engine, app.app_id, take_over=take_over, previous=app) if needs_confirmation(app) else app

    current = run_parallel(confirmed, wanted, INSPECTIONS)
    attempts = [attempt_of(app) for app in current if app is not None]
    there = {app.app_id for app in found} | set(settled)
    attempts += [
        stone.attempt() for app_id, stone in stones.items() if app_id in latest and app_id not in there
    ]
    return [attempt for attempt in attempts if attempt is not None]


def _is_asked_for(app: DockerApp, latest: Collection[str]) -> bool:
    unsettled = not app.view.ended or (app.journal is not None and not app.journal.reaped)
    return unsettled or app.app_id in latest


def _latest(found: Iterable[DockerApp], stones: Iterable[Tombstone], keys: Collection[JobKey]) -> set[str]:
    """Of each key the app id with the highest number."""
    best: dict[tuple[str, ...], tuple[int, str]] = {}
    known = [(app.labels, app.app_id) for app in found] + [(stone.labels, stone.app_id) for stone in stones]
    for labels, app_id in known:
        key = tuple(labels.text(part) for part in ("project", "target", "job"))
        if key in keys:
            number = int(labels.text("attempt") or 0)
            best[key] = max(best.get(key, (0, "")), (number, app_id))
    return {app_id for _, app_id in best.values()}


def is_id(app_id: str) -> bool:
    """Whether it can be the name of a folder: never a path, never a hidden name."""
    return bool(app_id) and "/" not in app_id and "\0" not in app_id and not app_id.startswith(".")
