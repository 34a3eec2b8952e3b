"""YAML text → a tree that still knows how everything was written.

The parser's events say where values stand; `yaml_comments` adds what stands between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamStartEvent,
)

MIN_GAP = 2
"""Spaces before a comment behind something else, at least."""

Kind = Literal["plain", "quoted", "block", "alias", "mapping", "sequence"]
COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_BLOCK_HEADER = re.compile(r"(?P<head>(?:[&!]\S*[ \t]+)*[|>](?P<marks>[+\-0-9]*))[ \t]*(?P<comment>#.*)?")


class Odd(Exception):
    """Something that is valid and has no canonical form here. `at` is an offset."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


@dataclass(slots=True)
class Comment:
    """A comment behind something else on a line: its text from `#` on, and where it stood.

    Attributes:
        column: its own; `indent` is that of the line, `gap` the number of spaces before the comment.
    """

    text: str
    column: int
    indent: int
    gap: int

    def behind(self, shown: str) -> str:
        """The comment behind the text of its line. One that was aligned with others stays so."""
        if self.gap <= MIN_GAP:
            return f"{shown}{' ' * MIN_GAP}{self.text}"
        shift = len(shown) - len(shown.lstrip(" ")) - self.indent
        return shown + " " * max(MIN_GAP, self.column + shift - len(shown)) + self.text


@dataclass(slots=True)
class Node:
    """A value as written.

    Attributes:
        start, end: offsets. Of a block collection, `end` is that of its last part.
        literal: the text of a scalar or alias, properties included; of a block scalar its first line.
        value: of a scalar.
        props: anchor and tag of a collection.
        is_flow: a collection in brackets.
        lines: of a block scalar, without their common indentation.
        tail: comment lines behind the last part of a collection, "" for an empty line.
    """

    kind: Kind
    start: int
    end: int
    literal: str = ""
    value: str = ""
    props: str = ""
    is_flow: bool = False
    parts: list[Part] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Part:
    """An entry of a mapping, or an item of a sequence (`key` is None).

    Attributes:
        start: offset of the key, of the dash, or of an item in brackets.
        lead: comment lines before it, "" for an empty line.
        beside: the comment behind its value, or behind the key when the value stands below it.
    """

    key: Node | None
    value: Node
    start: int
    lead: list[str] = field(default_factory=list)
    beside: Comment | None = None


def read_nodes(text: str) -> Node:
    """The mapping that a YAML text holds, without comments. Raises Odd for what has no canonical form."""
    try:
        return _Reader(text).root()
    except YAMLError as error:
        raise Odd(0, "this text") from error


class _Reader:
    """Builds nodes from events."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)
        self.last = 0  # offset behind the last thing that was read

    def root(self) -> Node:
        for event in self.events:
            if isinstance(event, StreamStartEvent):
                continue
            if isinstance(event, DocumentStartEvent):
                continue  # its `---`, like the `...` at the end, says nothing and is left out
            node = self._node(event, 0)
            for _ in self.events:  # to the end: what follows can be wrong as well
                pass
            return node
        raise Odd(0, "an empty file")

    def _node(self, event: Any, column: int) -> Node:
        """The node that `event` begins; `column` is that of the collection around it."""
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, AliasEvent):
            return self._leaf(Node("alias", start, end, self.text[start:end]))
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            return self._collection(event)
        assert isinstance(event, ScalarEvent)
        if event.style in ("|", ">"):
            return self._leaf(self._block_scalar(event, column))
        literal = self.text[start:end]
        if event.style in ('"', "'"):
            return self._leaf(Node("quoted", start, end, literal, event.value))
        literal = literal.rstrip()
        return self._leaf(Node("plain", start, start + len(literal), literal, event.value))

    def _leaf(self, node: Node) -> Node:
        self.last = max(self.last, node.end)
        return node

    def _collection(self, event: Any) -> Node:
        is_mapping = isinstance(event, MappingStartEvent)
        start = event.start_mark.index
        props = [f"&{event.anchor}"] if event.anchor else []
        props += [f"!!{str(event.tag).rpartition(':')[2]}"] if event.tag else []
        node = Node("mapping" if is_mapping else "sequence", start, start, props=" ".join(props))
        node.is_flow = bool(event.flow_style)
        closing = MappingEndEvent if is_mapping else SequenceEndEvent
        column = -1
        while not isinstance(event := next(self.events), closing):
            at = event.start_mark.index
            key = None
            if is_mapping:
                if self._is_explicit(at):
                    raise Odd(at, "a key with `?`")
                column = self._column(at) if column < 0 else column
                key = self._node(event, column)
                event = next(self.events)
            elif not node.is_flow:
                at = self._dash(event.start_mark.index)
                column = self._column(at)
            node.parts.append(Part(key, self._node(event, column), at))
        node.end = event.end_mark.index if node.is_flow else self.last
        self.last = max(self.last, node.end)
        return node

    def _is_explicit(self, at: int) -> bool:
        return bool(re.search(r"\?\s+\Z", self.text[self.last : at]))

    def _dash(self, at: int) -> int:
        """The dash of the item whose value stands at `at`: the last one behind what was read before."""
        gap = COMMENT.sub(lambda found: " " * len(found[0]), self.text[self.last : at])
        dashes = [found.start() for found in re.finditer(r"-(?=\s|\Z)", gap)]
        return self.last + dashes[-1] if dashes else at

    def _column(self, at: int) -> int:
        return at - (self.text.rfind("\n", 0, at) + 1)

    def _block_scalar(self, event: Any, column: int) -> Node:
        start = event.start_mark.index
        header = _BLOCK_HEADER.match(self.text, start)
        if header is None:
            raise Odd(start, "this block of text")
        digits = header["marks"].strip("+-")
        below = self.text.find("\n", start) + 1 or len(self.text)
        end = event.end_mark.index
        lines = self.text[below:end].removesuffix("\n").split("\n") if end > below else []
        if "+" not in header["marks"]:
            while lines and not lines[-1].strip(" "):
                lines.pop()
            end = below + len("\n".join(lines))
        end = end if lines else header.end("head")
        depths = (len(line) - len(line.lstrip(" ")) for line in lines if line.strip(" "))
        indent = column + int(digits) if digits else next(depths, 0)
        return Node("block", start, end, header["head"], event.value, lines=[line[indent:] for line in lines])
