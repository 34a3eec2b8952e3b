"""Python modules: where their files are, without importing them; and a function out of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

from launcher.components.component import ComponentNotFoundException
from launcher.components.failure import NOT_THEIRS
from launcher.components.output import stdout_to_stderr
from launcher.files import GONE


def spec_of(module: str) -> ModuleSpec | None:
    """Where a module is; None when there is none. The packages above it are imported.

    Raises ComponentNotFoundException when one of those cannot be imported.
    """
    try:
        with stdout_to_stderr():
            return find_spec(module)
    except ValueError:  # an empty name, a module that was made by hand
        return None
    except NOT_THEIRS:
        raise
    except BaseException as error:
        # A package that misses another one is broken; one that misses itself is not there.
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            return None
        why = f"{type(error).__name__}: {error}"
        raise ComponentNotFoundException(f"module `{module}` cannot be imported: {why}") from error


def defined_in(module: str) -> str | None:
    """The source file of a module; None for a namespace package, and when there is no source."""
    spec = spec_of(module)
    if spec is None or not spec.has_location or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return spec.origin


def module_files(module: str) -> Iterator[tuple[str, str]]:
    """(dotted name, file) of a module and all below it, in order of their names.

    Folders below count when they have an `__init__.py`; the module itself may be a namespace package.
    """
    path = defined_in(module)
    if path:
        yield module, path
    spec = spec_of(module)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        yield from _below(module, folder)


def _below(package: str, folder: str) -> Iterator[tuple[str, str]]:
    try:
        names = sorted(os.listdir(folder))
    except GONE:
        return  # removed since its parent was listed
    for entry in names:
        path = os.path.join(folder, entry)
        name = f"{package}.{entry.removesuffix('.py')}"
        if entry.endswith(".py") and entry != "__init__.py":
            yield name, path
        elif os.path.isfile(os.path.join(path, "__init__.py")):
            yield name, os.path.join(path, "__init__.py")
            yield from _below(name, path)


def load_function(module: str, function: str) -> Callable[..., Any]:
    """Import a module and take a function out of it.

    Raises whatever the module raises, and ComponentNotFoundException.
    """
    return defined(vars(import_module(module)), function, module)


def defined(namespace: Mapping[str, Any], function: str, where: str) -> Callable[..., Any]:
    """A function out of an imported module. Raises ComponentNotFoundException."""
    if function not in namespace:
        raise ComponentNotFoundException(
            f"{where} does not define `{function}` here", hint="it stands below an `if` or a `try`"
        )
    found: Callable[..., Any] = namespace[function]
    return found
