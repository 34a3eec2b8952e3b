"""What came of an apply: one line per job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.apply.events import Outcome, Result
from launcher.cli.render.tables import table
from launcher.cli.render.values import state_cell
from launcher.text import paint

_DONE = {
    "keep": "unchanged",
    "create": "created",
    "replace": "replaced",
    "rerun": "run again",
    "resume": "resumed",
    "destroy": "stopped",
    "hold": "held",
}


def outcomes_text(outcomes: Sequence[Outcome], *, color: bool = False) -> str:
    """A table of the jobs, and below it why a job could not be applied or how it ended."""
    single = len({outcome.key.session for outcome in outcomes}) <= 1
    rows = []
    for outcome in outcomes:
        done = ("failed", "bold red") if outcome.error else _DONE[outcome.kind]
        name = outcome.key.job if single else str(outcome.key)
        rows.append([(name, "bold"), done, state_cell(outcome.state or ""), outcome.handle, outcome.message])
    return table(["JOB", "DONE", "STATE", "APP", "WHY"], rows, color=color)


def errors_text(outcomes: Sequence[Outcome], *, color: bool = False) -> list[str]:
    """Why jobs could not be applied, one text each."""
    lines = []
    for outcome in outcomes:
        if outcome.error:
            hint = f"\n{paint('hint:', 'bold cyan', color)} {outcome.hint}" if outcome.hint else ""
            lines.append(f"{paint('error:', 'bold red', color)} {outcome.key.job}: {outcome.error}{hint}")
    return lines


def result_json(result: Result) -> dict[str, Any]:
    """The result as a JSON object."""
    return {"exit_code": result.exit_code, "jobs": [_outcome_json(outcome) for outcome in result.outcomes]}


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "project": outcome.key.project,
        "target": outcome.key.target,
        "job": outcome.key.job,
        "action": outcome.kind,
        "attempt": outcome.attempt or None,
        "app_id": outcome.app_id or None,
        "handle": outcome.handle or None,
        "state": outcome.state,
        "message": outcome.message,
        "error": outcome.error or None,
        "hint": outcome.hint or None,
        "warnings": list(outcome.warnings),
    }


_EVENT_WORDS = {
    "waiting": "waits for another apply",
    "stopping": "stopping",
    "stopped": "stopped",
    "started": "started",
    "pulling": "pulls",
    "pulled": "has pulled",
    "building": "builds",
    "built": "has built",
    "pushing": "pushes",
    "pushed": "has pushed",
}
IMAGE_EVENTS = ("pulling", "pulled", "building", "built", "pushing", "pushed")


def event_line(event: Mapping[str, Any], *, color: bool = False) -> str | None:
    """One line for an event that people want to see; None for the others."""
    name, job = str(event["event"]), paint(str(event["job"]), "bold", color)
    if name == "ended":
        word, style = state_cell(str(event.get("state", "")))
        why = f": {event['message']}" if event.get("message") else ""
        return f"{job} {paint(word, style, color)}{why}"
    if name == "interrupted":
        return f"{job} interrupted: {event['message']}"
    if name == "waiting":
        owner = event.get("owner") or event.get("message") or ""
        return f"{job} {_EVENT_WORDS[name]}{': ' if owner else ''}{owner}"
    if name in IMAGE_EVENTS:
        return _image_line(event, job)
    if name == "stopping" and event.get("message"):
        return f"{job} waiting for {event['app_id']} to stop: {event['message']}"
    if name in _EVENT_WORDS:
        return f"{job} {_EVENT_WORDS[name]} {event.get('handle') or event.get('app_id') or ''}".rstrip()
    return None


def _image_line(event: Mapping[str, Any], job: str) -> str | None:
    """That it begins, each line of a build, and that it is done; how far it is, is for terminals alone."""
    name, image = str(event["event"]), str(event["image"])
    if event.get("line"):
        return f"{job} {image}: {event['line']}"
    if event.get("done"):
        return None
    return f"{job} {_EVENT_WORDS[name]} {image}"


def image_progress(event: Mapping[str, Any]) -> str:
    """`pulls python:3.12 12 of 48 MB`, for a terminal; "" when it is done."""
    name, image = str(event["event"]), str(event["image"])
    if name in ("pulled", "built", "pushed"):
        return ""
    done, total = event.get("done") or 0, event.get("total") or 0
    much = f" {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else ""
    return f"{_EVENT_WORDS[name]} {image}{much}{'  ' if event.get('line') else ''}{event.get('line', '')}"
