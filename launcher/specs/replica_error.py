"""The structured error that a replica left behind: what went wrong, when, with which exit code.

Programs write it as JSON to the file that TORCHELASTIC_ERROR_FILE names: `{"message": TEXT}` or
`{"message": {"message": TEXT, "errorCode": N, "extraInfo": {"timestamp": SECONDS, "py_callstack": TEXT}}}`.
Whatever else is found there, half written or of another program, is taken as text.
Source: PyTorch, torch.distributed.elastic.multiprocessing.errors.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NamedTuple

from launcher.specs.app import NONE

_WIDTH = 160
_MOST = 4096  # characters of a message that are looked at for its first line


class ReplicaError(NamedTuple):
    """One error. `time` is in seconds since the epoch; what the file does not say is None or ""."""

    message: str
    exit_code: int | None = None
    time: float | None = None
    callstack: str = ""

    @property
    def summary(self) -> str:
        """The first line of the message, cut and safe for a terminal."""
        lines = self.message[:_MOST].strip().splitlines()
        line = printable(lines[0].strip()) if lines else "an error without a message"
        return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2]} …"


def read_error(text: str) -> ReplicaError | None:
    """The error in the text of an error file; None for NONE and for nothing at all."""
    if not text.strip() or text == NONE:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ReplicaError(text)
    reply = found.get("message") if isinstance(found, dict) else None
    if isinstance(reply, str):
        return ReplicaError(reply)
    if not isinstance(reply, dict):
        return ReplicaError(text)
    extra = reply.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    return ReplicaError(
        message=str(reply.get("message", "")),
        exit_code=_number(reply.get("errorCode"), int),
        time=_number(extra.get("timestamp"), float),
        callstack=str(extra.get("py_callstack") or ""),
    )


def printable(line: str) -> str:
    """A line that programs wrote, so that it cannot drive the reader's terminal."""
    line = line.expandtabs(4)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def compact(text: str) -> str:
    """JSON on one line; any other text as it is."""
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _number(value: Any, kind: type) -> Any:
    """A number, also one written as text; None for anything else."""
    try:
        found = kind(value) if value and not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found is None or isfinite(found) else None
