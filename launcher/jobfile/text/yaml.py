"""Parse YAML text into plain values with positions, in one pass over the parser's events.

We build the tree, not ruamel: ours bounds aliases and merge keys (a 22-line chain of them takes the library's
constructors seconds), resolves scalars by YAML 1.2, and knows the place of every key. The C parser is 15
times faster but refuses everyday text such as `{image: python:3.12}`. So it runs first where both parsers
agree, and the pure parser decides on every error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamStartEvent,
)

from launcher.jobfile.diagnostic import Diagnostic, Related
from launcher.jobfile.text.document import (
    BLANKS,
    MAX_DEPTH,
    MAX_NODES,
    Document,
    Source,
    Spot,
    blank_name,
    too_deep,
    too_many,
)
from launcher.jobfile.text.yaml_syntax import describe_key, describe_syntax
from launcher.text import nearest

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_STARTS = frozenset("0123456789+-.")
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z")
_NAN = frozenset((".nan", ".NaN", ".NAN"))

MAX_DIGITS = 400
"""Longer numbers stay text: no field takes one, and Python refuses to convert beyond 4,300 digits."""


def resolve_plain(text: str) -> str | int | float | bool | None:
    """Return the value of a scalar without quotes and tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > MAX_DIGITS:
        return text
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    if _BASED.match(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _INFINITE.match(text):
        return float("-inf") if text[0] == "-" else float("inf")
    return float("nan") if text in _NAN else text


MAX_MERGES = 8
_STR = "tag:yaml.org,2002:str"
_MAP = "tag:yaml.org,2002:map"
_SEQ = "tag:yaml.org,2002:seq"
_FIRST_LINES = "begin with `version: 1`, `name: …` and `roles: …`"

NextEvent = Callable[[], Any]


class _Stop(Exception):
    """A problem after which the rest of the text cannot be read."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class TreeBuilder:
    """Builds values and spots from events. A builder serves one attempt at parsing."""

    def __init__(self, source: Source, next_event: NextEvent) -> None:
        self.source = source
        self.next_event = next_event
        self.problems: list[Diagnostic] = []
        self.nodes = 0
        # name → (value, spot, nodes in it, levels in it); None while the anchor's value is not complete.
        self.anchors: dict[str, tuple[Any, Spot, int, int] | None] = {}

    def document(self) -> Document:
        try:
            value, spot = self._only_document()
        except _Stop as stop:
            return Document(self.source, None, lambda: Spot(0, 0), [*self.problems, stop.diagnostic])
        return Document(self.source, value, lambda: spot, self.problems)

    def _only_document(self) -> tuple[dict[str, Any] | None, Spot]:
        event = self.next_event()
        if type(event) is StreamStartEvent:
            event = self.next_event()
        if type(event) is not DocumentStartEvent:
            raise self._stop(0, 1, "missing-field", "the file is empty", _FIRST_LINES)
        directive = re.search(r"^%.*", self.source.text[: event.start_mark.index], re.MULTILINE)
        if directive:
            message, hint = "YAML directives are not supported", "delete this line and the `---` below it"
            raise self._stop(*directive.span(), "yaml-syntax", message, hint)
        event = self.next_event()
        value, spot, _ = self._node(event, 1)
        self.next_event()
        event = self.next_event()
        if type(event) is DocumentStartEvent:
            start, end = event.start_mark.index, event.end_mark.index
            hint = "write each job into a file of its own, or delete it here"
            raise self._stop(start, end, "yaml-syntax", "a second document begins here", hint)
        if isinstance(value, dict):
            return value, spot
        if value is None:
            raise self._stop(0, 1, "missing-field", "the file is empty", _FIRST_LINES)
        kind = "a list" if isinstance(value, list) else "a single value"
        message = f"a job file is a mapping, this is {kind}"
        raise self._stop(spot.start, spot.end, "wrong-type", message, _FIRST_LINES)

    def _node(self, event: Any, depth: int) -> tuple[Any, Spot, int]:
        """The value of the node that `event` begins, its spot and the levels in it."""
        kind = type(event)
        if kind is AliasEvent:
            return self._alias(event, depth)
        start = event.start_mark.index
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _Stop(too_many(self.source, start))
        before, name = self.nodes, event.anchor
        if kind is ScalarEvent:
            spot, levels = Spot(start, event.end_mark.index), 1
            is_plain = event.ctag is None and event.implicit[0]  # `tag` is a function around `ctag`
            value = resolve_plain(event.value) if is_plain else self._scalar(event)
        elif depth > MAX_DEPTH:
            raise _Stop(too_deep(self.source, start))
        else:
            if name is not None:
                self.anchors[name] = None
            build = self._mapping if kind is MappingStartEvent else self._sequence
            value, spot, levels = build(event, depth)
        if name is not None:
            self.anchors[name] = (value, spot, self.nodes - before + 1, levels)
        return value, spot, levels

    def _scalar(self, event: Any) -> Any:
        if event.tag and event.tag != _STR:
            self._bad_tag(event)
        # "\ud800" is half of a UTF-16 pair, which no file, argument or digest can hold.
        if event.style == '"' and any("\ud800" <= char <= "\udfff" for char in event.value):
            start, end = event.start_mark.index, event.end_mark.index
            hint = "write the character itself, or \\U with eight digits"
            raise self._stop(start, end, "yaml-syntax", "half of a UTF-16 pair is no character", hint)
        return event.value

    def _sequence(self, start_event: Any, depth: int) -> tuple[list[Any], Spot, int]:
        if start_event.ctag is not None and start_event.tag != _SEQ:
            self._bad_tag(start_event)
        start = start_event.start_mark.index
        spot = Spot(start, start)
        values: list[Any] = []
        spot.items = []
        levels = 0
        while type(event := self.next_event()) is not SequenceEndEvent:
            value, item, inner = self._node(event, depth + 1)
            values.append(value)
            spot.items.append(item)
            if inner > levels:
                levels = inner
        if start_event.flow_style:
            spot.end = event.end_mark.index
        return values, spot, levels + 1

    def _mapping(self, start_event: Any, depth: int) -> tuple[dict[str, Any], Spot, int]:
        if start_event.ctag is not None and start_event.tag != _MAP:
            self._bad_tag(start_event)
        start = start_event.start_mark.index
        spot = Spot(start, start)
        values: dict[str, Any] = {}
        entries: dict[str, tuple[int, int, Spot]] = {}
        spot.entries = entries
        merged: set[str] = set()
        levels = 0
        while type(event := self.next_event()) is not MappingEndEvent:
            key = self._key(event, depth)
            value, place, inner = self._node(self.next_event(), depth + 1)
            if inner > levels:
                levels = inner
            at, end = event.start_mark.index, event.end_mark.index
            if key is None:
                continue
            if key in entries and key not in merged:
                message, label = f"`{key}` stands twice in this mapping", "delete one of them"
                hint = "one `<<` takes several mappings: `<<: [*a, *b]`" if key == "<<" else ""
                related = (self.source.related(*entries[key][:2], "the first one is here"),)
                self._note(at, end, "duplicate-key", message, label=label, hint=hint, related=related)
                continue
            if key == "<<" and type(event) is ScalarEvent and event.implicit[0]:
                self._merge(values, entries, merged, value, place, (at, end))
            else:
                merged.discard(key)
                values[key] = value
            entries[key] = (at, end, place)
        if start_event.flow_style:
            spot.end = event.end_mark.index
        return values, spot, levels + 1

    def _key(self, event: Any, depth: int) -> str | None:
        """Return the text of a key; None for a key that is no text, which is noted."""
        if type(event) is ScalarEvent and not event.anchor:
            # The usual case needs no spot.
            is_plain = event.ctag is None and event.implicit[0]
            key = resolve_plain(event.value) if is_plain else self._scalar(event)
        else:
            key, _, _ = self._node(event, depth + 1)
        if isinstance(key, str):
            is_odd = not key.isascii() and (key[0] in BLANKS or key[-1] in BLANKS)
            if is_odd and not (event.style or event.anchor):  # YAML treats such white space like a letter
                is_first = key[0] in BLANKS
                start = event.start_mark.index if is_first else event.end_mark.index - 1
                name = blank_name(key[0] if is_first else key[-1])
                message = f"this key {'begins' if is_first else 'ends'} with a {name}"
                raise self._stop(start, start + 1, "yaml-syntax", message, "write plain spaces")
            return key
        start, end = event.start_mark.index, event.end_mark.index
        self.problems.append(describe_key(self.source, start, end, key))
        return None

    def _merge(
        self,
        values: dict[str, Any],
        entries: dict[str, tuple[int, int, Spot]],
        merged: set[str],
        value: Any,
        place: Spot,
        key: tuple[int, int],
    ) -> None:
        """Merge the mappings that `<<` names: own keys win, and earlier sources win over later ones."""
        sources = value if isinstance(value, list) else [value]
        spots = place.items if isinstance(value, list) and place.items is not None else [place]
        if len(sources) > MAX_MERGES:
            raise self._stop(*key, "too-large", f"a merge key takes at most {MAX_MERGES} mappings")
        for source, spot in zip(sources, spots, strict=True):
            if not isinstance(source, dict) or spot.entries is None:
                message = "`<<` merges mappings, and this is none"
                self._note(spot.start, spot.end, "yaml-syntax", message)
                continue
            for name, inner in source.items():
                if name not in values:
                    self.nodes += 1
                    values[name] = inner
                    entries[name] = spot.entries[name]
                    merged.add(name)

    def _alias(self, event: Any, depth: int) -> tuple[Any, Spot, int]:
        start, end = event.start_mark.index, event.end_mark.index
        known = self.anchors.get(event.anchor, False)
        if known is False:  # usually a file pattern that lacks quotes
            shown = self.source.text[start:end]
            message = f"`{shown}` repeats the value marked `&{event.anchor}`, and none is marked so above"
            label, hint = f'put text in quotes: "{shown}"', ""
            if re.fullmatch(r"\w[\w-]*", event.anchor):
                label, hint = f"mark the value with `&{event.anchor}` above", f"or {label}"
            if near := nearest(event.anchor, self.anchors):
                label, hint = f"did you mean `*{near}`?", f'or put text in quotes: "{shown}"'
            raise _Stop(self.source.diagnostic(start, end, "yaml-syntax", message, label=label, hint=hint))
        if known is None:
            raise self._stop(start, end, "yaml-syntax", f"`*{event.anchor}` holds itself")
        assert not isinstance(known, bool)
        value, spot, size, levels = known
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise _Stop(too_many(self.source, start))
        if depth + levels - 1 > MAX_DEPTH + 1:
            raise _Stop(too_deep(self.source, start))
        return value, spot, levels

    def _bad_tag(self, event: Any) -> None:
        """Note any tag but !!str, !!seq and !!map in their proper places."""
        start, end = event.start_mark.index, event.end_mark.index
        shown = self.source.text[start:end].split(maxsplit=1)[0] if end > start else str(event.tag)
        hint = "job files know !!str, !!seq and !!map; put text with a leading `!` in quotes"
        self._note(start, end, "yaml-syntax", f"the tag `{shown}` is not supported", hint=hint)

    def _note(
        self,
        start: int,
        end: int,
        code: str,
        message: str,
        *,
        label: str = "",
        hint: str = "",
        related: tuple[Related, ...] = (),
    ) -> None:
        end = max(end, start + 1)
        self.problems.append(
            self.source.diagnostic(start, end, code, message, label=label, hint=hint, related=related)
        )

    def _stop(self, start: int, end: int, code: str, message: str, hint: str = "") -> _Stop:
        return _Stop(self.source.diagnostic(start, max(end, start + 1), code, message, hint=hint))


try:
    from _ruamel_yaml import CParser  # type: ignore[import-not-found]
except ImportError:  # without the C library, parsing is only slower
    CParser = None

# Where the C parser is known to differ from the pure one without an error: tabs, the exotic line breaks,
# directives, anchors with a colon.
_PURE_ONLY = re.compile(r"[\t\x85\u2028\u2029\ufeff]|^%|[&*][^\s,\[\]{}&*]*:", re.MULTILINE)


def parse_yaml(source: Source) -> Document:
    """Parse one YAML document. Never raises: faults are among the document's problems."""
    if CParser is not None and not _PURE_ONLY.search(source.text):
        try:
            return TreeBuilder(source, CParser(source.text).get_event).document()
        except (YAMLError, UnicodeError):
            pass
    return parse_pure(source)


def parse_pure(source: Source) -> Document:
    """Parse with the pure parser, which decides what valid YAML is."""
    builder = TreeBuilder(source, _pure_events(source.text).__next__)
    try:
        return builder.document()
    except MarkedYAMLError as error:
        builder.problems.append(describe_syntax(source, error))
    except (YAMLError, ValueError) as error:
        builder.problems.append(_unparsable(source, error))
    return Document(source, None, lambda: Spot(0, 0), builder.problems)


def _pure_events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML

    events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)
    return events


def _unparsable(source: Source, error: Exception) -> Diagnostic:
    """Describe an error without a mark: a character that YAML does not allow."""
    at = getattr(error, "position", None)
    start = at if isinstance(at, int) and at < len(source.text) else 0
    char = source.text[start : start + 1]
    message = (
        f"the character U+{ord(char):04X} cannot stand in YAML" if at is not None and char else "no YAML"
    )
    return source.diagnostic(start, start + 1, "yaml-syntax", message)
