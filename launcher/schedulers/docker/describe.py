"""A Docker app as records and descriptions: with its roles, its ports and the errors of its replicas."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.schedulers.docker.apps import DockerApp, attempt_of
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.view import EngineView, run_parallel
from launcher.schedulers.docker.names import error_file
from launcher.schedulers.docker.replicas import DockerReplica
from launcher.schedulers.record import SeenApp
from launcher.specs.attempt import Attempt
from launcher.specs.replica_error import MOST_BYTES, error_text
from launcher.state.records import ReplicaRecord, of_attempt

_MOST_FILES = 64  # each takes two requests


class FoundApp(SeenApp):
    """An app at the engine; see `SeenApp`."""

    def __init__(self, found: DockerApp) -> None:
        labels = found.labels
        about = {"name": labels.name, "metadata": labels.metadata, "document": labels.document}
        super().__init__(found.to_record(), about, found.owner)
        self._found = found

    def attempt(self) -> Attempt | None:
        return attempt_of(self._found)


def briefly(found: DockerApp) -> SeenApp:
    """The app without its replicas; a job's attempt is judged with what its watcher knows."""
    seen = FoundApp(found)
    attempt = seen.attempt()
    if attempt is not None:
        seen.record = of_attempt(attempt)
        seen.record.abandoned = found.is_abandoned
    return seen


def whole(engine: EngineView, found: DockerApp) -> SeenApp:
    """The app with its replicas, and with the errors that they left."""
    seen, drift = FoundApp(found), found.view.drift
    if drift not in seen.record.message:
        seen.record.message = "; ".join(filter(None, (seen.record.message, drift)))
    errors = error_files(engine, found)
    seen.record.replicas = [_replica_record(each, found, errors) for each in found.view.replicas]
    return seen


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
    texts = run_parallel(lambda each: _error_file(engine, each), some)
    return {(each.role, each.k): text for each, text in zip(some, texts, strict=True) if text}


def _error_file(engine: EngineView, replica: DockerReplica) -> str:
    path = error_file(replica.role, replica.k)
    try:
        return error_text(engine.read_file(replica.id, path, MOST_BYTES) or b"")
    except EngineError:
        return ""


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
        message=replica.message or replica.waits or _published_ports(replica, found.ports_of(replica.role)),
        host=replica.hostname,
        structured_error_msg=errors.get((replica.role, replica.k), ""),
    )


def _published_ports(replica: DockerReplica, ports: Mapping[str, int]) -> str:
    """The addresses of its ports on the engine's machine: `http at 127.0.0.1:49153`."""
    found = ((name, replica.ports.get(port)) for name, port in ports.items())
    return ", ".join(f"{name} at {at[0]}:{at[1]}" for name, at in found if at is not None)
