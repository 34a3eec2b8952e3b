"""Render the inputs and needs that a success stands on: as a table, and as JSON."""

from __future__ import annotations

import re
from typing import Any

from launcher.cli.render.values import Cell, iso, table, timestamp
from launcher.plan.codec import encode
from launcher.plan.explain import Basis, Explanation
from launcher.plan.model import Plan
from launcher.plan.why import short_commit

_WORDS: dict[bool | None, Cell] = {
    True: ("current", "green"),
    False: ("changed", "yellow"),
    None: ("not compared", "dim"),
}
_SHA = re.compile(r":sha256:([0-9a-f]{8})[0-9a-f]{56}\Z")
"""The end of a digest, which the table shows by its first digits."""


def explanation_text(found: Explanation, *, color: bool = False) -> str:
    """Return the success, a line for each part that it stands on, and the plan's action, with a newline."""
    step, success = found.step, found.success
    verdict = f"Plan: {step.kind}: {step.why()}\n"
    if success is None:
        return f"{step.key.job}: no attempt has succeeded\n\n{verdict}"
    facts = ", ".join(filter(None, (short_commit(success), timestamp(success.ended_at))))
    head = f"{step.key.job} stands on attempt {success.number} ({facts}):"
    rows = [_row(part) for part in found.parts]
    return f"{head}\n\n{table(['STATE', 'PART', 'NAME', 'ON RECORD', 'NOW'], rows, color=color)}\n\n{verdict}"


def _row(part: Basis) -> list[Cell]:
    return [_WORDS[part.is_current], part.what, part.name, _SHA.sub(r":\1", part.recorded), part.now]


def explanation_json(found: Explanation) -> dict[str, Any]:
    """The same as a JSON object. `is_current` is null for a part that is not compared."""
    [job] = encode(Plan(steps=(found.step,)))["jobs"]
    success = found.success
    attempt = success and {
        "attempt": success.number,
        "edition": success.edition,
        "app_id": success.app_id,
        "scheduler": success.scheduler,
        "commit": success.commit,
        "actor": success.actor,
        "created_at": iso(success.created_at),
        "ended_at": iso(success.ended_at),
    }
    stands_on = [
        {
            "part": part.what,
            "name": part.name,
            "recorded": part.recorded,
            "is_current": part.is_current,
            "now": part.now,
        }
        for part in found.parts
    ]
    about = {"key": job["key"], "action": job["action"], "reasons": job["reasons"]}
    return {**about, "success": attempt, "stands_on": stands_on}
