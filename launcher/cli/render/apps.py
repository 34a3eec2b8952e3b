"""Render apps as a table, and apps, attempts and replicas as JSON objects."""

from __future__ import annotations

import time

from launcher.cli.render import values
from launcher.cli.render.values import GAP, ago, iso, room, shortened, state_cell, table, text_of, took, width
from launcher.state.records import ENDED, LIVE
from launcher.text import fold, named, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Any

    from launcher.cli.render.values import Cell
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord, ReplicaRecord

_HEADINGS = ("NAME", "ATTEMPT", "STATE", "CREATED", "TOOK", "APP", "WHY")
_APP = 5
_OPTIONAL = (1, 0, 4, 3)  # columns dropped on a narrow terminal, in this order: app ids hold name and attempt
_APP_STATES = {
    "reserved": "SUBMITTED",
    "created": "PENDING",
    "waiting": "PENDING",
    "queued": "PENDING",
    "skipped": "CANCELLED",
    "lost": "FAILED",
    "unknown": "UNKNOWN",
}
_REASON = 24  # columns reserved for reasons
_LEAST = 12  # reasons get no fewer columns


def apps_table(
    apps: Sequence[AppRecord],
    *,
    families: Mapping[str, Hashable] | None = None,
    color: bool,
    columns: int | None = None,
) -> str:
    """Return a line per app; the apps of a large family in the same state share a line.

    Args:
        families: app id → the family of the app, such as its job file.
        columns: width that lines fit if possible. If handles do not fit, app ids replace them; users copy
            both, so neither is ever cut.
    """
    lines = fold(
        apps,
        family_of=lambda app: (families or {}).get(app.app_id),
        kind_of=lambda app: app.state,
        matters=lambda app: app.state in ("failed", "lost"),
    )
    rows = [_row(each, time.time()) for each in lines]
    if columns is not None:
        _fit(rows, [named([app.app_id for app in each]) for each in lines], columns)
    return table(_HEADINGS, rows, color=color)


def _row(apps: Sequence[AppRecord], now: float) -> list[Cell]:
    app, is_one = apps[0], len(apps) == 1
    return [
        (named([each.name for each in apps]), "bold"),
        str(app.number) if is_one and app.number is not None else "",
        state_cell(app.state),
        ago(app.created_at, now),
        ran_for(app, now) if is_one else "",
        app.handle if is_one else "",
        app.message,
    ]


def in_short(apps: Sequence[AppRecord], verb: str = "") -> str:
    """`4 apps: 1 running, 2 succeeded, 1 failed`; `4 apps VERB: …` with a verb."""
    counts: dict[str, int] = {}
    for app in apps:
        counts[app.state] = counts.get(app.state, 0) + 1
    return f"{plural(len(apps), 'app')}{verb and ' ' + verb}: {in_order(counts)}"


def in_order(counts: Mapping[str, int]) -> str:
    """`1 running, 2 succeeded, 1 failed`, from a mapping of states to numbers."""
    return ", ".join(f"{counts[each]:,} {each}" for each in (*LIVE, *ENDED, "unknown") if counts.get(each))


def ran_for(app: AppRecord, now: float) -> str:
    """The time from start to end, or to `now` while the app is live; "" if it has not started.

    Excludes the time before the start, spent on images or on stopping an older attempt. Apps without a
    recorded start count from their creation; but cancelled and skipped ones never ran. Replicas do not count:
    a list does not know them.
    """
    has_not_run = app.is_live or app.state in ("cancelled", "skipped")
    start = app.started_at or (None if has_not_run else app.created_at)
    return took(start, app.ended_at, now if app.is_live else None)


def app_json(app: AppRecord) -> dict[str, Any]:
    """The JSON of `list`: without replicas."""
    return {
        "handle": app.handle,
        "app_id": app.app_id,
        "scheduler": app.scheduler,
        "session": app.session,
        "name": app.name,
        "project": app.project,
        "target": app.target,
        "job": app.job,
        "attempt": app.number,
        "commit": app.commit or None,
        "actor": app.actor or None,
        "state": _APP_STATES.get(app.state, app.state.upper()),
        "attempt_state": app.state,
        "created_at": iso(app.created_at),
        "started_at": iso(app.started_at),
        "ended_at": iso(app.ended_at),
        "exit_code": app.exit_code,
        "message": app.message,
        "output": app.made_output or None,
    }


def status_json(app: AppRecord) -> dict[str, Any]:
    """The JSON of `status`: with replicas and the first error."""
    from launcher.holding.use import to_json

    cause = app.root_cause
    return {
        **app_json(app),
        "num_restarts": app.num_restarts,
        "warnings": list(app.warnings),
        "used": to_json(app.used),
        "logs_removed": app.logs_removed,
        "root_cause": cause and {"role": cause.role, "replica": cause.k, **(_error_json(cause) or {})},
        "replicas": [_replica_json(replica) for replica in app.replicas],
    }


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    """One attempt as `history --json` prints it."""
    from launcher.holding.use import to_json

    return {
        **values.named(attempt),
        "edition": attempt.edition,
        "state": attempt.state,
        "action": attempt.action,
        "reason": attempt.reason or None,
        "message": attempt.message,
        "exit_code": attempt.exit_code,
        "created_at": iso(attempt.created_at),
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "actor": attempt.actor or None,
        "origin": attempt.origin,
        "path": attempt.path,
        "commit": attempt.commit or None,
        "pull_request": attempt.pull_request or None,
        "approval": attempt.approval or None,
        "run_url": attempt.run_url or None,
        "digest": attempt.digest,
        "effect": attempt.effect or None,
        "used": to_json(attempt.used),
    }


def _replica_json(replica: ReplicaRecord) -> dict[str, Any]:
    return {
        "role": replica.role,
        "replica": replica.k,
        "state": "FAILED" if replica.state == "lost" else replica.state.upper(),
        "exit_code": replica.exit_code,
        "num_restarts": replica.num_restarts,
        "started_at": iso(replica.started_at),
        "ended_at": iso(replica.ended_at),
        "message": replica.message,
        "host": replica.host or None,
        "use": replica.use and replica.use.to_json(),
        "error": _error_json(replica),
    }


def _error_json(replica: ReplicaRecord) -> dict[str, Any] | None:
    error = replica.error
    if error is None:
        return None
    return {**error._asdict(), "time": iso(error.time), "host": replica.host or None}


def _fit(rows: list[list[Cell]], app_ids: Sequence[str], columns: int) -> None:
    """Replace handles by app ids, blank optional columns, and cut reasons until lines fit."""
    reason = max((width(text_of(row[-1])) for row in rows), default=0)
    least = min(reason, _REASON)
    steps = [(_APP, app_ids), *((column, [""] * len(rows)) for column in _OPTIONAL)]
    for column, cells in steps:
        if room(_HEADINGS, rows, columns) >= (least if reason else -len(GAP)):
            break
        for row, cell in zip(rows, cells, strict=True):
            row[column] = cell
    left = room(_HEADINGS, rows, columns)
    for row in rows:
        row[-1] = shortened(text_of(row[-1]), left) if left >= _LEAST else ""
