"""Read Docker apps for plans and commands: as attempts, records and descriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from launcher.schedulers.docker import apps, rows, tombstones
from launcher.schedulers.docker.apps import DockerApp
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.view import INSPECTIONS, EngineView, run_parallel
from launcher.schedulers.docker.labels import PREFIX, Labels
from launcher.schedulers.docker.names import error_file
from launcher.schedulers.docker.status import DockerReplica
from launcher.schedulers.docker.tombstones import Tombstone
from launcher.schedulers.record import SeenApp
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey
from launcher.specs.replica_error import MOST_BYTES, error_text
from launcher.state.records import AppRecord, ReplicaRecord, of_attempt

_MOST_FILES = 64  # each takes two requests


class FoundApp(SeenApp):
    """An app at the engine; see `SeenApp`."""

    def __init__(self, found: DockerApp) -> None:
        labels, self._attempt = found.labels, apps.attempt_of(found)
        document = labels.document if self._attempt is None else self._attempt.document
        about = {"name": labels.name, "metadata": labels.metadata, "document": document}
        super().__init__(found.to_record(), about, found.owner)

    def attempt(self) -> Attempt | None:
        return self._attempt


def brief_app(found: DockerApp) -> SeenApp:
    """The app without its replicas; a job's attempt is judged with what its watcher knows."""
    seen = FoundApp(found)
    attempt = seen.attempt()
    if attempt is not None:
        seen.record = of_attempt(attempt)
        seen.record.abandoned = found.is_abandoned
    return seen


def whole_app(engine: EngineView, found: DockerApp) -> SeenApp:
    """The app with its replicas, and with the errors that they left."""
    seen, drift = FoundApp(found), found.view.drift
    if drift not in seen.record.message:
        seen.record.message = "; ".join(filter(None, (seen.record.message, drift)))
    errors = error_files(engine, found)
    seen.record.replicas = [_replica_record(each, found, errors) for each in found.view.replicas]
    return seen


def read(engine: EngineView, app_id: str, *, take_over: bool = False) -> SeenApp | None:
    """An app of this engine or, as last recorded here, of another one; without its replicas."""
    found = apps.find(engine, app_id, take_over=take_over)
    return rows.elsewhere(engine, app_id) if found is None else brief_app(found)


def records(engine: EngineView) -> list[AppRecord]:
    """Every app of the engine, the newest first.

    The list alone does not show which containers wait to be restarted.
    """

    def is_unclear(app: DockerApp) -> bool:
        return app.paused_by is not None or (app.view.ended and not app.view.final)

    found = [apps.inspect(engine, app) if is_unclear(app) else app for app in apps.find_all(engine)]
    return [app.to_record() for app in found]


def observe(
    engine: EngineView, keys: Collection[JobKey], settled: Collection[str], *, take_over: bool = False
) -> list[Attempt]:
    """See `StagedScheduler.observe`.

    Ended attempts of jobs outside `keys` are returned until their end is recorded here. Containers are
    inspected only where the list is not enough: of apps that have ended or lost their owner.
    """
    stones = tombstones.read_all(engine)
    found = apps.find_all(engine, f"{PREFIX}job", stones=stones, take_over=take_over)
    latest = _latest(found, stones.values(), set(keys))

    def is_asked_for(app: DockerApp) -> bool:
        unsettled = not app.view.ended or (app.journal is not None and not app.journal.end_recorded)
        return app.app_id not in settled and (unsettled or app.app_id in latest)

    def confirmed(app: DockerApp) -> DockerApp | None:
        if not apps.needs_confirmation(app):
            return app
        return apps.find(engine, app.app_id, take_over=take_over, previous=app)

    current = run_parallel(confirmed, filter(is_asked_for, found), INSPECTIONS)
    attempts = [apps.attempt_of(app) for app in current if app is not None]
    there = {app.app_id for app in found} | set(settled)
    attempts += [
        stone.attempt() for app_id, stone in stones.items() if app_id in latest and app_id not in there
    ]
    here = [attempt for attempt in attempts if attempt is not None]
    return [*here, *rows.live_elsewhere(engine, keys, settled)]


def _latest(found: Iterable[DockerApp], stones: Iterable[Tombstone], keys: Collection[JobKey]) -> set[str]:
    """The app ids with the highest attempt number of each key, also among those that were not skipped."""
    best: dict[tuple[object, ...], tuple[int, str]] = {}
    known = [(app.labels, app.view.state) for app in found]
    known += [(stone.labels, stone.outcome.state) for stone in stones]
    for labels, state in known:
        key = tuple(labels.text(part) for part in ("project", "target", "job"))
        if key in keys:
            number = int(labels.text("attempt") or 0)
            for among in ("all", "not skipped") if state != "skipped" else ("all",):
                best[key, among] = max(best.get((key, among), (0, "")), (number, labels.app_id))
    return {app_id for _, app_id in best.values()}


def error_files(engine: EngineView, found: DockerApp) -> dict[tuple[str, int], str]:
    """(role, replica) → text of its error file, for replicas that failed, or were stopped because one failed.

    A replica that a user stopped may have written one too; it does not count as an error. A file that cannot
    be read counts as missing, so that the rest of the app can still be described.
    """
    view = found.view
    blamed = {"failed", "cancelled"} if view.state in ("failed", "lost") else {"failed"}
    some = [each for each in view.replicas if each.state in blamed and each.id]
    some.sort(key=lambda each: (each.state != "failed", each.ended_at or 0.0))
    del some[_MOST_FILES:]

    def text_of(replica: DockerReplica) -> str:
        path = error_file(replica.role, replica.k)
        try:
            return error_text(engine.read_file(replica.id, path, MOST_BYTES) or b"")
        except EngineError:
            return ""

    texts = run_parallel(text_of, some)
    return {(each.role, each.k): text for each, text in zip(some, texts, strict=True) if text}


def _replica_record(
    replica: DockerReplica, found: DockerApp, errors: Mapping[tuple[str, int], str]
) -> ReplicaRecord:
    return ReplicaRecord(
        replica.role,
        replica.k,
        "pending" if replica.waits else replica.state,
        exit_code=replica.exit_code,
        num_restarts=replica.num_restarts,
        started_at=replica.started_at,
        ended_at=replica.ended_at,
        message=replica.message or replica.waits or _published_ports(replica, found.labels),
        host=replica.hostname,
        structured_error_msg=errors.get((replica.role, replica.k), ""),
        use=replica.use,
    )


def _published_ports(replica: DockerReplica, labels: Labels) -> str:
    """The addresses of its ports on the engine's machine: `http at 127.0.0.1:49153`."""
    roles = labels.document.get("roles", ())
    ports = (each.get("port_map", {}).items() for each in roles if each["name"] == replica.role)
    found = ((name, replica.ports.get(port)) for name, port in next(ports, ()))
    return ", ".join(f"{name} at {at[0]}:{at[1]}" for name, at in found if at is not None)
