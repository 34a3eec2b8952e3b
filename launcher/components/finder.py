"""Find components by name: those of installed packages, built-in ones, and those of files.

Files are parsed to list their components; a module is imported only when its component is called.
"""

from __future__ import annotations

import ast
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, NamedTuple

from launcher.components.component import (
    Component,
    ComponentFileNotFoundException,
    ComponentNotFoundException,
    ComponentValidationException,
    Load,
    defined_in,
    executing,
    importing,
    module_files,
    spec_of,
)
from launcher.components.linter import (
    ComponentFile,
    ComponentFunctionValidator,
    lint,
    locate,
    read_component_file,
    syntax_error,
)
from launcher.components.signature import parse_docstring
from launcher.specs.projectfile import Fault
from launcher.text import name_hint

GROUP = "launcher.components"
BUILTIN = "launcher.components"
"""The package of the built-in components."""

HOMES = ("utils", "dist", "metrics", "serve")
"""The built-in modules that contain components; the other modules find and call them."""

Validators = Sequence[ComponentFunctionValidator] | None


class ComponentsFinder(ABC):
    """Looks for components in one place: a module, or a file."""

    @abstractmethod
    def find(self, validators: Validators = None) -> list[Component]:
        """The components of the place, with mistakes or without. Raises ComponentNotFoundException."""


class ModuleComponentsFinder(ComponentsFinder):
    """Finds the components of a module or package and of all modules below it.

    Args:
        module: the module, or its dotted name.
        group: prefix of their names; "" for none.
    """

    def __init__(self, module: str | ModuleType, group: str) -> None:
        self._module = module if isinstance(module, str) else module.__name__
        self._group = group

    def find(self, validators: Validators = None) -> list[Component]:
        """All components, including those with mistakes. Raises ComponentNotFoundException."""
        return [
            _component(
                self._name(module, function), parsed, function, importing(module, function), validators
            )
            for module, path in self._files()
            for parsed in [read_component_file(path)]
            for function in _candidates(parsed)
        ]

    def find_one(self, name: str) -> Component | None:
        """Return the component of that full name, even if the function is private or has mistakes."""
        prefix = f"{self._group}." if self._group else ""
        if not name.startswith(prefix):
            return None
        inside, _, function = name.removeprefix(prefix).rpartition(".")
        module = f"{self._module}.{inside}" if inside else self._module
        path = defined_in(module)
        parsed = read_component_file(path) if path else None
        if parsed is None or function not in parsed.functions:
            return None
        return _component(name, parsed, function, importing(module, function), None)

    def unreadable(self) -> Iterator[str]:
        """Return the files that cannot be parsed: `FILE:LINE: WHY`."""
        for _, path in self._files():
            error = read_component_file(path).error
            if error is not None:
                yield f"{path}:{error.lineno or 1}: {error.msg}"

    def _files(self) -> Iterator[tuple[str, str]]:
        if spec_of(self._module) is None:
            raise ComponentNotFoundException(f"there is no module `{self._module}` to look for components in")
        return module_files(self._module)

    def _name(self, module: str, function: str) -> str:
        inside = module_relname(module, self._module)
        return ".".join(part for part in (self._group, inside, function) if part)


class CustomComponentsFinder(ComponentsFinder):
    """Finds one component of one file.

    Args:
        folder: the base of a relative path; by default the current directory.
    """

    def __init__(self, filepath: str, function_name: str, *, folder: str | None = None) -> None:
        self._filepath = filepath
        self._function = function_name
        self._folder = folder

    def find(self, validators: Validators = None) -> list[Component]:
        """The component, with its mistakes. Raises ComponentNotFoundException."""
        try:
            parsed = read_component_file(locate(self._filepath, self._folder))
        except FileNotFoundError:
            hint = "the path is relative to the job file" if self._folder else None
            raise ComponentFileNotFoundException(f"there is no file {self._filepath}", hint=hint) from None
        except OSError as error:
            message = f"cannot read {self._filepath}: {error.strerror or error}"
            raise ComponentNotFoundException(message) from error
        if parsed.error is None and self._function not in parsed.functions:
            hint = name_hint(self._function, _candidates(parsed) or parsed.functions)
            message = f"{self._filepath} has no function `{self._function}`"
            raise ComponentNotFoundException(message, hint=hint)
        name = f"{self._filepath}:{self._function}"
        return [_component(name, parsed, self._function, executing(parsed, self._function), validators)]


class Survey(NamedTuple):
    """Attributes:
    components: those without mistakes, by name.
    mistaken: functions that return an AppDef and are no valid components; one line per mistake.
    broken: packages and files that cannot be read; one line each.
    """

    components: dict[str, Component]
    mistaken: list[str]
    broken: list[str]


def survey(validators: Validators = None) -> Survey:
    """Survey all components with their problems: a broken package hides no other. Imports none of them."""
    found = Survey({}, [], [])
    for finder in _finders():
        try:
            for component in finder.find(validators):
                found.mistaken.extend(_lines(component))
                if not component.validation_errors:
                    found.components.setdefault(component.name, component)
            found.broken.extend(finder.unreadable())
        except (ComponentNotFoundException, OSError) as error:
            found.broken.append(str(error))
    return found


def get_components(validators: Validators = None) -> dict[str, Component]:
    """Every valid component, of installed packages and built in, by name. Imports none of them.

    A package that cannot be read is a UserWarning, and hides no other.

    Args:
        validators: the rules for functions, none with `[]`; `get_validators()` by default.
    """
    found = survey(validators)
    for line in found.broken:
        warnings.warn(f"components are missing: {line}", stacklevel=2)
    return found.components


def is_registered(name: str) -> bool:
    """Whether there is a component of that name, even one with mistakes. Files are not read."""
    return _search(name)[0] is not None


def get_component(name: str, *, folder: str | None = None) -> Component:
    """The component of that name: `utils.echo`, one of an installed package, or `path/to/file.py:function`.

    Args:
        folder: the base of a relative path; by default the current directory.

    Raises ComponentNotFoundException, with the nearest name, and ComponentValidationException.
    """
    path, colon, function = name.rpartition(":")
    if not colon:
        component = _registered(name)
    elif path and function.isidentifier():
        component = CustomComponentsFinder(path, function, folder=folder).find()[0]
    else:
        raise ComponentNotFoundException(f"`{name}` names no component", hint="path/to/file.py:FUNCTION")
    if component.validation_errors:
        hint = f"this keeps `{name}` from being a component"
        raise ComponentValidationException("\n".join(_lines(component)), hint=hint)
    return component


def builtin_component(name: str) -> Component | None:
    """The built-in component of that name; None if there is none, or if an installed package may have one.

    Reads the names of entry points, and imports no package.
    """
    name = name.removeprefix(f"{BUILTIN}.")
    home = name.partition(".")[0]
    if any(point.name == home or point.name.startswith("_") for point in entry_points(group=GROUP)):
        return None
    if home not in HOMES:
        return None
    try:
        found = ModuleComponentsFinder(f"{BUILTIN}.{home}", home).find_one(name)
    except ComponentNotFoundException:  # a name that no module can have
        return None
    return None if found is None or found.validation_errors else found


def get_builtin_source(name: str) -> str:
    """Return the source of a component with its imports, as the beginning of a new component file."""
    component = get_component(name)
    parsed = read_component_file(component.path)
    function = parsed.functions[component.fn_name]
    above = [ast.get_source_segment(parsed.text, node) or "" for node in parsed.imports]
    source = ast.get_source_segment(parsed.text, function) or ""
    return "\n".join(above) + "\n\n\n" + source + "\n"


def module_relname(module: str | ModuleType, relative_to: str | ModuleType) -> str:
    """`a.b.c` relative to `a` is `b.c`, and to itself "". Raises ValueError when it is not below it."""
    name, base = (one if isinstance(one, str) else one.__name__ for one in (module, relative_to))
    if name == base:
        return ""
    if not name.startswith(f"{base}."):
        raise ValueError(f"module {name} is not below {base}")
    return name.removeprefix(f"{base}.")


def unknown_defaults(tables: Mapping[str, Any]) -> Iterator[Fault]:
    """Check the tables `[components."NAME"]` of a launcher.toml: unknown components and arguments.

    Components of files are checked at their call, since only `launcher run` can resolve relative paths.
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
    names, rest = argument_names(component) or ([*table], None)
    known = (*names, *([rest] if rest else []))
    for key in table:
        if key not in known:
            message = f"component `{name}` has no argument `{key}`"
            yield Fault((*path, key), "unknown-field", message, known)


def argument_names(component: Component) -> tuple[list[str], str | None] | None:
    """The names of the arguments in the source, and that of `*args`.

    None where a decorator may have changed them.
    """
    function = read_component_file(component.path).functions[component.fn_name]
    if function.decorator_list:
        return None
    declared = function.args
    named = [*declared.posonlyargs, *declared.args, *declared.kwonlyargs]
    return [argument.arg for argument in named], declared.vararg.arg if declared.vararg else None


def _finders() -> Iterator[ModuleComponentsFinder]:
    """Finders; installed packages come first. An entry point whose name begins with `_` gives no prefix."""
    for point in entry_points(group=GROUP):
        module = point.value.partition(":")[0].strip()
        yield ModuleComponentsFinder(module, "" if point.name.startswith("_") else point.name)
    for home in HOMES:
        yield ModuleComponentsFinder(f"{BUILTIN}.{home}", home)


def _registered(name: str) -> Component:
    found, broken = _search(name)
    if found is not None:
        return found
    if name.endswith(".py"):
        hint = f"name the function in it as well: {name}:FUNCTION"
    else:
        others = survey()
        nearest = name_hint(name.removeprefix(f"{BUILTIN}."), others.components)
        # A package that could not be read may have the component.
        hint = "; ".join(filter(None, [nearest, *[*broken, *others.broken][:1]]))
    raise ComponentNotFoundException(f"there is no component `{name}`", hint=hint or None)


def _search(name: str) -> tuple[Component | None, list[str]]:
    """The first component of that name, and the packages that could not be read, with the reasons."""
    broken: list[str] = []
    for finder in _finders():
        try:
            found = finder.find_one(name.removeprefix(f"{BUILTIN}."))
        except (ComponentNotFoundException, OSError) as error:
            broken.append(str(error))
            continue
        if found is not None:
            return found, broken
    return None, broken


def _lines(component: Component) -> list[str]:
    return [f"{component.path}:{found.line}: {found.description}" for found in component.validation_errors]


def _candidates(parsed: ComponentFile) -> list[str]:
    """The functions that look like components: they are public and return an AppDef."""
    return [
        name
        for name, function in parsed.functions.items()
        if not name.startswith("_")
        and function.returns is not None
        and "AppDef" in ast.dump(function.returns)
    ]


def _component(
    name: str, parsed: ComponentFile, function: str, load: Load, validators: Validators
) -> Component:
    if parsed.error is not None:
        return Component(name, "", function, load, [syntax_error(parsed.error)], parsed.path)
    node = parsed.functions[function]
    description, _ = parse_docstring(ast.get_docstring(node))
    return Component(name, description, function, load, list(lint(node, validators)), parsed.path)
