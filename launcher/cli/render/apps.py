"""Render apps: several as a table, one as text with its replicas; and apps and attempts as JSON objects.

Errors come from programs: their lines are cut, and unprintable characters are escaped.
"""

from __future__ import annotations

import time

from launcher.cli.render import values
from launcher.cli.render.values import (
    GAP,
    WAITING,
    ago,
    fit,
    is_waiting,
    iso,
    state_cell,
    table,
    text_of,
    timestamp,
    took,
    used,
)
from launcher.state.records import ENDED, LIVE, torchx_state
from launcher.text import cores, fold, memory, named, paint, plural, printable, width, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from launcher.cli.render.values import Cell
    from launcher.specs.attempt import Attempt
    from launcher.specs.replica_error import ReplicaError
    from launcher.state.records import AppRecord, ReplicaRecord

_HEADINGS = ("NAME", "ATTEMPT", "STATE", "CREATED", "TOOK", "APP", "WHY")
_APP = 5
_OPTIONAL = (1, 0, 4, 3)  # columns dropped on a narrow terminal, in this order: app ids hold name and attempt
_REASON = 24  # columns reserved for reasons
_LEAST = 12  # reasons get no fewer columns


def apps_table(
    apps: Sequence[AppRecord], *, in_full: bool = False, color: bool, columns: int | None = None
) -> str:
    """Return a line per app; the many apps of one job file in the same state share a line unless `in_full`.

    Args:
        columns: width that lines fit if possible. If handles do not fit, app ids replace them; users copy
            both, so neither is ever cut.
    """
    lines = fold(
        apps,
        family_of=lambda app: None if in_full else app.job_file,
        kind_of=lambda app: app.state,
        matters=lambda app: app.state in ("failed", "lost"),
    )
    rows = [_row(each, time.time()) for each in lines]
    if columns is not None:
        reason = max((width(text_of(row[-1])) for row in rows), default=0)
        ids = [named([app.app_id for app in each]) for each in lines]
        shorter = [(_APP, ids), *((column, [""] * len(rows)) for column in _OPTIONAL)]
        wanted = min(reason, _REASON) if reason else -len(GAP)
        fit(_HEADINGS, rows, columns, shorter, wanted=wanted, least=_LEAST)
    return table(_HEADINGS, rows, color=color)


def _row(apps: Sequence[AppRecord], now: float) -> list[Cell]:
    app, is_one = apps[0], len(apps) == 1
    return [
        (named([*dict.fromkeys(each.name for each in apps)]), "bold"),
        _attempts(apps),
        state_cell(app.state),
        ago(app.created_at, now),
        ran_for(app, now) if is_one else "",
        app.handle if is_one else "",
        app.message,
    ]


_MOST_RANGES = 3


def _attempts(apps: Sequence[AppRecord]) -> str:
    """`3`; of several attempts of one job `1..5,7`, as `--attempt` takes them, else how many there are.

    "" for apps without a job, and for several jobs with one attempt each.
    """
    jobs = {(app.session, app.name) for app in apps}
    numbers = {app.number for app in apps if app.number is not None}
    if not numbers or len(apps) == len(jobs) > 1:
        return ""
    first = [number for number in sorted(numbers) if number - 1 not in numbers]
    last = [number for number in sorted(numbers) if number + 1 not in numbers]
    if len(jobs) > 1 or len(first) > _MOST_RANGES:
        return f"{len(apps):,} in all"
    return ",".join(str(a) if a == b else f"{a}..{b}" for a, b in zip(first, last, strict=True))


def in_short(apps: Sequence[AppRecord], verb: str = "") -> str:
    """`4 apps: 1 running, 2 succeeded, 1 failed`; `4 apps VERB: …` with a verb."""
    counts: dict[str, int] = {}
    for app in apps:
        counts[app.state] = counts.get(app.state, 0) + 1
    return f"{plural(len(apps), 'app')}{verb and ' ' + verb}: {in_order(counts)}"


def in_order(counts: Mapping[str, int]) -> str:
    """`1 running, 2 succeeded, 1 failed`, from a mapping of states to numbers."""
    return ", ".join(f"{counts[each]:,} {each}" for each in (*LIVE, *ENDED, "unknown") if counts.get(each))


def ran_for(app: AppRecord, now: float) -> str:
    """The time from start to end, or to `now` while the app is live; "" if it is to start, or to start again.

    Excludes the time before the start, spent on images or on stopping an older attempt. Apps without a
    recorded start count from their creation; but cancelled and skipped ones never ran. Replicas do not count:
    a list does not know them.
    """
    if app.is_held:
        return ""
    has_not_run = app.is_live or app.state in ("cancelled", "skipped")
    start = app.started_at or (None if has_not_run else app.created_at)
    return took(start, app.ended_at, now if app.is_live else None)


def app_json(app: AppRecord) -> dict[str, Any]:
    """The JSON of `list`: without replicas."""
    return {
        "handle": app.handle,
        "app_id": app.app_id,
        "scheduler": app.scheduler,
        "session": app.session,
        "name": app.name,
        "project": app.project,
        "target": app.target,
        "job": app.job,
        "attempt": app.number,
        "commit": app.commit or None,
        "actor": app.actor or None,
        "state": torchx_state(app.state),
        "attempt_state": app.state,
        "created_at": iso(app.created_at),
        "started_at": iso(app.started_at),
        "ended_at": iso(app.ended_at),
        "exit_code": app.exit_code,
        "message": app.message,
        "output": app.made_output or None,
    }


def status_json(app: AppRecord) -> dict[str, Any]:
    """The JSON of `status`: with replicas and the first error."""
    from launcher.holding.use import to_json

    cause = app.root_cause
    return {
        **app_json(app),
        "num_restarts": app.num_restarts,
        "warnings": list(app.warnings),
        "used": to_json(app.used),
        "logs_removed": app.logs_removed,
        "root_cause": cause and {"role": cause.role, "replica": cause.k, **(_error_json(cause) or {})},
        "replicas": [_replica_json(replica) for replica in app.replicas],
    }


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    """One attempt as `history --json` prints it."""
    from launcher.holding.use import to_json

    return {
        **values.named(attempt),
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


def _replica_json(replica: ReplicaRecord) -> dict[str, Any]:
    return {
        "role": replica.role,
        "replica": replica.k,
        "state": "FAILED" if replica.state == "lost" else replica.state.upper(),
        "exit_code": replica.exit_code,
        "num_restarts": replica.num_restarts,
        "started_at": iso(replica.started_at),
        "ended_at": iso(replica.ended_at),
        "message": replica.message,
        "host": replica.host or None,
        "use": replica.use and replica.use.to_json(),
        "error": _error_json(replica),
    }


def _error_json(replica: ReplicaRecord) -> dict[str, Any] | None:
    error = replica.error
    if error is None:
        return None
    return {**error._asdict(), "time": iso(error.time), "host": replica.host or None}


_GOOD = ("running", "succeeded")  # in these states, messages of replicas are only notes, such as their ports
_COLUMNS = 80  # a wider table of replicas drops the column of use
_MOST_REPLICAS = 100  # above this number, only replicas in other states are listed


_PROSE = ("why", "warning", "needs")  # facts without commands, which a line break would spoil


def status_text(
    app: AppRecord, *, more: Mapping[str, str] | None = None, color: bool = False, columns: int | None = None
) -> str:
    """Return the text of `status`, without a newline at the end.

    Args:
        more: further facts to show, by name.
        columns: width to which prose is wrapped; None does not wrap.
    """
    now = time.time()
    state, style = state_cell(app.state)
    head = f"{paint(app.name or app.app_id, 'bold', color)}  {paint(state, style, color)}"
    facts = [*_facts(app, now), *(more or {}).items()]
    size = max(len(name) for name, _ in facts)
    lines = [head]
    for name, value in facts:
        if columns is not None and name in _PROSE:
            value = "\n".join(wrapped(value, columns - size - 4))
        lines.append(f"  {paint(name.ljust(size), 'dim', color)}  {_below(value, size)}")
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
    cause = _line(error.summary, _SHORT)
    return f"{cause} ({message})" if message else cause


_LAST_LINES = 8
_WIDTH = 160
_SHORT = 80


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
