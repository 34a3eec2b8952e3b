"""Rows of the store: what an attempt is in SQLite."""

from __future__ import annotations

from launcher.database import RESTORE
from launcher.errors import DamagedError
from launcher.state.records import AppRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from launcher.specs.attempt import Attempt

VERSION = 2

SCHEMA = """
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    project TEXT NOT NULL, target TEXT NOT NULL, job TEXT NOT NULL, number INTEGER NOT NULL,
    app_id TEXT NOT NULL, scheduler TEXT NOT NULL, digest TEXT NOT NULL,
    origin TEXT NOT NULL, path TEXT NOT NULL, git_commit TEXT NOT NULL, actor TEXT NOT NULL,
    action TEXT NOT NULL, plan_digest TEXT NOT NULL, plan_id TEXT NOT NULL, created_at REAL NOT NULL,
    state TEXT NOT NULL, started_at REAL, ended_at REAL, owner TEXT NOT NULL, message TEXT NOT NULL,
    exit_code INTEGER, metadata TEXT NOT NULL, document BLOB NOT NULL,
    trigger_digest TEXT NOT NULL DEFAULT '',
    UNIQUE (job, project, target, number)
);
CREATE INDEX attempts_by_app ON attempts (app_id);
CREATE INDEX attempts_by_plan ON attempts (plan_id) WHERE plan_id <> '';
CREATE INDEX attempts_live ON attempts (app_id) WHERE state IN ('reserved', 'created', 'running');
"""

UPGRADES = {1: "ALTER TABLE attempts ADD COLUMN trigger_digest TEXT NOT NULL DEFAULT ''"}
"""From each earlier version of the schema to the one after it."""

# The order of an attempt's values in a row; `document` and `metadata` come last.
_KEY = ("project", "target", "job")
_PLAIN = (
    "number", "app_id", "scheduler", "digest", "origin", "path", "git_commit", "actor",
    "action", "plan_digest", "plan_id", "created_at",
    "state", "started_at", "ended_at", "owner", "message", "exit_code", "trigger_digest",
)  # fmt: skip
COLUMNS = (*_KEY, *_PLAIN, "metadata", "document")
_FIELDS = tuple("commit" if name == "git_commit" else name for name in _PLAIN)  # COMMIT is a word of SQL


SHORT = (
    "project", "target", "job", "number", "app_id", "scheduler", "digest", "plan_id",
    "state", "created_at", "started_at", "ended_at", "message", "exit_code",
)  # fmt: skip
"""The columns that make an AppRecord, in the order of `to_record`."""


def to_record(row: tuple[Any, ...]) -> AppRecord:
    """The record that a row with the values of SHORT stands for."""
    project, target, job, number, app_id, scheduler, digest, plan_id, *seen = row
    state, created_at, started_at, ended_at, message, exit_code = seen
    session = project if target == "default" else f"{project}.{target}"  # JobKey.session, without the specs
    return AppRecord(
        scheduler,
        session,
        app_id,
        key=(project, target, job),
        number=number,
        digest=digest,
        plan_id=plan_id,
        state=state,
        created_at=created_at,
        started_at=started_at,
        ended_at=ended_at,
        message=message,
        exit_code=exit_code,
    )


def from_attempt(attempt: Attempt) -> tuple[Any, ...]:
    """The values of COLUMNS."""
    return (
        *attempt.key,
        *(getattr(attempt, name) for name in _FIELDS),
        _text(attempt.metadata),
        _pack(attempt.document),
    )


def to_attempt(row: tuple[Any, ...]) -> Attempt:
    """The attempt that a row with the values of COLUMNS stands for.

    Raises DamagedError for values that no version of launcher wrote.
    """
    import json
    import zlib

    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey

    *plain, metadata, document = row
    try:
        return Attempt(
            key=JobKey(*plain[:3]),
            **dict(zip(_FIELDS, plain[3:], strict=True)),
            metadata=json.loads(metadata),
            document=json.loads(zlib.decompress(document)),
        )
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        key = JobKey(*plain[:3])
        raise DamagedError(
            f"the ledger's document of {key}, attempt {plain[3]}, is damaged: {error}", hint=RESTORE
        ) from error


def _pack(document: Mapping[str, Any]) -> bytes:
    import zlib

    return zlib.compress(_text(document).encode(), 1)


def _text(value: Mapping[str, Any]) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
