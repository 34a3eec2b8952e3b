"""Bind every launch that a plan starts to this machine, and check it with its scheduler.

With `--check`, the scheduler is asked as well whether it takes the request.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from launcher import git
from launcher.apply.engines import Engines
from launcher.dataclass import replace
from launcher.errors import LauncherError, SchedulerError
from launcher.plan.diff import Change, is_workspace_digest
from launcher.plan.model import Plan
from launcher.plan.step import Guard, Reason, Step
from launcher.specs.app import ROLE_FIELDS, Role
from launcher.specs.attempt import StoodOn
from launcher.specs.launch import JobKey, Launch, WorkspaceRef
from launcher.text import first_lines, some_of

if TYPE_CHECKING:
    from launcher.schedulers.staged import Verdict
    from launcher.specs.binding import BoundLaunch


def bind_plan(plan: Plan, engines: Engines) -> Plan:
    """Bind every launch that the plan starts. Raises SchedulerError with every refusal.

    Steps that a dry run has bound stay as they are.
    """

    def bound(step: Step) -> Step:
        if not step.starts or step.launch is None or step.bound is not None:
            return step
        _check_needs(step, engines)
        return replace(step, bound=engines.bind(step.launch))

    return replace(plan, steps=_each(plan.steps, bound))


def dry_run_plan(plan: Plan, engines: Engines, *, requests: bool = False) -> Plan:
    """Bind and dry-run the launches that the plan starts, and add the notes of the schedulers.

    Of jobs of a matrix that are alike (`are_alike`), only the first one is dry-run and bound; the others get
    its notes.

    Args:
        requests: make a request for every step that starts a job.

    Raises SchedulerError with every refusal: of a request, or of a stop that a scheduler cannot reach.
    """
    first: _First | None = None if requests else {}

    def rehearsed(step: Step) -> Step:
        if not (step.starts or step.stops or step.withdraws or step.leftovers):
            return step
        # The attempts that it would stop or resume may be on an engine that was not observed.
        goes_on = [Guard.of(step.latest)] if step.kind == "resume" and step.latest is not None else []
        for old in (*step.stops, *step.withdraws, *step.leftovers, *goes_on):
            engines.get(old.scheduler).check_cancel(old.app_id)
        return _rehearsed(step, engines, first)

    checked = replace(plan, steps=_each(plan.steps, rehearsed)).with_notes(_kept_notes(plan, engines))
    return replace(checked, steps=tuple(_with_untracked(step, engines) for step in checked.steps))


def ask_schedulers(
    plan: Plan, engines: Engines
) -> tuple[dict[JobKey, Reason], dict[JobKey, tuple[str, ...]]]:
    """Ask about the requests of a dry-run plan, except for attempts to resume, which were submitted before.

    Returns job → why its request is refused, and job → a note on a request that was not judged.
    """
    asked: dict[str, dict[str, Step]] = {}  # scheduler → app id → step
    for step in plan.steps:
        if step.starts and step.kind != "resume" and step.launch is not None:
            asked.setdefault(step.launch.scheduler, {})[step.app_id] = step
    refused: dict[JobKey, Reason] = {}
    notes: dict[JobKey, tuple[str, ...]] = {}
    for name, steps in asked.items():
        requests = {
            app_id: each.bound.info for app_id, each in steps.items() if each.bound and each.bound.info
        }
        for app_id, verdict in engines.get(name).check(requests).items():
            key = steps[app_id].key
            if verdict.refusal:
                refused[key] = _refused(name, verdict, steps[app_id])
            else:
                notes[key] = (f"not checked whether {name} takes the request: {verdict.unchecked}",)
    return refused, notes


def _refused(scheduler: str, verdict: Verdict, step: Step) -> Reason:
    value: Any = step.document if verdict.path else None
    for part in filter(None, verdict.path.split(".")):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return Reason("refused", detail=f"{scheduler} refuses the request: {verdict.refusal}")
    return Reason("refused", verdict.path, new=value, detail=f"is refused by {scheduler}: {verdict.refusal}")


def _each(steps: Iterable[Step], act: Callable[[Step], Step]) -> tuple[Step, ...]:
    """Return the results of `act` for all steps. Raises SchedulerError with the first refusals."""
    done: list[Step] = []
    refused: list[tuple[JobKey, LauncherError]] = []
    for step in steps:
        try:
            done.append(act(step))
        except LauncherError as error:
            refused.append((step.key, error))
    if refused:
        lines = [f"{key.job}: {error}" for key, error in refused]
        hints = dict.fromkeys(error.hint for _, error in refused if error.hint)
        raise SchedulerError(first_lines(lines), hint="; ".join(hints) or None)
    return tuple(done)


_First = dict[JobKey, tuple[Launch, tuple[str, ...]]]
"""Matrix → the job of its last dry run, and the notes of that."""


def _rehearsed(step: Step, engines: Engines, first: _First | None) -> Step:
    """Return the step with the notes of its dry run; bound, unless another dry run answers for it.

    Args:
        first: jobs that are alike share one dry run; None where each has its own.
    """
    launch = step.launch
    if not step.starts or launch is None:
        return step
    matrix = launch.key._replace(job=launch.matrix)
    found = (first or {}).get(matrix)
    alike = found if found is not None and are_alike(launch, found[0]) else None
    if step.needs or alike is None:
        _check_needs(step, engines)
    if alike is not None:
        bound, notes = None, alike[1]
    else:
        bound = engines.bind(launch)
        info = engines.dry_run(bound)
        notes = (*getattr(info.request, "notes", ()), *_workspace_notes(bound, engines))
        bound = bound._replace(info=info)
        if first is not None and launch.matrix and engines.judges_fields_alone(launch):
            first[matrix] = launch, notes
    return replace(step, bound=bound, notes=(*step.notes, *notes)) if bound or notes else step


_SAME = attrgetter(
    "scheduler", "cfg", "timeout_s", "workspace", "root", "file", "needs", "inputs_digest",
    "app.metadata", "app.output",
)  # fmt: skip
_SAME_IN_ROLES = attrgetter(*(name for name in ROLE_FIELDS if name not in ("args", "env")))
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_LONGEST = 200
"""The length in characters from which a text or name is dry-run by itself."""


def are_alike(one: Launch, other: Launch) -> bool:
    """Return whether two matrix jobs differ only in names, and in short plain texts of `args` and `env`.

    No scheduler of ours refuses or notes such a text, whatever it is.
    """
    return (
        _SAME(one) == _SAME(other)
        and len(one.app.name) < _LONGEST
        and _PLAIN_NAME.fullmatch(one.app.name) is not None
        and len(one.app.roles) == len(other.app.roles)
        and all(map(_are_roles_alike, one.app.roles, other.app.roles))
    )


def _are_roles_alike(one: Role, other: Role) -> bool:
    return (
        type(one) is type(other) is Role  # a user's subclass of Role may edit its request
        and _SAME_IN_ROLES(one) == _SAME_IN_ROLES(other)
        and len(one.args) == len(other.args)
        and one.env.keys() == other.env.keys()
        and all(map(_are_texts_alike, one.args, other.args))
        and all(_are_texts_alike(value, other.env[name]) for name, value in one.env.items())
    )


def _are_texts_alike(one: object, other: object) -> bool:
    return (one == other and type(one) is type(other)) or (_is_plain(one) and _is_plain(other))


def _is_plain(text: object) -> bool:
    return type(text) is str and "$" not in text and len(text) < _LONGEST and text.isprintable()


def _check_needs(step: Step, engines: Engines) -> None:
    check_held(step, [each for each in step.needs if each.job in step.after], engines)
    check_outputs(step, engines)


def _with_untracked(step: Step, engines: Engines) -> Step:
    """Return the step, with the notes of `untracked_notes` if its workspace has changed."""
    if step.launch is None or not any(is_workspace_digest(change.path) for change in step.changes):
        return step
    try:
        workspace = (step.bound or engines.bind(step.launch)).workspace
    except LauncherError:  # the job is held, and would be refused
        return step
    notes = tuple(untracked_notes(workspace, step.changes)) if workspace is not None else ()
    return replace(step, notes=(*step.notes, *notes))


def _workspace_notes(bound: BoundLaunch, engines: Engines) -> tuple[str, ...]:
    """Return notes on a large workspace, and on one that the scheduler does not use at all."""
    launch = bound.launch
    if launch.workspace is None:
        return ()
    scheduler = engines.get(launch.scheduler)
    from launcher.workspace.manifest import amount, is_large, known, largest

    large: tuple[str, ...] = ()
    for part in launch.workspace.parts:
        files = known(part.digest)
        if files and is_large(files):
            most, pattern = largest(files)
            note = f"the workspace `{part.path}` is large: {amount(files)}, largest {most}; "
            large += (f"{note}a line `{pattern}` in its .launcherignore leaves that out",)
    if scheduler.builds_workspaces or scheduler.run_opts().get("cwd") is not None:
        return large
    unused = f"the workspace `{launch.workspace.name}` is not used: {launch.scheduler} runs in the image"
    return (unused, *large)


def _kept_notes(plan: Plan, engines: Engines) -> dict[JobKey, tuple[str, ...]]:
    """Return the schedulers' notes on attempts that are kept. Each scheduler is called once."""
    kept: dict[str, dict[str, Step]] = {}
    for step in plan.steps:
        stays = step.kind in ("keep", "hold") and bool(step.guard.app_id)
        if stays and step.launch is not None and step.launch.scheduler == step.guard.scheduler:
            kept.setdefault(step.guard.scheduler, {})[step.guard.app_id] = step
    notes: dict[JobKey, tuple[str, ...]] = {}
    for scheduler, steps in kept.items():
        apps = {app_id: step.launch.app for app_id, step in steps.items() if step.launch is not None}
        said = engines.get(scheduler).kept_notes(apps)
        notes |= {steps[app_id].key: tuple(lines) for app_id, lines in said.items() if lines}
    return notes


def check_held(step: Step, needs: Sequence[StoodOn], engines: Engines) -> None:
    """Raise SchedulerError when the step's attempt cannot wait for one of the attempts in `needs`."""
    if step.launch is None or not step.starts or not (needs or step.launch.inputs_digest):
        return
    name, scheduler = step.launch.scheduler, engines.get(step.launch.scheduler)
    is_held_here = scheduler.is_held_here(step.launch.cfg)
    if step.launch.inputs_digest and not is_held_here:
        raise SchedulerError(
            "its `inputs` are files of this machine, and the process that is to compare them is not",
            hint="leave out `inputs`, or the run option that puts the process elsewhere",
        )
    for each in needs:
        if each.scheduler not in (scheduler.holds if is_held_here else {name}):
            raise SchedulerError(
                f"it needs `{each.job}`, and an app of {name} cannot wait for one of {each.scheduler}"
                " (needs-across-engines)",
                hint=f"apply it once `{each.job}` has succeeded, or run both on one engine",
            )


def check_outputs(step: Step, engines: Engines) -> None:
    """Raise SchedulerError when the step reads an output folder of another engine, or of a matrix.

    For job files that are compiled together, the compiler reports this at the reference.
    """
    if step.launch is None or not step.starts:
        return
    from launcher.specs.outputs import jobs_read

    read, scheduler = jobs_read(step.launch.app), engines.get(step.launch.scheduler)
    for each in step.needs:
        if each.job in read and (why := scheduler.output_folders.unreadable(each.scheduler)):
            raise SchedulerError(
                f"it reads the output folder of `{each.job}`, which {each.scheduler} keeps, and {why}"
                " (needs-across-engines)",
                hint=f"run it and `{each.job}` on one engine",
            )
    unknown = [job for job in read if job not in {each.job for each in step.needs}]
    if unknown and step.kind != "resume":
        raise SchedulerError(
            f"it reads the output folder of `{unknown[0]}`, which is no job that it needs",
            hint="a matrix stands for its jobs: LAUNCHER_NEEDS lists each of them with its folder",
        )


def untracked_notes(workspace: WorkspaceRef, changes: Iterable[Change]) -> Iterator[str]:
    """Return notes on workspaces where only untracked files changed, with the lines that would ignore them.

    Without such lines, a job that writes into its own workspace runs again at each apply.
    """
    from launcher.workspace.manifest import changed_paths

    folders = {part.digest: part.path for part in workspace.parts}
    for change in changes:
        if change.op != "~" or not is_workspace_digest(change.path) or change.new not in folders:
            continue
        folder, changed = folders[change.new], changed_paths(change.old, change.new)
        if changed and (lines := _ignoring(folder, changed)):
            word, quoted = "a line" if len(lines) == 1 else "the lines", [f"`{line}`" for line in lines]
            yield (
                f"the workspace `{folder}` differs only in files that git does not track: "
                f"{some_of(changed)}; if the job writes them, {word} {some_of(quoted)} in its "
                ".launcherignore leaves them out"
            )


def _ignoring(folder: str, paths: Sequence[str]) -> list[str]:
    """Return the ignore lines that match the untracked `paths` below a folder, whole folders if possible.

    Returns no lines without git, or when git tracks one of the paths.
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
    # The topmost folders with untracked files only, or the path itself when its folder has tracked files.
    shared = {path.partition("/")[0] for path in tracked}
    outermost = {top if (top := path.partition("/")[0]) not in shared else path: None for path in paths}
    return [ignore_line(each) for each in outermost]
