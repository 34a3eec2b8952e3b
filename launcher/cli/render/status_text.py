"""Render one app as text: a few facts, then a table of its replicas."""

from __future__ import annotations

import time

from launcher.cli.render.apps import ran_for
from launcher.cli.render.tables import table, width
from launcher.cli.render.values import WAITING, ago, is_waiting, state_cell, timestamp, took, used
from launcher.inventory.status import root_cause
from launcher.text import cores, memory, paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launcher.cli.render.tables import Cell
    from launcher.state.records import AppRecord, ReplicaRecord

_GOOD = ("running", "succeeded")  # in these states, messages of replicas are notes, such as their ports
_COLUMNS = 80  # the table of replicas drops the column of use where it would be wider than this
_MOST_REPLICAS = 100  # where there are more replicas, only those in other states are listed


def status_text(app: AppRecord, *, more: Mapping[str, str] | None = None, color: bool = False) -> str:
    """Return the text of `status`, without a newline at the end.

    Args:
        more: further facts to show, by name.
    """
    now = time.time()
    state, style = state_cell(app.state)
    head = f"{paint(app.name or app.app_id, 'bold', color)}  {paint(state, style, color)}"
    facts = [*_facts(app, now), *(more or {}).items()]
    size = max(len(name) for name, _ in facts)
    lines = [
        head,
        *(f"  {paint(name.ljust(size), 'dim', color)}  {_below(value, size)}" for name, value in facts),
    ]
    cause = root_cause(app)
    if cause and (error := cause.error):
        from launcher.cli.render.error_text import root_cause_text

        lines += ["", root_cause_text(cause, error, app.handle, color=color)]
    if app.replicas:
        lines += ["", _replicas(app, now, color)]
    return "\n".join(lines)


def _below(value: str, size: int) -> str:
    """Indent further lines of a value below its first."""
    return value.replace("\n", "\n" + " " * (size + 4))


def _facts(app: AppRecord, now: float) -> Iterator[tuple[str, str]]:
    yield "app", app.handle
    if app.job:
        target = "" if app.target == "default" else f", target {app.target}"
        yield "job", f"{app.job} in project {app.project}{target}, attempt {app.number}"
    if app.created_at:
        yield "created", f"{timestamp(app.created_at)} ({ago(app.created_at, now)})"
    if ran := ran_for(app, now):
        yield ("running for" if app.is_live else "took"), ran
    if app.used:
        yield "used", "\n".join(_used(app))
    if app.made_output:
        yield "output", app.made_output
    if app.num_restarts:
        yield "restarts", str(app.num_restarts)
    if app.exit_code:
        yield "exit code", str(app.exit_code)
    if app.message:
        yield "why", app.message
    if app.logs_removed:
        yield "logs", "removed"
    for warning in app.warnings:
        yield "warning", warning


def _used(app: AppRecord) -> Iterator[str]:
    """A line for each role, with its name where there are several."""
    for role, use in app.used.items():
        if not role:
            yield f"{used(use)} by processes that outlived their replica"
        else:
            yield used(use) if len(app.used) == 1 else f"{role}: {used(use)}"


def _replicas(app: AppRecord, now: float, color: bool) -> str:
    shown = app.replicas
    hidden = 0
    if len(shown) > _MOST_REPLICAS:
        shown = [replica for replica in shown if replica.state not in _GOOD][:_MOST_REPLICAS]
        hidden = len(app.replicas) - len(shown)
    rows: list[list[Cell]] = [
        [
            f"{replica.role}/{replica.k}",
            state_cell("waiting" if _waits(replica) else replica.state),
            "" if replica.exit_code is None else str(replica.exit_code),
            str(replica.num_restarts) if replica.num_restarts else "",
            ago(replica.started_at, now),
            took(replica.started_at, replica.ended_at, now if replica.state == "running" else None),
            _use(replica),
            _why(replica),
            replica.message if replica.state in _GOOD else "",
        ]
        for replica in shown
    ]
    headings = ["REPLICA", "STATE", "EXIT", "RESTARTS", "STARTED", "TOOK", "USED", "WHY", "NOTE"]
    text = _fitting(headings, rows, color) if rows else ""
    counts = [
        f"{[r.state for r in app.replicas].count(s)} {s}" for s in sorted({r.state for r in app.replicas})
    ]
    rest = f"{len(app.replicas)} replicas: {', '.join(counts)}" if hidden else ""
    return "\n".join(part for part in (text, rest) if part)


def _fitting(headings: list[str], rows: list[list[Cell]], color: bool) -> str:
    """The table, without the column of use if its lines are too long with it."""
    if max(map(width, table(headings, rows).splitlines())) > _COLUMNS:
        at = headings.index("USED")
        headings = headings[:at] + headings[at + 1 :]
        rows = [row[:at] + row[at + 1 :] for row in rows]
    return table(headings, rows, color=color)


def _use(replica: ReplicaRecord) -> str:
    """`1.8 cores, 3.1 GiB`, of its last run; "" where that is unknown."""
    use = replica.use
    if use is None:
        return ""
    words = [cores(use.cores)] if use.wall_s else []
    return ", ".join([*words, memory(use.memory / 2**20)] if use.memory else words)


def _waits(replica: ReplicaRecord) -> bool:
    """Whether the replica waits for another role: its message then begins with `WAITING`."""
    return replica.state == "pending" and is_waiting(replica.message)


def _why(replica: ReplicaRecord) -> str:
    """The first line of the replica's error, and the scheduler's message about it."""
    error, message = replica.error, "" if replica.state in _GOOD else replica.message
    if _waits(replica):
        message = message.removeprefix(WAITING)
    if error is None:
        return message
    from launcher.cli.render.error_text import short

    return f"{short(error)} ({message})" if message else short(error)
