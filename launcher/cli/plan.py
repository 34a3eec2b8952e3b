"""`launcher plan`: show what apply would do. Writes the files of --out and --json-into, and the cache."""

from __future__ import annotations

from typing import Any

from launcher.apply.approval import check_plan
from launcher.apply.plans import make_plan
from launcher.cli import jobs, plan_options
from launcher.cli.arguments import choose_format, count
from launcher.cli.console import Console, write_text
from launcher.cli.plan_options import document, empty_state_warning, matched
from launcher.cli.render.findings import exit_code, findings, in_short
from launcher.cli.render.plan_text import plan_text
from launcher.errors import JobFileError, UsageError
from launcher.plan.model import Plan, plan_exit_code
from launcher.specs.launch import Launch

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

FORMATS = ("text", "json", "markdown", "sarif", "github")


def add_arguments(parser: Any) -> None:
    jobs.add_arguments(parser)
    plan_options.add_arguments(parser)
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
    choices = plan_options.choices(launches, args)
    plan = make_plan(launches, choices=choices, requests=args.show_request)
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
        console.note(f"saved; to apply it: launcher apply {args.out}")
    console.keep(plan, launches)
    for phrase in matched(plan, args.fail_on):
        console.warn(phrase)
    return plan_exit_code(plan, detailed=args.detailed_exitcode, fail_on=args.fail_on)


def _write_files(text: str, args: Any) -> None:
    for path in filter(None, (args.out, args.json_into)):
        write_text(path, text)


def _base(args: Any, console: Console) -> tuple[Launch, ...]:
    """The launches of the commit that --base names."""
    base = jobs.compiled_at(args.base, args.files, args)
    if base.errors:
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
    if args.offline and args.base is None:
        raise UsageError("--offline needs --base", hint="--base origin/main --offline")
    for name in ("out", "json_into", "show_request", "explain", "fail_on", "rerun", "retry_failed", "prune"):
        if args.offline and getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} has no effect with --offline", hint="leave one out")
    if args.explain is None:
        return
    for name in ("out", "json_into", "show_request", "detailed_exitcode", "fail_on"):
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} has no effect with --explain", hint="leave one of them out")
    if args.format not in ("text", "json"):
        raise UsageError(f"--explain cannot be shown as {args.format}", hint="choose text or json")


def _explain(launches: tuple[Launch, ...], args: Any, console: Console) -> int:
    from launcher.apply.plans import explain_success
    from launcher.cli.render.plan_answers import explanation_json, explanation_text

    found = explain_success(launches, args.explain, choices=plan_options.choices(launches, args))
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
    found = result.diagnostics
    is_refused = exit_code(found, strict=args.strict) != 0
    if args.format not in ("sarif", "github"):
        return jobs.accepted(result, args, console)
    text = findings(found, args.format)
    if text:
        console.print(text)
    if is_refused:
        if args.format == "github":
            from launcher.cli.render.github import publish_refusal

            publish_refusal(found, in_short(found))
        raise JobFileError(in_short(found))
    return result.launches


def _show(plan: Plan, text: str, args: Any, console: Console) -> None:
    """Print the plan in its format; to stderr if stdout is for diagnostics only."""
    # With the symbolic app id.
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
