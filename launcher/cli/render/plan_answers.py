"""Render the other answers of `launcher plan`: job files compared with those of another commit (`--base
--offline`), and the inputs and needs that a success stands on (`--explain`)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from launcher.cli.render.plan_lines import diff_lines
from launcher.cli.render.values import Cell, iso, table, timestamp
from launcher.plan.codec import encode
from launcher.plan.diff import Change, field
from launcher.plan.effects import Compared
from launcher.plan.explain import Explanation
from launcher.plan.model import Plan
from launcher.specs.launch import JobKey
from launcher.text import fenced, fold, named, paint, plural

_COLUMNS = 100


class _Line(NamedTuple):
    """A job, or matrix jobs with equal changes, which share a line with the changes of the first job."""

    key: JobKey
    mark: str
    words: str
    changes: Sequence[Change] = ()


def _lines(found: Compared, *, in_full: bool) -> list[list[_Line]]:
    """Return the groups of jobs that share a line."""
    lines = [_Line(key, "+", "added") for key in found.added]
    lines += [_Line(key, "~", _words(changes, others), changes) for key, changes, others in found.changed]
    lines += [_Line(key, "-", "removed") for key in found.removed]

    def family_of(line: _Line) -> tuple[str, str] | None:
        name = found.matrices[line.key]
        return (line.key.session, name) if name and not in_full else None

    def kind_of(line: _Line) -> tuple[Hashable, ...]:
        return line.mark, line.words, *((change.op, field(change.path)) for change in line.changes)

    return fold(lines, family_of, kind_of, lambda line: False)


_STYLES = {"+": "green", "~": "yellow", "-": "red"}


def comparison_text(found: Compared, base: str, *, color: bool = False, in_full: bool = False) -> str:
    """A line for each job that differs, its changes below it, and the counts.

    Args:
        in_full: every job has a line; else the jobs of a large matrix share some.
    """
    lines = []
    for jobs in _lines(found, in_full=in_full):
        line = f"{jobs[0].mark}   {named([str(each.key) for each in jobs])}: {jobs[0].words}"
        lines.append(paint(line, _STYLES[jobs[0].mark], color))
        lines += [f"      {change}" for change in jobs[0].changes]
    return "\n".join([*lines, *([""] if lines else []), f"{_summary(found)}", _label(base)])


def comparison_markdown(found: Compared, base: str, *, max_bytes: int, in_full: bool = False) -> str:
    """Return the comparison as Markdown of at most `max_bytes` bytes; jobs that do not fit are counted."""
    lines, parts = _lines(found, in_full=in_full), []
    for jobs in lines:
        first = jobs[0]
        body = "\n".join(line for change in first.changes for line in diff_lines(change, _COLUMNS))
        part = f"- `{first.mark}` {named([f'`{each.key}`' for each in jobs])} {first.words}"
        parts.append(part + (f"\n\n{fenced(body, 'diff')}\n" if body else ""))
    kept = len(parts)
    while True:
        left = sum(map(len, lines[kept:]))
        cut = [f"> {plural(left, 'job')} left out"] if left else []
        head = [f"### Job files: {_summary(found)}", _label(base).capitalize() + ".", *cut]
        text = "\n\n".join([*head, *parts[:kept]]) + "\n"
        if len(text.encode()) <= max_bytes or not kept:
            return text
        kept -= max(1, kept // 10)


def comparison_json(found: Compared, base: str) -> dict[str, Any]:
    """Return the comparison as a JSON object."""
    return {
        "version": "launcher.comparison/v1",
        "base": base,
        "added": [key._asdict() for key in found.added],
        "changed": [
            {
                "key": key._asdict(),
                "changes": [
                    {"op": each.op, "path": each.path, "old": each.old, "new": each.new} for each in changes
                ],
                "others": list(others),
            }
            for key, changes, others in found.changed
        ],
        "removed": [key._asdict() for key in found.removed],
        "unchanged": found.unchanged,
    }


def _words(changes: Sequence[Change], others: Sequence[str]) -> str:
    words = [plural(len(changes), "change")] if changes else []
    return ", ".join([*words, *(f"`{name}` differs" for name in others)]) or "differs"


def _summary(found: Compared) -> str:
    counts = (len(found.added), len(found.changed), len(found.removed), found.unchanged)
    words = zip(counts, ("added", "changed", "removed", "unchanged"), strict=True)
    return ", ".join(f"{count:,} {word}" for count, word in words if count) or "no jobs"


def _label(base: str) -> str:
    return f"compared with {base} only: no state folder and no engine was asked"


_STANDING: dict[bool | None, Cell] = {
    True: ("current", "green"),
    False: ("changed", "yellow"),
    None: ("not compared", "dim"),
}
_SHA = re.compile(r":sha256:([0-9a-f]{8})[0-9a-f]{56}\Z")
"""Matches the end of a digest, which the table shortens to its first digits."""


def explanation_text(found: Explanation, *, color: bool = False) -> str:
    """Return the success, a line for each part that it stands on, and the plan's action, with a newline."""
    step, success = found.step, found.success
    verdict = f"Plan: {step.kind}: {step.why()}\n"
    if success is None:
        return f"{step.key.job}: no attempt has succeeded\n\n{verdict}"
    facts = ", ".join(filter(None, (success.short_commit, timestamp(success.ended_at))))
    head = f"{step.key.job} stands on attempt {success.number} ({facts}):"
    rows = [
        [_STANDING[part.is_current], part.what, part.name, _SHA.sub(r":\1", part.recorded), part.now]
        for part in found.parts
    ]
    return f"{head}\n\n{table(['STATE', 'PART', 'NAME', 'ON RECORD', 'NOW'], rows, color=color)}\n\n{verdict}"


def explanation_json(found: Explanation) -> dict[str, Any]:
    """Return the explanation as a JSON object. `is_current` is null for a part that is not compared."""
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
