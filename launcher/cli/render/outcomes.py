"""Render the result and the events of an apply: a line per job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.apply.events import Outcome, Result
from launcher.cli.render.values import Cell, room, shortened, state_cell, table, text_of
from launcher.specs.launch import JobKey
from launcher.text import FEW, fold, named, paint, width

_DONE = {
    "keep": "unchanged",
    "create": "created",
    "replace": "replaced",
    "rerun": "run again",
    "resume": "resumed",
    "destroy": "stopped",
    "hold": "held",
}

_HEADINGS = ("JOB", "DONE", "STATE", "APP", "WHY")
_BAD = ("failed", "lost", "cancelled", "skipped")
_LEAST = 24  # reasons get no fewer columns


def outcomes_text(
    outcomes: Sequence[Outcome],
    *,
    matrices: Mapping[JobKey, str] | None = None,
    color: bool = False,
    columns: int | None = None,
) -> str:
    """A table of the jobs: action, state, app and reason.

    Args:
        matrices: job → its matrix, for the jobs that share lines where many are alike.
        columns: width that lines fit if possible: handles become app ids, which commands accept too, and
            long reasons are cut, since the line of the ended job has shown them in full.
    """
    single = len({(outcome.key.project, outcome.key.target) for outcome in outcomes}) <= 1
    rows: list[list[Cell]] = []
    app_ids = []
    groups = fold(
        outcomes,
        family_of=lambda each: (matrices or {}).get(each.key),
        kind_of=lambda each: (each.key.session, each.kind, each.state, bool(each.error)),
        matters=lambda each: each.error or each.kind == "hold" or each.state in _BAD,
    )
    for group in groups:
        outcome = group[0]
        done = ("failed", "bold red") if outcome.error else _DONE[outcome.kind]
        name = named([each.key.job if single else str(each.key) for each in group])
        message = "" if outcome.held and outcome.state == "skipped" else outcome.message
        handle, app_id, why = outcome.handle, outcome.app_id, message or outcome.held
        if len(group) > 1:
            handle = app_id = why = ""
        rows.append([(name, "bold"), done, state_cell(outcome.state or ""), handle, why])
        app_ids.append(app_id)
    if columns is not None:
        _fit(rows, app_ids, columns)
    return table(_HEADINGS, rows, color=color)


def outputs_text(outcomes: Sequence[Outcome], *, color: bool = False) -> str:
    """A table of the jobs' output folders, whose addresses are never cut."""
    rows: list[list[Cell]] = [[(outcome.key.job, "bold"), outcome.output] for outcome in outcomes]
    return table(("JOB", "OUTPUT"), rows, color=color)


def _fit(rows: list[list[Cell]], app_ids: Sequence[str], columns: int) -> None:
    wanted = min(_LEAST, max((width(text_of(row[-1])) for row in rows), default=0))
    if room(_HEADINGS, rows, columns) < wanted:
        for row, app_id in zip(rows, app_ids, strict=True):
            row[3] = app_id
    if room(_HEADINGS, rows, columns) < 0:  # an app id begins with the name of its job
        for row in rows:
            row[0] = "" if row[3] else row[0]
    left = max(room(_HEADINGS, rows, columns), 0)
    for row in rows:
        row[-1] = shortened(text_of(row[-1]), left) if left >= min(_LEAST, wanted) else ""


def errors_text(outcomes: Sequence[Outcome], *, color: bool = False) -> list[str]:
    """The errors of jobs that could not be applied, one text each."""
    lines = []
    for outcome in outcomes:
        if outcome.error:
            hint = f"\n{paint('hint:', 'bold cyan', color)} {outcome.hint}" if outcome.hint else ""
            lines.append(f"{paint('error:', 'bold red', color)} {outcome.key.job}: {outcome.error}{hint}")
    return lines


def result_json(result: Result) -> dict[str, Any]:
    """The result as a JSON object, as `launcher schema result` describes it."""
    failed = [outcome for outcome in result.outcomes if outcome.error]
    return {
        "exit": result.exit_code,
        "jobs": list(map(outcome_json, result.outcomes)),
        "problems": [
            {
                "what": outcome.key.job,
                "code": outcome.code,
                "message": outcome.error,
                "hint": outcome.hint or None,
                "exit": result.exit_code,
            }
            for outcome in failed
        ],
    }


def outcome_json(outcome: Outcome) -> dict[str, Any]:
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
        "output": outcome.output or None,
        "error": outcome.error or None,
        "hint": outcome.hint or None,
        "warnings": list(outcome.warnings),
    }


_EVENT_WORDS = {
    "waiting": "waiting for another apply",
    "stopping": "stopping",
    "stopped": "stopped",
    "started": "started",
}

_BEFORE_MESSAGE = {"attempt_queued": "is ", "restarting": "", "interrupted": "interrupted: "}


def event_line(event: Mapping[str, Any], *, color: bool = False) -> str | None:
    """A line for an event; None for events that are not shown."""
    name, job = str(event["event"]), paint(str(event["job"]), "bold", color)
    if name == "ended":
        word, style = state_cell(str(event.get("state", "")))
        why = str(event.get("message") or "")
        if why.startswith("cancelled by ") and event.get("state") == "cancelled":
            return f"{job} {paint(word, style, color)}{why.removeprefix('cancelled')}"
        return f"{job} {paint(word, style, color)}{': ' if why else ''}{why}"
    if name == "attempt_waiting":
        return f"{job} waits for {', '.join(event['needs'])}"
    if name == "attempt_skipped":
        word, style = state_cell("skipped")
        return f"{job} {paint(word, style, color)}: {event['message']}"
    if name in _BEFORE_MESSAGE:
        return f"{job} {_BEFORE_MESSAGE[name]}{event['message']}"
    if name == "waiting":
        owner = event.get("owner") or event.get("message") or ""
        return f"{job} {_EVENT_WORDS[name]}{': ' if owner else ''}{owner}"
    if name == "stopping" and event.get("message"):
        return f"{job} waiting for {event['app_id']} to stop: {event['message']}"
    if name in _EVENT_WORDS:
        return f"{job} {_EVENT_WORDS[name]} {event.get('handle') or event.get('app_id') or ''}".rstrip()
    return None


_COUNTED = {
    "attempt_waiting": "wait for others",
    "attempt_queued": "are in line",
    "started": "started",
    "stopping": "are stopping",
    "stopped": "stopped",
    "succeeded": "succeeded",
}
"""Event → phrase for the events of a large matrix that are counted. Each failure has a line."""


class EventLines:
    """The lines of events; of a large matrix the first few of a kind, then numbers: 20, 50, 100, 200, …

    Args:
        matrices: job → its matrix, for the jobs whose many events are counted.
    """

    def __init__(self, matrices: Mapping[JobKey, str]) -> None:
        sizes = Counter(filter(None, matrices.values()))
        self._large = {key: matrix for key, matrix in matrices.items() if sizes[matrix] > 2 * FEW}
        self._seen: Counter[tuple[str, str]] = Counter()

    def line(self, key: JobKey, event: Mapping[str, Any], *, color: bool = False) -> str | None:
        """The line for an event of a job; None for events that are not shown."""
        kind = str(event.get("state") if event["event"] == "ended" else event["event"])
        matrix = self._large.get(key)
        if matrix is None or kind not in _COUNTED:
            return event_line(event, color=color)
        self._seen[matrix, kind] += 1
        count = self._seen[matrix, kind]
        if count <= FEW:
            return event_line(event, color=color)
        is_round = str(count).rstrip("0") in ("1", "2", "5")
        return f"{paint(matrix, 'bold', color)}: {count:,} jobs {_COUNTED[kind]}" if is_round else None
