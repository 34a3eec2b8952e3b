"""Apps as their containers, their labels and our records tell together. Reads only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from launcher.schedulers.docker.labels import APP_ID, PREFIX, read_labels
from launcher.schedulers.docker.records import record
from launcher.schedulers.docker.state import status
from launcher.schedulers.docker.state.look import own
from launcher.schedulers.docker.state.members import members
from launcher.schedulers.docker.state.replicas import roster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from launcher.schedulers.docker.client.container import Container
    from launcher.schedulers.docker.client.view import EngineView
    from launcher.schedulers.docker.labels import Labels
    from launcher.schedulers.docker.records.journal import Journal
    from launcher.schedulers.docker.state.status import AppView
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey


@dataclass(frozen=True, slots=True)
class App:
    """One app.

    Attributes:
        journal: None where there is no record of it here.
        owner: who is at it: submitting it, or starting the rest; "" when nobody is, or none is needed.
    """

    labels: Labels
    containers: tuple[Container, ...]
    view: AppView
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
    def roster(self) -> list[tuple[str, int]]:
        return roster(self.labels)

    def ports_of(self, role: str) -> Mapping[str, int]:
        """The role's `port_map`: name → port in the container."""
        roles = self.labels.document.get("roles", ())
        return next((each.get("port_map", {}) for each in roles if each["name"] == role), {})


def facts(engine: EngineView, labels: Mapping[str, str]) -> dict[str, Any]:
    """What a record says of its app: the labels that its containers bear, and at which engine."""
    return {"labels": dict(labels), "engine": engine.engine_id(), "host": engine.host}


def find(
    engine: EngineView, app_id: str, *, inspected: bool = True, mine: bool = False, take_over: bool = False
) -> App | None:
    """One app, None when there is nothing of it.

    Args:
        inspected: with times, restarts, the OOM mark, ports and hostnames.
        mine: we hold its lock, so nobody else does.
        take_over: who submits it on another machine counts as dead.
    """
    if not is_id(app_id):
        return None
    containers = own(engine, app_id)
    if inspected:
        containers = engine.inspect_all(each.id for each in containers)
    return _app(engine, app_id, containers, mine=mine, take_over=take_over, named=True)


def find_all(engine: EngineView, *labels: str, without: Collection[str] = ()) -> list[App]:
    """Every app, with what the engine's list alone tells, newest first.

    Args:
        labels: that its containers have; records of apps without containers are looked at for them, too.
        without: app ids that are left out.
    """
    by_app: dict[str, list[Container]] = {}
    for container in members(engine.containers(*(labels or (APP_ID,)))):
        by_app.setdefault(container.labels.get(APP_ID, ""), []).append(container)
    for app_id in record.app_ids():
        by_app.setdefault(app_id, [])
    found = [_app(engine, app_id, many) for app_id, many in by_app.items() if app_id not in without]
    apps = [each for each in found if each is not None and _has(each.labels, labels)]
    return sorted(apps, key=lambda each: each.labels.created_at, reverse=True)


def inspect(engine: EngineView, app: App, *, take_over: bool = False) -> App:
    """The same app, looked at closely."""
    containers = engine.inspect_all(each.id for each in app.containers)
    return _app(engine, app.app_id, containers, take_over=take_over, named=True) or app


def _app(
    engine: EngineView,
    app_id: str,
    containers: Iterable[Container],
    *,
    mine: bool = False,
    take_over: bool = False,
    named: bool = False,
) -> App | None:
    found, app_dir = tuple(containers), record.folder(app_id)
    labels = read_labels(found[0].labels) if found else _recorded(engine, app_dir)
    if labels is None:
        return None
    journal = record.journal(app_dir)
    complete = not named and len(found) >= labels.expected
    view = status.view(found, journal, roster=() if complete else roster(labels))
    if view is None:
        return None
    app = App(labels, found, view, journal)
    return replace(app, owner=_owner(app, mine=mine, take_over=take_over))


def _recorded(engine: EngineView, app_dir: str) -> Labels | None:
    """The labels of an app of this engine that has no containers any more."""
    told = record.read_attempt(app_dir)
    if told is None or told.get("engine") != engine.engine_id():
        return None
    return read_labels(told.get("labels") or {})


def _owner(app: App, *, mine: bool, take_over: bool) -> str:
    view = app.view
    if view.state not in ("reserved", "created") and not (view.state == "running" and view.unstarted):
        return ""
    submitter = app.labels.owner
    progress_at = max((each.created_at or 0.0 for each in app.containers), default=None)
    if submitter is not None and submitter.is_alive(progress_at, take_over=take_over):
        return str(submitter)
    if not mine and record.is_locked(app.app_dir):
        return str(record.holder(app.app_dir) or "somebody")
    return ""


def _has(labels: Labels, wanted: Iterable[str]) -> bool:
    return all(labels.text(key.removeprefix(PREFIX)) for key in wanted if "=" not in key)


def attempt_of(app: App) -> Attempt | None:
    """The attempt of a job as it is now; None for an app that is none."""
    attempt, view = app.labels.attempt, app.view
    if attempt is None:
        return None
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

    Ended attempts of jobs that nobody asks for are told of until they were reaped here.
    """
    found = find_all(engine, f"{PREFIX}job")
    latest = _latest(found, set(keys))
    out = []
    for app in found:
        unsettled = not app.view.ended or (app.journal is not None and not app.journal.reaped)
        if app.app_id in settled or not (unsettled or app.app_id in latest):
            continue
        looked = app if _is_plain(app) else inspect(engine, app, take_over=take_over)
        attempt = attempt_of(looked)
        if attempt is not None:
            out.append(attempt)
    return out


def _is_plain(app: App) -> bool:
    """Whether a closer look would tell nothing that an attempt has."""
    return app.view.state in ("reserved", "created") and not app.owner


def _latest(found: Iterable[App], keys: Collection[JobKey]) -> set[str]:
    """Of each key the app id with the highest number."""
    best: dict[tuple[str, ...], tuple[int, str]] = {}
    for app in found:
        key = tuple(app.labels.text(part) for part in ("project", "target", "job"))
        if key in keys:
            number = int(app.labels.text("attempt") or 0)
            best[key] = max(best.get(key, (0, "")), (number, app.app_id))
    return {app_id for _, app_id in best.values()}


def is_id(app_id: str) -> bool:
    """Whether it can be the name of a folder: never a path, never a hidden name."""
    return bool(app_id) and "/" not in app_id and "\0" not in app_id and not app_id.startswith(".")
