"""Render a comparison of job files with those of another commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.cli.render.changes import diff_lines
from launcher.plan.attribution import Compared
from launcher.plan.diff import Change
from launcher.text import fenced, paint, plural

_COLUMNS = 100


def comparison_text(found: Compared, base: str, *, color: bool = False) -> str:
    """A line for each job that differs, its changes below it, and the counts."""
    lines = [paint(f"+   {key}: added", "green", color) for key in found.added]
    for key, changes, others in found.changed:
        lines.append(paint(f"~   {key}: {_words(changes, others)}", "yellow", color))
        lines += [f"      {change}" for change in changes]
    lines += [paint(f"-   {key}: removed", "red", color) for key in found.removed]
    return "\n".join([*lines, *([""] if lines else []), f"{_summary(found)}", _label(base)])


def comparison_markdown(found: Compared, base: str, *, max_bytes: int) -> str:
    """The same as Markdown of at most `max_bytes` bytes; jobs that do not fit are counted."""
    parts = [f"- `+` `{key}` added" for key in found.added]
    for key, changes, others in found.changed:
        body = "\n".join(line for change in changes for line in diff_lines(change, _COLUMNS))
        parts.append(
            f"- `~` `{key}` {_words(changes, others)}" + (f"\n\n{fenced(body, 'diff')}\n" if body else "")
        )
    parts += [f"- `-` `{key}` removed" for key in found.removed]
    kept = len(parts)
    while True:
        cut = [f"> {plural(len(parts) - kept, 'job')} left out"] if kept < len(parts) else []
        head = [f"### Job files: {_summary(found)}", _label(base).capitalize() + ".", *cut]
        text = "\n\n".join([*head, *parts[:kept]]) + "\n"
        if len(text.encode()) <= max_bytes or not kept:
            return text
        kept -= max(1, kept // 10)


def comparison_json(found: Compared, base: str) -> dict[str, Any]:
    """The same as a JSON object."""
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
    return ", ".join(f"{count} {word}" for count, word in words if count) or "no jobs"


def _label(base: str) -> str:
    return f"compared with {base} only: no state folder and no engine was asked"
