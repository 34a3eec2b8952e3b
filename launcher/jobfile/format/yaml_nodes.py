"""Parse YAML text to a tree that keeps how each value was written, and the place of each comment."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
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

from launcher.dataclass import dataclass, field
from launcher.jobfile.format.style import Comment, Odd

Kind = Literal["plain", "quoted", "block", "alias", "mapping", "sequence"]
COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_BLOCK_HEADER = re.compile(r"(?P<head>(?:[&!]\S*[ \t]+)*[|>](?P<marks>[+\-0-9]*))[ \t]*(?P<comment>#.*)?")


@dataclass(slots=True)
class Node:
    """A value as written.

    Attributes:
        start, end: offsets. The `end` of a block collection is the end of its last part.
        literal: the text of a scalar or alias, properties included; of a block scalar its first line.
        value: the value of a scalar.
        props: the anchor and tag of a collection.
        is_flow: a collection in brackets.
        lines: the lines of a block scalar, without their common indentation.
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
    """Return the mapping of a YAML text, without comments. Raises Odd for text without a canonical form."""
    try:
        return _Reader(text).root()
    except YAMLError as error:
        raise Odd(0, "this text") from error


class _Reader:
    """Builds nodes from events."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)
        self.last = 0  # offset behind the last token that was read

    def root(self) -> Node:
        for event in self.events:
            if isinstance(event, StreamStartEvent | DocumentStartEvent):
                continue  # `---` at the start and `...` at the end have no meaning here, and are left out
            node = self._node(event, 0)
            for _ in self.events:  # reads all events, since later text can be wrong as well
                pass
            return node
        raise Odd(0, "an empty file")

    def _node(self, event: Any, column: int) -> Node:
        """Return the node that `event` begins; `column` is the column of the collection around it."""
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
                if re.search(r"\?\s+\Z", self.text[self.last : at]):
                    raise Odd(at, "a key with `?`")
                column = self._column(at) if column < 0 else column
                key = self._node(event, column)
                event = next(self.events)
            elif not node.is_flow:
                gap = COMMENT.sub(lambda found: " " * len(found[0]), self.text[self.last : at])
                dashes = [found.start() for found in re.finditer(r"-(?=\s|\Z)", gap)]
                at = self.last + dashes[-1] if dashes else at  # the last dash that was not read yet
                column = self._column(at)
            node.parts.append(Part(key, self._node(event, column), at))
        node.end = event.end_mark.index if node.is_flow else self.last
        self.last = max(self.last, node.end)
        return node

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


def read(text: str) -> Node:
    """Return the mapping of a YAML text, with its comments. The text must be valid, and a mapping.

    Raises Odd for text without a canonical form.
    """
    root = read_nodes(text)
    _Comments(text, root).place()
    return root


def comments(text: str) -> list[str]:
    """Every comment of a YAML text, sorted."""
    found = _Comments(text, read_nodes(text))
    found.scan()
    return sorted(
        [comment for _, _, comment in found.own if comment] + [c.text for c in found.beside.values()]
    )


class _Comments:
    """Assigns every comment of a text to its part."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.root = root
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.beside: dict[int, Comment] = {}
        self.own: deque[tuple[int, int, str]] = deque()  # line, column, text ("" for an empty line)
        self.contents: list[int] = []  # the lines where a part begins
        self.last_on: dict[int, int] = {}  # line → offset of the last leaf that ends or begins there

    def place(self) -> None:
        self.scan()
        self._collection(self.root, -1, is_root=True)
        self.root.tail += [text for _, _, text in self.own]
        if self.beside:
            line = min(self.beside)
            raise Odd(self.starts[line], "the place of the comment on this line")

    def _line(self, at: int) -> int:
        return bisect_right(self.starts, at) - 1

    def scan(self) -> None:
        """Find the comments and the empty lines outside of scalars."""
        at = 0
        for leaf in sorted(_leaves(self.root), key=lambda leaf: leaf.start):
            self._gap(at, leaf.start)
            first, last = self._line(leaf.start), self._line(max(leaf.start, leaf.end - 1))
            self.contents.append(first)
            if leaf.kind in ("mapping", "sequence") and "#" in self.text[leaf.start : leaf.end]:
                raise Odd(leaf.start, "a comment between empty brackets")
            if leaf.kind == "block":  # a comment may follow its `|`
                header = leaf.start + len(leaf.literal)
                self._gap(header, max(header, self._end_of(first)))
            if leaf.end > leaf.start:
                self.last_on[first] = leaf.start
                self.last_on[last] = leaf.start
            at = max(at, leaf.end)
        self._gap(at, len(self.text))
        self.contents.sort()

    def _end_of(self, line: int) -> int:
        return self.starts[line + 1] - 1 if line + 1 < len(self.starts) else len(self.text)

    def _gap(self, start: int, end: int) -> None:
        at = start
        while at < end:
            stop = self.text.find("\n", at, end)
            stop = end if stop < 0 else stop
            line = self._line(at)
            piece = self.text[at:stop]
            found = COMMENT.search(piece)
            begin = self.starts[line]
            if found:
                where = at + found.start()
                comment = found[0].rstrip()
                before = self.text[begin:where]
                if before.strip():
                    indent, gap = len(before) - len(before.lstrip()), len(before) - len(before.rstrip())
                    self.beside[line] = Comment(comment, where - begin, indent, gap)
                else:
                    self.own.append((line, where - begin, comment))
            elif at == begin and not piece.strip() and stop < len(self.text) and self.text[stop] == "\n":
                self.own.append((line, -1, ""))
            at = stop + 1

    def _collection(self, node: Node, parent: int, *, is_root: bool = False) -> None:
        for part in node.parts:
            column = part.start - self.starts[self._line(part.start)]
            part.lead += self._before(self._line(part.start))
            self._part(part, column)
        if not is_root and not node.is_flow:
            node.tail += self._tail(node, parent)
        elif node.is_flow:
            node.tail += self._before(self._line(max(node.start, node.end - 1)))

    def _part(self, part: Part, column: int) -> None:
        value = part.value
        line = self._line(part.key.end - 1 if part.key else part.start)
        is_one_line = value.is_flow and self._line(value.start) == self._line(value.end - 1)
        if value.kind in ("mapping", "sequence") and not is_one_line:
            first = self._line(value.parts[0].start) if value.parts else self._line(value.end)
            if first > line:
                part.beside = self.beside.pop(line, None)
            self._collection(value, column)
            if value.is_flow and part.beside is None:
                part.beside = self.beside.pop(self._line(value.end - 1), None)
            return
        if self._line(value.start) > line:
            part.beside = self.beside.pop(line, None)
            part.lead += self._before(self._line(value.start))
        if value.kind == "block":
            part.beside = part.beside or self.beside.pop(self._line(value.start), None)
            return
        end = self._line(max(part.start, value.end - 1))
        leaf = self.last_on.get(end, -1)
        if end in self.beside and (leaf < 0 or part.start <= leaf < max(value.end, part.start + 1)):
            if part.beside is not None:
                raise Odd(value.start, "two comments on one value")
            part.beside = self.beside.pop(end)

    def _before(self, line: int) -> list[str]:
        taken = []
        while self.own and self.own[0][0] < line:
            taken.append(self.own.popleft()[2])
        return taken

    def _tail(self, node: Node, parent: int) -> list[str]:
        """Take the comment lines behind a block that are indented deeper than its parent."""
        behind = bisect_right(self.contents, self._line(max(node.start, node.end - 1)))
        limit = self.contents[behind] if behind < len(self.contents) else len(self.starts)
        keep = 0
        for count, (line, column, text) in enumerate(self.own, 1):
            if line >= limit or (text and column <= parent):
                break
            keep = count if text else keep
        return [self.own.popleft()[2] for _ in range(keep)]


def _leaves(node: Node) -> Iterator[Node]:
    if not node.parts:
        yield node
    for part in node.parts:
        if part.key is not None:
            yield part.key
        yield from _leaves(part.value)
