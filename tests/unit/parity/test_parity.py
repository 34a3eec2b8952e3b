"""Every public name of TorchX is here with its parameters, or in the table of what differs."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[3] / "docs" / "coming-from-torchx.md"
LISTS = ("torchx-0.7.0.txt", "torchx-later.txt")
"""The public names of TorchX as pip installs it, and what its main branch adds.

A line has a name and its parameters in order: `a` must be given, `a=` has a default, `*a` takes the rest;
nothing follows what is not called. Public are the names in `__all__`; elsewhere what a module defines, and
what a package imports from itself, without a leading underscore; and the same of its classes.
"""


def listed() -> list[tuple[str, str]]:
    """(name, its parameters) of each line, with `launcher` in place of `torchx`."""
    lines = [line for file in LISTS for line in Path(__file__).with_name(file).read_text().splitlines()]
    found = [line.partition(" ")[::2] for line in lines]
    return [(f"launcher{name.removeprefix('torchx')}", shape) for name, shape in found]


ALL = listed()


def differing() -> list[str]:
    """Return the first column of the table `What differs` of the docs, as `launcher` would have the names."""
    text = DOCS.read_text().partition("## What differs")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [f"launcher.{name}" for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


DIFFERING = differing()


def is_in_table(name: str) -> bool:
    """Return whether a row names it or its parent: with `.*`, or as something that is not here at all."""
    return any(
        name == row
        or (row.endswith(".*") and name.startswith(row[:-1]))
        or (name.startswith(f"{row}.") and wrong(row, "") == "is not there")
        for row in DIFFERING
    )


def found(name: str) -> Any:
    """Return the attribute `name` of a module or class. Raises AttributeError, ModuleNotFoundError."""
    module, _, rest = name.partition(".")
    value = import_module(module)
    for part in rest.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            if inspect.isclass(value) and part in fields(value):
                return None
            if not inspect.ismodule(value):
                raise
            value = import_module(f"{value.__name__}.{part}")
    return value


def fields(kind: type) -> Iterator[str]:
    """The fields of a dataclass that have no default, and those of a class like one."""
    yield from getattr(kind, "__annotations__", ())
    yield from inspect.signature(kind).parameters


def shape_of(value: Any) -> list[str]:
    """Return the parameters as in the lists."""
    out = []
    for name, parameter in inspect.signature(value).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            out.append(f"*{name}")
        elif parameter.kind is parameter.VAR_KEYWORD:
            out.append("**")
        else:
            out.append(name if parameter.default is parameter.empty else f"{name}=")
    return out


def wrong(name: str, shape: str) -> str:
    """Return the fault of a name, "" when it has none."""
    try:
        value = found(name)
    except (AttributeError, ModuleNotFoundError):
        return "is not there"
    wanted = ["**" if each.startswith("**") else each for each in shape.split()]
    if not wanted or wanted == ["*args", "**"]:  # a mixin hands on what it gets
        return ""
    has = [each for each in shape_of(value) if each in wanted or f"{each.rstrip('=')}" in wanted]
    more = [each for each in shape_of(value) if each not in has]
    if len(has) != len(wanted) or any(
        ours not in (theirs, f"{theirs}=") for ours, theirs in zip(has, wanted, strict=True)
    ):
        return f"takes {shape_of(value)}, not {wanted}"
    return "".join(f"wants {each}" for each in more if not each.endswith("=") and "*" not in each)


def test_every_public_name_of_torchx_is_here_with_its_known_parameters() -> None:
    known = {name: wrong(name, shape) for name, shape in ALL if not is_in_table(name)}
    assert len(known) > 400
    assert {name: what for name, what in known.items() if what} == {}


def test_every_listed_difference_exists() -> None:
    assert {row: what for row in DIFFERING if (what := unfounded(row))} == {}


def unfounded(row: str) -> str:
    """Return the fault of a row of the table, "" when it has none."""
    above = row.removesuffix(".*")
    below = [each for each in ALL if each[0] == above or each[0].startswith(f"{above}.")]
    if not below:
        return "no version of TorchX has it"
    return "" if any(wrong(*each) for each in below) else "it does not differ, and the table says it does"
