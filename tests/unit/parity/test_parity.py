"""Every name of the API that users know is there with its parameters, or in the table of what differs."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.unit.parity.names import NAMES

DOCS = Path(__file__).resolve().parents[3] / "docs" / "coming-from-torchx.md"
ALL = [(module, name, shape) for module, names in NAMES.items() for name, shape in names.items()]


def differing() -> set[str]:
    """The names in the first column of the table `What differs` of the docs."""
    text = DOCS.read_text().partition("## What differs")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def found(module: str, name: str) -> Any:
    """What `name` is: an attribute of the module, or of a module below it."""
    first, *rest = name.split(".")
    try:
        value = getattr(import_module(module), first)
    except AttributeError:
        value = import_module(f"{module}.{first}")
    for part in rest:
        value = getattr(value, part)
    return value


def shape_of(value: Any) -> list[str]:
    """The parameters as in `names`."""
    out = []
    for name, parameter in inspect.signature(value).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            out.append(f"*{name}")
        elif parameter.kind is parameter.VAR_KEYWORD:
            out.append(f"**{name}")
        else:
            out.append(name if parameter.default is parameter.empty else f"{name}=")
    return out


def wrong(module: str, name: str, shape: str) -> str:
    """What is wrong with a name, "" when nothing is."""
    try:
        value = found(module, name)
    except (AttributeError, ModuleNotFoundError):
        return "is not there"
    wanted, has = shape.split(), shape_of(value) if shape else []
    more = [parameter for parameter in has if parameter not in wanted]
    if [parameter for parameter in has if parameter in wanted] != wanted:
        return f"takes {has}, not {wanted}"
    return "".join(
        f"wants {parameter}" for parameter in more if not parameter.endswith("=") and "*" not in parameter
    )


@pytest.mark.parametrize(("module", "name", "shape"), ALL, ids=[f"{m}.{n}" for m, n, _ in ALL])
def test_a_known_name_is_as_known(module: str, name: str, shape: str) -> None:
    if name in differing():
        return
    assert wrong(module, name, shape) == ""


def test_what_differs_really_differs() -> None:
    known = {name: (module, shape) for module, name, shape in ALL}
    for name in differing() & known.keys():
        module, shape = known[name]
        assert wrong(module, name, shape), f"{name} does not differ, and the table says it does"
