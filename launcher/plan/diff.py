"""Compare two documents path by path, and two long texts by lines and words, in the notation of job files.

Paths and values are written as job files do: `timeout` 3m, `resource.memory` 4GiB.

Roles are compared by name and mounts by destination. Every other list is aligned by its fewest edits, so
that an argument inserted in front is one `+`. Mappings are compared by key, down to their leaves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal

from launcher.dataclass import dataclass
from launcher.specs.app import DOCUMENT_FIELDS
from launcher.specs.macros import with_brackets
from launcher.specs.secret import HIDDEN, hide, hide_item, is_sensitive, reference_in
from launcher.text import printable

_ROLE = r"roles(?:\.[A-Za-z0-9_-]+|\[\"(?:[^\"\\]|\\.)*\"\])\."
_AMOUNT = rf"({_ROLE}resource\.)(cpu_millis|memory_bytes)\Z"
_RENAMED = rf"({_ROLE}resource\.)(cpu_millis|memory_bytes|capabilities\.gpu_type)\Z"
_OF_ROLE = rf"{_ROLE}([a-z_]+)\Z"
_WORKSPACE = r"(?s:workspace(?:\.projects(\[.*\]|\.[^.\[]+))?\.(path|target|digest)\Z)"
_DIGEST = r"(ws[0-9]+):sha256:([0-9a-f]{8})[0-9a-f]{56}\Z"
_CHOICES: Final = {each.name for each in DOCUMENT_FIELDS if isinstance(each.default, Enum)}
_FIELDS: Final = {"cpu_millis": "cpu", "memory_bytes": "memory", "capabilities.gpu_type": "gpu_type"}
_TIMES: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_SIZES: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


def field(path: str) -> str:
    """Return a path of a document in the notation of job files: `timeout_s` → `timeout`.

    The digest of a workspace has no field in a job file and is called `workspace files`.
    """
    if path == "timeout_s":
        return "timeout"
    if not path.startswith(("roles", "workspace")):
        return path
    if renamed := re.match(_RENAMED, path):
        return renamed[1] + _FIELDS[renamed[2]]
    if part := re.match(_WORKSPACE, path):
        return f"workspace{part[1] or ''}{' files' if part[2] == 'digest' else ''}"
    return path


def is_workspace_digest(path: str) -> bool:
    """Return whether a document's path leads to the digest of a workspace or of one of its projects."""
    part = re.match(_WORKSPACE, path)
    return part is not None and part[2] == "digest"


def show_at(path: str, value: Any) -> str:
    """Return the value at a path as job files do: `3m`, `1.5`, `4GiB`; elsewhere as `show` writes it."""
    if isinstance(value, int) and not isinstance(value, bool):
        if path == "timeout_s":
            return _duration(value)
        if amount := re.match(_AMOUNT, path):
            return _cores(value) if amount[2] == "cpu_millis" else _memory(value)
    if isinstance(value, str):
        if (own := re.match(_OF_ROLE, path)) and own[1] in _CHOICES:
            return show(value.lower())
        if digest := re.match(_WORKSPACE, path) and re.match(_DIGEST, value):
            return f"{digest[1]}:{digest[2]}"
    return show(value)


def show_both(path: str, old: Any, new: Any) -> tuple[str, str]:
    """Return the texts of two values at a path. Two spellings of one macro remain distinct."""
    both = show_at(path, old), show_at(path, new)
    return both if both[0] != both[1] else (_plain(old), _plain(new))


def show(value: Any) -> str:
    """Return a value as plans print it: one line of JSON, so that `3` and `"3"` differ, safe on a terminal.

    Macros are spelled as in job files, `$<rank0_env>`.
    """
    if value == HIDDEN:
        return HIDDEN
    if reference := reference_in(value):
        return f"secret {reference}"
    return with_brackets(_plain(value))


def _plain(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _duration(seconds: int) -> str:
    """`40s`, `3m`, `1h30m`."""
    parts = []
    for unit, size in _TIMES:
        count, seconds = divmod(seconds, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def _cores(millis: int) -> str:
    return str(millis / 1000 if millis % 1000 else millis // 1000)


def _memory(size: int) -> str:
    """Return a size in the largest unit that divides it evenly."""
    unit, many = next((unit, many) for unit, many in _SIZES if size % many == 0)
    return f"{size // many}{unit}"


Op = Literal["+", "-", "~"]
_BARE = r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z"
_BARE_DESTINATION = r"/[^\[\]\"\\\x00-\x1f]*\Z"
_NOTHING: Any = object()  # unequal to every JSON value


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    `path` is `roles.trainer.args[3]`, `roles.trainer.env.LR`, `roles.trainer.mounts[/data]`; a key that could
    be misread is quoted, `metadata["a.b"]`. The index of a `+` counts in the new list, that of `-` and `~` in
    the old list. A changed order of the roles is one `~` of the path `roles`, with their names.
    `old` and `new` are JSON values; `old` is None for `+`, `new` for `-`.
    """

    op: Op
    path: str
    old: Any = None
    new: Any = None

    def __str__(self) -> str:
        """One line in the notation of job files."""
        path = field(self.path)
        if self.op == "~" and self.old == self.new == HIDDEN:
            return f"~ {path}: {HIDDEN}"
        if self.op == "~":
            return f"~ {path}: {' → '.join(show_both(self.path, self.old, self.new))}"
        if self.op == "+":
            return f"+ {path} = {show_at(self.path, self.new)}"
        if isinstance(self.old, Mapping) and not reference_in(self.old):
            # A whole role or mount is represented by its name alone.
            return f"- {path}"
        return f"- {path} = {show_at(self.path, self.old)}"


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """List the changes from the document `old` to `new`, without literals under sensitive-looking names."""
    rest = _mappings(_without(old, "roles"), _without(new, "roles"), "")
    return (*rest, *_roles(old.get("roles", []), new.get("roles", [])))


def _mappings(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Change]:
    for key in sorted({*old, *new}):
        yield from _values(old.get(key, _NOTHING), new.get(key, _NOTHING), key, _join(path, key))


def _values(old: Any, new: Any, name: str, path: str) -> Iterator[Change]:
    """Yield the changes between two values. `name` is the key of both; either value may be _NOTHING."""
    before, after = _branch(old), _branch(new)
    emptied = before and new == {}  # an empty mapping differs from an absent one
    if (
        before is not None
        and after is not None
        and not emptied
        and (before or after)
        and not is_sensitive(name)
    ):
        yield from _mappings(before, after, path)
    elif isinstance(old, list) and isinstance(new, list) and not is_sensitive(name):
        for op, i, j in align(old, new):
            if op == "+":
                yield Change("+", f"{path}[{j}]", new=hide_item(new, j))
            elif op == "-":
                yield Change("-", f"{path}[{i}]", old=hide_item(old, i))
            else:
                yield Change("~", f"{path}[{i}]", hide_item(old, i), hide_item(new, j))
    elif old is _NOTHING:
        yield Change("+", path, new=hide(new, name))
    elif new is _NOTHING:
        yield Change("-", path, old=hide(old, name))
    elif atom(old) != atom(new):
        yield Change("~", path, hide(old, name), hide(new, name))


def _branch(value: Any) -> Mapping[str, Any] | None:
    """The mapping to compare key by key: a new `env` gives one `+` per variable."""
    if value is _NOTHING:
        return {}
    return value if isinstance(value, Mapping) and not reference_in(value) else None


def _roles(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    before, after = _by(old, "name"), _by(new, "name")
    for name in sorted(before.keys() - after.keys()):
        yield Change("-", _join("roles", name), old=hide(before[name]))
    for name, role in after.items():
        path = _join("roles", name)
        if name in before:
            yield from _role(before[name], role, path)
        else:
            yield Change("+", path, new=hide(role))
    unmoved = [*(name for name in before if name in after), *(name for name in after if name not in before)]
    if unmoved != list(after):
        yield Change("~", "roles", list(before), list(after))


def _role(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Change]:
    yield from _mappings(_without(old, "mounts"), _without(new, "mounts"), path)
    before, after = _by(old.get("mounts", []), "dst"), _by(new.get("mounts", []), "dst")
    for dst in sorted({*before, *after}):
        place = f"{path}.mounts[{dst if re.match(_BARE_DESTINATION, dst) else show(dst)}]"
        if dst not in after:
            yield Change("-", place, old=hide(before[dst]))
        elif dst not in before:
            yield Change("+", place, new=hide(after[dst]))
        else:
            yield from _mappings(before[dst], after[dst], place)


def _by(items: Sequence[Mapping[str, Any]], key: str) -> dict[str, Mapping[str, Any]]:
    """Return the items by name or destination. A normal form holds each name or destination once."""
    return {item[key]: item for item in items}


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def _join(path: str, key: str) -> str:
    if not re.match(_BARE, key):
        return f"{path}[{show(key)}]"
    return f"{path}.{key}" if path else key


Edit = tuple[Literal["+", "-", "~"], int, int]
"""The operation, the index in the old list, the index in the new list."""
# A replacement costs slightly more than an insertion or a removal alone, so that among equally short
# ways the one that keeps most items wins: b in [a, b] → [b, c] stays b.
_EDIT, _SWAP = 1000, 1001
_CELLS_MAX = 1_000_000  # beyond this the exact table costs more than a smaller diff is worth


def atom(value: Any) -> str:
    """Return a text that is equal only for equal JSON values of one type: 1, 1.0, true and "1" all differ."""
    return json.dumps(value, sort_keys=True)


def align(old: Sequence[Any], new: Sequence[Any]) -> list[Edit]:
    """The fewest insertions, removals and replacements that turn `old` into `new`, in order of position."""
    before, after = [atom(item) for item in old], [atom(item) for item in new]
    start = common_prefix(before, after)
    end = common_prefix(before[start:][::-1], after[start:][::-1])
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    small = len(before) * len(after) <= _CELLS_MAX
    edits = _exact(before, after) if small else _rough(before, after)
    return [(op, i + start, j + start) for op, i, j in edits]


def common_prefix(old: Sequence[str], new: Sequence[str]) -> int:
    """The number of equal items at the front of both lists, or of equal characters of both texts."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(old), len(new)))


def _exact(old: Sequence[str], new: Sequence[str]) -> Iterator[Edit]:
    """Walk the table of edit distances from front to back."""
    costs = _costs(old, new)
    i = j = 0
    while i < len(old) or j < len(new):
        cost = costs[i][j]
        if i < len(old) and j < len(new) and old[i] == new[j] and cost == costs[i + 1][j + 1]:
            i, j = i + 1, j + 1
        elif i < len(old) and j < len(new) and cost == costs[i + 1][j + 1] + _SWAP:
            yield "~", i, j
            i, j = i + 1, j + 1
        elif i < len(old) and cost == costs[i + 1][j] + _EDIT:
            yield "-", i, j
            i += 1
        else:
            yield "+", i, j
            j += 1


def _costs(old: Sequence[str], new: Sequence[str]) -> list[list[int]]:
    """costs[i][j]: the least cost of turning old[i:] into new[j:]."""
    width = len(new)
    costs = [[(width - j) * _EDIT for j in range(width + 1)]]
    for item in reversed(old):
        below = costs[-1]
        row = [0] * width + [below[width] + _EDIT]
        for j in range(width - 1, -1, -1):
            swap = below[j + 1] + (0 if item == new[j] else _SWAP)
            row[j] = min(swap, below[j] + _EDIT, row[j + 1] + _EDIT)
        costs.append(row)
    return costs[::-1]


def _rough(old: Sequence[str], new: Sequence[str]) -> Iterator[Edit]:
    """An alignment that need not be the shortest, for lists of thousands of items."""
    from difflib import SequenceMatcher

    for tag, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        both = min(i_end - i, j_end - j)
        yield from (("~", i + k, j + k) for k in range(both))
        yield from (("-", k, j + both) for k in range(i + both, i_end))
        yield from (("+", i + both, k) for k in range(j + both, j_end))


Piece = tuple[Literal["+", "-"], str]
"""The removed and the added text, each on one line; `…` stands for omitted context."""
_Range = tuple[int, int]
MOST: Final = 30
"""How many differences are shown, before a line that counts the omitted ones."""
_LEFT_OUT = "…"
_LEAST_CONTEXT = 4  # words and blanks between two differences that are shown as one
_AROUND = 12  # characters around a difference inside a word
_WORDS = r"\s+|\S+"


def differences(old: str, new: str, width: int) -> list[Piece]:
    """List the differing lines; for lines longer than `width` characters, the differing words with context.

    Macros are spelled as in job files.
    """
    before, after = with_brackets(old), with_brackets(new)
    if before == after:  # the texts differ only in the spelling of a macro
        before, after = old, new
    found = list(_differences(before.split("\n"), after.split("\n"), width))
    left = len(found) - MOST
    return found if left <= 0 else [*found[:MOST], (found[MOST][0], f"{_LEFT_OUT} and {left} more lines")]


def _differences(old: Sequence[str], new: Sequence[str], width: int) -> Iterator[Piece]:
    for op, i, j in align(old, new):
        if op == "+":
            yield "+", _seen(new[j])
        elif op == "-":
            line = old[i]
            yield "-", _seen(line) if len(line) <= width else printable(line[: width - 1]) + _LEFT_OUT
        elif max(len(old[i]), len(new[j])) <= width:
            yield from (("-", _seen(old[i])), ("+", _seen(new[j])))
        else:
            yield from _of_words(re.findall(_WORDS, old[i]), re.findall(_WORDS, new[j]), width)


def _of_words(old: Sequence[str], new: Sequence[str], width: int) -> Iterator[Piece]:
    for (i, i_end), (j, j_end) in _hunks(old, new, width):
        gone, come = old[i:i_end], new[j:j_end]
        room = (width - max(_size(gone), _size(come))) // 2
        front = min(_reach(reversed(old[:i]), room), j)
        back = _reach(old[i_end:], room)
        yield "-", _window(old, i - front, i_end + back, width, come)
        yield "+", _window(new, j - front, j_end + back, width, gone)


def _hunks(old: Sequence[str], new: Sequence[str], width: int) -> list[tuple[_Range, _Range]]:
    """Return ranges of differing words. Ranges close to each other are joined as far as they fit a line."""
    found: list[tuple[_Range, _Range]] = []
    for op, i, j in align(old, new):
        here = (i, i + (op != "+")), (j, j + (op != "-"))
        if found and i - found[-1][0][1] < _LEAST_CONTEXT:
            (first, _), (other, _) = found[-1]
            both = (first, here[0][1]), (other, here[1][1])
            if max(_size(old[slice(*both[0])]), _size(new[slice(*both[1])])) <= width:
                found[-1] = both
                continue
        found.append(here)
    return found


def _reach(words: Iterator[str] | Sequence[str], room: int) -> int:
    """The number of words that fit into `room` characters."""
    count = 0
    for word in words:
        room -= len(word)
        if room < 0:
            break
        count += 1
    return count


def _window(words: Sequence[str], start: int, end: int, width: int, other: Sequence[str]) -> str:
    text = "".join(words[start:end])
    if len(text) > width:
        text = _middle(text, "".join(other))
    front = f"{_LEFT_OUT} " if "".join(words[:start]).strip() else ""
    back = f" {_LEFT_OUT}" if "".join(words[end:]).strip() else ""
    return f"{front}{_seen(text.strip() if front or back else text)}{back}"


def _middle(text: str, other: str) -> str:
    """The differing part of a word that is longer than a line, with a little context."""
    front = common_prefix(text, other)
    back = min(common_prefix(text[::-1], other[::-1]), len(text) - front)
    start, end = max(0, front - _AROUND), min(len(text), len(text) - back + _AROUND)
    return (_LEFT_OUT if start else "") + text[start:end] + (_LEFT_OUT if end < len(text) else "")


def _seen(line: str) -> str:
    """Return the text, in quotes when blanks at its end would be invisible."""
    return show(line) if not line or line != line.rstrip() else printable(line)


def _size(words: Sequence[str]) -> int:
    return sum(map(len, words))
