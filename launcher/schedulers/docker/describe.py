"""Describe an app as the schedulers' API does: its state, its roles and the errors of its replicas."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.schedulers.answers import description_of
from launcher.schedulers.docker.apps import DockerApp
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.view import EngineView, run_parallel
from launcher.schedulers.docker.names import error_file
from launcher.schedulers.docker.replicas import DockerReplica
from launcher.schedulers.responses import DescribeAppResponse
from launcher.specs.canonical import app_from_document
from launcher.specs.replica_error import MOST_BYTES, error_text
from launcher.state.records import ReplicaRecord

_MOST_FILES = 64  # each takes two requests


def response(found: DockerApp, errors: Mapping[tuple[str, int], str]) -> DescribeAppResponse:
    """The response of `describe`; `errors` as from `error_files`."""
    labels = found.labels
    app = app_from_document(labels.document, labels.name, labels.metadata) if labels.document else None
    record = found.to_record()
    record.message = _message(found)
    record.num_restarts = found.view.num_restarts
    record.replicas = [_replica_record(each, found, errors) for each in found.view.replicas]
    answer = description_of(record, app)
    answer.metadata = labels.metadata  # also where the document cannot be read
    return answer


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


def _message(found: DockerApp) -> str:
    view = found.view
    lost = "lost: " if view.state == "lost" else ""
    drift = "" if view.drift in view.message else view.drift
    return "; ".join(part for part in (lost + view.message, drift) if part)


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
