"""`matrix`: the combinations of its axes, each of which is one job, and the names of these jobs.

A job's name is its identity, so adding a value to an axis must not rename the jobs there are. Every value has
therefore a slug of its own, and no two values of one axis have the same one.
"""

from __future__ import annotations

import math
import re
from base64 import b32encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import Any

from launcher.jobfile.compile.variables import Value, show_text
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got, listing, show, suggest
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

_LISTS = ("exclude", "include")
_AT: Path = ("matrix",)


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of an axis: as it is, as it reads in text, and where it stands."""

    value: Any
    text: str
    path: Path


Combination = Mapping[str, Cell]
"""Axis → its value, axes in alphabetical order. Empty where there is no matrix."""


def combinations(matrix: Any, problems: Collector) -> Sequence[Combination]:
    """The combinations of a matrix whose references are resolved; of what is wrong nothing is left.

    Where it is wrong the list is empty, and something was noted; without axes there is one combination of
    nothing.
    """
    if not isinstance(matrix, dict):
        _wrong(
            _AT,
            f"`matrix` must be a mapping of axes, not {got(matrix)}",
            f"such as {problems.written({'lr': [0.1, 0.01]})}",
            problems,
        )
        return []
    if all(name.startswith("x-") for name in matrix):
        return [{}]  # a target may take every axis away
    axes = {
        name: _axis(name, matrix[name], problems)
        for name in sorted(matrix)
        if name not in _LISTS and not name.startswith("x-")
    }
    if problems.has_errors:
        return []
    total = math.prod(map(len, axes.values())) if axes else 0
    if total > (_MOST_COMBINATIONS if matrix.get("exclude") else MAX_JOBS):  # before they are made
        return _too_many(total, problems)
    made = [dict(zip(axes, cells, strict=True)) for cells in product(*axes.values())] if axes else []
    made = _excluded(made, matrix.get("exclude", []), axes, problems)
    made += _included(made, matrix.get("include", []), axes, problems)
    if len(made) > MAX_JOBS:
        return _too_many(len(made), problems)
    if not made and not problems.has_errors:
        _wrong(_AT, "`matrix` makes no job: every combination is excluded", "", problems, "constraint")
    return [] if problems.has_errors else made


def named(name: str, combination: Combination) -> str:
    """What the job of a combination is called."""
    return job_name(name, [cell.value for cell in combination.values()]) if combination else name


def check_names(name: str, made: Sequence[Combination], problems: Collector) -> None:
    """Two combinations with one name: an error. It takes two equal hashes."""
    first: dict[str, Combination] = {}
    for combination in made:
        full = named(name, combination)
        if first.setdefault(full, combination) is not combination:
            _wrong(
                _AT, f"two combinations are both called `{full}`", "change a value", problems, "constraint"
            )


def axis_values(combination: Combination) -> dict[str, Value]:
    """What references to the axes stand for."""
    return {
        f"matrix.{name}": Value(cell.value, cell.text, origin="the matrix")
        for name, cell in combination.items()
    }


def _axis(name: str, given: Any, problems: Collector) -> list[Cell]:
    path: Path = (*_AT, name)
    if not re.match(VAR_NAME[1:-1] + r"\Z", name):
        hint = "letters, digits, `_` and `-`, a letter first"
        problems.add(path, "invalid-name", f"`{name}` cannot name an axis", at="key", hint=hint)
        return []
    if isinstance(given, dict):
        return _range(path, given, problems)
    if not isinstance(given, list):
        _wrong(
            path,
            f"axis `{name}` must be a list of values, not {got(given)}",
            _as_list(given, problems),
            problems,
        )
        return []
    if not given:
        _wrong(path, f"axis `{name}` has no values", "write at least one", problems, "missing-field")
    return list(_cells(path, given, problems))


def _a_range(problems: Collector) -> str:
    return problems.written({"range": [0, 4]})


def _as_list(given: Any, problems: Collector) -> str:
    """A label: the axis of one value as a list."""
    return f"write {problems.written([given])}" if _is_scalar(given) else ""


def _cells(path: Path, given: Sequence[Any], problems: Collector) -> Iterator[Cell]:
    seen: dict[Any, int] = {}
    for index, value in enumerate(given):
        at: Path = (*path, index)
        if not _is_scalar(value):
            _wrong(
                at, f"a value of axis `{path[-1]}` must be a number, a text or a truth value", "", problems
            )
            continue
        first = seen.setdefault(_identity(value), index)
        if first != index:
            message = f"{show(value)} stands twice in axis `{path[-1]}`"
            place = problems.place((*path, first), "the other one is here", at="value")
            problems.add(at, "duplicate-key", message, label="delete one of them", related=(place,))
            continue
        yield Cell(value, _text(value, at, problems), at)


def _range(path: Path, given: Mapping[str, Any], problems: Collector) -> list[Cell]:
    """`{range: [0, 4]}`: 0, 1, 2, 3. A third number is the step."""
    for key in given:
        if key != "range" and not key.startswith("x-"):
            message = f"`{key}` is not a field of axis `{path[-1]}`"
            label = suggest(key, ["range"]) or f"write a list of values, or {_a_range(problems)}"
            problems.add((*path, key), "unknown-field", message, at="key", label=label)
    if "range" not in given:
        if not problems.has_errors:
            label = f"write a list, or {_a_range(problems)}"
            _wrong(path, f"axis `{path[-1]}` has no values", label, problems)
        return []
    at: Path = (*path, "range")
    numbers = given["range"]
    is_right = isinstance(numbers, list) and 2 <= len(numbers) <= 3 and all(map(_is_int, numbers))
    if not is_right or numbers[2:] == [0]:
        _wrong(at, "`range` takes two whole numbers, and a step other than 0", "such as [0, 4]", problems)
        return []
    start, stop, step = (*numbers, 1)[:3]
    count = max(0, -((start - stop) // step))  # len() refuses ranges beyond 2**63
    if not count:
        _wrong(at, f"axis `{path[-1]}` has no values: the range is empty", "", problems, "out-of-range")
    if count > _MOST_COMBINATIONS:
        _too_many(count, problems)
        return []
    return [Cell(value, str(value), at) for value in range(start, stop, step)]


def _excluded(
    made: list[dict[str, Cell]], given: Any, axes: Mapping[str, Sequence[Cell]], problems: Collector
) -> list[dict[str, Cell]]:
    """Without the combinations that a mapping below `exclude` describes."""
    for index, item in _items("exclude", given, axes, problems):
        wanted = {name: _identity(value) for name, value in item.items()}
        left = [
            cells for cells in made if any(_identity(cells[name].value) != wanted[name] for name in wanted)
        ]
        if len(left) == len(made):
            message = f"item {index + 1} of `exclude` excludes nothing"
            problems.add((*_AT, "exclude", index), "constraint", message, severity="warning")
        made = left
    return made


def _included(
    made: list[dict[str, Cell]], given: Any, axes: Mapping[str, Sequence[Cell]], problems: Collector
) -> list[dict[str, Cell]]:
    """The combinations below `include` that are not there yet. Each names a value for every axis."""
    known = {_key(cells) for cells in made}
    extra = []
    for index, item in _items("include", given, axes, problems):
        at: Path = (*_AT, "include", index)
        missing = sorted(axes.keys() - item.keys())
        if missing:
            message = f"item {index + 1} of `include` has no value for `{missing[0]}`"
            problems.add(at, "missing-field", message, label="an included job names every axis")
            continue
        cells = {
            name: Cell(item[name], _text(item[name], (*at, name), problems), (*at, name))
            for name in sorted(item)
        }
        if _key(cells) not in known:
            known.add(_key(cells))
            extra.append(cells)
    return extra


def _items(
    field: str, given: Any, axes: Mapping[str, Sequence[Cell]], problems: Collector
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The mappings of axes to values below `exclude` or `include` that are right."""
    shape = f"such as {problems.written([{'lr': 0.1}])}"
    if not isinstance(given, list):
        _wrong((*_AT, field), f"`{field}` must be a list of mappings, not {got(given)}", shape, problems)
        return
    for index, item in enumerate(given):
        at: Path = (*_AT, field, index)
        if not isinstance(item, dict) or not item:
            _wrong(at, f"item {index + 1} of `{field}` must be a mapping, not {got(item)}", shape, problems)
            continue
        part = {name: value for name, value in item.items() if not name.startswith("x-")}
        wrong = [name for name in part if name not in axes]
        for name in wrong:
            label, hint = suggest(name, axes), listing("axes", axes)
            message = f"the matrix has no axis `{name}`"
            problems.add((*at, name), "unknown-field", message, at="key", label=label, hint=hint)
        if all(map(_is_scalar, part.values())):
            if not wrong:
                yield index, part
        else:
            _wrong(at, f"item {index + 1} of `{field}` gives each axis one value", "", problems)


def _too_many(count: int, problems: Collector) -> list[Combination]:
    shown = f"{count:,}" if count < 10**9 else "more than a billion"
    message = f"`matrix` makes {shown} jobs, and a file makes at most {MAX_JOBS}"
    _wrong(_AT, message, "split it into files, or exclude some", problems, "too-large")
    return []


def _wrong(path: Path, message: str, label: str, problems: Collector, code: str = "wrong-type") -> None:
    problems.add(path, code, message, at="key", label=label)
    problems.broken.add(path)


def _text(value: Any, path: Path, problems: Collector) -> str:
    """A value in text, as it was written: 0.10 stays "0.10"."""
    if isinstance(value, str) or path in problems.sources:
        return show_text(value)
    return problems.document.raw(path)


def _key(cells: Mapping[str, Cell]) -> tuple[Any, ...]:
    return tuple(_identity(cell.value) for cell in cells.values())


def _identity(value: Any) -> tuple[str, Any]:
    """1 and 1.0 are one value; true and 1, or 1 and "1", are not."""
    kind = "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
    return kind, value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
