"""Check the tables `[components."NAME"]` of a launcher.toml. Imports no component."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from launcher.components.component import Component, ComponentNotFoundException, ComponentValidationException
from launcher.components.finder import get_component, get_components
from launcher.components.source import read_component_file
from launcher.specs.projectfile import Fault


def faults(tables: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tables of unknown components, and unknown arguments of components.

    Components of files are checked when called: only `launcher run` can resolve a relative path.
    """
    for name, table in tables.items():
        if isinstance(table, dict) and ":" not in name:
            yield from _of_component(name, table)


def _of_component(name: str, table: Mapping[str, Any]) -> Iterator[Fault]:
    path = ("components", name)
    try:
        component = get_component(name)
    except ComponentValidationException as error:
        yield Fault(path, "invalid-value", f"`{name}` is no component: {error}")
        return
    except ComponentNotFoundException:
        yield Fault(path, "unknown-variant", f"there is no component `{name}`", tuple(get_components()))
        return
    if component.name != name:
        message = f"component `{component.name}` is named otherwise, so this table is never read"
        yield Fault(path, "unknown-variant", message, (component.name,))
        return
    found = argument_names(component)
    if found is None:
        return
    known = (*found.named, *([found.rest] if found.rest else []))
    for key in table:
        if key not in known:
            message = f"component `{name}` has no argument `{key}`"
            yield Fault((*path, key), "unknown-field", message, known)


class ArgumentNames(NamedTuple):
    """Attributes:
    named: in their order.
    rest: the name of `*args`.
    """

    named: tuple[str, ...]
    rest: str | None


def argument_names(component: Component) -> ArgumentNames | None:
    """The arguments in the source; None where a decorator may have changed them."""
    function = read_component_file(component.path).functions[component.fn_name]
    if function.decorator_list:
        return None
    declared = function.args
    named = [*declared.posonlyargs, *declared.args, *declared.kwonlyargs]
    rest = declared.vararg.arg if declared.vararg else None
    return ArgumentNames(tuple(argument.arg for argument in named), rest)
