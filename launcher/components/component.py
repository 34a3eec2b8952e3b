"""Load components from modules and files, call them, and describe the errors of the user's code in them."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from threading import Lock, RLock
from types import ModuleType
from typing import Any, TextIO

from launcher.components.call import ComponentArgs, call
from launcher.components.linter import PACKAGE, ComponentFile, LinterMessage
from launcher.components.signature import Parameters, parameters_of
from launcher.dataclass import dataclass
from launcher.errors import Interruption, LauncherError, UsageError, said_by
from launcher.files import GONE
from launcher.specs.app import AppDef


@dataclass(slots=True)
class _Away:
    """The nesting depth of redirections, and the original stdout."""

    times: int = 0
    stdout: TextIO | None = None
    descriptor: int | None = None


_lock = Lock()
_away = _Away()


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """For the body of a `with`, redirect output of sys.stdout, descriptor 1 and child processes to stderr.

    This affects the whole process: while one thread is inside, the others print to stderr too, and the last
    one to leave restores both. A closed descriptor 1 stays closed; where sys.stdout does not write to it (a
    notebook, a test), each is redirected separately.
    """
    with _lock:
        if not _away.times:
            _send_away()
        _away.times += 1
    try:
        yield
    finally:
        with _lock:
            _away.times -= 1
            if not _away.times:
                _flush()  # user code may hold the old stdout, and its buffer must not end up in the document
                if _away.descriptor is not None:
                    os.dup2(_away.descriptor, 1)
                    os.close(_away.descriptor)
                sys.stdout = _away.stdout
                _away.stdout = _away.descriptor = None


def _send_away() -> None:
    _flush()
    _away.stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        _away.descriptor = fcntl(1, F_DUPFD_CLOEXEC, 3)  # 2 may be free, and is no place to keep it
    except OSError:
        _away.descriptor = None
        return
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed, too
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def _flush() -> None:
    for stream in (sys.stdout, sys.__stdout__, _away.stdout):
        if stream is None:
            continue
        with suppress(OSError, ValueError):  # broken, closed
            stream.flush()


NOT_THEIRS = (KeyboardInterrupt, GeneratorExit, Interruption)
"""Exceptions that pass through a user's code but are not errors of that code."""


class ComponentNotFoundException(UsageError):
    """There is no component of that name."""


class ComponentFileNotFoundException(ComponentNotFoundException, FileNotFoundError):
    """There is no component file of that path."""


class ComponentValidationException(LauncherError):
    """A function cannot be a component; the message says why, a line for each reason."""


class ComponentFailedException(LauncherError):
    """A component raised an exception instead of returning an AppDef; the message says which and where."""


class Component:
    """A component that was found: `name`, `description`, `fn_name`, `validation_errors`, and `fn` itself.

    The first access to `fn` runs the code of its module.
    """

    def __init__(
        self,
        name: str,
        description: str,
        fn_name: str,
        load: Callable[[], Callable[..., Any]],
        validation_errors: list[LinterMessage],
        path: str,
    ) -> None:
        self.name = name
        self.description = description
        self.fn_name = fn_name
        self.validation_errors = validation_errors
        self.path = path
        self._load = load
        self._fn: Callable[..., Any] | None = None

    @property
    def fn(self) -> Callable[..., Any]:
        """The function. Raises ComponentNotFoundException when its module cannot be loaded.

        The output of the module goes to stderr.
        """
        if self._fn is None:
            try:
                with stdout_to_stderr():
                    self._fn = self._load()
            except NOT_THEIRS:
                raise
            except BaseException as error:
                message = f"component `{self.name}` cannot be loaded from {self.path}: {self._why(error)}"
                raise ComponentNotFoundException(message, hint=_import_hint(error)) from error
        return self._fn

    @property
    def parameters(self) -> Parameters:
        """Its parameters. Raises ComponentNotFoundException, ComponentSignatureException."""
        return parameters_of(self.fn, self.name)

    def build(self, arguments: ComponentArgs) -> AppDef:
        """Return the app that the component makes. Its output goes to stderr: stdout may be a document.

        Raises only LauncherError, and the exceptions of signals.
        """
        function = self.fn
        try:
            with stdout_to_stderr():
                return call(function, arguments, self.name)
        except (LauncherError, *NOT_THEIRS):
            raise
        except BaseException as error:
            message = f"component `{self.name}` failed: {self._why(error)}"
            raise ComponentFailedException(message, hint=_import_hint(error)) from error

    def _why(self, error: BaseException) -> str:
        """Return the error and its line. Built-in components have no line, as users do not edit them."""
        return said_by(error, "" if self.path.startswith(PACKAGE + os.sep) else self.path)

    def __repr__(self) -> str:
        return f"Component({self.name!r}, {self.path!r})"


def _import_hint(error: BaseException) -> str | None:
    """The remedy for an import of a component file that fails; None for other errors."""
    if not isinstance(error, ImportError):
        return None
    if "relative import" in str(error):
        return "a component file is no part of a package: import what stands beside it by its name alone"
    is_of_torchx = (error.name or "").partition(".")[0] == "torchx"
    return "write `launcher` in place of `torchx` in its imports" if is_of_torchx else None


Load = Callable[[], Callable[..., Any]]
"""Runs the code of a module and returns a function of it. Raises whatever the code raises."""


def spec_of(module: str) -> ModuleSpec | None:
    """The place of a module; None when there is none. The packages above it are imported.

    Raises ComponentNotFoundException when one of those cannot be imported.
    """
    try:
        with stdout_to_stderr():
            return find_spec(module)
    except ValueError:  # an empty name, or a module that no import has made
        return None
    except NOT_THEIRS:
        raise
    except BaseException as error:
        # A package that fails to import another module is broken; one that is itself missing is absent.
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
        beside = _neighbours.setdefault(name, NeighbourModules(os.path.dirname(parsed.path)))
        with beside.importable():  # other threads see no module that is executed in part
            if name not in sys.modules:
                _execute(name, parsed)
            found = _defined(vars(sys.modules[name]), function, parsed.path)

        @functools.wraps(found)
        def component(*args: Any, **kwargs: Any) -> Any:
            with beside.importable():
                return found(*args, **kwargs)

        return component

    return load


def _execute(name: str, parsed: ComponentFile) -> None:
    module = ModuleType(name)
    module.__file__ = parsed.path
    module.__package__ = ""
    # Dataclasses and typing look the module up by its name even while it is executed.
    sys.modules[name] = module
    try:
        exec(compile(parsed.text, parsed.path, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise


def _defined(namespace: Mapping[str, Any], function: str, where: str) -> Callable[..., Any]:
    if function not in namespace:
        raise ComponentNotFoundException(
            f"{where} does not define `{function}` here", hint="it stands below an `if` or a `try`"
        )
    found: Callable[..., Any] = namespace[function]
    return found


class NeighbourModules:
    """The modules in the folder of one component file, importable only while the component's code runs.

    Each component file has its own modules, as another folder may have a `common.py` too.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Put the folder first on sys.path, and restore sys.path and sys.modules afterwards.

        One thread at a time: files in other folders have modules of the same names. No bytecode is written
        meanwhile: it would change the folder, which may be the job's workspace.
        """
        with _importing:
            yield from self._importable()

    def _importable(self) -> Iterator[None]:
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
        """Whether a top-level module is in the folder itself; modules in a `.venv` below do not count."""
        file = getattr(module, "__file__", None)
        places = [file] if file else list(getattr(module, "__path__", ()))
        if file and hasattr(module, "__path__"):
            places = [os.path.dirname(file)]
        return any(os.path.dirname(place) == self._folder for place in places)


_importing = RLock()
_neighbours: dict[str, NeighbourModules] = {}
