"""Small changes to a good job file, one at a time: common mistakes, and some unlikely ones."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

Path = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 1.5, 70_000, 2_000_000, "", "text", "UPPER case", "$<var.nothing>", [], [1], [{}],
    {}, {"a": 1}, {"type": "bind"}, {"range": [0, 2]},
)  # fmt: skip


class Mutation(NamedTuple):
    """One change, its place, and the whole file after it."""

    what: str
    path: Path
    value: Any


def mutations(good: Any, values: tuple[Any, ...] = VALUES) -> Iterator[Mutation]:
    """Every value of `good` replaced by each of `values`, every key misspelt, left out, and one added."""
    for path in list(paths(good)):
        if any(str(part).startswith("x-") for part in path):
            continue  # free
        for value in values:
            yield Mutation(f"= {value!r}", path, _changed(good, path, value))
        here = at(good, path)
        if isinstance(here, dict):
            yield Mutation("+ surplus", path, _changed(good, path, {**here, "surplus": 1}))
        if path and isinstance(path[-1], str):
            parent = at(good, path[:-1])
            rest = {key: value for key, value in parent.items() if key != path[-1]}
            yield Mutation("deleted", path, _changed(good, path[:-1], rest))
            misspelt = {f"{key}_" if key == path[-1] else key: value for key, value in parent.items()}
            yield Mutation("misspelt", path, _changed(good, path[:-1], misspelt))


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from paths(part, (*path, key))


def at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _changed(good: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    whole = deepcopy(good)
    at(whole, path[:-1])[path[-1]] = value
    return whole
