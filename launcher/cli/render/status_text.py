"""Render one app as text: a few facts, the root cause of a failure, a table of its replicas.

Errors come from programs: their lines are cut, and unprintable characters are escaped.
"""

from __future__ import annotations

import time

from launcher.cli.render.apps import ran_for
from launcher.cli.render.values import (
    WAITING,
    ago,
    is_waiting,
    state_cell,
    table,
    timestamp,
    took,
    used,
    width,
)
from launcher.text import cores, memory, paint, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launcher.cli.render.values import Cell
    from launcher.specs.replica_error import ReplicaError
    from launcher.state.records import AppRecord, ReplicaRecord


_GOOD = ("running", "succeeded")  # in these states, messages of replicas are only notes, such as their ports
_COLUMNS = 80  # a wider table of replicas drops the column of use
_MOST_REPLICAS = 100  # above this number, only replicas in other states are listed


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
    cause = app.root_cause
    if cause and (error := cause.error):
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
    if rows and max(map(width, table(headings, rows).splitlines())) > _COLUMNS:
        at = headings.index("USED")
        headings = headings[:at] + headings[at + 1 :]
        rows = [row[:at] + row[at + 1 :] for row in rows]
    text = table(headings, rows, color=color) if rows else ""
    states = [replica.state for replica in app.replicas]
    counts = [f"{states.count(state):,} {state}" for state in sorted({*states})]
    rest = f"{len(states):,} replicas: {', '.join(counts)}" if hidden else ""
    return "\n".join(part for part in (text, rest) if part)


def _use(replica: ReplicaRecord) -> str:
    """`1.8 cores, 3.1 GiB`, of its last run; "" where that is unknown."""
    use = replica.use
    if use is None:
        return ""
    words = [cores(use.cores)] if use.has_cores else []
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

    return f"{short(error)} ({message})" if message else short(error)


_LAST_LINES = 8
_WIDTH = 160
_SHORT = 80


def short(error: ReplicaError) -> str:
    """The error in one short line, for a table."""
    return _line(error.summary, _SHORT)


def root_cause_text(replica: ReplicaRecord, error: ReplicaError, app: str, *, color: bool = False) -> str:
    """Several lines: replica, error, exit code, time, host, and the end of its call stack.

    Args:
        app: the handle to show in the hint.
    """
    facts = [
        f"exit code {error.exit_code}" if error.exit_code is not None else "",
        f"at {_moment(error.time)}" if _moment(error.time) else "",
        f"on {_line(replica.host)}" if replica.host else "",
    ]
    head = f"{replica.role}/{replica.k}: {error.summary}"
    lines = [f"{paint('ROOT CAUSE', 'bold red', color)}  {paint(head, 'bold', color)}"]
    if any(facts):
        lines.append("  " + "  ".join(fact for fact in facts if fact))
    more = error.callstack.strip("\n").splitlines() or error.message.strip().splitlines()[1:]
    lines += [f"  {paint('|', 'dim', color)} {line}".rstrip() for line in map(_line, more[-_LAST_LINES:])]
    if len(more) > _LAST_LINES:
        hint = f"all {len(more)} lines are in `launcher status {app} --json`"
        lines.append(f"  {paint('hint:', 'bold cyan', color)} {hint}")
    return "\n".join(lines)


def _line(text: str, width: int = _WIDTH) -> str:
    short = text if len(text) <= width else f"{text[: width - 2]} …"
    return printable(short.expandtabs(4))


def _moment(time: float | None) -> str:
    """The time as text; "" if it is out of range."""
    try:
        return timestamp(time)
    except (ValueError, OverflowError, OSError):
        return ""
