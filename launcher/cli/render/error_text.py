"""Render errors of replicas: the root cause in several lines, others in one.

The texts come from programs: lines are cut, and unprintable characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.cli.render.values import timestamp
from launcher.specs.replica_error import ReplicaError
from launcher.state.records import ReplicaRecord
from launcher.text import paint, printable

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
    more = _more(error)
    lines += [f"  {paint('|', 'dim', color)} {line}".rstrip() for line in _last(more)]
    if len(more) > _LAST_LINES:
        hint = f"all {len(more)} lines are in `launcher status {app} --json`"
        lines.append(f"  {paint('hint:', 'bold cyan', color)} {hint}")
    return "\n".join(lines)


def _more(error: ReplicaError) -> list[str]:
    """The call stack, or the message without its first line."""
    return error.callstack.strip("\n").splitlines() or error.message.strip().splitlines()[1:]


def _last(lines: Sequence[str]) -> Iterator[str]:
    return map(_line, lines[-_LAST_LINES:])


def _line(text: str, width: int = _WIDTH) -> str:
    short = text if len(text) <= width else f"{text[: width - 2]} …"
    return printable(short.expandtabs(4))


def _moment(time: float | None) -> str:
    """The time as text; "" if it is out of range."""
    try:
        return timestamp(time)
    except (ValueError, OverflowError, OSError):
        return ""
