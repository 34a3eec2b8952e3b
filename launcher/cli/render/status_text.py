"""One app for people: a few facts, then its replicas as a table."""

from __future__ import annotations

import time

from launcher.cli.render.tables import table
from launcher.cli.render.values import ago, state_cell, timestamp, took
from launcher.text import paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launcher.cli.inspect_app import Inspected, Replica
    from launcher.cli.render.tables import Cell

_MOST_REPLICAS = 100  # shown one by one; of more, those that need a look


def status_text(found: Inspected, *, more: Mapping[str, str] | None = None, color: bool = False) -> str:
    """Without a newline at the end.

    Args:
        more: further facts to show, by name.
    """
    item, now = found.item, time.time()
    state, style = state_cell(item.state)
    head = f"{paint(item.name or item.app_id, 'bold', color)}  {paint(state, style, color)}"
    facts = [*_facts(found, now), *(more or {}).items()]
    size = max(len(name) for name, _ in facts)
    lines = [
        head,
        *(f"  {paint(name.ljust(size), 'dim', color)}  {_below(value, size)}" for name, value in facts),
    ]
    cause = found.root_cause
    if cause and (error := cause.error):
        from launcher.cli.render.error_text import root_cause_text

        lines += ["", root_cause_text(cause, error, item.handle, color=color)]
    if found.replicas:
        lines += ["", _replicas(found, now, color)]
    return "\n".join(lines)


def _below(value: str, size: int) -> str:
    """Further lines of a value start below its first, so that they pass for no fact."""
    return value.replace("\n", "\n" + " " * (size + 4))


def _facts(found: Inspected, now: float) -> Iterator[tuple[str, str]]:
    item = found.item
    yield "app", item.handle
    if item.job:
        target = "" if item.target == "default" else f", target {item.target}"
        yield "job", f"{item.job} in project {item.project}{target}, attempt {item.attempt}"
    if item.created_at:
        yield "created", f"{timestamp(item.created_at)} ({ago(item.created_at, now)})"
    if ran := item.took(now):
        yield ("runs for" if item.is_live else "took"), ran
    if found.num_restarts:
        yield "restarts", str(found.num_restarts)
    if item.exit_code:
        yield "exit code", str(item.exit_code)
    if item.message:
        yield "why", item.message
    for warning in found.warnings:
        yield "warning", warning


def _replicas(found: Inspected, now: float, color: bool) -> str:
    told = found.replicas
    quiet = 0
    if len(told) > _MOST_REPLICAS:
        told = [replica for replica in told if replica.state not in ("running", "succeeded")][:_MOST_REPLICAS]
        quiet = len(found.replicas) - len(told)
    rows: list[list[Cell]] = [
        [
            f"{replica.role}/{replica.k}",
            state_cell(replica.state),
            "" if replica.exit_code is None else str(replica.exit_code),
            str(replica.num_restarts) if replica.num_restarts else "",
            ago(replica.started_at, now),
            took(replica.started_at, replica.ended_at, now if replica.state == "running" else None),
            _why(replica),
        ]
        for replica in told
    ]
    headings = ["REPLICA", "STATE", "EXIT", "RESTARTS", "STARTED", "TOOK", "WHY"]
    text = table(headings, rows, color=color) if rows else ""
    counts = [
        f"{[r.state for r in found.replicas].count(s)} {s}" for s in sorted({r.state for r in found.replicas})
    ]
    rest = f"{len(found.replicas)} replicas: {', '.join(counts)}" if quiet else ""
    return "\n".join(part for part in (text, rest) if part)


def _why(replica: Replica) -> str:
    """The first line of its error, and what its scheduler says."""
    error = replica.error
    if error is None:
        return replica.message
    from launcher.cli.render.error_text import short

    return f"{short(error)} ({replica.message})" if replica.message else short(error)
