"""The JSON Schema of events, launcher.event/v1: one object a line of `launcher apply --format jsonl`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from launcher.apply.events import VERSION, EventName
from launcher.schedulers.restarts import POLICIES

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_JOB: Final = {"project": _TEXT, "target": _TEXT, "job": _TEXT}
_ATTEMPT: Final = {**_JOB, "attempt": _NUMBER, "app_id": _TEXT, "handle": _TEXT}
_TIME: Final = {"type": ["number", "null"]}
_APP: Final = {**_JOB, "app_id": _TEXT}
_MOVING: Final = {**_ATTEMPT, "image": _TEXT, "done": _NUMBER, "total": _NUMBER}
_MOVED: Final = {**_ATTEMPT, "image": _TEXT}
_OPTIONAL: Final = frozenset({"hint", "done", "total", "line"})
_OPTIONAL_OF: Final[Mapping[EventName, frozenset[str]]] = {
    "attempt_queued": frozenset({"cpu", "memory_mb", "gpus"}),
    "stopping": frozenset({"message"}),
}

EVENTS: Final[Mapping[EventName, tuple[str, Mapping[str, Any]]]] = {
    "planned": (
        "The plan that is about to be carried out: how many jobs get which action.",
        {"counts": {"type": "object", "additionalProperties": _NUMBER}, "plan_digest": _TEXT},
    ),
    "waiting": ("Another client is applying this project, or submitting this job.", {**_JOB, "owner": _TEXT}),
    "kept": ("Nothing is to be done for the job.", _APP),
    "held": ("A policy decided to do nothing; the job needs attention.", _APP),
    "reserving": ("The id of a new attempt is about to be taken.", _ATTEMPT),
    "reserved": ("It is ours.", _ATTEMPT),
    "pulling": ("An image is being fetched; bytes done and in total where they are known.", _MOVING),
    "pulled": ("The image is there.", _MOVED),
    "building": (
        "An image is being built from a workspace; a line of the build's output.",
        {**_MOVED, "line": _TEXT},
    ),
    "built": ("The image is there.", _MOVED),
    "pushing": ("The image is being sent to its repository.", _MOVING),
    "pushed": ("The repository has it.", _MOVED),
    "creating": ("Its objects are about to be made.", _ATTEMPT),
    "created": ("All of them exist and were checked; nothing runs yet.", _ATTEMPT),
    "stopping": (
        "A live attempt is about to be stopped; or, with a message, what its stop waits for.",
        {**_APP, "attempt": _NUMBER, "message": _TEXT},
    ),
    "stopped": ("Nothing of it is left.", {**_APP, "attempt": _NUMBER}),
    "starting": ("The new attempt is about to be started.", _ATTEMPT),
    "started": (
        "Every replica was seen to start; of an attempt that was waiting (with --wait): its holder has begun"
        " to start them.",
        _ATTEMPT,
    ),
    "attempt_waiting": (
        "It is accepted, and starts once the attempts of these jobs have succeeded.",
        {**_ATTEMPT, "needs": {"type": "array", "items": _TEXT}},
    ),
    "attempt_queued": (
        "It is accepted, and starts when its turn comes: where it is in line and, in line for this machine,"
        " what it asks of it.",
        {**_ATTEMPT, "message": _TEXT, "cpu": {"type": "number"}, "memory_mb": _NUMBER, "gpus": _NUMBER},
    ),
    "attempt_skipped": (
        "A waiting or queued attempt has ended, and nothing of it has run: a job that it needs did not"
        " succeed, or it was withdrawn.",
        {**_APP, "attempt": _NUMBER, "message": _TEXT},
    ),
    "recorded": ("The ledger knows that it runs, waits or is in line.", _ATTEMPT),
    "restarting": (
        "A replica has failed, and it, its role or the whole app restarts (with --wait): which of its"
        " max_retries restarts this is, and the pause in seconds before it.",
        {
            **_APP,
            "role": _TEXT,
            "replica": _NUMBER,
            "policy": {"enum": [*POLICIES.values()]},
            "restart": _NUMBER,
            "max_retries": _NUMBER,
            "delay_s": {"type": "number"},
            "message": _TEXT,
        },
    ),
    "failed": (
        "The job could not be applied; nothing of it is left behind.",
        {**_JOB, "message": _TEXT, "hint": {"type": ["string", "null"]}},
    ),
    "interrupted": (
        "The apply was interrupted while it worked on the job: what became of that.",
        {**_JOB, "message": _TEXT},
    ),
    "log": (
        "Whole lines that a replica printed (with --logs).",
        {**_JOB, "role": _TEXT, "replica": _NUMBER, "text": _TEXT},
    ),
    "ended": (
        "An app has ended (with --wait): the exit code of the replica that decided it, when it started and"
        " when it ended (seconds since the epoch), where these are known.",
        {
            **_ATTEMPT,
            "state": _TEXT,
            "message": _TEXT,
            "exit_code": {"type": ["integer", "null"]},
            "started_at": _TIME,
            "ended_at": _TIME,
        },
    ),
    "done": (
        "The apply is over: its exit code, and what came of every job.",
        {"exit_code": _NUMBER, "jobs": {"type": "array", "items": {"type": "object"}}},
    ),
}
"""Every event: what it says, and its facts beside version, event, time and at.

`time` is when it was noticed, `at` when it happened, both in seconds since the epoch.
"""


def event_schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:event-v1",
        "title": "An event of launcher apply --format jsonl",
        "oneOf": [_of(name, *about) for name, about in EVENTS.items()],
    }


def _of(name: EventName, says: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    common = {
        "version": {"const": VERSION},
        "event": {"const": name},
        "time": {"type": "number", "description": "When it was noticed, in seconds since the epoch."},
        "at": {"type": "number", "description": "When it happened; the same, or earlier."},
    }
    return {
        "title": name,
        "description": says,
        "type": "object",
        "properties": {**common, **facts},
        "required": [
            *common,
            *(fact for fact in facts if fact not in _OPTIONAL | _OPTIONAL_OF.get(name, frozenset())),
        ],
        "additionalProperties": False,
    }
