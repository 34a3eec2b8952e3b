"""Render the lines of `launcher grep`, as text and as JSON."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from json import dumps
from re import Pattern
from typing import Any

from launcher.cli.console import visible
from launcher.cli.render.log_lines import stamp, terminal_text
from launcher.cli.render.values import ago, iso, state_cell
from launcher.inventory.search import FoundLine, Searched
from launcher.specs.jobkey import DEFAULT_TARGET
from launcher.state.records import AppRecord
from launcher.text import RESET, paint

_ON, _OFF = paint("|", "bold red").encode().split(b"|")
_BETWEEN = b"--\n"


class AttemptNames:
    """Names attempts in the form that `launcher logs` accepts in this directory.

    Args:
        projects: the projects of this directory.
        target: the target that the user has named; "" for none.
    """

    def __init__(self, projects: Collection[str], target: str = "") -> None:
        self._projects = projects
        self._target = target

    def of(self, app: AppRecord) -> str:
        is_here = app.project in self._projects and app.target in (DEFAULT_TARGET, self._target)
        return f"{app.job}@{app.number}" if app.job and is_here else app.app_id


class MatchText:
    """Lines for a terminal, below a heading for each attempt, or for a pipe, each with its replica's name.

    Args:
        pattern: its matches are painted.
        has_context: whether lines that do not follow each other are set apart.
    """

    def __init__(
        self,
        names: AttemptNames,
        pattern: Pattern[str],
        *,
        color: bool,
        has_headings: bool,
        has_context: bool,
    ) -> None:
        self._names = names
        self._pattern = pattern
        self._color = color
        self._has_headings = has_headings
        self._has_context = has_context
        self._heading: AppRecord | None = None  # the attempt of the last heading
        self._app: AppRecord | None = None
        self._front = b""
        self._end = -1  # end of the last line; -1 where another replica begins
        self._is_first = True

    def begin(self, app: AppRecord, role: str, k: int) -> None:
        """Begin the output of another replica."""
        self._app = app
        where = visible(f"{role}/{k}").replace("\n", "\\x0a")
        if self._has_headings:
            self._front = paint(where, "cyan", self._color).encode()
        else:
            self._front = f"{self._names.of(app)}/{where}".encode(errors="backslashreplace")
        self._end = -1

    def lines(self, line: FoundLine) -> bytes:
        text = b""
        if self._has_headings and self._heading is not self._app and self._app is not None:
            text = (b"" if self._is_first else b"\n") + self._heading_of(self._app)
            self._heading = self._app
        elif self._has_context and not self._is_first and line.begin != self._end:
            text = _BETWEEN
        self._end, self._is_first = line.end, False
        mark = b" | " if line.is_match or not self._has_context else b" - "
        front = self._front + mark + self._time(line.time_ns)
        return text + front + self._shown(line).replace(b"\n", b"\n" + front) + b"\n"

    def _heading_of(self, app: AppRecord) -> bytes:
        state, style = state_cell(app.state)
        name = visible(self._names.of(app)).replace("\n", "\\x0a")
        when = ago(app.created_at, time.time())
        return f"{paint(name, 'bold', self._color)}  {paint(state, style, self._color)}  {when}\n".encode()

    def _time(self, time_ns: int) -> bytes:
        if not self._has_headings:
            return stamp(time_ns)
        text = time.strftime("%Y-%m-%d %H:%M:%S ", time.localtime(time_ns // 1_000_000_000))
        return paint(text, "dim", self._color).encode()

    def _shown(self, line: FoundLine) -> bytes:
        text = _frames(line.text.removesuffix(b"\n"), self._pattern)
        return text if not self._has_headings else b"\n".join(map(self._on_terminal, text.split(b"\n")))

    def _on_terminal(self, text: bytes) -> bytes:
        shown = _painted(text, self._pattern) if self._color else terminal_text(text)
        return shown + RESET.encode() if b"\x1b" in text else shown


def _frames(text: bytes, pattern: Pattern[str]) -> bytes:
    """Return the lines; of a line rewritten by carriage returns (a progress bar), the last matching frame."""
    if b"\r" not in text:
        return text
    return b"\n".join(_frame(line, pattern) for line in text.split(b"\n"))


def _frame(line: bytes, pattern: Pattern[str]) -> bytes:
    frames = line.rstrip(b"\r").split(b"\r")
    found = (each for each in reversed(frames) if pattern.search(each.decode("utf-8", "replace")))
    return next(found, frames[-1])


def _painted(line: bytes, pattern: Pattern[str]) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    parts, at = [], 0
    for found in pattern.finditer(text):
        if found[0]:
            parts += [_escaped(text[at : found.start()]), _ON, _escaped(found[0]), _OFF]
            at = found.end()
    return b"".join([*parts, _escaped(text[at:])])


def _escaped(text: str) -> bytes:
    return terminal_text(text.encode("utf-8", "surrogateescape"))


def json_attempt(app: AppRecord, count: int | None = None) -> str:
    """An attempt with a match, and the number of lines if given."""
    return dumps(_about(app) | ({} if count is None else {"count": count}))


def json_lines(app: AppRecord, role: str, k: int, line: FoundLine, pattern: Pattern[str]) -> str:
    """An object for each line."""
    about = _about(app) | {"role": role, "replica": k, "time": iso(line.time_ns / 1e9), "stream": line.stream}
    texts = _frames(line.text.removesuffix(b"\n"), pattern).decode("utf-8", "replace").split("\n")
    return "\n".join(dumps(about | {"text": text, "match": line.is_match}) for text in texts)


def _about(app: AppRecord) -> dict[str, Any]:
    known = {"handle": app.handle, "app_id": app.app_id, "project": app.project, "target": app.target}
    return known | {"job": app.job, "attempt": app.number, "state": app.state}


def unread_lines(report: Searched, names: AttemptNames) -> Iterator[str]:
    """`not searched: train@1, train@2 and 7 more: their logs were removed`, for each reason."""
    for reason, count in report.counts.items():
        known = [each if isinstance(each, str) else names.of(each) for each in report.examples(reason)]
        yield f"not searched: {', '.join(known)}{_more(count - len(known))}: {reason}"


def _more(count: int) -> str:
    return f" and {count} more" if count else ""
