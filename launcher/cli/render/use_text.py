"""Render what jobs asked for and what they used: as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.cli.render import values
from launcher.cli.render.tables import Cell, table
from launcher.inventory.use import Amount, JobUse
from launcher.plan.notation import field, show_at
from launcher.text import listing, plural

_WORDS = {"cpu_millis": "cores", "memory_bytes": "memory", "timeout_s": "time"}
_JSON = {"cpu_millis": "cores", "memory_bytes": "memory_bytes", "timeout_s": "time_s"}
_HEADINGS = ("JOB", "ROLE", "AMOUNT", "ASKED", "MEDIAN", "HIGHEST", "OF", "SOURCE", "SUGGESTED")
_NONE = "-"


def use_text(found: Sequence[JobUse], *, color: bool) -> str:
    """A line for each amount: asked for, median and highest of the attempts, suggestion."""
    rows = [row for use in found for row in _rows(use)]
    return table(_HEADINGS, rows, color=color)


def _rows(use: JobUse) -> list[list[Cell]]:
    name = f"{use.name} ({plural(len(use.keys), 'job')})" if len(use.keys) > 1 else use.name
    rows: list[list[Cell]] = []
    role = ""
    for amount in use.amounts:
        head: list[Cell] = ["" if rows else (name, "bold"), "" if amount.role == role else amount.role]
        role = amount.role
        rows.append([*head, *_cells(amount)])
    return rows or [[(name, "bold"), "", "", "", "", "", str(use.attempts), "", ""]]


def _cells(amount: Amount) -> list[Cell]:
    name = field(amount.path).rpartition(".")[2]
    suggested = "" if amount.suggested is None else f"{name}: {show_at(amount.path, amount.suggested)}"
    return [
        _WORDS[amount.name],
        _asked(amount),
        values.amount(amount.name, amount.median),
        values.amount(amount.name, amount.highest),
        str(len(amount.samples)),
        amount.source,
        (suggested, "green"),
    ]


def _asked(amount: Amount) -> str:
    if amount.asked is None:
        return _NONE
    is_time = amount.name == "timeout_s"
    return show_at(amount.path, amount.asked) if is_time else values.amount(amount.name, amount.asked)


def reasons(found: Sequence[JobUse]) -> list[str]:
    """Return the reasons why amounts far from their use have no suggestion, a line for each reason."""
    lines: dict[tuple[str, str], list[str]] = {}
    for use in found:
        for amount in use.amounts:
            if amount.reason:
                lines.setdefault((_WORDS[amount.name], amount.reason), []).append(use.name)
    return [
        f"{what} of {listing([*dict.fromkeys(names)])}: nothing is suggested, since {reason}"
        for (what, reason), names in lines.items()
    ]


def job_use_json(use: JobUse) -> dict[str, Any]:
    """The use of one job, or of the jobs of a matrix, as `use --json` prints it."""
    return {
        "name": use.name,
        "project": use.project,
        "target": use.target,
        "jobs": [key.job for key in use.keys],
        "path": use.path,
        "attempts": use.attempts,
        "amounts": list(map(_amount_json, use.amounts)),
    }


def _amount_json(amount: Amount) -> dict[str, Any]:
    def number(value: float) -> float:
        if amount.name == "memory_bytes":
            return round(value)
        return round(value / 1000 if amount.name == "cpu_millis" else value, 3)

    return {
        "amount": _JSON[amount.name],
        "role": amount.role or None,
        "asked": None if amount.asked is None else number(amount.asked),
        "median": number(amount.median),
        "highest": number(amount.highest),
        "attempts": len(amount.samples),
        "source": amount.source or None,
        "field": field(amount.path),
        "suggested": None if amount.suggested is None else show_at(amount.path, amount.suggested),
        "reason": amount.reason or None,
    }
