"""The notification of an outcome, launcher.notification/v1: its id, its body, and the schema of the body."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from launcher.specs.notify import OUTCOMES

if TYPE_CHECKING:
    from launcher.state.records import AppRecord

VERSION: Final = "launcher.notification/v1"
_FIELDS: Final = ("project", "target", "job", "attempt", "app_id", "handle", "scheduler", "state", "message")
_OTHERS: Final = ("exit_code", "created_at", "started_at", "ended_at", "commit", "actor", "output")


def id_of(app_id: str, state: str, home: str) -> str:
    """The id of an outcome. Every try to send the outcome has this one.

    Args:
        home: the token of the state folder: another folder may have an attempt with the same app id.
    """
    return f"{app_id}_{state}_{home}"


def body_of(app: AppRecord) -> str:
    """The body of the notification of an app that has ended, one line of ASCII."""
    data = {
        **{name: getattr(app, name) for name in (*_FIELDS, *_OTHERS) if name != "attempt"},
        "attempt": app.number,
        "output": app.made_output or None,
        "commit": app.commit or None,
        "actor": app.actor or None,
    }
    ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(app.ended_at or time.time()))
    ordered = {name: data[name] for name in (*_FIELDS, *_OTHERS)}
    return json.dumps(
        {"type": f"attempt.{app.state}", "timestamp": ended, "version": VERSION, "data": ordered},
        separators=(",", ":"),
    )


def notification_schema() -> dict[str, Any]:
    text, absent = {"type": "string"}, {"type": ["string", "null"]}
    seconds = {"type": ["number", "null"], "description": "Seconds since the epoch; null where unknown."}
    data: dict[str, Any] = {
        **dict.fromkeys(("project", "target", "job"), text),
        "attempt": {"type": "integer", "description": "The number of the attempt of its job."},
        **dict.fromkeys(("app_id", "handle", "scheduler"), text),
        "state": {"enum": [*OUTCOMES], "description": "The outcome. A real one may follow `lost`."},
        "message": {**text, "description": "The reason, with the first error of a replica; may be empty."},
        "exit_code": {"type": ["integer", "null"], "description": "Of the replica that decided a failure."},
        **dict.fromkeys(("created_at", "started_at", "ended_at"), seconds),
        "commit": {**absent, "description": "The commit of the job file."},
        "actor": {**absent, "description": "The user that applied it."},
        "output": {**absent, "description": "The address of its output folder."},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:notification-v1",
        "title": "launcher notification",
        "description": "What `[notify]` and `apply --notify` send. Later versions may add fields.",
        "type": "object",
        "properties": {
            "type": {"enum": [f"attempt.{state}" for state in OUTCOMES]},
            "timestamp": {**text, "description": "When the attempt ended, in UTC."},
            "version": {"const": VERSION},
            "data": {"type": "object", "properties": data, "required": [*data]},
        },
        "required": ["type", "timestamp", "version", "data"],
    }
