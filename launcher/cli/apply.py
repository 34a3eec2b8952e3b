"""`launcher apply`: carry out the plan of job files, or a saved plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from launcher.apply.apply import apply_launches, apply_plan
from launcher.apply.approval import check_approved, check_secrets, check_workspaces
from launcher.apply.events import Result
from launcher.apply.plans import make_plan
from launcher.cli import jobs
from launcher.cli.arguments import choose_format, duration, positive, refuse
from launcher.cli.console import Console
from launcher.cli.plan import add_planning, choices_of, empty_state_warning, matched, read_approval, read_plan
from launcher.cli.render.plan_text import plan_text
from launcher.cli.watch import Watch
from launcher.components.calls import are_allowed
from launcher.errors import BlockedError, StaleError, UsageError
from launcher.plan.effects import is_superseded
from launcher.plan.model import Plan, approves
from launcher.specs.launch import Launch
from launcher.specs.notify import Destination, MalformedAddressError, parse
from launcher.specs.secret import MalformedSecretException, Secret

USAGE = "apply FILE… [OPTIONS]"
HELP = """\
Start the jobs that have not run yet or whose files have changed. Shows the
plan and asks for approval. Jobs that are running or have succeeded are left
alone; failed jobs are held until you re-run them (--rerun, --retry-failed).

FILE is a job file, a directory of job files, or one saved plan (PLAN.json). A
saved plan is applied as it is, without asking for approval."""
EXAMPLES = """\
  launcher apply jobs/train.launcher.yaml             show the plan, ask, apply
  launcher apply jobs/ --yes --wait --logs            in a script, with output
  launcher apply jobs/ --yes --rerun train            run a finished job again
  launcher plan jobs/ --out plan.json && launcher apply plan.json

Exit codes: 0 done, 1 a job could not be applied, 3 approval needed, or over
budget, 4 the plan is stale or was edited, 5 with --wait: a job did not
succeed, 6 an invalid job file, 7 another apply held the lock."""

FORMATS = ("text", "json", "jsonl")


def add_arguments(parser: Any) -> None:
    jobs.add_arguments(parser, nargs="+", what="job files, directories, or one saved plan")
    group = parser.add_argument_group("Approval")
    group.option(
        "-y, --yes", "apply without asking; a plan that stops running attempts also needs --allow-destructive"
    )
    group.option("--allow-destructive", "allow stopping running attempts")
    group.option("--expect-digest DIGEST", "apply only if the plan's digest is DIGEST")
    group.option(
        "--approved FILE",
        "apply only what a reviewed plan (`plan --out FILE`) starts and stops, each start once; may be "
        "repeated",
        repeats=True,
    )
    add_planning(parser)
    group.option("--root DIR", "checkout to apply a saved plan to (default: the current one)")
    group.option(
        "--parallel N",
        "how many of the started jobs run at once, at most; the others wait in line",
        type=positive,
    )
    _add_progress(parser.add_argument_group("Progress"))
    group = parser.add_argument_group("Notifications")
    group.option(
        "--notify RECEIVER",
        "send the outcome of each attempt that starts to a URL (or env:NAME, file:PATH of one), or to a "
        "command, on its standard input; may be repeated; besides [notify] of launcher.toml",
        repeats=True,
    )
    group.option(
        "--notify-secret REFERENCE",
        "env:NAME or file:PATH of the key (whsec_…) that signs what the URLs of --notify get",
        default="",
    )


def _add_progress(group: Any) -> None:
    group.option("-w, --wait", "wait until the jobs have ended")
    group.option("--logs", "show the output of the jobs while waiting")
    group.option(
        "--lock-timeout TIME",
        "how long to wait for another apply to finish (default: 60s)",
        type=duration,
        default=60.0,
    )
    group.option(
        "--format FORMAT",
        "text, json (the result) or jsonl (one event per line, as it happens)",
        choices=FORMATS,
        default="text",
    )
    group.option("--json", "print the result as one JSON object: --format json")


def run(args: Any, console: Console) -> int:
    choose_format(args)
    _check_arguments(args)
    if jobs.is_saved_plan(args.files[0]):
        return _carry_out(partial(apply_plan, read_plan(args.files[0]), root=args.root), None, args, console)
    return _apply_files(args, console)


def _check_arguments(args: Any) -> None:
    if any(jobs.is_saved_plan(path) for path in args.files):
        if len(args.files) > 1:
            raise UsageError(
                "apply takes job files, or one saved plan", hint="apply the saved plan by itself"
            )
        of_files = ("var", "var_file", "target", "allow_dirty", "no_components", "no_env_vars", "strict")
        of_planning = ("select", "rerun", "retry_failed", "prune", "take_over", "check", "approved")
        refuse(args, of_files + of_planning, "has no effect on a saved plan", "pass it to `launcher plan`")
    elif args.root is not None:
        raise UsageError("--root is only for saved plans")
    _receivers(args)
    if args.logs and not args.wait:
        raise UsageError(
            "--logs needs --wait", hint="add --wait, or run `launcher logs JOB --follow` afterwards"
        )


def _apply_files(args: Any, console: Console) -> int:
    launches = jobs.launches(args.files, args, console)
    choices = choices_of(launches, args)
    if unknown := empty_state_warning(launches):
        console.warn(unknown)
    approvals = [read_approval(path) for path in args.approved] if args.approved else None
    approved_before = args.yes or args.expect_digest is not None or approvals is not None
    agreed = None if approved_before else _agreed(launches, choices, args, console)
    apply = partial(
        apply_launches,
        launches,
        choices=choices,
        approvals=approvals,
        allow_destructive=args.allow_destructive or agreed is not None or args.expect_digest is not None,
    )
    return _carry_out(apply, agreed, args, console)


def _carry_out(apply: Callable[..., Result], agreed: Plan | None, args: Any, console: Console) -> int:
    """Apply, and show how it goes. `apply` takes the parameters that job files and saved plans share."""
    with Watch(console, format=args.format, wait=args.wait, logs=args.logs, in_full=args.all) as watch:

        def approve(plan: Plan) -> None:
            watch.planned(plan, show=agreed is None)
            _check(plan, agreed, args)

        result = apply(
            approve=approve,
            wait=args.wait,
            parallel=args.parallel,
            notify=_receivers(args),
            watching=watch.watching(),
            lock_timeout_s=args.lock_timeout,
        )
        return watch.finish(result)


def _receivers(args: Any) -> list[Destination]:
    """Return the receivers that the command line names. Raises UsageError."""
    option = "--notify-secret"
    try:
        secret = str(Secret.parse(args.notify_secret)) if args.notify_secret else ""
        option = "--notify"
        found = [parse(each, secret=secret, folder=os.getcwd()) for each in args.notify]
    except (MalformedAddressError, MalformedSecretException) as error:
        raise UsageError(f"{option}: {error}", hint=error.hint) from error
    if secret and not any(each.url for each in found):
        raise UsageError("--notify-secret needs a URL that it signs for", hint="add --notify URL")
    return found


def _agreed(launches: Sequence[Launch], choices: Any, args: Any, console: Console) -> Plan:
    """Show the plan, ask for approval, and return the approved plan. Raises BlockedError."""
    plan = make_plan(launches, choices=choices, parallel=args.parallel)
    if args.format == "text":
        text = plan_text(plan, color=console.color, columns=console.columns, in_full=args.all)
        console.print(text, flush=True)
    elif not plan.is_empty:
        console.note(plan_text(plan, color=console.err_color, in_full=args.all))
    check_approved(plan, allow_destructive=True)
    check_secrets(plan)
    if plan.is_empty:
        return plan
    approval = "--yes --allow-destructive" if plan.unapproved_stops else "--yes"
    console.agree(
        "\nApply this plan?",
        doing="for approval",
        hint=f"review the plan, then pass {approval}",
        otherwise="nothing was changed",
    )
    return plan


def _check(plan: Plan, agreed: Plan | None, args: Any) -> None:
    """Raise StaleError if `plan`, made under the lock, is not the approved one; BlockedError."""
    if plan.unapproved:
        lines = "\n".join(map(str, plan.unapproved)).replace("\n", "\n  ")
        raise StaleError(
            f"apply would do what is not approved; nothing was changed:\n  {lines}",
            hint="review a new plan: `launcher plan --out FILE`, then `launcher apply --approved FILE`",
        )
    commands = [each for each in plan.receivers if each.command]
    if commands and (args.no_components or not are_allowed(os.environ)):
        raise BlockedError(
            f"[notify] of launcher.toml sends outcomes to {commands[0]}, and no code of the checkout may run",
            hint="check what it runs, then leave out --no-components (or LAUNCHER_COMPONENTS=never)",
        )
    if agreed is not None and not approves(agreed.plan_digest, plan):
        raise StaleError(
            "the plan changed after you approved it; nothing was applied",
            hint="apply again and review the new plan",
        )
    if agreed is not None:
        check_workspaces(plan, in_place=True)
    if args.expect_digest is not None and is_superseded(args.expect_digest):
        raise StaleError(
            f"{args.expect_digest.strip()} was made by an older version of launcher, whose digests do not "
            f"cover all that one approves; the digest of this plan is now {plan.plan_digest}",
            hint=f"review the plan, then pass --expect-digest {plan.plan_digest}",
        )
    if args.expect_digest is not None and not approves(args.expect_digest, plan):
        raise StaleError(
            f"the plan is not the approved one: expected digest {args.expect_digest}, got {plan.plan_digest}",
            hint="review the new plan, and pass its digest",
        )
    if args.fail_on and (found := matched(plan, args.fail_on)):
        raise BlockedError(f"--fail-on: {'; '.join(found)}", hint="nothing was changed")
