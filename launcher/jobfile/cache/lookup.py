"""Compile job files, or return the last outcome when nothing that it depends on has changed.

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
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from launcher import ci_environment
from launcher.cachefolder import CacheFolder
from launcher.errors import LauncherError
from launcher.identity import identity
from launcher.jobfile.cache.values import NotPlainError, packed, unpacked
from launcher.jobfile.compile.compiled import Compiled
from launcher.looks import Notes, Question

if TYPE_CHECKING:
    from launcher.specs.launch import Launch

_VERSION = 1
_NAME_BYTES = 16
_SETTINGS = ("HOME", "XDG_STATE_HOME", "LAUNCHER_")
"""The prefixes of environment variables with settings of launcher."""


def kept(question: tuple[Any, ...], compile: Callable[[], Compiled], *, is_counted: bool = False) -> Compiled:
    """Return the outcome of `compile`, which is called unless a kept outcome is still right.

    Args:
        question: all arguments that `compile` works with, as plain values.
        is_counted: whether only the number of launches is wanted.

    Raises what `compile` raises.
    """
    # A CI system has a new machine each time.
    folder = None if ci_environment.is_runner(os.environ) else CacheFolder.opened()
    if folder is None:
        return compile()
    try:
        code = identity()
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


def _read(folder: CacheFolder, name: str) -> tuple[dict[Question, bytes], Any]:
    """The questions of a kept outcome, and its data; None for the data where none is kept."""
    found = folder.read(name)  # sealed by this user: `marshal` reads no others
    if found is None:
        return {}, None
    asked, data = marshal.loads(found)
    return {(each[0], each[1]): each[2] for each in asked}, data


def _write(
    folder: CacheFolder, name: str, asked: dict[Question, bytes], outcome: Compiled, is_counted: bool
) -> None:
    traces = outcome.traces.values()
    has_layers = any(trace.document.layers or trace.config.document for trace in traces)
    rest = (outcome.prunes, outcome.parents, outcome.left_out, outcome.jobs)
    try:
        launches = [] if is_counted else packed([*map(_with_digest, outcome.launches)])
        data = (launches, packed([*outcome.diagnostics]), rest, has_layers)
        kept = marshal.dumps(([(*question, digest) for question, digest in asked.items()], data))
    except (NotPlainError, LauncherError, RecursionError, ValueError):  # the last two: nested too deeply
        return
    folder.write(name, kept)


def _with_digest(launch: Launch) -> Launch:
    """The launch, which now holds its digest: plans then need no documents of jobs that are unchanged."""
    from launcher.specs import canonical

    object.__setattr__(launch, "digest", canonical.digest_of(launch))
    return launch


def _outcome(data: Any, compile: Callable[[], Compiled]) -> Compiled:
    launches, diagnostics, (prunes, parents, left_out, jobs), has_layers = data
    found = unpacked(launches)
    if has_layers:
        lines = _Lines(compile)
        for each in found:
            object.__setattr__(each, "shared_line", lines.of(each.key))
    return Compiled(tuple(found), tuple(unpacked(diagnostics)), {}, prunes, parents, left_out, jobs)


class _Lines:
    """The lines of shared files that values come from. Not kept: only plans with changes ask for them."""

    def __init__(self, compile: Callable[[], Compiled]) -> None:
        self._compile = compile
        self._found: dict[Any, Callable[[str], str]] | None = None

    def of(self, key: Any) -> Callable[[str], str]:
        def line(path: str) -> str:
            if self._found is None:
                self._found = {each.key: each.shared_line for each in self._compile().launches}
            return self._found[key](path) if key in self._found else ""

        return line
