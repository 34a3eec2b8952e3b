"""`launcher plan`: show what apply would do. Writes nothing but the files it is told to."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.plan.model import Plan

USAGE = "plan [FILE…] [OPTIONS]"
HELP = """\
Show what `launcher apply` would do to make the job files true, and why.
Changes nothing.

A directory means every job file below it; without FILE, the current
directory. Marks: + create, -/+ replace a running one, r re-run, > resume,
- stop, ! held (needs you), = unchanged."""
EXAMPLES = """\
  launcher plan jobs/train.launcher.yaml --var epochs=5
  launcher plan jobs/ --out plan.json && launcher apply plan.json
  launcher plan jobs/ --detailed-exitcode     2 when there is something to do
  launcher plan jobs/ --rerun train           what would run if train ran again?"""

FORMATS = ("text", "json", "markdown")
CHANGES, BLOCKED = 2, 3


def add_arguments(parser: Any) -> None:
    from launcher.cli import decisions, jobs
    from launcher.cli.kinds import count, one_of

    jobs.add_arguments(parser)
    decisions.add_arguments(parser)
    group = parser.add_argument_group("Output")
    group.add_argument("--out", metavar="PLAN.JSON", help="save the plan, for `launcher apply PLAN.JSON`")
    group.add_argument(
        "--format",
        metavar="FORMAT",
        type=one_of(*FORMATS),
        choices=FORMATS,
        default="text",
        help="text, json (the plan document) or markdown (for a pull request)",
    )
    group.add_argument("--json-into", metavar="PATH", help="write the plan document there as well")
    group.add_argument(
        "--max-bytes", metavar="N", type=count, default=60_000, help="bound of the markdown (default: 60000)"
    )
    group.add_argument("--show-request", action="store_true", help="show what each scheduler would be sent")
    group.add_argument(
        "--detailed-exitcode", action="store_true", help="exit 2 when apply would start or stop something"
    )


def run(args: Any, console: Console) -> int:
    from launcher.apply import make_plan
    from launcher.apply.approval import check_plan
    from launcher.cli import decisions, jobs
    from launcher.cli.saved import document, write_text

    launches = jobs.launches(args.files, args.var, console)
    plan = make_plan(launches, choices=decisions.choices(launches, args))
    text = document(plan) if args.out or args.json_into or args.format == "json" else ""
    if args.format == "json":
        console.print(text, end="")
    elif args.format == "markdown":
        from launcher.cli.render.markdown import plan_markdown

        console.print(plan_markdown(plan, max_bytes=args.max_bytes), end="")
    else:
        from launcher.cli.render.plan_text import plan_text

        console.print(plan_text(plan, color=console.color))
    if args.show_request:
        _show_requests(plan, console)
    check_plan(plan)
    for path in filter(None, (args.out, args.json_into)):
        write_text(path, text)
    if args.out:
        console.note(f"saved: launcher apply {args.out}")
    return _exit_code(plan, args, console)


def _exit_code(plan: Plan, args: Any, console: Console) -> int:
    from launcher.cli.decisions import matched

    found = matched(plan, args.fail_on)
    for phrase in found:
        console.warn(phrase)
    if found:
        return BLOCKED
    return CHANGES if args.detailed_exitcode and not plan.is_empty else 0


def _show_requests(plan: Plan, console: Console) -> None:
    """What the schedulers would be sent, under the symbolic app id."""
    from launcher.apply.plans import requests

    for key, info in requests(plan).items():
        console.print(f"\n{key}:\n{info!r}")
