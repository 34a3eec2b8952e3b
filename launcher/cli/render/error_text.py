"""What a replica says went wrong, for a terminal: the error that came first, and one line for the others.

Programs write it, so nothing of it is believed: lines are cut, and what is not printable is made visible.
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
    """For a cell of a table."""
    return _line(error.summary, _SHORT)


def root_cause_text(replica: ReplicaRecord, error: ReplicaError, app: str, *, color: bool = False) -> str:
    """A few lines: who, what, exit code, time, host, and how its call stack ends.

    Args:
        app: what `launcher status` calls the app.
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
    """The call stack, else what follows the first line of the message."""
    return error.callstack.strip("\n").splitlines() or error.message.strip().splitlines()[1:]


def _last(lines: Sequence[str]) -> Iterator[str]:
    return map(_line, lines[-_LAST_LINES:])


def _line(text: str, width: int = _WIDTH) -> str:
    short = text if len(text) <= width else f"{text[: width - 2]} …"
    return printable(short.expandtabs(4))


def _moment(time: float | None) -> str:
    """ "" for a time that no clock has shown."""
    try:
        return timestamp(time)
    except (ValueError, OverflowError, OSError):
        return ""
