"""`launcher plan`: show what apply would do. Writes the files of --out and --json-into, and the cache.

The options of the planner, --fail-on and the files of saved plans serve `launcher apply`, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from os.path import commonpath, isdir, join, realpath, relpath
from typing import TYPE_CHECKING, Any

from launcher import ci_environment, paths
from launcher.apply.approval import check_plan
from launcher.apply.plans import make_plan
from launcher.cli import jobs
from launcher.cli.arguments import choose_format, count, refuse, several_of
from launcher.cli.console import Console, write_text
from launcher.cli.render.plan_text import plan_text
from launcher.errors import JobFileError, UsageError
from launcher.files import read_regular
from launcher.git import commit_of, repository
from launcher.plan.model import FAIL_ON, Plan, matches, plan_exit_code
from launcher.plan.reconcile import Choices, Scope
from launcher.schedulers.registry import get_scheduler
from launcher.specs.launch import Launch
from launcher.text import typed

if TYPE_CHECKING:
    from launcher.plan.effects import Approval

USAGE = "plan [FILE…] [OPTIONS]"
HELP = """\
Show what `launcher apply` would do, and why. Changes nothing. A job file with
`component:` runs that Python function; --no-components allows only built-in
ones.

A directory stands for every job file below it; the default is the current
directory. Marks: + create, -/+ replace a running attempt, r re-run, > resume,
- stop, ! held (needs your decision), = unchanged."""
EXAMPLES = """\
  launcher plan jobs/train.launcher.yaml --var epochs=5
  launcher plan jobs/ --out plan.json && launcher apply plan.json
  launcher plan jobs/ --detailed-exitcode     exit code 2 if there are changes
  launcher plan jobs/ --json | jq .effects    for programs
  launcher plan jobs/ --format github         in a GitHub workflow
  launcher plan jobs/ --rerun train           plan running train again
  launcher plan jobs/ --explain train         show what its success stands on"""

CHECK = (
    "ask Slurm whether it takes the request of each job that would start (sbatch --test-only), and hold what "
    "it refuses; submits nothing"
)
FORMATS = ("text", "json", "markdown", "sarif", "github")

_OF_PLANS = ("out", "json_into", "show_request", "fail_on", "check")
"""The options that act on a plan of the world, and on nothing else."""


def add_arguments(parser: Any) -> None:
    jobs.add_arguments(parser)
    add_planning(parser)
    group = parser.add_argument_group("Comparison")
    group.option("--base REV", "name what was already pending on the commit REV, such as origin/main")
    group.option(
        "--offline", "with --base: compare the job files alone, without asking state folder and engines"
    )
    group = parser.add_argument_group("Output")
    group.option("--out PLAN.JSON", "save the plan, for `launcher apply PLAN.JSON`")
    group.option(
        "--format FORMAT",
        "text, json (the plan document), markdown (for a pull request), github (annotations, step "
        "summary and outputs) or sarif (the diagnostics)",
        choices=FORMATS,
        default="text",
    )
    group.option("--json", "print the plan document: --format json")
    group.option("--json-into PATH", "also write the plan document to PATH")
    group.option("--max-bytes N", "maximum size of the markdown (default: 60000)", type=count, default=60_000)
    group.option(
        "--explain JOB",
        "instead of the plan, show all that the latest success of a job stands on, and whether it is "
        "current; as text or json",
    )
    group.option("--show-request", "show the requests to the schedulers")
    group.option("--detailed-exitcode", "exit with 2 if apply would start or stop anything")


def add_planning(parser: Any) -> None:
    """Declare the options of the planner, for `plan` and `apply`."""
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
    group.option("--check", CHECK)
    group.option("-a, --all", "show every job of a large matrix on a line of its own")
    group.option(
        "--fail-on LIST",
        "exit with 3 if a job is held, is an orphan (running, but in no file), drifted (removed or "
        "stopped outside of launcher) or edited (it ran other code); comma-separated: "
        "held,orphan,drift,edited",
        type=several_of(*FAIL_ON),
        default=(),
    )


def run(args: Any, console: Console) -> int:
    choose_format(args)
    _check_arguments(args)
    launches = _launches(args, console)
    if args.offline:
        return _compare(launches, args, console)
    unknown = empty_state_warning(launches)
    if unknown and args.format == "github":
        from launcher.cli.render.github import annotation

        console.print(annotation("warning", unknown))
    elif unknown:
        console.warn(unknown)
    if args.explain is not None:
        return _explain(launches, args, console)
    plan = make_plan(launches, choices=choices_of(launches, args), requests=args.show_request)
    if args.base is not None:
        from launcher.plan.model import attributed

        plan = attributed(plan, _base(args, console), args.base, "this change")
    text = document(plan) if args.out or args.json_into or args.json else ""
    if args.json:  # stdout gets the plan, or the reason why there is none
        check_plan(plan)
        _write_files(text, args)
    _show(plan, text, args, console)
    check_plan(plan)
    if args.format == "github":
        from launcher.cli.render.github import publish

        publish(plan, max_bytes=args.max_bytes, warning=unknown)
    if not args.json:
        _write_files(text, args)
    if args.out:
        console.note(f"saved; to apply it: launcher apply {typed(args.out)}")
    console.keep(plan, launches)
    for phrase in matched(plan, args.fail_on):
        console.warn(phrase)
    return plan_exit_code(plan, detailed=args.detailed_exitcode, fail_on=args.fail_on)


def _write_files(text: str, args: Any) -> None:
    for path in filter(None, (args.out, args.json_into)):
        write_text(path, text)


def _base(args: Any, console: Console) -> tuple[Launch, ...]:
    """Return the launches of the commit that --base names."""
    base = jobs.compiled_at(args.base, args.files, args)
    if base.errors:
        from launcher.cli.render.findings import in_short

        console.warn(f"{args.base} has {in_short(base.errors)}: all of their effects count as of this change")
    return base.launches


def _compare(launches: tuple[Launch, ...], args: Any, console: Console) -> int:
    """Show the differences between the job files and those of the base; asks no engine and no ledger."""

    from launcher.cli.render.github import publish_text, shielded
    from launcher.cli.render.plan_answers import comparison_json, comparison_markdown, comparison_text
    from launcher.plan.effects import compared

    found = compared(launches, _base(args, console))
    if args.format == "json":
        console.json(comparison_json(found, args.base))
    if args.format in ("markdown", "github"):
        page = comparison_markdown(found, args.base, max_bytes=args.max_bytes, in_full=args.all)
        publish_text(page) if args.format == "github" else console.print(page, end="")
    if args.format in ("text", "github"):
        text = comparison_text(found, args.base, color=console.color, in_full=args.all)
        console.print(shielded(text.rstrip()) if args.format == "github" else text)
    return 2 if args.detailed_exitcode and (found.added or found.changed or found.removed) else 0


def _check_arguments(args: Any) -> None:
    for name in ("out", "json_into"):
        if getattr(args, name) == "-":
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} takes a file", hint="`launcher plan --json` prints it to stdout")
    if args.offline and args.base is None:
        raise UsageError("--offline needs --base", hint="--base origin/main --offline")
    if args.offline:
        of_world = (*_OF_PLANS, "explain", "rerun", "retry_failed", "prune")
        refuse(args, of_world, "has no effect with --offline", "leave one out")
    if args.explain is None:
        return
    refuse(args, (*_OF_PLANS, "detailed_exitcode"), "has no effect with --explain", "leave one of them out")
    if args.format not in ("text", "json"):
        raise UsageError(f"--explain cannot be shown as {args.format}", hint="choose text or json")


def _explain(launches: tuple[Launch, ...], args: Any, console: Console) -> int:
    from launcher.apply.plans import explain_success
    from launcher.cli.render.plan_answers import explanation_json, explanation_text

    found = explain_success(launches, args.explain, choices=choices_of(launches, args))
    if args.format == "json":
        console.json(explanation_json(found))
    else:
        console.print(explanation_text(found, color=console.color), end="")
    return 0


def _launches(args: Any, console: Console) -> tuple[Launch, ...]:
    """Compile the job files. Diagnostics go to stdout if the format is made for them, else to stderr.

    Raises JobFileError if there are errors.
    """
    result = jobs.compiled(args.files, args)
    if args.format not in ("sarif", "github"):
        return jobs.accepted(result, args, console)
    from launcher.cli.render.findings import exit_code, findings, in_short

    found = result.diagnostics
    if text := findings(found, args.format):
        console.print(text)
    if exit_code(found, strict=args.strict):
        if args.format == "github":
            from launcher.cli.render.github import publish_refusal

            publish_refusal(found, in_short(found))
        raise JobFileError(in_short(found))
    return result.launches


def _show(plan: Plan, text: str, args: Any, console: Console) -> None:
    """Print the plan in its format; to stderr if stdout is for diagnostics only."""
    # The request is shown with the symbolic app id.
    bound = [step.bound for step in plan.steps if step.bound is not None and args.show_request]
    requests = "".join(f"\n{each.launch.key}:\n{each.info!r}\n" for each in bound)
    if args.format == "json":
        console.print(text, end="")
        if requests:
            console.note(requests.rstrip("\n"))
    elif args.format == "markdown":
        from launcher.cli.render.markdown import plan_markdown

        console.print(plan_markdown(plan, max_bytes=args.max_bytes, in_full=args.all) + requests, end="")
    elif args.format == "github":
        from launcher.cli.render.github import shielded

        console.print(shielded((plan_text(plan, in_full=args.all) + "\n" + requests).rstrip("\n")))
    elif args.format == "sarif":
        console.note(plan_text(plan, color=console.err_color, in_full=args.all) + "\n" + requests)
    else:
        text = plan_text(plan, color=console.color, columns=console.columns, in_full=args.all)
        console.print(f"{text}\n{requests}", end="")


def choices_of(launches: Sequence[Launch], args: Any) -> Choices:
    """Convert the options for the planner."""
    return Choices(
        select=tuple(args.select),
        rerun=tuple(args.rerun),
        retry_failed=args.retry_failed,
        prune=args.prune,
        take_over=args.take_over,
        check=args.check,
        scopes=orphan_scopes(launches, args.files or ["."]),
        declared_in=jobs.declared_in,
    )


def orphan_scopes(launches: Sequence[Launch], paths: Sequence[str]) -> tuple[Scope, ...]:
    """The scopes in which to look for orphans: the directories among `paths`, without single files.

    Without launches, every job of these directories is an orphan.
    """
    found: dict[Scope, None] = {}
    files: dict[tuple[str, str, str, str | None], None]
    files = dict.fromkeys((each.root, each.file, each.origin, each.key.target) for each in launches)
    for directory in (realpath(path) for path in paths if isdir(path)):
        if not launches and (tree := repository(directory)) is not None:
            files = {(tree.root, directory, tree.origin or tree.root, None): None}
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
    """Return the conditions of `--fail-on` that hold for the plan, as phrases."""
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


def plan_bytes(path: str) -> bytes:
    """Return the content of a file of a plan. Raises JobFileError for one that cannot be read."""
    try:
        return read_regular(path)
    except OSError as error:
        from launcher.jobfile.diagnostic import job_file_error
        from launcher.jobfile.text.document import unreadable

        raise job_file_error([unreadable(path, path, error)]) from error


def read_plan(path: str) -> Plan:
    """Read a saved plan.

    Raises SealError if it was edited, PlanFileError if it is not a valid plan, JobFileError if it cannot be
    read.
    """
    from launcher.plan.codec import loads

    return loads(plan_bytes(path), name=path)


def read_approval(path: str) -> Approval:
    """Read the effects of a saved plan, or a list of effects; raises what `read_plan` does."""
    from launcher.plan.codec import loads_approval

    return loads_approval(plan_bytes(path), name=path)


def document(plan: Plan) -> str:
    """Return the text of the saved plan, with an id, the time and the commits of its job files."""
    from uuid import uuid4

    from launcher.plan.codec import dumps

    launches = [step.launch for step in plan.steps if step.launch is not None]
    roots = {launch.origin: launch.root for launch in launches}
    commits = {origin: commit for origin, root in roots.items() if (commit := commit_of(root))}
    return dumps(plan.stamped(plan_id=str(uuid4()), created_at=time.time(), commits=commits))
