"""Which comment of a YAML text belongs where.

One behind something belongs to that; one on lines of its own to what follows, or, indented deeper than that,
to the block that ends.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

from launcher.jobfile.format.yaml_nodes import COMMENT, Comment, Node, Odd, Part, read_nodes


def read(text: str) -> Node:
    """The mapping that a YAML text holds, with its comments. The text is known to be valid, and a mapping.

    Raises Odd for what has no canonical form.
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
    """Hands every comment of a text to the part that it belongs to."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.root = root
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.beside: dict[int, Comment] = {}
        self.own: deque[tuple[int, int, str]] = deque()  # line, column, text ("" for an empty line)
        self.contents: list[int] = []  # the lines where something begins
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
            if leaf.kind == "block":  # a comment may stand behind its `|`
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
        if value.kind in ("mapping", "sequence") and not self._is_one_line(value):
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

    def _is_one_line(self, node: Node) -> bool:
        return node.is_flow and self._line(node.start) == self._line(node.end - 1)

    def _before(self, line: int) -> list[str]:
        taken = []
        while self.own and self.own[0][0] < line:
            taken.append(self.own.popleft()[2])
        return taken

    def _tail(self, node: Node, parent: int) -> list[str]:
        """The comment lines behind a block, as long as they are indented deeper than the parent."""
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
