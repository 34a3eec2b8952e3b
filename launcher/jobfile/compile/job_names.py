"""The names of the jobs of a matrix: NAME-<values of the axes>, or a pattern of the file with values in it.

The name that means all of the jobs is `matrix.group` with a pattern, and `name` without one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.jobfile.compile.matrix import GROUP, LONG_MARK, Combination, fitted, job_name, slug
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got
from launcher.jobfile.messages.wording_fields import bad_label, label_like
from launcher.jobfile.model.base import LABEL
from launcher.jobfile.text.document import Path
from launcher.specs import find_macros, substitute

_NAME: Path = ("name",)
_MATRIX: Path = ("matrix",)
_GROUP: Path = (*_MATRIX, GROUP)


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


def beginning(name: str) -> str:
    """Return the common beginning of the names of all jobs of a matrix."""
    found = find_macros(name)
    return name[: found[0][1]] if found else f"{name}-"


def group_of(name: object, matrix: object) -> object:
    """Return the name that means all jobs of a matrix: `name`, or `group` beside a pattern (None without)."""
    group = matrix.get(GROUP) if isinstance(matrix, dict) else None
    return group if is_pattern(name) else name


def check_names(
    name: object, matrix: object, made: Sequence[Combination], problems: Collector
) -> Sequence[Combination]:
    """Check the names, and return the combinations; of those that only placeholders make equal, the first.

    Combinations that a short hash does not tell apart get long ones. Faults of the names of jobs, or of the
    name that means all of them, go to `problems`.

    Args:
        name, matrix: as written.
        made: empty where the matrix is wrong.
    """
    if not isinstance(name, str) or not isinstance(matrix, dict):
        return made
    if not is_pattern(name) and any(made) and not made[0].axes:
        _no_pattern(name, matrix, made, problems)
        return made
    _check_group(name, matrix, made, problems)
    names = [named(name, each) for each in made]
    if any(map(is_pattern, names)):
        return made  # a value is missing, which is reported for the job that lacks it
    if len(counts := Counter(names)) < len(names):
        made = [
            replace(each, mark=LONG_MARK) if counts[full] > 1 else each
            for full, each in zip(names, made, strict=True)
        ]
        names = [named(name, each) for each in made]
    first: dict[str, Combination] = {}
    for full, each in zip(names, made, strict=True):
        first.setdefault(full, each)
    if problems.holds_assumed(_MATRIX):
        return [*first.values()]
    twin = next((pair for pair in zip(names, made, strict=True) if first[pair[0]] is not pair[1]), None)
    if twin is not None:
        _same_name(name, twin[0], first[twin[0]], twin[1], problems)
    elif is_pattern(name) and matrix.get(GROUP) in names:
        message = f"`{matrix[GROUP]}` is the name of one of the jobs, and cannot mean all of them"
        problems.add(_GROUP, "constraint", message, label="choose another name")
    return made


def _check_group(
    name: str, matrix: Mapping[str, Any], made: Sequence[Combination], problems: Collector
) -> None:
    group = matrix.get(GROUP)
    entry = problems.entry(GROUP, label_like(beginning(name)) or "sweep")
    if GROUP not in matrix or isinstance(group, list | dict):  # an axis may be called `group`
        if is_pattern(name) and (any(made) or not made):
            message = f"`name` is a pattern, and `matrix` has no `{GROUP}`: a name for all of its jobs"
            hint = "`needs`, --select, --rerun and other commands take it"
            problems.add(_MATRIX, "missing-field", message, at="key", label=f"add `{entry}`", hint=hint)
    elif not isinstance(group, str):
        if group is not None:  # reported already
            message = f"`{GROUP}` must be text, not {got(group)}"
            problems.add(_GROUP, "wrong-type", message, label=f"such as `{entry}`")
    elif is_pattern(group):
        message = f"references cannot stand in `{GROUP}`"
        problems.add(_GROUP, "reference-phase", message, label="write the name itself")
    elif not re.fullmatch(LABEL[1:-1], group):
        bad_label(_GROUP, group, "matrix", problems)
    elif "$" not in name:
        message = f"`{name}` means all jobs of this matrix already"
        axis = next((axis for each in made for axis in each.axes), "lr")
        label = f"delete it, or write `{_pattern(name, [axis], problems)}`"
        problems.add(_GROUP, "conflicting-fields", message, at="key", label=label)


def _no_pattern(
    name: str, matrix: Mapping[str, Any], made: Sequence[Combination], problems: Collector
) -> None:
    """Note a plain name in a matrix without axes: without values, the names of its jobs cannot differ."""
    common = [key for key in made[0].further if all(key in each.further for each in made)]
    alone = (key for key in common if len({slug(each.further[key].value) for each in made}) == len(made))
    keys = [key] if (key := next(alone, "")) else common
    hint = "" if GROUP in matrix else f"and add `{problems.entry(GROUP, name)}` to `matrix`"
    label = f"write a pattern, such as `{_pattern(name, keys or ['…'], problems)}`"
    message = "the jobs of a matrix without axes have no names of their own"
    problems.add(_NAME, "constraint", message, label=label, hint=hint)


def _pattern(name: str, keys: Sequence[str], problems: Collector) -> str:
    return problems.entry("name", "-".join([name, *(f"$<matrix.{key}>" for key in keys)]))


def _same_name(name: str, full: str, one: Combination, other: Combination, problems: Collector) -> None:
    cells = other.cells
    differs = [
        key for key, cell in one.cells.items() if key in cells and slug(cell.value) != slug(cells[key].value)
    ]
    message = f"`{one}` and `{other}` are both called `{full}`"
    unused = [f"`$<matrix.{key}>`" for key in differs if f"$<matrix.{key}>" not in name]
    label = f"add {unused[0]}" if unused and is_pattern(name) else "change a value, or delete one of them"
    problems.add(_NAME if is_pattern(name) else _MATRIX, "constraint", message, label=label)
