"""Render attempts as a table and as JSON, and the differences of two attempts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from launcher.ci_environment import pull_request
from launcher.cli.render.values import ago, iso, named, state_cell, table, took
from launcher.holding.use import to_json
from launcher.text import paint, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launcher.cli.render.values import Cell
    from launcher.inventory.difference import Difference
    from launcher.specs.attempt import Attempt

_SHORT = 7
_NONE = "-"


def history_text(attempts: Sequence[Attempt], *, with_jobs: bool, color: bool) -> str:
    """A line for each attempt: number, state, action, times, commit, pull request, actor, reason."""
    now = time.time()
    names = ("JOB",) if with_jobs else ()
    headings = (*names, "ATTEMPT", "STATE", "ACTION", "CREATED", "TOOK", "COMMIT", "PULL", "BY", "WHY")
    rows: list[list[Cell]] = [
        [
            *([(each.key.job, "bold")] if with_jobs else []),
            str(each.number),
            state_cell(each.state),
            each.action,
            ago(each.created_at, now),
            took(each.started_at, each.ended_at, now if each.is_live else None),
            _commit(each.commit),
            pull_request(each.pull_request, each.run_url)[0] if each.pull_request else _NONE,
            each.actor,
            each.reason,
        ]
        for each in attempts
    ]
    return table(headings, rows, color=color)


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    """One attempt as `history --json` prints it."""
    return {
        **named(attempt),
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


def difference_text(found: Difference, *, color: bool) -> str:
    """The differences of two attempts, one a line; a sentence where there are none."""
    lines = [paint(f"{found.old} → {found.new}", "bold", color)]
    lines += [f"  {change}" for change in found.changes]
    lines += [
        f"  {name}: {printable(old) or _NONE} → {printable(new) or _NONE}" for name, old, new in found.facts
    ]
    if not found.changes:
        lines.append("  the documents are equal")
    return "\n".join(lines)


def _commit(commit: str) -> str:
    oid, dash, rest = commit.partition("-")
    return oid[:_SHORT] + dash + rest or _NONE
