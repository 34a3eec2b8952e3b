"""Check whether a plan may be carried out: approval, capacity, workspaces, input files, secrets."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from launcher import secrets
from launcher.errors import BlockedError, LauncherError, SecretError, StaleError
from launcher.plan.model import Plan, overruns
from launcher.plan.step import LACKING, Reason
from launcher.specs.launch import InputRef, JobKey
from launcher.specs.notify import Destination, check_url, key_bytes
from launcher.specs.secret import Secret
from launcher.text import first_lines

if TYPE_CHECKING:
    from launcher.specs.binding import BoundLaunch
    from launcher.workspace.inputs import InputReader

_FRESH_S = 0.5
"""How long jobs that start one after another share one look at their input files."""


class PlanProblemError(LauncherError):
    """Jobs cannot be planned. `code` is that of the first problem; `launcher explain` takes it."""

    def __init__(self, message: str, *, hint: str, code: str) -> None:
        super().__init__(message, hint=hint)
        self.code = code


def check_plan(plan: Plan) -> None:
    """Raise LauncherError when jobs in the plan cannot be planned, naming the first of them."""
    if plan.problems:
        hints = dict.fromkeys(problem.hint for problem in plan.problems if problem.hint)
        raise PlanProblemError(
            first_lines([f"{p.key.job}: {p.message}" for p in plan.problems]),
            hint="; ".join(hints),
            code=plan.problems[0].code,
        )


def check_approved(plan: Plan, *, allow_destructive: bool, holds_alone: bool = False) -> None:
    """Raise BlockedError when a job is protected or can never start on this machine, when the plan exceeds a
    budget, or when stopping a live attempt was not approved.

    Args:
        holds_alone: a job that is protected or can never start is held, and does not block the others.
    """
    check_plan(plan)
    if plan.is_estimated and (over := overruns(plan.steps)):
        lines = "".join(f"\n  {each}" for each in over)
        hints = "; ".join(dict.fromkeys(each.remedy for each in over))
        raise BlockedError(f"the plan exceeds its budget; nothing was changed:{lines}", hint=hints)
    protected = [str(step.key) for step in plan.steps if step.blocked == "protected"]
    if protected and not holds_alone:
        raise BlockedError(
            f"running attempts of protected jobs would have to be stopped: {', '.join(protected)}",
            hint="set `protect: false` in the job file first, or wait for the attempt to end",
        )
    if not holds_alone:
        check_capacity({step.key: step.reasons[0] for step in plan.steps if step.blocked in LACKING})
    destructive = plan.unapproved_stops
    if destructive and not allow_destructive:
        has_file = any(step.kind == "replace" and str(step.key) in destructive for step in plan.steps)
        lifecycle = ", or set `on_change: replace` in the lifecycle of the job" if has_file else ""
        raise BlockedError(
            f"the plan stops running attempts: {', '.join(destructive)}",
            hint=f"pass --allow-destructive{lifecycle}",
        )


def check_capacity(lacks: Mapping[JobKey, Reason]) -> None:
    """Raise BlockedError with every job that can never start where it is to run."""
    if lacks:
        is_refused = all(lack.code == "refused" for lack in lacks.values())
        remedy = (
            "change the request" if is_refused else "ask for fewer, or apply it on a machine that has them"
        )
        raise BlockedError(
            "\n".join(f"{key.job}: {lack}" for key, lack in lacks.items()),
            hint=f"{remedy}; nothing was submitted",
        )


def check_secrets(plan: Plan, notify: Iterable[Destination] = ()) -> None:
    """Raise SecretError naming job, role and variable of every secret that cannot be read.

    Args:
        notify: receivers of outcomes beside those of the projects.
    """
    lines = [line for step in plan.steps if step.bound for line in _missing(step.bound)]
    checks = {"url": check_url, "secret": key_bytes}
    receivers = (*notify, *plan.receivers)
    for name, reference in dict.fromkeys(pair for each in receivers for pair in each.references.items()):
        try:
            checks[name](secrets.resolve(reference))
        except LauncherError as error:
            lines.append(f"notify: {name} ({reference}): {error}")
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


def check_workspaces(plan: Plan, *, in_place: bool) -> None:
    """Hash anew the workspaces of the jobs to start. Raises StaleError for changed workspaces.

    Args:
        in_place: only those that replicas run in, of which no copy is made and compared.
    """
    seen: dict[str, str] = {}
    bound = [step.bound for step in plan.steps if step.bound and (step.bound.runs_in_place or not in_place)]
    _refuse_stale([line for each in bound for line in _moved(each, seen)])


def check_inputs(plan: Plan) -> None:
    """Hash anew the input files of the jobs to start. Raises StaleError for changed files."""
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


class InputCheck:
    """Compares the input files of a job just before it starts: pulls of images and turns may have taken long.

    Jobs that start within a moment share one reading of the files.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._reader: InputReader | None = None
        self._made_at = 0.0

    def check(self, ref: InputRef) -> None:
        """Raise StaleError, which names the files, when a file differs from the planned one."""
        from launcher.workspace.inputs import InputReader, changed_since

        with self._lock:
            if self._reader is None or monotonic() - self._made_at > _FRESH_S:
                self._reader, self._made_at = InputReader(), monotonic()
            changed = changed_since(ref, reader=self._reader)
        if changed:
            raise StaleError(f"its input files are not what was planned: {changed}", hint="apply again")


def _refuse_stale(lines: Sequence[str]) -> None:
    """Raise StaleError with every line. Without lines the plan still applies."""
    if lines:
        raise StaleError(
            "the plan cannot be applied any more:" + "".join(f"\n  {line}" for line in lines),
            hint="make a new plan",
        )


def _moved(bound: BoundLaunch, seen: dict[str, str]) -> Iterator[str]:
    if bound.workspace is None or bound.launch.workspace is None:
        return
    for written, part in zip(bound.launch.workspace.parts, bound.workspace.parts, strict=True):
        if part.path not in seen:
            from launcher.workspace.context import project_digest

            try:
                seen[part.path] = project_digest(part.path)
            except LauncherError as error:
                seen[part.path] = str(error)
        if seen[part.path] != part.digest:
            yield (
                f"{bound.launch.key}: the workspace `{written.path}` is not what was planned: "
                f"expected {part.digest}, found {seen[part.path]}"
            )
