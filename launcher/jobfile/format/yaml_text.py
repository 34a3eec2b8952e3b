"""Write the tree of a YAML file as its canonical text.

Two spaces a level, items of lists indented below their key, brackets kept where they are on one line and
written out where they are not. Scalars stay as written, except the kind of quotes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from typing import NamedTuple

from launcher.dataclass import dataclass
from launcher.jobfile.format.style import ITEM, Comment, Odd, Path, arranged, fields, requoted
from launcher.jobfile.format.yaml_nodes import Node, Part, read


@dataclass(slots=True)
class _Line:
    text: str
    comment: Comment | None = None
    fixed: bool = False
    """Whether the line is part of a text block, where white space is content."""
    is_open: bool = False
    """Whether the line ends a text block with `+`: an empty line behind it would become content."""

    @property
    def is_empty(self) -> bool:
        return not self.text and not self.fixed

    def __str__(self) -> str:
        if self.comment is None:
            return self.text if self.fixed else self.text.rstrip()
        return self.comment.behind(self.text)


def format_yaml(text: str, known: Sequence[str] | None, *, reorder: bool = True) -> str:
    """The canonical text of a YAML file that is known to be valid.

    Args:
        known: the keys of the file's own mapping in their order.
        reorder: False keeps every key where it is.

    Raises Odd for text without a canonical form.
    """
    root = read(text)
    if root.props:
        raise Odd(root.start, "an anchor or tag on the whole file")
    printer = _Printer(text, reorder)
    # Comments at the top concern the file, whichever key comes first.
    head, root.parts[0].lead = root.parts[0].lead, []
    was_long = False
    lines = [_Line(line) for line in head]
    for number, (block, is_long) in enumerate(printer.entries(root, known)):
        if number and (is_long or was_long):
            lines.append(_Line(""))
        lines += block
        was_long = is_long
    lines += map(_Line, root.tail)
    return "\n".join(map(str, _squeezed(lines))) + "\n"


def _squeezed(lines: list[_Line]) -> list[_Line]:
    """Return the lines without repeated empty lines outside of text blocks, or empty ends."""
    kept: list[_Line] = []
    for line in lines:
        if not line.is_empty or (kept and not kept[-1].is_open and not kept[-1].is_empty):
            kept.append(line)
    while kept and kept[-1].is_empty:
        kept.pop()
    return kept


class _Printer(NamedTuple):
    text: str
    reorder: bool

    def entries(self, root: Node, known: Sequence[str] | None) -> Iterator[tuple[list[_Line], bool]]:
        """Return the lines of each entry of the file, and whether it is a collection on several lines."""
        for part in self._arranged(root, (), known):
            yield self._entry(part, 0, ()), self._is_written_out(part.value)

    def _parts(self, node: Node, indent: int, path: Path) -> list[_Line]:
        """The lines of the parts of a collection."""
        if node.kind == "sequence":
            return [line for part in node.parts for line in self._item(part, indent, (*path, ITEM))]
        return [line for part in self._arranged(node, path, None) for line in self._entry(part, indent, path)]

    def _arranged(self, node: Node, path: Path, known: Sequence[str] | None) -> list[Part]:
        if not self.reorder:
            return node.parts
        keyed = [(_name(part.key), part) for part in node.parts]
        return arranged(keyed, known or fields(path))

    def _entry(self, part: Part, indent: int, path: Path) -> list[_Line]:
        assert part.key is not None
        pad = " " * indent
        start = f"{pad}{_scalar(part.key)}:" if part.key.kind != "alias" else f"{pad}{part.key.literal} :"
        inner = (*path, _name(part.key))
        return [*_indented(part.lead, indent), *self._value(start, part, indent, inner)]

    def _item(self, part: Part, indent: int, path: Path) -> list[_Line]:
        pad = " " * indent
        value = part.value
        if not self._is_written_out(value) or value.props or part.beside or not value.parts:
            return [*_indented(part.lead, indent), *self._value(f"{pad}-", part, indent, path)]
        lines = self._inside(value, indent + 2, path)
        hoisted = []
        while not lines[0].text.strip() or lines[0].text.lstrip().startswith("#"):
            hoisted.append(_Line(lines.pop(0).text[2:]))
        lines[0].text = f"{pad}- {lines[0].text[indent + 2 :]}"
        return [*_indented(part.lead, indent), *hoisted, *lines]

    def _value(self, start: str, part: Part, indent: int, path: Path) -> list[_Line]:
        """Return the lines of a value: the first one begins with `start` (a key or a dash)."""
        value = part.value
        if self._is_written_out(value):
            opening = f"{start} {value.props}" if value.props else start
            return [_Line(opening, part.beside), *self._inside(value, indent + 2, path)]
        if value.kind == "block":
            lines = [_Line(f"{start} {value.literal}", part.beside), *self._block(value, indent)]
            lines[-1].is_open = "+" in _marks(value)
            return lines
        first, *rest = self._one_line(value, path).split("\n")
        lines = [_Line(f"{start} {first}" if first else start)]
        lines += _indented([line.strip() for line in rest], indent + 2, fixed=True)
        lines[-1].comment = part.beside
        return lines

    def _inside(self, node: Node, indent: int, path: Path) -> list[_Line]:
        lines = dropwhile(lambda line: line.is_empty, self._parts(node, indent, path))
        return [*lines, *_indented(node.tail, indent)]

    def _block(self, value: Node, indent: int) -> list[_Line]:
        digits = _marks(value).strip("+-")
        depth = indent + (int(digits) if digits else 2)
        return _indented(value.lines, depth, fixed=True)

    def _is_written_out(self, node: Node) -> bool:
        """Whether each part of a collection is on lines of its own."""
        if node.kind not in ("mapping", "sequence") or not node.parts:
            return False
        return not node.is_flow or "\n" in self.text[node.start : node.end]

    def _one_line(self, node: Node, path: Path) -> str:
        """A scalar, an alias or a collection in brackets."""
        if node.kind not in ("mapping", "sequence"):
            return _scalar(node)
        props = f"{node.props} " if node.props else ""
        if node.kind == "sequence":
            return f"{props}[{', '.join(self._bracketed(part, (*path, ITEM)) for part in node.parts)}]"
        parts = [self._pair(part, path) for part in self._arranged(node, path, None)]
        if node.parts and self.text[node.start + len(props) : node.start + len(props) + 1] != "{":
            return props + parts[0]  # `[a: b]` holds a mapping without braces
        return f"{props}{{{', '.join(parts)}}}"

    def _bracketed(self, part: Part, path: Path) -> str:
        if part.value.kind == "plain" and not part.value.literal:
            raise Odd(part.start, "an empty item between brackets")
        return self._one_line(part.value, path)

    def _pair(self, part: Part, path: Path) -> str:
        assert part.key is not None
        key = f"{part.key.literal} " if part.key.kind == "alias" else _scalar(part.key)
        text = self._one_line(part.value, (*path, _name(part.key)))
        return f"{key}: {text}"  # the space stays without a value: `{a:}` would be the text "a:"


def _indented(lines: Iterable[str], indent: int, *, fixed: bool = False) -> list[_Line]:
    return [_Line(" " * indent + line if line else "", fixed=fixed) for line in lines]


def _marks(block: Node) -> str:
    """Return the indicators behind the `|` or `>` of a text block."""
    return block.literal.rsplit("|", 1)[-1].rsplit(">", 1)[-1]


def _scalar(node: Node) -> str:
    return requoted(node.literal, node.value) if node.kind == "quoted" else node.literal


def _name(key: Node | None) -> str:
    return key.value or key.literal if key is not None else ""
