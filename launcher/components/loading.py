"""Load the functions of components, out of installed modules and out of files beside job files."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from launcher.components.component import NOT_THEIRS, ComponentNotFoundException
from launcher.components.output import stdout_to_stderr
from launcher.components.source import ComponentFile
from launcher.files import GONE

Load = Callable[[], Callable[..., Any]]
"""Runs the code of a module and returns a function of it. Raises whatever the code raises."""


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


def importing(module: str, function: str) -> Load:
    """Load a function by importing its module."""
    return lambda: _defined(vars(import_module(module)), function, module)


def executing(parsed: ComponentFile, function: str) -> Load:
    """Load a function by executing its file as a module of its own, once for each text of the file."""

    def load() -> Callable[..., Any]:
        digest = sha256(f"{parsed.path}\0{parsed.text}".encode()).hexdigest()[:16]
        name = f"launcher_component_{digest}"
        beside = _neighbours.setdefault(name, Neighbours(os.path.dirname(parsed.path)))
        if name not in sys.modules:
            module = ModuleType(name)
            module.__file__ = parsed.path
            module.__package__ = ""
            # Dataclasses and typing look their module up by name, while it is being executed too.
            sys.modules[name] = module
            try:
                with beside.importable():
                    exec(compile(parsed.text, parsed.path, "exec", dont_inherit=True), module.__dict__)
            except BaseException:
                del sys.modules[name]
                raise
        found = _defined(vars(sys.modules[name]), function, parsed.path)

        @functools.wraps(found)
        def component(*args: Any, **kwargs: Any) -> Any:
            with beside.importable():
                return found(*args, **kwargs)

        return component

    return load


def _defined(namespace: Mapping[str, Any], function: str, where: str) -> Callable[..., Any]:
    if function not in namespace:
        raise ComponentNotFoundException(
            f"{where} does not define `{function}` here", hint="it stands below an `if` or a `try`"
        )
    found: Callable[..., Any] = namespace[function]
    return found


class Neighbours:
    """The modules in the folder of one component file, importable only while the component's code runs.

    Each file has its own, as another folder may have a `common.py` too.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Put the folder first on sys.path, and restore sys.path and sys.modules afterwards.

        No bytecode is written meanwhile: it would change the folder, which may be the job's workspace.
        """
        writes_no_bytecode = sys.dont_write_bytecode
        sys.dont_write_bytecode = True
        before = {name.partition(".")[0] for name in sys.modules}
        for name, module in self._modules.items():
            sys.modules.setdefault(name, module)
        sys.path.insert(0, self._folder)
        invalidate_caches()
        try:
            yield
        finally:
            sys.dont_write_bytecode = writes_no_bytecode
            with suppress(ValueError):  # the user's code may have removed it
                sys.path.remove(self._folder)
            self._take_back(before)

    def _take_back(self, before: set[str]) -> None:
        found = [name for name in sys.modules if name.partition(".")[0] not in before]
        ours = {name for name in found if "." not in name and self._holds(sys.modules[name])}
        for name in found:
            if name.partition(".")[0] in ours:
                self._modules[name] = sys.modules.pop(name)

    def _holds(self, module: ModuleType) -> bool:
        """Whether a top-level module stands in the folder itself: a `.venv` below it does not count."""
        file = getattr(module, "__file__", None)
        places = [file] if file else list(getattr(module, "__path__", ()))
        if file and hasattr(module, "__path__"):
            places = [os.path.dirname(file)]
        return any(os.path.dirname(place) == self._folder for place in places)


_neighbours: dict[str, Neighbours] = {}
