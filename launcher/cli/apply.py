"""`launcher apply`: make the job files (or a saved plan) true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.apply import apply_launches, apply_plan, make_plan
from launcher.apply.approval import check_approved
from launcher.apply.inputs import check_secrets
from launcher.cli import decisions, jobs
from launcher.cli.console import Console
from launcher.cli.decisions import matched
from launcher.cli.fresh_state import unknown_work
from launcher.cli.interrupts import terminate_with_exception
from launcher.cli.kinds import duration, one_of
from launcher.cli.render.plan_text import plan_text
from launcher.cli.saved import read_plan
from launcher.cli.watch import Watch
from launcher.errors import BlockedError, StaleError, UsageError
from launcher.plan.effects import is_superseded
from launcher.plan.model import Plan, approves
from launcher.specs import Launch

USAGE = "apply FILE… [OPTIONS]"
HELP = """\
Make it true that the latest attempt of every job is a successful run of its
file, or on its way. Shows the plan and asks; what has succeeded or runs
already is left alone, what has failed is held until you ask for it.

FILE is a job file, a directory of them, or one saved plan (PLAN.json), which
is applied as it is and needs no further approval."""
EXAMPLES = """\
  launcher apply jobs/train.launcher.yaml             shows the plan, asks
  launcher apply jobs/ --yes --wait --logs            in a script; follow it
  launcher apply jobs/ --yes --rerun train            run finished work again
  launcher plan jobs/ --out plan.json && launcher apply plan.json

Exit codes: 0 done, 1 a job could not be applied, 3 approval needed,
4 a stale or edited plan, 5 with --wait: a job did not succeed, 6 an invalid job file,
7 another apply held the lock."""

FORMATS = ("text", "json", "jsonl")


def add_arguments(parser: Any) -> None:
    jobs.add_arguments(parser, nargs="+", what="job files, directories of them, or one saved plan")
    group = parser.add_argument_group("Approval")
    group.add_argument(
        "-y", "--yes", action="store_true", help="do not ask; stops where something live would be stopped"
    )
    group.add_argument("--allow-destructive", action="store_true", help="live attempts may be stopped")
    group.add_argument(
        "--expect-digest",
        metavar="DIGEST",
        help="go on only with the effects that this plan digest stands for",
    )
    decisions.add_arguments(parser)
    group.add_argument(
        "--root",
        metavar="DIR",
        help="the checkout that a saved plan is applied to (default: the one around here)",
    )
    group = parser.add_argument_group("While it works")
    group.add_argument("-w", "--wait", action="store_true", help="follow the jobs until they have ended")
    group.add_argument("--logs", action="store_true", help="show what the jobs print while waiting")
    group.add_argument(
        "--lock-timeout",
        metavar="TIME",
        type=duration,
        default=60.0,
        help="how long to wait for another apply (default: 60s)",
    )
    group.add_argument(
        "--format",
        metavar="FORMAT",
        type=one_of(*FORMATS),
        choices=FORMATS,
        default="text",
        help="text, json (the result) or jsonl (an event a line, as they come)",
    )


def run(args: Any, console: Console) -> int:
    _check_arguments(args)
    terminate_with_exception()
    if jobs.is_saved_plan(args.files[0]):
        return _apply_saved(args, console)
    return _apply_files(args, console)


def _check_arguments(args: Any) -> None:
    if any(jobs.is_saved_plan(path) for path in args.files):
        if len(args.files) > 1:
            raise UsageError(
                "apply takes job files, or one saved plan", hint="apply the saved plan by itself"
            )
        for name in (
            "var",
            "var_file",
            "target",
            "allow_dirty",
            "no_components",
            "no_env_vars",
            "strict",
            "rerun",
            "retry_failed",
            "prune",
            "take_over",
        ):
            if getattr(args, name):
                raise UsageError(
                    f"--{name.replace('_', '-')} says nothing to a saved plan",
                    hint="give it to `launcher plan` instead",
                )
    elif args.root is not None:
        raise UsageError("--root is for saved plans; job files know where they are")
    if args.logs and not args.wait:
        raise UsageError(
            "--logs needs --wait", hint="add --wait, or see `launcher logs JOB --follow` afterwards"
        )


def _apply_files(args: Any, console: Console) -> int:
    launches = jobs.launches(args.files, args, console)
    choices = decisions.choices(launches, args)
    if unknown := unknown_work(launches):
        console.warn(unknown)
    approved_before = args.yes or args.expect_digest is not None
    agreed = None if approved_before else _agreed(launches, choices, args, console)
    with Watch(console, format=args.format, wait=args.wait, logs=args.logs) as watch:

        def approve(plan: Plan) -> None:
            watch.planned(plan, show=agreed is None)
            _check(plan, agreed, args)

        result = apply_launches(
            launches,
            choices=choices,
            approve=approve,
            allow_destructive=args.allow_destructive or agreed is not None or args.expect_digest is not None,
            wait=args.wait,
            watching=watch.watching(),
            lock_timeout_s=args.lock_timeout,
        )
        return watch.finish(result)


def _agreed(launches: Sequence[Launch], choices: Any, args: Any, console: Console) -> Plan:
    """Show the plan and ask; the plan that was agreed to. Raises BlockedError."""
    plan = make_plan(launches, choices=choices)
    if args.format == "text":
        console.print(plan_text(plan, color=console.color, columns=console.columns), flush=True)
    elif not plan.is_empty:
        console.note(plan_text(plan, color=console.err_color))
    check_approved(plan, allow_destructive=True)
    check_secrets(plan)
    if plan.is_empty:
        return plan
    if not console.can_ask:
        raise BlockedError(
            "nobody is there to approve the plan", hint="pass --yes to apply without a question"
        )
    if not console.ask("\nApply this plan?"):
        raise BlockedError("not approved, nothing was changed")
    return plan


def _check(plan: Plan, agreed: Plan | None, args: Any) -> None:
    """Raises StaleError when this plan, made under the lock, is not the approved one; BlockedError."""
    if agreed is not None and not approves(agreed.plan_digest, plan):
        raise StaleError("the world has moved since you were asked, nothing was changed", hint="apply again")
    if args.expect_digest is not None and is_superseded(args.expect_digest):
        raise StaleError(
            f"{args.expect_digest.strip()} is a plan digest of an older version, which leaves out where the "
            f"job files are; today the digest of this plan is {plan.plan_digest}",
            hint=f"review the plan, then pass --expect-digest {plan.plan_digest}",
        )
    if args.expect_digest is not None and not approves(args.expect_digest, plan):
        raise StaleError(
            f"the effects are not the approved ones: expected {args.expect_digest}, found {plan.plan_digest}",
            hint="look at the new plan, and approve that",
        )
    found = matched(plan, args.fail_on)
    if found:
        raise BlockedError(f"--fail-on: {'; '.join(found)}", hint="nothing was changed")


def _apply_saved(args: Any, console: Console) -> int:
    plan = read_plan(args.files[0])
    with Watch(console, format=args.format, wait=args.wait, logs=args.logs) as watch:

        def approve(plan: Plan) -> None:
            watch.planned(plan)
            _check(plan, None, args)

        result = apply_plan(
            plan,
            root=args.root,
            approve=approve,
            wait=args.wait,
            watching=watch.watching(),
            lock_timeout_s=args.lock_timeout,
        )
        return watch.finish(result)
