"""The outcome of compiling job files; and the last one, kept while nothing that it depends on changes.

An outcome is kept under a key of the command line, the current folder, the settings of launcher and the code
that runs. With it is kept each question that compiling asked of the world (`launcher.looks`), with the digest
of the answer: bytes of files, the job files of a folder, facts of git, variables, digests of workspaces and
inputs. It is reused where all of these have the same answers; no time of a file is trusted. Each question is
asked once, so that the digest belongs to the very text that is compiled.

An outcome is not kept when it depends on code that may read anything (components, plug-ins), or holds values
under names that look like secrets.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from launcher import ci_environment
from launcher.cachefolder import CacheFolder
from launcher.dataclass import fields, filler
from launcher.errors import LauncherError
from launcher.hashes import blake2b
from launcher.looks import Notes, Question
from launcher.paths import IMPORT_ROOT

if TYPE_CHECKING:
    from launcher.jobfile.compile.one_job import Trace
    from launcher.jobfile.diagnostic import Diagnostic
    from launcher.specs.jobkey import JobKey
    from launcher.specs.launch import Launch


class Compiled(NamedTuple):
    """The outcome: the launches of the files without errors, and every diagnostic in file order."""

    launches: tuple[Launch, ...]
    diagnostics: tuple[Diagnostic, ...]
    traces: Mapping[JobKey, Trace] = MappingProxyType({})
    """Traces of the origins of each launch's values. Empty for a kept outcome."""
    prunes: bool = False
    """Whether `launcher ci` stops apps that no file declares any more."""
    parents: int = 0
    """How many of the files are only parents of other files, and declare no jobs."""
    left_out: tuple[str, ...] = ()
    """The files whose jobs lack the requested target."""
    jobs: int = 0
    """The number of launches. A kept outcome with placeholders has this number, and no launches."""

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error")

    def raise_for_errors(self) -> None:
        """Raise JobFileError when there is an error."""
        if self.errors:
            from launcher.jobfile.diagnostic import job_file_error

            raise job_file_error(self.diagnostics)


_VERSION = 1
_NAME_BYTES = 16
_SETTINGS = ("HOME", "XDG_STATE_HOME", "LAUNCHER_")
"""The prefixes of environment variables with settings of launcher."""

_ABOVE = frozenset({"apply", "apps", "ci", "cli", "convert", "inventory", "runner", "__pycache__"})
"""Folders of modules above the cached code, which never calls them."""

_INSTALLED = (".dist-info", ".egg-info")


def kept(question: tuple[Any, ...], compile: Callable[[], Compiled], *, is_counted: bool = False) -> Compiled:
    """Return the outcome of `compile`, which is called unless a kept outcome is still right.

    Args:
        question: all arguments that `compile` works with, as plain values.
        is_counted: whether only the number of launches is wanted.

    Raises what `compile` raises.
    """
    # a CI system has a new machine each time
    folder = None if ci_environment.is_runner(os.environ) else CacheFolder.opened()
    if folder is None:
        return compile()
    try:
        code = _code()
        if code is None:
            return compile()
        name = _name(question, code, folder.key)
        notes = Notes(folder.key)
        asked, data = _read(folder, name)
        if data is not None and notes.still_hold(asked):
            folder.mark_used(name, time.time())
            return _outcome(data, compile)
        with notes.begin():
            outcome = compile()
        if notes.is_repeatable:
            _write(folder, name, notes.asked, outcome, is_counted)
        return outcome
    finally:
        folder.close()


def _name(question: tuple[Any, ...], code: tuple[object, ...], key: bytes) -> str:
    settings = sorted(each for each in os.environ.items() if each[0].startswith(_SETTINGS))
    whole = repr((_VERSION, code, os.getcwd(), settings, question)).encode("utf-8", "surrogatepass")
    return blake2b(whole, digest_size=_NAME_BYTES, key=key).hexdigest()


def _code() -> tuple[object, ...] | None:
    """Return plain values that are equal while the code is the same; None for a package in an archive.

    Our own modules count by name, size and time, as Python itself decides whether a compiled module is
    current; an installed package by its version, its installation and what it offers to others.
    """
    try:
        own = tuple(_modules(os.path.join(IMPORT_ROOT, "launcher"), ""))
    except OSError:
        return None
    encoding = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
    return sys.version, sys.executable, sys.flags.optimize, encoding, own, tuple(_packages())


def _modules(folder: str, inside: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as found:
        items = sorted(found, key=lambda item: item.name)
    for item in items:
        if item.name.endswith((".py", ".so", ".json", ".md", ".toml")):
            about = item.stat()
            yield inside + item.name, about.st_size, about.st_mtime_ns
        elif item.name not in _ABOVE and item.is_dir():
            yield from _modules(item.path, f"{inside}{item.name}/")


def _packages() -> Iterator[tuple[object, ...]]:
    for folder in dict.fromkeys(sys.path):
        try:
            names = sorted(name for name in os.listdir(folder or os.curdir) if name.endswith(_INSTALLED))
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            yield path, _record(path), _entry_points(path)


def _record(path: str) -> tuple[int, int]:
    """Return a value that changes whenever the package is installed again, in any version."""
    for name in ("RECORD", "SOURCES.txt", ""):
        try:
            about = os.stat(os.path.join(path, name))
        except OSError:
            continue
        return about.st_size, about.st_mtime_ns
    return 0, 0


def _entry_points(path: str) -> bytes:
    try:
        with open(os.path.join(path, "entry_points.txt"), "rb") as file:
            return file.read()
    except OSError:
        return b""


def _read(folder: CacheFolder, name: str) -> tuple[dict[Question, bytes], Any]:
    """Return the questions of a kept outcome, and its data; None for the data when none is kept."""
    found = folder.read(name)  # sealed by this user, since `marshal` may read no other data
    if found is None:
        return {}, None
    asked, data = marshal.loads(found)
    return {(each[0], each[1]): each[2] for each in asked}, data


def _write(
    folder: CacheFolder, name: str, asked: dict[Question, bytes], outcome: Compiled, is_counted: bool
) -> None:
    traces = outcome.traces.values()
    has_layers = any(each.variant.document.layers or each.config.document for each in traces)
    rest = (outcome.prunes, outcome.parents, outcome.left_out, outcome.jobs)
    try:
        launches = [] if is_counted else packed([*map(_with_digest, outcome.launches)])
        data = (launches, packed([*outcome.diagnostics]), rest, has_layers)
        kept = marshal.dumps(([(*question, digest) for question, digest in asked.items()], data))
    except (NotPlainError, LauncherError, RecursionError, ValueError):  # the last two come from deep nesting
        return
    folder.write(name, kept)


def _with_digest(launch: Launch) -> Launch:
    """Return the launch with its digest, so that plans need no documents of unchanged jobs."""
    from launcher.specs import canonical

    object.__setattr__(launch, "digest", canonical.digest_of(launch))
    return launch


def _outcome(data: Any, compile: Callable[[], Compiled]) -> Compiled:
    launches, diagnostics, (prunes, parents, left_out, jobs), has_layers = data
    found = unpacked(launches)
    if has_layers:
        # The lines of shared files are not kept, since only plans with changes ask for them.
        lines = cache(lambda: {each.key: each.shared_line for each in compile().launches})
        for each in found:
            object.__setattr__(each, "shared_line", partial(_line, lines, each.key))
    return Compiled(tuple(found), tuple(unpacked(diagnostics)), {}, prunes, parents, left_out, jobs)


def _line(lines: Callable[[], Mapping[JobKey, Callable[[str], str]]], key: JobKey, path: str) -> str:
    """Return the line of a shared file in which a value is written."""
    return lines()[key](path) if key in lines() else ""


# -- values as bytes -----------------------------------------------------------------------------------------


_HOMES = {
    "launcher.jobfile.diagnostic": "Diagnostic Related Span",
    "launcher.specs.app": "AppDef Probe Resource RetryPolicy Role",
    "launcher.specs.jobkey": "JobKey",
    "launcher.specs.launch": "Budget Caps Launch Lifecycle Need ProjectRef Trigger WorkspaceRef",
    "launcher.specs.mounts": "BindMount DeviceMount VolumeMount",
    "launcher.specs.notify": "Destination",
    "launcher.specs.secret": "Secret",
}
_CLASSES = [(home, name) for home, names in _HOMES.items() for name in names.split()]
_NUMBERS = {each: number for number, each in enumerate(_CLASSES, 1)}
_TUPLE, _LIST, _DICT = 0, -1, -2
_PLAIN = frozenset({type(None), bool, int, float, str})
_SHARED = frozenset(
    _NUMBERS[each] for each in _CLASSES if each[1] in ("Budget", "Caps", "Lifecycle", "RetryPolicy")
)
"""Classes with few different, unchangeable values: equal values become one object."""
_LEFT_OUT = ("shared_line",)
"""Fields that hold functions."""


class NotPlainError(Exception):
    """The class of a value is not among those listed here."""


def packed(value: Any) -> Any:
    """Return plain data from which `unpacked` makes an equal value. Raises NotPlainError.

    Everything but plain values becomes a tuple, which begins with the number of its class.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        items = [packed(item) for item in value]
        return (_LIST, *items) if any(type(item) is tuple for item in items) else items
    if kind is dict:
        parts = [packed(item) for item in value.values()]
        is_plain = not any(type(part) is tuple for part in parts)
        return dict(zip(value, parts, strict=True)) if is_plain else (_DICT, [*value], *parts)
    if kind is tuple:
        return (_TUPLE, *map(packed, value)) if value else ()
    number = _NUMBERS.get((kind.__module__, kind.__qualname__))
    if number is None:
        raise NotPlainError(kind)
    names = _fields(number)
    if names is not None:
        return (number, *[packed(getattr(value, name)) for name in names])
    if isinstance(value, tuple):
        return (number, *map(packed, value))
    return (number, str.__str__(value))


def unpacked(data: Any) -> Any:
    """Return the value that `packed` made this data of. It uses the data's own lists and mappings."""
    return _maker(data[0])(data) if type(data) is tuple and data else data


def _parts(data: tuple[Any, ...]) -> list[Any]:
    return [unpacked(part) if type(part) is tuple else part for part in data[1:]]


@cache
def _maker(number: int) -> Callable[[tuple[Any, ...]], Any]:
    """Return the function that makes a value from its data, without the constructor of a dataclass."""
    if number == _DICT:
        return lambda data: dict(zip(data[1], _parts(data)[1:], strict=True))
    if number <= _TUPLE:
        kind = list if number == _LIST else tuple
        return lambda data: kind(_parts(data))
    made, names = _class(number), _fields(number)
    if names is not None:
        fill = filler(made, names, convert=unpacked)
        make = lambda data: fill(data[1:])  # noqa: E731
    elif issubclass(made, tuple):
        make = lambda data: tuple.__new__(made, _parts(data))  # noqa: E731
    else:
        make = lambda data: made(*data[1:])  # noqa: E731
    return cache(make) if number in _SHARED else make


@cache
def _class(number: int) -> Any:
    home, name = _CLASSES[number - 1]
    return getattr(import_module(home), name)


@cache
def _fields(number: int) -> tuple[str, ...] | None:
    """Return the fields of a dataclass; None for named tuples, enumerations and texts."""
    kept = _class(number)
    if issubclass(kept, (str, tuple)):
        return None
    return tuple(each.name for each in fields(kept) if each.name not in _LEFT_OUT)
