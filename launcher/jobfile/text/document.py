"""A job file after reading: its text within limits, its plain values, and the place of each value."""

from __future__ import annotations

import os
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from launcher import looks
from launcher.dataclass import dataclass, field, replace
from launcher.files import GIVEN, MAX_JOB_FILE_BYTES, is_below
from launcher.jobfile.diagnostic import (
    Diagnostic,
    Related,
    Severity,
    Span,
    of_whole_file,
    severity_of,
    without_secrets,
)
from launcher.specs.secret import may_hold_secret
from launcher.text import nearest

Format = Literal["yaml", "toml"]

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Source:
    """A file and its text. Offsets count characters from 0; positions count from 1.

    Attributes:
        file: the path as shown to the user.
        text: without byte order mark, line ends as in the file.
    """

    file: str
    format: Format
    text: str
    _starts: list[int] = field(default_factory=list, repr=False, compare=False)
    _lines: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """Return the range of two offsets without trailing white space, but with at least one character."""
        while end > start + 1 and self.text[end - 1 : end].isspace():
            end -= 1
        line, column = self.position(start)
        end_line, end_column = self.position(end) if end > start else (line, column + 1)
        return Span(line=line, column=column, end_line=end_line, end_column=end_column)

    def start_of(self, line: int) -> int:
        """The offset of the first character of a line that the file has."""
        return self._line_starts()[line - 1]

    def line(self, number: int) -> str:
        """The text of a line without its end; "" past the end of the file."""
        starts = self._line_starts()
        if number > len(starts):
            return ""
        if number not in self._lines:  # all problems of a line share its text, which may be long
            end = starts[number] if number < len(starts) else len(self.text)
            self._lines[number] = self.text[starts[number - 1] : end].rstrip("\r\n")
        return self._lines[number]

    def has_secret(self, offset: int) -> bool:
        """Whether the line of an offset has a literal that looks like a secret, for no advice to repeat."""
        line = self.line(self.position(offset)[0])
        return without_secrets(line) != line or may_hold_secret(line)

    def diagnostic(
        self,
        start: int,
        end: int,
        code: str,
        message: str,
        *,
        label: str = "",
        hint: str = "",
        severity: Severity | None = None,
        related: tuple[Related, ...] = (),
        meant: str = "",
    ) -> Diagnostic:
        """Return a diagnostic at two offsets of this file; by default with the severity of its code."""
        span = self.span(start, end)
        return Diagnostic(
            file=self.file,
            span=span,
            code=code,
            message=message,
            severity=severity or severity_of(code),
            label=label,
            hint=hint,
            source_line=self.line(span.line),
            related=related,
            meant=meant,
        )

    def related(self, start: int, end: int, message: str) -> Related:
        """Return a second place in this file."""
        span = self.span(start, end)
        return Related(file=self.file, span=span, message=message, source_line=self.line(span.line))

    def _line_starts(self) -> list[int]:
        # Computed on first use, since a file without problems needs no line.
        if not self._starts:
            self._starts.append(0)
            self._starts.extend(match.end() for match in _LINE_END.finditer(self.text))
        return self._starts


def read_source(file: str, path: str, root: str = "") -> Source | Diagnostic:
    """Read `path`, shown to the user as `file`. An unreadable file or invalid UTF-8 gives a diagnostic.

    So does a link that leads out of the real path `root`, if given: the text of such a file is not shown.
    A file that the caller has opened, such as /dev/stdin, is a link that leads anywhere.
    """
    if root and not path.startswith(GIVEN) and not is_below(looks.real_path(path), root):
        message, hint = (
            "the file is a link that leads out of the repository",
            "copy the file into the repository",
        )
        return of_whole_file(file, "unreadable", message, hint=hint)
    try:
        data = looks.content(path, MAX_JOB_FILE_BYTES + 1)
    except OSError as error:
        return unreadable(file, path, error)
    except ValueError:
        return of_whole_file(file, "no-such-file", "there is no such file: the path holds a NUL character")
    return source_of(file, data)


def source_of(file: str, data: bytes) -> Source | Diagnostic:
    """Return the source for the bytes of a file."""
    if len(data) > MAX_JOB_FILE_BYTES:
        hint = "a job file says what to run; keep data in files of its own"
        return of_whole_file(file, "too-large", "the file is larger than 1 MiB", hint=hint)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return of_whole_file(file, "encoding", "the file is UTF-16 text", hint="save it as UTF-8")
        body = data.removeprefix(b"\xef\xbb\xbf")
        offset = error.start  # in the body: the codec drops a byte order mark before it counts
        good = Source(file, "yaml", body[:offset].decode("utf-8") + "\ufffd")
        at = len(good.text) - 1
        message = f"byte 0x{body[offset]:02x} is no UTF-8 text"
        return good.diagnostic(at, at + 1, "encoding", message, hint="save the file as UTF-8")
    # JSON is read as YAML, which includes it.
    return Source(file, "toml" if file.lower().endswith(".toml") else "yaml", text)


def unreadable(file: str, path: str, error: OSError) -> Diagnostic:
    """Return why `path`, shown to the user as `file`, could not be opened."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if looks.is_link(path):
            return of_whole_file(file, "no-such-file", "the file is a link, and there is no such file")
        if file == "-":
            return of_whole_file(file, "no-such-file", "there is no such file", hint=_OF_STDIN)
        near = _neighbour(path)
        hint = f"did you mean `{os.path.join(os.path.dirname(file), near)}`?" if near else ""
        return of_whole_file(file, "no-such-file", "there is no such file", hint=hint)
    reason = error.strerror or os.strerror(error.errno or 0)
    return of_whole_file(file, "unreadable", f"the file cannot be read: {reason}")


_OF_STDIN = "standard input is called `/dev/stdin`"
_JOB_MARK = ".launcher."


def _neighbour(path: str) -> str | None:
    """Return the name beside `path` that was probably meant: spelled alike, or typed without its suffix."""
    try:
        names = looks.names_in(os.path.dirname(path) or os.curdir)
    except OSError:
        return None
    wanted = os.path.basename(path)
    longer = [name for name in names if name.startswith(f"{wanted}.launcher.")]
    stem, mark, _ = wanted.partition(_JOB_MARK)
    if longer or not mark:
        return longer[0] if longer else nearest(wanted, names)
    known = {name.partition(_JOB_MARK)[0]: name for name in names if _JOB_MARK in name}
    near = nearest(stem, known)
    return known[near] if near else None


BLANKS = "\u00a0\u1680\u202f\u205f\u2060\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200C)))
"""White space beyond ASCII: no-break, thin, ideographic, zero-width."""


def blank_name(char: str) -> str:
    """ "no-break space (U+00A0)"."""
    return f"{unicodedata.name(char, 'blank').lower()} (U+{ord(char):04X})"


def blank_after_colon(text: str) -> str:
    """Return the first non-ASCII white space directly behind a colon; "" for none."""
    return next((after for before, after in pairwise(text) if before == ":" and after in BLANKS), "")


_FENCE = re.compile(r"^```.*$", re.MULTILINE)
_CONFLICT = re.compile(r"^<{7}(?: .*)?$", re.MULTILINE)


def pasted(source: Source) -> Diagnostic | None:
    """The first merge conflict, else the first fence of Markdown, in a text that could not be parsed; None
    where there is neither."""
    code = "toml-syntax" if source.format == "toml" else "yaml-syntax"
    if found := _CONFLICT.search(source.text):
        label = "keep one side or both, and delete the lines of `<`, `=` and `>`"
        return source.diagnostic(*found.span(), code, "a merge conflict begins here", label=label)
    fences = [*_FENCE.finditer(source.text)]
    if not fences:
        return None
    above = ", and all above it" if source.text[: fences[0].start()].strip() and len(fences) > 1 else ""
    hint = "and the other one below the text" if len(fences) > 1 else ""
    message = "this is a fence of Markdown around the file"
    label = f"delete this line{above}"
    return source.diagnostic(*fences[0].span(), code, message, label=label, hint=hint)


Path = tuple[str | int, ...]

MAX_DEPTH = 64
MAX_NODES = 20_000


class Spot:
    """The place of a value: offsets into a text, and the spots of its parts.

    Attributes:
        start, end: offsets of the value. Equal for a collection without brackets: its key is shown then.
        entries: of a mapping: key → (offset of the key, its end, spot of the value). Both are in one text.
        items: of a list.
        source: the text; None for the text of the document.
    """

    __slots__ = ("end", "entries", "items", "source", "start")

    def __init__(self, start: int, end: int, source: Source | None = None) -> None:
        self.start = start
        self.end = end
        self.source = source
        self.entries: dict[str, tuple[int, int, Spot]] | None = None
        self.items: list[Spot] | None = None

    def with_entries(self, entries: dict[str, tuple[int, int, Spot]]) -> Spot:
        """A mapping at the same place, with other keys."""
        made = Spot(self.start, self.end, self.source)
        made.entries = entries
        return made

    def stamp(self, source: Source) -> None:
        """Record the text in the spot and all of its parts, for a document that is a lower layer."""
        self.source = source
        for _, _, part in (self.entries or {}).values():
            part.stamp(source)
        for item in self.items or ():
            item.stamp(source)


class Range(NamedTuple):
    """A piece of a text between two offsets, the end exclusive."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    def holds(self, found: Diagnostic | Range) -> bool:
        """Whether a problem, or another piece, begins in this piece."""
        if isinstance(found, Range):
            return found.source is self.source and self.start <= found.start < self.end
        if found.span is None or found.file != self.source.file:
            return False
        first, last = self.source.position(self.start), self.source.position(self.end)
        return first <= (found.span.line, found.span.column) < last


@dataclass(slots=True)
class Document:
    """A parsed file, or several layers merged.

    Attributes:
        source: the text of the file; of merged layers, the text of the uppermost one.
        value: None when the text could not be parsed at all, or is no mapping.
        root: returns the spots. It is called only when a problem has to be placed.
        problems: the problems found while parsing.
        layers: the documents that it was merged from, the lowest first; empty for a single file.
    """

    source: Source
    value: dict[str, Any] | None
    root: Callable[[], Spot]
    problems: list[Diagnostic]
    layers: tuple[Document, ...] = ()

    def value_range(self, path: Path) -> Range:
        """Return the range of the value at `path`; of its key where the value has no text of its own.

        Segments that the document does not have end the walk: the nearest enclosing value is the answer.
        """
        return self._ranges(path)[1]

    def key_range(self, path: Path) -> Range:
        """Return the range of the key (or list item) at the end of `path`, or of the nearest around it."""
        return self._ranges(path)[0]

    def keys(self) -> Iterator[tuple[tuple[int, int], str, dict[str, Any]]]:
        """Yield the line and column of each key of the file, the key, and its mapping."""

        def keys(value: Any, spot: Spot) -> Iterator[tuple[tuple[int, int], str, dict[str, Any]]]:
            for item, inside in zip(value if spot.items else (), spot.items or (), strict=True):
                yield from keys(item, inside)
            for key, (start, _, inside) in (spot.entries or {}).items():
                yield self.source.position(start), key, value
                yield from keys(value[key], inside)

        return keys(self.value, self.root())

    def renamed(self, names: Mapping[tuple[int, int], str]) -> Document:
        """Return the document with other names for the keys at some lines and columns."""

        def renamed(value: Any, spot: Spot) -> tuple[Any, Spot]:
            if spot.items:
                pairs = [renamed(*pair) for pair in zip(value, spot.items, strict=True)]
                made = Spot(spot.start, spot.end, spot.source)
                made.items = [inside for _, inside in pairs]
                return [each for each, _ in pairs], made
            if not spot.entries:
                return value, spot
            values, entries = {}, {}
            for key, (start, end, inside) in spot.entries.items():
                name = names.get(self.source.position(start), key)
                values[name], part = renamed(value[key], inside)
                entries[name] = start, end, part
            return values, spot.with_entries(entries)

        value, root = renamed(self.value, self.root())
        return replace(self, value=value, root=lambda: root)

    def extents(self, path: Path) -> list[Range]:
        """Return the range from the last key of `path` to the end of its value, for each layer with it."""
        if self.layers:
            return [found for layer in self.layers for found in layer.extents(path)]
        spot = self.root()
        start = spot.start
        for segment in path:
            if not isinstance(segment, str) or segment not in (spot.entries or {}):
                return []
            assert spot.entries is not None
            start, _, spot = spot.entries[segment]
        return [Range(self.source, start, max(start, _last(spot)))]

    def raw(self, path: Path) -> str:
        """Return the text of the number or date at `path` as written in the file."""
        found = self.value_range(path)
        # In YAML an anchor may precede the number, which has no white space in it.
        return (found.text.split() or [""])[-1] if found.source.format == "yaml" else found.text

    def format_at(self, path: Path) -> Format:
        """The format of the file that has the value at `path`."""
        return self.value_range(path).source.format if self.layers else self.source.format

    def _ranges(self, path: Path) -> tuple[Range, Range]:
        spot = root = self.root()
        written: tuple[int, int] | None = None  # the key, if the last part of the path is one
        for segment in path:
            if isinstance(segment, str) and spot.entries and segment in spot.entries:
                start, end, spot = spot.entries[segment]
                written = start, end
            elif isinstance(segment, int) and spot.items and segment < len(spot.items):
                spot = spot.items[segment]
                written = None
        value = self._range(spot) if spot.end > spot.start else None
        if written is not None:
            key = self._range(spot, *written)
        else:
            key = value if value is not None and spot is not root else self._opening(spot)
        return key, value or key

    def _range(self, spot: Spot, start: int | None = None, end: int = 0) -> Range:
        start, end = (spot.start, spot.end) if start is None else (start, end)
        return Range(spot.source or self.source, start, end)

    def _opening(self, spot: Spot) -> Range:
        """The first key of a mapping, else the place where the value begins."""
        own = [entry for entry in (spot.entries or {}).values() if entry[2].source is spot.source]
        if spot.end <= spot.start and own:
            start, end, _ = min(own, key=lambda entry: entry[0])
            return self._range(spot, start, end)
        return self._range(spot, spot.start, max(spot.end, spot.start + 1))


def _last(spot: Spot) -> int:
    entries = (spot.entries or {}).values()
    return max(
        [spot.end, *(end for _, end, _ in entries), *(_last(part) for _, _, part in entries)]
        + [_last(item) for item in spot.items or ()]
    )


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the texts, numbers, truth values, dates and nulls in a value, each with its path."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def too_deep(source: Source, start: int) -> Diagnostic:
    hint = f"is {'an alias or ' if source.format == 'yaml' else ''}a bracket repeated by mistake?"
    message = f"values are nested deeper than {MAX_DEPTH} levels"
    return source.diagnostic(start, start + 1, "too-large", message, hint=hint)


def too_many(source: Source, start: int) -> Diagnostic:
    hint = "aliases and merge keys count as often as they are used" if source.format == "yaml" else ""
    message = f"the file holds more than {MAX_NODES:,} values"
    return source.diagnostic(start, start + 1, "too-large", message, hint=hint)
