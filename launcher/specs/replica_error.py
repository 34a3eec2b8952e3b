"""The structured error of a replica: message, time and exit code.

Programs write it as JSON to the file that TORCHELASTIC_ERROR_FILE names: `{"message": TEXT}` or
`{"message": {"message": TEXT, "errorCode": N, "extraInfo": {"timestamp": SECONDS, "py_callstack": TEXT}}}`.
Any other content, incomplete or of another program, is taken as text.
Source: PyTorch, torch.distributed.elastic.multiprocessing.errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

from launcher.specs.app import NONE
from launcher.text import printable

_WIDTH = 160
_MOST = 4096  # characters of a message that are searched for its first line
_YEAR_10000 = 253_402_300_800.0  # calendars end here

MOST_BYTES = 1 << 20
"""The most bytes of an error file that are read."""


class ReplicaError(NamedTuple):
    """One error. `time` is in seconds since the epoch. Facts missing from the file are None or ""."""

    message: str
    exit_code: int | None = None
    time: float | None = None
    callstack: str = ""

    @property
    def summary(self) -> str:
        """The first line of the message, cut and safe for a terminal."""
        lines = self.message[:_MOST].strip().splitlines()
        line = printable(lines[0].strip().expandtabs(4)) if lines else "an error without a message"
        return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2]} …"


def read_error(text: str) -> ReplicaError | None:
    """Read the error in the text of an error file; None for the text NONE and for an empty text."""
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
        time=_time(extra.get("timestamp")),
        callstack=str(extra.get("py_callstack") or ""),
    )


def error_text(start: bytes) -> str:
    """Return the text of an error file from its `start`, which has at most MOST_BYTES.

    JSON is put on one line. JSON that was cut at the limit is closed there, so that its message ends at the
    cut.
    """
    text = start.decode("utf-8", "replace")
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError):
        pass
    for closed in _closed(text) if len(start) >= MOST_BYTES else ():
        try:
            found = json.loads(closed)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and found.get("message"):
            return json.dumps(found)
    return text


def _closed(text: str) -> Iterator[str]:
    """Yield closed forms of a cut JSON text: with the cut string closed, then without the cut item."""
    open_ends: list[str] = []
    sound, ends = 0, ""
    token = None
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in _ENDS:
            open_ends.append(_ENDS[mark])
        elif mark in ("}", "]") and open_ends:
            open_ends.pop()
        if mark in _ENDS or mark == ",":
            sound = token.start() if mark == "," else token.end()
            ends = "".join(reversed(open_ends))
    if token is not None and token[0].startswith('"'):
        yield _CUT_ESCAPE.sub(r"\1", text) + '"' + "".join(reversed(open_ends))
    yield text[:sound] + ends


_ENDS = {"{": "}", "[": "]"}
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],]', re.DOTALL)
_CUT_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")


def _time(value: Any) -> float | None:
    """Return seconds since the epoch; None outside of the calendar, because programs may write any number."""
    found = _number(value, float)
    return found if found is not None and 0 < found < _YEAR_10000 else None


def _number(value: Any, kind: type) -> Any:
    """Return a number, also if it is written as text; None for anything else."""
    try:
        found = kind(value) if value and not isinstance(value, bool) else None
        return found if found is None or isfinite(found) else None
    except (TypeError, ValueError, OverflowError):
        return None
