"""`matrix`: the combinations of its axes, each of which is one job, and the names of these jobs.

A job's name is its identity, so adding a value to an axis must not rename the jobs there are. Every value has
therefore a slug of its own, and no two values of one axis have the same one.
"""

from __future__ import annotations

import math
import re
from base64 import b32encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from typing import Any

from launcher.jobfile.compile.variables import Value, show_text
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got, show, suggest
from launcher.jobfile.messages.remedies import axis_remedy
from launcher.jobfile.model.base import VAR_NAME
from launcher.jobfile.text.document import Path

MAX_NAME = 63
_MARK = 5  # characters of a hash: enough to tell 256 combinations apart
_SIMPLE = re.compile(r"[a-z0-9]{1,24}\Z")
_LIKE_NUMBER = re.compile(r"m?[0-9]+(p[0-9]+)?(em?[0-9]+)?\Z|(true|false)\Z")


def slug(value: Any) -> str:
    """Letters and digits for a value: 0.1 → "0p1", -3 → "m3", 1e-05 → "1em05", "bf16" → "bf16".

    Text that is no plain word, or reads like a number, is marked by a hash of it: "B F/16" → "bf16-k3fwx".
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value).replace("+", "").replace("-", "m").replace(".", "p")
    text = str(value)
    if _SIMPLE.match(text) and not _LIKE_NUMBER.match(text):
        return text
    kept = "".join(char for char in text.lower() if char.isascii() and char.isalnum())[:24]
    return f"{kept}-{_mark(text)}" if kept else _mark(text)


def job_name(name: str, values: list[Any]) -> str:
    """`<name>-<slugs>`, fitted."""
    return fitted("-".join([name, *map(slug, values)]))


def fitted(full: str) -> str:
    """A name that fits a host name: one that is too long is cut, and marked by a hash of what it was."""
    if len(full) <= MAX_NAME:
        return full
    return f"{full[: MAX_NAME - _MARK - 1].rstrip('-')}-{_mark(full)}"


def _mark(text: str) -> str:
    return b32encode(sha256(text.encode()).digest())[:_MARK].decode().lower()


MAX_JOBS = 256
_MOST_COMBINATIONS = 1 << 16
"""Before `exclude`: three ranges make millions."""

_AT: Path = ("matrix",)


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of an axis: as it is, as it reads in text, and where it stands."""

    value: Any
    text: str
    path: Path

    @property
    def identity(self) -> tuple[str, Any]:
        return _identity(self.value)


Combination = Mapping[str, Cell]
"""Axis → its value, axes in alphabetical order. Empty where there is no matrix."""


def named(name: str, combination: Combination) -> str:
    """The name of the job of a combination."""
    return job_name(name, [cell.value for cell in combination.values()]) if combination else name


def axis_values(combination: Combination) -> dict[str, Value]:
    """The values that references to the axes have."""
    return {
        f"matrix.{name}": Value(cell.value, cell.text, origin="the matrix")
        for name, cell in combination.items()
    }


@dataclass(slots=True)
class Matrix:
    """The matrix of one file, its references resolved. What is wrong goes to `problems`."""

    problems: Collector
    axes: dict[str, list[Cell]] = field(default_factory=dict)

    def combinations(self, given: Any, name: object) -> Sequence[Combination]:
        """The combinations for a job of a name. Without axes there is one combination of nothing.

        Where the matrix is wrong the list is empty, and something was noted.
        """
        if not isinstance(given, dict):
            label = f"such as {self.problems.written({'lr': [0.1, 0.01]})}"
            self._wrong(_AT, f"`matrix` must be a mapping of axes, not {got(given)}", label)
            return []
        if all(key.startswith("x-") for key in given):
            return [{}]  # a target may take every axis away
        names = (key for key in given if key not in ("exclude", "include") and not key.startswith("x-"))
        self.axes = {axis: self._axis(axis, given[axis]) for axis in sorted(names)}
        if self.problems.has_errors:
            return []
        total = math.prod(map(len, self.axes.values())) if self.axes else 0
        if total > (_MOST_COMBINATIONS if given.get("exclude") else MAX_JOBS):  # before they are made
            return self._too_many(total)
        made = [dict(zip(self.axes, cells, strict=True)) for cells in product(*self.axes.values())]
        made = self._excluded(made if self.axes else [], given.get("exclude", []))
        made += self._included(made, given.get("include", []))
        if len(made) > MAX_JOBS:
            return self._too_many(len(made))
        if not made and not self.problems.has_errors:
            self._wrong(_AT, "`matrix` makes no job: every combination is excluded", code="constraint")
        if self.problems.has_errors:
            return []
        if isinstance(name, str):
            self._check_names(name, made)
        return made

    def _check_names(self, name: str, made: Sequence[Combination]) -> None:
        """Two combinations with one name: an error. It takes two equal hashes."""
        first: dict[str, Combination] = {}
        for combination in made:
            full = named(name, combination)
            if first.setdefault(full, combination) is not combination:
                message = f"two combinations are both called `{full}`"
                self._wrong(_AT, message, "change a value", "constraint")

    def _axis(self, name: str, given: Any) -> list[Cell]:
        path: Path = (*_AT, name)
        if not re.match(VAR_NAME[1:-1] + r"\Z", name):
            hint = "letters, digits, `_` and `-`, a letter first"
            self.problems.add(path, "invalid-name", f"`{name}` cannot name an axis", at="key", hint=hint)
            return []
        if isinstance(given, dict):
            return self._range(path, given)
        if not isinstance(given, list):
            label = axis_remedy(given, self.problems)
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
            if first != index:
                message = f"{show(value)} stands twice in axis `{path[-1]}`"
                place = self.problems.place((*path, first), "the other one is here", at="value")
                label = "delete one of them"
                self.problems.add(at, "duplicate-key", message, label=label, related=(place,))
                continue
            yield self._cell(value, at)

    def _cell(self, value: Any, path: Path) -> Cell:
        """A value with its text as it was written: 0.10 stays "0.10"."""
        if isinstance(value, str) or path in self.problems.sources:
            return Cell(value, show_text(value), path)
        return Cell(value, self.problems.document.raw(path), path)

    def _range(self, path: Path, given: Mapping[str, Any]) -> list[Cell]:
        """`{range: [0, 4]}`: 0, 1, 2, 3. A third number is the step."""
        example = self.problems.written({"range": [0, 4]})
        for key in given:
            if key != "range" and not key.startswith("x-"):
                message = f"`{key}` is not a field of axis `{path[-1]}`"
                label = suggest(key, ["range"]) or axis_remedy(given, self.problems)
                label = label or f"write a list of values, or {example}"
                self.problems.add((*path, key), "unknown-field", message, at="key", label=label)
        if "range" not in given:
            if not self.problems.has_errors:
                self._wrong(path, f"axis `{path[-1]}` has no values", f"write a list, or {example}")
            return []
        at: Path = (*path, "range")
        numbers = given["range"]
        is_right = isinstance(numbers, list) and 2 <= len(numbers) <= 3 and all(map(_is_int, numbers))
        if not is_right or numbers[2:] == [0]:
            self._wrong(at, "`range` takes two whole numbers, and a step other than 0", "such as [0, 4]")
            return []
        start, stop, step = (*numbers, 1)[:3]
        count = max(0, -((start - stop) // step))  # len() refuses ranges beyond 2**63
        if not count:
            self._wrong(at, f"axis `{path[-1]}` has no values: the range is empty", code="out-of-range")
        if count > _MOST_COMBINATIONS:
            self._too_many(count)
            return []
        return [Cell(value, str(value), at) for value in range(start, stop, step)]

    def _excluded(self, made: list[dict[str, Cell]], given: Any) -> list[dict[str, Cell]]:
        """The combinations without those that a mapping below `exclude` describes."""
        for index, item in self._items("exclude", given):
            wanted = {name: _identity(value) for name, value in item.items()}
            left = [cells for cells in made if any(cells[name].identity != wanted[name] for name in wanted)]
            if len(left) == len(made):
                message = f"item {index + 1} of `exclude` excludes nothing"
                self.problems.add((*_AT, "exclude", index), "constraint", message, severity="warning")
            made = left
        return made

    def _included(self, made: list[dict[str, Cell]], given: Any) -> list[dict[str, Cell]]:
        """The combinations below `include` that are not there yet. Each names a value for every axis."""
        known = {tuple(cell.identity for cell in cells.values()) for cells in made}
        extra = []
        for index, item in self._items("include", given):
            at: Path = (*_AT, "include", index)
            missing = sorted(self.axes.keys() - item.keys())
            if missing:
                message = f"item {index + 1} of `include` has no value for `{missing[0]}`"
                self.problems.add(at, "missing-field", message, label="an included job names every axis")
                continue
            cells = {name: self._cell(item[name], (*at, name)) for name in sorted(item)}
            key = tuple(cell.identity for cell in cells.values())
            if key not in known:
                known.add(key)
                extra.append(cells)
        return extra

    def _items(self, key: str, given: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        """The mappings of axes to values below `exclude` or `include` that are right."""
        shape = f"such as {self.problems.written([{'lr': 0.1}])}"
        if not isinstance(given, list):
            self._wrong((*_AT, key), f"`{key}` must be a list of mappings, not {got(given)}", shape)
            return
        for index, item in enumerate(given):
            at: Path = (*_AT, key, index)
            if not isinstance(item, dict) or not item:
                self._wrong(at, f"item {index + 1} of `{key}` must be a mapping, not {got(item)}", shape)
                continue
            part = {name: value for name, value in item.items() if not name.startswith("x-")}
            wrong = [name for name in part if name not in self.axes]
            for name in wrong:
                message = f"the matrix has no axis `{name}`"
                self.problems.unknown((*at, name), "unknown-field", message, name, self.axes, "axes")
            if not all(map(_is_scalar, part.values())):
                self._wrong(at, f"item {index + 1} of `{key}` gives each axis one value")
            elif not wrong:
                yield index, part

    def _too_many(self, count: int) -> list[Combination]:
        shown = f"{count:,}" if count < 10**9 else "more than a billion"
        message = f"`matrix` makes {shown} jobs, and a file makes at most {MAX_JOBS}"
        self._wrong(_AT, message, "split it into files, or exclude some", "too-large")
        return []

    def _wrong(self, path: Path, message: str, label: str = "", code: str = "wrong-type") -> None:
        self.problems.add(path, code, message, at="key", label=label, is_final=True)


def _identity(value: Any) -> tuple[str, Any]:
    """1 and 1.0 are one value; true and 1, or 1 and "1", are not."""
    kind = "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
    return kind, value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
