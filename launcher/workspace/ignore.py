"""Ignore files of a workspace: `.dockerignore`, then `.launcherignore`, both with Docker's rules.

One pattern a line, relative to the folder; `#` in front makes a comment. `*` and `?` stop at slashes, `**`
does not; `[a-z]` and `\\` are as in Go's `filepath.Match`. A pattern that matches a folder
also matches everything below it; `!` includes again, and the last pattern that matches decides.
Source: docs.docker.com, "Dockerfile reference", .dockerignore.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from launcher.errors import LauncherError
from launcher.files import read_regular

FILES = (".dockerignore", ".launcherignore")
"""The names of ignore files, read in this order, so that the second one decides."""

ALWAYS = (
    *(f"**/{name}" for name in (".git", ".hg", ".svn", ".jj", ".bzr")),
    *(f"**/{name}" for name in ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")),
    *(f"**/{name}" for name in ("*.launcher.yaml", "*.launcher.yml", "*.launcher.toml", "launcher.toml")),
    FILES[1],
)
"""Files that no run reads. A line with `!` includes them again.

Job files are among them: otherwise a comment or a policy in a job file would change the workspace of its job.
"""

MAX_IGNORE_BYTES = 256 << 10
MAX_WILDCARDS = 2
"""The most wildcards of a pattern for `re`: each one multiplies its time by the length of a path."""

MAX_SLOW = 64
MAX_SLOW_LENGTH = 256
"""Limits of the number and the length of patterns with more wildcards than MAX_WILDCARDS."""

_ANY, _FOLDERS, _NAME = ".*", "(?:.*/)?", "[^/]*"
_WILDCARDS = frozenset({_ANY, _FOLDERS, _NAME})

_WILD = re.compile(r"[*?\[\\]")
_CHAR = r"(\\.|[^\\\]-])"
_MEMBER = re.compile(f"{_CHAR}(?:-{_CHAR})?", re.DOTALL)
_CLASS = re.compile(rf"\[(\^?)((?:{_MEMBER.pattern})+)\]", re.DOTALL)


class WorkspaceError(LauncherError):
    """A folder cannot be read as a workspace: it is missing, unreadable, or an ignore file is wrong."""


class BadPatternError(ValueError):
    """A pattern that Docker refuses as well."""


class _Pattern(NamedTuple):
    takes_back: bool
    text: str
    pieces: tuple[str, ...]

    @property
    def is_slow(self) -> bool:
        return sum(piece in _WILDCARDS for piece in self.pieces) > MAX_WILDCARDS


class Ignore:
    """The patterns of a folder. Paths are relative to it, with forward slashes."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Parse the lines of an ignore file. Raises BadPatternError."""
        parsed = [_parse(text) for text in map(_cleaned, patterns) if text]
        self._runs = [
            (takes_back, _matcher(list(run)))
            for takes_back, run in groupby(parsed, key=lambda pattern: pattern.takes_back)
        ]
        if sum(pattern.is_slow for pattern in parsed) > MAX_SLOW:
            raise BadPatternError(f"more than {MAX_SLOW} patterns have more than {MAX_WILDCARDS} wildcards")
        self._back = [pattern.text for pattern in parsed if pattern.takes_back]

    def ignores(self, path: str) -> bool:
        """Whether the file or folder is ignored."""
        ignored = False
        for takes_back, matches in self._runs:
            if takes_back == ignored and matches(path):
                ignored = not takes_back
        return ignored

    def ignores_all_below(self, folder: str) -> bool:
        """Whether the folder and everything in it are ignored, so that it need not be read."""
        return self.ignores(folder) and not any(_may_match_below(text, f"{folder}/") for text in self._back)


def read_ignore(folder: str) -> Ignore:
    """Read the ignore files of a folder, after the fixed patterns. Raises WorkspaceError."""
    lines = list(ALWAYS)
    for name in FILES:
        path = os.path.join(folder, name)
        for number, line in enumerate(_lines(path), 1):
            try:
                Ignore([line])
            except BadPatternError as error:
                raise WorkspaceError(f"{path}:{number}: {error}") from error
            lines.append(line)
    try:
        return Ignore(lines)
    except BadPatternError as error:
        raise WorkspaceError(f"{folder}: {error}", hint="name folders in the ignore files") from error


def _lines(path: str) -> list[str]:
    try:
        data = read_regular(path, MAX_IGNORE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise WorkspaceError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > MAX_IGNORE_BYTES:
        raise WorkspaceError(f"{path} is larger than {MAX_IGNORE_BYTES >> 10} KiB", hint="name folders in it")
    text = data.decode("utf-8-sig", "surrogateescape")
    return [line.rstrip("\r") for line in text.split("\n")]


def _cleaned(line: str) -> str:
    """Return the pattern of a line, without outer blanks, leading slash, `.` and `..`; "" for no pattern."""
    if line.startswith("#"):
        return ""
    text = line.strip()
    mark = "!" if text.startswith("!") else ""
    text = text[len(mark) :].strip()
    if not text:
        return mark
    text = posixpath.normpath(text)
    return mark + (text.lstrip("/") or text)


def _parse(text: str) -> _Pattern:
    takes_back = text.startswith("!")
    text = text[1:] if takes_back else text
    if not text:
        raise BadPatternError("`!` stands alone; behind it comes the pattern to take back")
    found = _Pattern(takes_back, text, tuple(_translated(text)))
    if found.is_slow and len(text) > MAX_SLOW_LENGTH:
        message = f"more than {MAX_SLOW_LENGTH} characters with more than {MAX_WILDCARDS} wildcards"
        raise BadPatternError(message)
    return found


def _matcher(run: list[_Pattern]) -> Callable[[str], object]:
    """Return a function that tells whether a pattern matches a path, or a folder above it."""
    quick = "|".join("".join(pattern.pieces) for pattern in run if not pattern.is_slow)
    first = re.compile(rf"(?:{quick})(?:/|\Z)", re.DOTALL).match if quick else None
    slow = [_Automaton(pattern.pieces).matches for pattern in run if pattern.is_slow]
    if not slow and first is not None:
        return first
    return lambda path: (first is not None and first(path)) or any(matches(path) for matches in slow)


class _Automaton:
    """A pattern of many wildcards, matched without backtracking: in the time of pattern times path.

    A state is the number of matched pieces; `~n` means within piece n, a `(?:.*/)?` that has begun.
    """

    def __init__(self, pieces: tuple[str, ...]) -> None:
        self._pieces = pieces
        self._takes = [None if piece in _WILDCARDS else re.compile(piece).fullmatch for piece in pieces]

    def matches(self, path: str) -> bool:
        states = self._with_empty({0})
        for char in path:
            if len(self._pieces) in states and char == "/":
                return True
            states = self._with_empty({after for state in states for after in self._after(state, char)})
        return len(self._pieces) in states

    def _with_empty(self, states: set[int]) -> set[int]:
        """Add the states that are reached by wildcards that match nothing."""
        for state in list(states):
            while 0 <= state < len(self._pieces) and self._takes[state] is None:
                state += 1
                states.add(state)
        return states

    def _after(self, state: int, char: str) -> Iterator[int]:
        at = state if state >= 0 else ~state
        if at == len(self._pieces):
            return
        takes, piece = self._takes[at], self._pieces[at]
        if takes is not None:
            if takes(char):
                yield at + 1
        elif piece == _FOLDERS:
            yield ~at
            if char == "/":
                yield at + 1
        elif piece == _ANY or char != "/":
            yield at


def _translated(text: str) -> Iterator[str]:
    """Yield a regular expression for a pattern, piece by piece."""
    at = 0
    while at < len(text):
        char = text[at]
        if text.startswith("**", at):
            start, at = at, at + 2
            slash = text.startswith("/", at)
            at += slash
            # `**/` is any number of folders, or none; `**` without a slash behind it is any text.
            yield _ANY if at == len(text) or (start == 0 and not slash) else _FOLDERS
            continue
        if char == "[":
            found = _CLASS.match(text, at)
            if found is None:
                raise BadPatternError(f"`{text}` has a `[` that begins no class of characters, like `[a-z]`")
            yield f"[{found[1]}{''.join(_members(text, found[2]))}]"
            at = found.end()
            continue
        if char == "\\":
            at += 1
            if at == len(text):
                raise BadPatternError(f"`{text}` ends in a backslash that escapes nothing")
            char = text[at]
            yield re.escape(char)
        else:
            yield {"*": _NAME, "?": "[^/]"}.get(char) or re.escape(char)
        at += 1


def _members(text: str, members: str) -> Iterator[str]:
    """Return the contents of a character class, single characters and ranges, escaped for `re`."""
    for first, last in _MEMBER.findall(members):
        if last and last[-1] < first[-1]:
            raise BadPatternError(f"`{text}` has a range that runs backwards: `{first}-{last}`")
        yield re.escape(first[-1]) + (f"-{re.escape(last[-1])}" if last else "")


def _may_match_below(pattern: str, folder: str) -> bool:
    wild = _WILD.search(pattern)
    if wild is None:
        return pattern.startswith(folder)
    fixed = pattern[: wild.start()]
    return fixed.startswith(folder) or folder.startswith(fixed)
