"""Check the local inputs of a plan: secrets exist, workspaces and input files are unchanged."""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from launcher import git, secrets
from launcher.errors import LauncherError, SecretError, StaleError
from launcher.plan.diff import Change
from launcher.plan.model import Plan
from launcher.plan.notation import is_workspace_digest
from launcher.plan.snapshot import Snapshot
from launcher.plan.why import some_files
from launcher.specs.binding import BoundLaunch
from launcher.specs.launch import InputRef, Launch, ProjectRef, WorkspaceRef
from launcher.specs.secret import Secret

if TYPE_CHECKING:
    from launcher.workspace.inputs import InputReader

_FRESH_S = 0.5
"""How long jobs that start one after another share one look at their input files."""


def check_secrets(plan: Plan) -> None:
    """Raise SecretError naming job, role and variable of every secret that cannot be read."""
    lines = [line for step in plan.steps if step.bound for line in _missing(step.bound)]
    if lines:
        raise SecretError(
            "secrets are missing:" + "".join(f"\n  {line}" for line in lines),
            hint="nothing was submitted; set them and apply again",
        )


def _missing(bound: BoundLaunch) -> Iterator[str]:
    for role in bound.app.roles:
        found = {name: str(value) for name, value in role.env.items() if isinstance(value, Secret)}
        reasons = secrets.missing(found.values()) if found else {}
        for name, reference in found.items():
            if reference in reasons:
                where = f"{bound.launch.key}: role `{role.name}`"
                yield f"{where}: {name} (secret {reference}): {reasons[reference]}"


def check_workspaces(plan: Plan) -> None:
    """Hash the workspaces of the jobs to start again. Raises StaleError for those that have changed."""
    seen: dict[str, str] = {}
    lines = [line for step in plan.steps if step.bound for line in _moved(step.bound, seen)]
    _refuse_stale(lines)


def check_inputs(plan: Plan) -> None:
    """Hash the input files of the jobs to start again. Raises StaleError for those that have changed."""
    bound = [step.bound for step in plan.steps if step.bound and step.bound.launch.inputs]
    if not bound:
        return
    from launcher.workspace.inputs import InputReader, changed_since

    reader = InputReader()
    lines = []
    for each in bound:
        ref = each.launch.input_ref
        if ref is not None and (changed := changed_since(ref, reader=reader)):
            lines.append(f"{each.launch.key}: its input files are not what was planned: {changed}")
    _refuse_stale(lines)


def _refuse_stale(lines: Sequence[str]) -> None:
    """Raise StaleError with every line; none for a plan that still applies."""
    if lines:
        raise StaleError(
            "the plan cannot be applied any more:" + "".join(f"\n  {line}" for line in lines),
            hint="make a new plan",
        )


class InputCheck:
    """Compares the input files of a job just before it starts, after images were pulled and turns awaited.

    Jobs that start within a moment share what was read.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._reader: InputReader | None = None
        self._made_at = 0.0

    def check(self, ref: InputRef) -> None:
        """Raises StaleError, which names the files, when one is not what was planned."""
        from launcher.workspace.inputs import InputReader, changed_since

        with self._lock:
            if self._reader is None or monotonic() - self._made_at > _FRESH_S:
                self._reader, self._made_at = InputReader(), monotonic()
            changed = changed_since(ref, reader=self._reader)
        if changed:
            raise StaleError(f"its input files are not what was planned: {changed}", hint="apply again")


def with_inputs(snapshot: Snapshot, launches: Iterable[Launch]) -> Snapshot:
    """The snapshot with the recorded lists of the input files that have changed, for the words of reasons."""
    digests: set[str] = set()
    for launch in launches:
        for last in (snapshot.latest.get(launch.key), snapshot.ran.get(launch.key)):
            if last is not None and last.inputs and last.inputs != launch.inputs_digest:
                digests |= {last.inputs, launch.inputs_digest}
    if not digests:
        return snapshot
    from launcher.workspace.inputs import known

    lists = {digest: known(digest) for digest in digests}
    return replace(snapshot, inputs={digest: found for digest, found in lists.items() if found is not None})


def _moved(bound: BoundLaunch, seen: dict[str, str]) -> Iterator[str]:
    if bound.workspace is None or bound.launch.workspace is None:
        return
    for written, part in zip(_parts(bound.launch.workspace), _parts(bound.workspace), strict=True):
        if part.path not in seen:
            seen[part.path] = _digest_or_why(part.path)
        if seen[part.path] != part.digest:
            yield (
                f"{bound.launch.key}: the workspace `{written.path}` is not what was planned: "
                f"expected {part.digest}, found {seen[part.path]}"
            )


def _parts(workspace: WorkspaceRef) -> Sequence[WorkspaceRef | ProjectRef]:
    return workspace.projects or (workspace,)


def keep_files(bound: BoundLaunch) -> None:
    """Store the lists of an attempt's input files and of its workspace, so that later plans can name the
    changed files."""
    if bound.launch.inputs_digest:
        from launcher.workspace import inputs

        inputs.keep(bound.launch.inputs_digest)
    if bound.workspace is None:
        return
    from launcher.workspace.manifest import keep

    for part in _parts(bound.workspace):
        keep(part.digest)


def large_workspace_notes(workspace: WorkspaceRef) -> Iterator[str]:
    """Notes on the size of large workspace folders, and how to make them smaller."""
    from launcher.workspace.manifest import amount, is_large, known, largest

    for part in _parts(workspace):
        files = known(part.digest)
        if files and is_large(files):
            most, pattern = largest(files)
            yield (
                f"the workspace `{part.path}` is large: {amount(files)}, largest {most}; "
                f"a line `{pattern}` in its .launcherignore leaves that out"
            )


def untracked_notes(workspace: WorkspaceRef, changes: Iterable[Change]) -> Iterator[str]:
    """Notes on workspaces that have changed in files alone that git does not track, and what ignores these.

    A job that writes into its own workspace runs again at each apply otherwise.
    """
    from launcher.workspace.manifest import changed_files, known

    folders = {part.digest: part.path for part in _parts(workspace)}
    for change in changes:
        if change.op != "~" or not is_workspace_digest(change.path) or change.new not in folders:
            continue
        folder, old, new = folders[change.new], known(change.old), known(change.new)
        if old is None or new is None:
            continue
        changed = [path for _, path in changed_files(old, new)]
        if lines := _ignoring(folder, changed):
            yield (
                f"the workspace `{folder}` differs only in files that git does not track: "
                f"{some_files(changed)}; if the job writes them, {_lines(lines)} in its "
                ".launcherignore leaves them out"
            )


def _ignoring(folder: str, paths: Sequence[str]) -> list[str]:
    """The lines of an ignore file that match the untracked `paths` below a folder, whole folders if possible.

    None without git, and where git tracks one of the paths.
    """
    from launcher.workspace.manifest import ignore_line

    repository = git.repository(folder)
    if repository is None or not paths:
        return []
    prefix = os.path.relpath(os.path.realpath(folder), os.path.realpath(repository.root))
    tops = dict.fromkeys(path.partition("/")[0] for path in paths)
    try:
        found = repository.tracked(os.path.normpath(os.path.join(prefix, top)) for top in tops)
    except LauncherError:
        return []
    tracked = {os.path.relpath(path, prefix) for path in found}
    if tracked.intersection(paths):
        return []
    shared = {path.partition("/")[0] for path in tracked}
    return [ignore_line(each) for each in dict.fromkeys(_outermost(path, shared) for path in paths)]


def _lines(lines: Sequence[str]) -> str:
    """ "a line `out`", "the lines `out`, `log.txt`"."""
    return ("a line " if len(lines) == 1 else "the lines ") + some_files([f"`{line}`" for line in lines])


def _outermost(path: str, shared: Collection[str]) -> str:
    """The folder at the top that holds a path, or the path itself where that folder is `shared`."""
    top = path.partition("/")[0]
    return path if top in shared else top


def _digest_or_why(path: str) -> str:
    from launcher.workspace.context import project_digest

    try:
        return project_digest(path)
    except LauncherError as error:
        return str(error)
