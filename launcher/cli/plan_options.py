"""Options of the planner that `plan` and `apply` share, --fail-on, a warning, and files of saved plans."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from os.path import commonpath, isdir, join, realpath, relpath
from typing import TYPE_CHECKING, Any

from launcher import ci_environment, paths
from launcher.cli.arguments import several_of
from launcher.cli.jobs import declared_in
from launcher.errors import JobFileError, LauncherError
from launcher.files import read_regular
from launcher.git import commit_of
from launcher.plan.model import FAIL_ON, Plan, matches
from launcher.plan.reconcile import Choices, Scope
from launcher.schedulers.registry import get_scheduler
from launcher.specs.launch import Launch

if TYPE_CHECKING:
    from launcher.jobfile.diagnostic import Diagnostic
    from launcher.plan.effects import Approval


def add_arguments(parser: Any) -> None:
    group = parser.add_argument_group("Planning")
    group.option(
        "--select JOB",
        "plan this job alone; +JOB with the jobs that it needs, JOB+ with those that need it; may be "
        "repeated",
        repeats=True,
    )
    group.option(
        "--rerun JOB",
        "run this job, or all jobs of this matrix, again even if they have not changed; JOB+ also the "
        "jobs that need them; may be repeated",
        repeats=True,
    )
    group.option("--retry-failed", "run failed and lost jobs again")
    group.option("--prune", "stop running jobs that no file in the given directories declares any more")
    group.option("--take-over", "take over jobs last applied from another repository")
    group.option("-a, --all", "show every job of a large matrix on a line of its own")
    group.option(
        "--fail-on LIST",
        "exit with 3 if a job is held, is an orphan (running, but in no file), drifted (removed or "
        "stopped outside of launcher) or edited (it ran other code); comma-separated: "
        "held,orphan,drift,edited",
        type=several_of(*FAIL_ON),
        default=(),
    )


def choices(launches: Sequence[Launch], args: Any) -> Choices:
    """Convert the options for the planner."""
    return Choices(
        select=tuple(args.select),
        rerun=tuple(args.rerun),
        retry_failed=args.retry_failed,
        prune=args.prune,
        take_over=args.take_over,
        scopes=scopes_of(launches, args.files or ["."]),
        declared_in=declared_in,
    )


def scopes_of(launches: Sequence[Launch], paths: Sequence[str]) -> tuple[Scope, ...]:
    """The scopes in which to look for orphans: the directories among `paths`, without single files."""
    found: dict[Scope, None] = {}
    files = dict.fromkeys((each.root, each.file, each.origin, each.key.target) for each in launches)
    for directory in (realpath(path) for path in paths if isdir(path)):
        for given_root, file, origin, target in files:
            root = realpath(given_root)
            if commonpath([directory, realpath(join(root, file))]) != directory:
                continue
            inside = commonpath([root, directory]) == root
            below = relpath(directory, root) if inside else ""
            below = "" if below == "." else below
            found[Scope(origin=origin, target=target, directory=below)] = None
    return tuple(found)


def matched(plan: Plan, fail_on: Sequence[str]) -> list[str]:
    """The conditions of `--fail-on` that hold for the plan, as phrases."""
    return [f"{word}: {', '.join(map(str, keys))}" for word, keys in matches(plan, fail_on).items()]


def empty_state_warning(launches: Iterable[Launch]) -> str:
    """The warning as one paragraph; "" if it does not apply.

    It applies on a CI runner (`CI` is set) with an empty state folder, for jobs of schedulers that store
    outcomes nowhere else. Contacts no engine.
    """
    if not ci_environment.is_runner(os.environ) or os.path.exists(paths.ledger()):
        return ""
    named = dict.fromkeys(launch.scheduler for launch in launches)
    without_engine = [name for name in named if not get_scheduler(name, "").shared_engine]
    if not without_engine:
        return ""
    shown = " and ".join(f"`{name}`" for name in without_engine)
    return (
        f"the state folder of this CI runner ({paths.home()}) is empty: jobs that {shown} finished before "
        "are unknown here and count as new. Keep LAUNCHER_HOME on a persistent disk, or use an engine that "
        "all runners share"
    )


def findings(path: str) -> list[Diagnostic]:
    """Return the problems that keep a saved plan from being applied; empty for a valid plan."""
    from launcher.jobfile.diagnostic import Diagnostic
    from launcher.plan.codec import PlanFileError, loads

    try:
        raw = _bytes(path)
        try:
            json.loads(raw.decode())  # names line and column of a syntax error
        except RecursionError as error:
            raise _not_json(path, ValueError("it is nested too deeply")) from error
        except ValueError as error:
            raise _not_json(path, error) from error
        loads(raw, name=path)
    except JobFileError as error:
        return [*error.diagnostics]
    except PlanFileError as error:
        return [
            Diagnostic(file=path, span=None, code="invalid-value", message=str(error), hint=error.hint or "")
        ]
    return []


def _bytes(path: str) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        from launcher.jobfile.diagnostic import job_file_error
        from launcher.jobfile.text.document import unreadable

        raise job_file_error([unreadable(path, path, error)]) from error


def _not_json(path: str, error: ValueError) -> LauncherError:
    from launcher.jobfile.diagnostic import Diagnostic, Span, job_file_error

    span, text = None, ""
    if isinstance(error, json.JSONDecodeError):
        line, column = error.lineno, error.colno
        text = error.doc.split("\n")[line - 1]
        span = Span(line=line, column=column, end_line=line, end_column=column + 1)
    message = f"the file is not a saved plan: it is not JSON ({getattr(error, 'msg', error)})"
    hint = "save a plan with `launcher plan --out`; job files end in .launcher.yaml or .launcher.toml"
    return job_file_error(
        [Diagnostic(file=path, span=span, code="invalid-value", message=message, hint=hint, source_line=text)]
    )


def read_plan(path: str) -> Plan:
    """Read a saved plan.

    Raises SealError if it was edited, PlanFileError if it is not a valid plan, JobFileError if it cannot be
    read.
    """
    from launcher.plan.codec import loads

    return loads(_bytes(path), name=path)


def read_approval(path: str) -> Approval:
    """Read the effects of a saved plan, or a list of effects; raises what `read_plan` does."""
    from launcher.plan.codec import loads_approval

    return loads_approval(_bytes(path), name=path)


def document(plan: Plan) -> str:
    """The text of the saved plan, with an id, the time and the commits of its job files."""
    from uuid import uuid4

    from launcher.plan.codec import dumps

    launches = [step.launch for step in plan.steps if step.launch is not None]
    roots = {launch.origin: launch.root for launch in launches}
    commits = {origin: commit for origin, root in roots.items() if (commit := commit_of(root))}
    return dumps(plan.stamped(plan_id=str(uuid4()), created_at=time.time(), commits=commits))
