"""Make the combinations of a matrix, each of which is a job, and spell their values in names.

A job's name is its identity, so adding a value to an axis must not rename existing jobs. Every value
therefore has its own slug, and no two values of one axis share a slug.
"""

from __future__ import annotations

import math
import re
from base64 import b32encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any

from launcher.dataclass import dataclass, field, replace
from launcher.hashes import sha256
from launcher.jobfile.compile.variables import Value, show_text
from launcher.jobfile.messages.collector import At, Collector, got, nearest, show
from launcher.jobfile.messages.remedies import axis_remedy
from launcher.jobfile.model.types import VAR_NAME
from launcher.jobfile.text.document import Path
from launcher.specs.macros import find_macros, substitute
from launcher.specs.secret import hide

MAX_NAME = 63
MARK, LONG_MARK = 5, 13
"""The lengths of hashes in names. The long one is for the few jobs of a large matrix whose short hashes are
equal.
"""
_SIMPLE = re.compile(r"[a-z0-9]{1,24}\Z")
_LIKE_NUMBER = re.compile(r"m?[0-9]+(p[0-9]+)?(em?[0-9]+)?\Z|(true|false)\Z")


def slug(value: Any, mark: int = MARK) -> str:
    """Spell a value in letters and digits: 0.1 → "0p1", -3 → "m3", 1e-05 → "1em05", "bf16" → "bf16".

    Text that is no plain word, or reads like a number, gets a hash: "B F/16" → "bf16-k3fwx".

    Args:
        mark: MARK or LONG_MARK.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value).replace("+", "").replace("-", "m").replace(".", "p")
    text = str(value)
    if _SIMPLE.match(text) and not _LIKE_NUMBER.match(text):
        return text
    kept = "".join(char for char in text.lower() if char.isascii() and char.isalnum())[:24]
    return f"{kept}-{_hash(text, mark)}" if kept else _hash(text, mark)


def job_name(name: str, values: list[Any], mark: int = MARK) -> str:
    """Return `<name>-<slugs>`, shortened by `fitted`."""
    return fitted("-".join([name, *(slug(value, mark) for value in values)]), mark)


def fitted(full: str, mark: int = MARK) -> str:
    """Return a name that fits a host name: a longer one is cut, and gets a hash of the whole name."""
    if len(full) <= MAX_NAME:
        return full
    return f"{full[: MAX_NAME - mark - 1].rstrip('-')}-{_hash(full, mark)}"


def _hash(text: str, length: int) -> str:
    return b32encode(sha256(text.encode()).digest())[:length].decode().lower()


MAX_JOBS = 10_000
_MOST_COMBINATIONS = 1 << 16
"""The most combinations before `exclude`: three ranges make millions."""

GROUP = "group"
"""The key of a matrix whose value is the name for all of its jobs."""

_NO_AXES = {
    "max_parallel": "`max_parallel` is a field of the job, beside `matrix`",
    "fail_fast": "leave it out: a job that fails stops no other one",
}
"""Words that other tools have within a matrix → what there is here."""

Items = Sequence[tuple[int, dict[str, Any]]]
_AT: Path = ("matrix",)


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a combination, with its text and its place in the file."""

    value: Any
    text: str
    path: Path

    @property
    def identity(self) -> tuple[str, Any]:
        return _identity(self.value)


@dataclass(frozen=True, slots=True)
class Combination:
    """The values of one job of a matrix; no values without a matrix.

    Attributes:
        axes: axis → its value, in alphabetical order.
        further: name → a value that `include` gives and that belongs to no axis.
        lacks: the names of values that only other combinations have.
        mark: the length of the hashes in the job's name, MARK or LONG_MARK.
    """

    axes: Mapping[str, Cell] = field(default_factory=dict)
    further: dict[str, Cell] = field(default_factory=dict)
    lacks: Collection[str] = ()
    mark: int = MARK

    def __bool__(self) -> bool:
        return bool(self.axes or self.further)

    def __str__(self) -> str:
        """The values in a message, "lr: 0.1, seed: 2"; values of `include` only if there are no axes."""
        shown = {name: str(hide(cell.text, name)) for name, cell in (self.axes or self.further).items()}
        return ", ".join(f"{name}: {text[:40]}{'…' * (len(text) > 40)}" for name, text in shown.items())

    @property
    def cells(self) -> dict[str, Cell]:
        return {**self.axes, **self.further}

    @property
    def identity(self) -> tuple[tuple[str, Any], ...]:
        return tuple(cell.identity for cell in self.axes.values())


NO_MATRIX = Combination()


def is_pattern(name: object) -> bool:
    """Whether the name of a file holds references."""
    return isinstance(name, str) and bool(find_macros(name))


def named(name: str, combination: Combination) -> str:
    """Return the job name of a combination. In a pattern, references without a value stay."""
    if is_pattern(name):
        cells, mark = combination.cells, combination.mark
        values = {f"matrix.{key}": slug(cell.value, mark) for key, cell in cells.items()}
        return fitted(substitute(name, values), mark)
    values_of_axes = [cell.value for cell in combination.axes.values()]
    return job_name(name, values_of_axes, combination.mark) if combination else name


@dataclass(slots=True)
class _Index:
    """Finds combinations by the values of some of their axes."""

    made: Sequence[Combination]
    _tables: dict[tuple[str, ...], dict[tuple[object, ...], list[int]]] = field(default_factory=dict)

    def places(self, item: Mapping[str, Any]) -> Sequence[int]:
        """Return the places of combinations with the values of `item`; names other than axes do not count."""
        axes = tuple(sorted(item.keys() & self.made[0].axes.keys())) if self.made else ()
        if axes not in self._tables:
            table = self._tables[axes] = {}
            for place, each in enumerate(self.made):
                table.setdefault(tuple(each.axes[axis].identity for axis in axes), []).append(place)
        return self._tables[axes].get(tuple(_identity(item[axis]) for axis in axes), ())


def matrix_values(combination: Combination) -> dict[str, Value]:
    """Return the values of references to the matrix."""
    return {
        f"matrix.{name}": Value(cell.value, cell.text, origin="the matrix")
        for name, cell in combination.cells.items()
    }


def names_of(given: Any) -> set[str] | None:
    """Return the names of the axes and those in `include` and `exclude`; None where these cannot be read."""
    lists = ("include", "exclude")
    items: list[Any] = [given.get(key, []) for key in lists] if isinstance(given, dict) else [None]
    if not all(isinstance(each, list) and all(isinstance(item, dict) for item in each) for each in items):
        return None
    return {key for key in given if not _is_word(key, given[key])}.union(*chain(*items))


@dataclass(slots=True)
class Matrix:
    """The matrix of one file, with references resolved. Faults go to `problems`.

    Attributes:
        used: the names of all references in the file; a name that `include` misspells is not among them.
    """

    problems: Collector
    used: Collection[str] = ()
    axes: dict[str, list[Cell]] = field(default_factory=dict)

    def combinations(self, given: Any) -> Sequence[Combination]:
        """Return the combinations. Without axes and `include` there is one, without values.

        The list is empty where the matrix is wrong, which is noted.
        """
        if not isinstance(given, dict):
            axes = _axes_of_list(given)
            label = f"{'write' if axes else 'such as'} {self.problems.written(axes or {'lr': [0.1, 0.01]})}"
            self._wrong(_AT, f"`matrix` must be a mapping of axes, not {got(given)}", label)
            return []
        names = [key for key in given if not _is_word(key, given[key])]
        if not names and not given.keys() & {"exclude", "include"}:
            return [NO_MATRIX]  # a target may remove every axis
        self.axes = {axis: self._axis(axis, given[axis]) for axis in sorted(names)}
        excluded, included = ([*self._items(key, given.get(key, []))] for key in ("exclude", "include"))
        if self.problems.has_errors:
            return []
        total = math.prod(map(len, self.axes.values())) if self.axes else 0
        if total > MAX_JOBS and (total > _MOST_COMBINATIONS or not given.get("exclude")):
            return self._too_many(total, is_before=bool(given.get("exclude")))  # before they are made
        rows = product(*self.axes.values())
        made = [Combination(dict(zip(self.axes, cells, strict=True))) for cells in rows]
        made = self._included(self._excluded(made if self.axes else [], excluded), included)
        if not made and not self.problems.has_errors:
            why = "every combination is excluded" if self.axes else "it has no axes, and `include` no items"
            self._wrong(_AT, f"`matrix` makes no job: {why}", code="constraint", at="key")
        if self.problems.has_errors:
            return []
        named = dict.fromkeys(name for each in made for name in each.further)
        return [replace(each, lacks=[name for name in named if name not in each.further]) for each in made]

    def _axis(self, name: str, given: Any) -> list[Cell]:
        path: Path = (*_AT, name)
        if not _is_name(name):
            self._bad_name(path, "an axis")
            return []
        if isinstance(given, dict):
            return self._range(path, given)
        if not isinstance(given, list):
            label = _NO_AXES.get(name.replace("-", "_")) or axis_remedy(given, self.problems)
            self._wrong(path, f"axis `{name}` must be a list of values, not {got(given)}", label)
            return []
        if not given:
            self._wrong(path, f"axis `{name}` has no values", "write at least one", "missing-field")
        return [*self._cells(path, given)]

    def _cells(self, path: Path, given: Sequence[Any]) -> Iterator[Cell]:
        seen: dict[Any, int] = {}
        for index, value in enumerate(given):
            at: Path = (*path, index)
            if not _is_scalar(value):
                self._wrong(at, f"a value of axis `{path[-1]}` must be a number, a text or a truth value")
                continue
            first = seen.setdefault(_identity(value), index)
            if first != index and not self._is_guessed((*path, first), at):
                message = f"{show(hide(value, str(path[-1])))} stands twice in axis `{path[-1]}`"
                place = self.problems.place((*path, first), "the other one is here", at="value")
                label = "delete one of them"
                self.problems.add(at, "duplicate-key", message, label=label, related=(place,))
                continue
            yield self._cell(value, at)

    def _cell(self, value: Any, path: Path) -> Cell:
        """Return a value with its text as written: 0.10 stays "0.10"."""
        if isinstance(value, str) or path in self.problems.sources:
            return Cell(value, show_text(value), path)
        return Cell(value, self.problems.document.raw(path), path)

    def _range(self, path: Path, given: Mapping[str, Any]) -> list[Cell]:
        """Return the values of a range: `{range: [0, 4]}` is 0, 1, 2, 3. A third number is the step."""
        example = self.problems.written({"range": [0, 4]})
        before = len(self.problems.found)
        for key in given:
            if key != "range" and not key.startswith("x-"):
                message = f"`{key}` is not a field of axis `{path[-1]}`"
                meant = nearest(key, ["range"])
                label = axis_remedy(given, self.problems) or f"write a list of values, or {example}"
                label = "" if meant else label
                self.problems.add((*path, key), "unknown-field", message, at="key", label=label, meant=meant)
        if "range" not in given:
            if len(self.problems.found) == before:
                self._wrong(path, f"axis `{path[-1]}` has no values", f"write a list, or {example}")
            return []
        at: Path = (*path, "range")
        numbers = given["range"]
        is_right = isinstance(numbers, list) and 2 <= len(numbers) <= 3 and all(map(_is_int, numbers))
        if not is_right or numbers[2:] == [0]:
            self._wrong(at, "`range` takes two whole numbers, and a step other than 0", "such as [0, 4]")
            return []
        start, stop, step = (*numbers, 1)[:3]
        count = max(0, -((start - stop) // step))  # len() refuses a range of more than 2**63
        if not count:
            self._wrong(at, f"axis `{path[-1]}` has no values: the range is empty", code="out-of-range")
        if count > _MOST_COMBINATIONS:
            self._too_many(count)
            return []
        return [Cell(value, str(value), at) for value in range(start, stop, step)]

    def _excluded(self, made: list[Combination], items: Items) -> list[Combination]:
        """Return the combinations without those that a mapping below `exclude` describes."""
        known, gone = _Index(made), set[int]()
        for index, item in items:
            if self._is_guessed(*((*_AT, "exclude", index, name) for name in item)):
                continue
            places = known.places(item)
            if gone.issuperset(places):
                message = f"item {index + 1} of `exclude` excludes nothing"
                self.problems.add((*_AT, "exclude", index), "constraint", message, severity="warning")
            gone.update(places)
        return [each for place, each in enumerate(made) if place not in gone]

    def _included(self, made: list[Combination], items: Items) -> list[Combination]:
        """Return the combinations and those that `include` adds, with the further values that it gives them.

        An item that names every axis and is none of the combinations is a new combination. Then each item
        gives its further values to the combinations with its values of the axes; a later item wins over an
        earlier one. Without axes, each item is a combination.
        """
        if not self.axes:
            made = [Combination(further=self._of(item, item, index)) for index, item in items]
            return made if len(made) <= MAX_JOBS else self._too_many(len(made))
        known = {each.identity for each in made}
        for index, item in items:
            one = Combination(self._of(item, self.axes, index))
            if len(one.axes) == len(self.axes) and one.identity not in known:
                known.add(one.identity)
                made.append(one)
        if len(made) > MAX_JOBS:
            return self._too_many(len(made))
        joined = _Index(made)
        for index, item in items:
            at: Path = (*_AT, "include", index)
            given = {name: item[name] for name in item if not self._is_guessed((*at, name))}
            meant = [made[place] for place in joined.places(given)]
            if not self._is_wrong(item, index, meant):
                further = self._of(item, [name for name in item if name not in self.axes], index)
                for each in meant:
                    each.further.update(further)
        return made

    def _is_guessed(self, *paths: Path) -> bool:
        """Whether a placeholder is among the values at these paths: such values may be equal or differ."""
        return any(map(self.problems.is_assumed, paths))

    def _of(self, item: Mapping[str, Any], names: Iterable[str], index: int) -> dict[str, Cell]:
        at: Path = (*_AT, "include", index)
        return {name: self._cell(item[name], (*at, name)) for name in names if name in item}

    def _is_wrong(self, item: Mapping[str, Any], index: int, meant: Sequence[Combination]) -> bool:
        """Whether an item of `include` neither adds a job nor gives a job a value; such an item is noted."""
        missing = sorted(self.axes.keys() - item.keys())
        adds = sorted(item.keys() - self.axes.keys())
        if not missing or (meant and adds):
            return False
        named = [axis for axis in self.axes if axis in item]
        message = f"item {index + 1} of `include` {'matches no job, and ' if adds else ''}has no value for"
        label, hint = "an included job names every axis", ""
        if meant:
            hint = "with a name that is no axis it gives the jobs with these values one more value"
        elif all(_identity(item[axis]) in {cell.identity for cell in self.axes[axis]} for axis in named):
            hint = "`exclude` takes away every job with these values"
        elif adds:
            hint = f"or write values that the axes have, to give their jobs a value for `{adds[0]}`"
        message += f" `{missing[0]}`"
        self.problems.add((*_AT, "include", index), "missing-field", message, label=label, hint=hint)
        return True

    def _items(self, key: str, given: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the valid mappings of names to values below `exclude` or `include`."""
        shape = f"such as {self.problems.written([{'lr': 0.1}])}"
        if not isinstance(given, list):
            self._wrong((*_AT, key), f"`{key}` must be a list of mappings, not {got(given)}", shape)
            return
        for index, item in enumerate(given):
            at: Path = (*_AT, key, index)
            names = item if isinstance(item, dict) else {}
            part = {name: value for name, value in names.items() if not name.startswith("x-")}
            if not part:
                what = "has no values" if item is names else f"must be a mapping, not {got(item)}"
                self._wrong(at, f"item {index + 1} of `{key}` {what}", shape)
                continue
            unknown = [name for name in part if name not in self.axes]
            wrong = [name for name in unknown if not self._may_be_further(key, name, at)]
            if None in part.values():
                continue  # reported for the value
            if not all(map(_is_scalar, part.values())):
                self._wrong(at, f"item {index + 1} of `{key}` gives each name one value")
            elif not wrong:
                yield index, part

    def _may_be_further(self, key: str, name: str, at: Path) -> bool:
        """Whether a name that is no axis can name a further value. Notes a name that cannot."""
        is_misspelt = f"matrix.{name}" not in self.used and nearest(name, self.axes) is not None
        if key == "include" and not is_misspelt:
            return _is_name(name) or self._bad_name((*at, name), "a value of the matrix")
        message = f"the matrix has no axis `{name}`"
        none = "`exclude` takes combinations of axes away, before `include`"
        self.problems.unknown((*at, name), "unknown-field", message, name, self.axes, "axes", otherwise=none)
        return False

    def _bad_name(self, path: Path, what: str) -> bool:
        hint = "letters, digits, `_` and `-`, a letter first"
        self.problems.add(path, "invalid-name", f"`{path[-1]}` cannot name {what}", at="key", hint=hint)
        return False

    def _too_many(self, count: int, *, is_before: bool = False) -> list[Combination]:
        shown = f"{count:,}" if count < 10**9 else "more than a billion"
        message = f"`matrix` makes {shown} jobs, and a file makes at most {MAX_JOBS:,}"
        label = "split it into files, or exclude some"
        if is_before:
            most, label = f"{_MOST_COMBINATIONS:,}", "shorten an axis"
            message = f"`matrix` has {shown} combinations before `exclude`, and at most {most}"
        self._wrong(_AT, message, label, "too-large", at="key")
        return []

    def _wrong(
        self, path: Path, message: str, label: str = "", code: str = "wrong-type", at: At = "value"
    ) -> None:
        self.problems.add(path, code, message, at=at, label=label, is_final=True)


def _is_word(key: str, value: Any) -> bool:
    """Whether a key of a matrix is not an axis. `group` with a list is an axis."""
    return (
        key in ("exclude", "include")
        or key.startswith("x-")
        or (key == GROUP and not isinstance(value, list | dict))
    )


def _is_name(name: str) -> bool:
    return re.match(VAR_NAME[1:-1] + r"\Z", name) is not None


def _identity(value: Any) -> tuple[str, Any]:
    """Return the identity of a value: 1 and 1.0 are equal; true and 1, or 1 and "1", are not."""
    kind = "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
    return kind, value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _axes_of_list(given: Any) -> dict[str, Any]:
    """Return the axes that are meant by a list of mappings; empty for other values."""
    is_meant = isinstance(given, list) and all(isinstance(each, dict) for each in given)
    return {name: values for each in given for name, values in each.items()} if is_meant else {}
