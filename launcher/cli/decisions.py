"""The options that plan and apply share: what they ask of the planner, and what is a reason to stop."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonpath, isdir, join, realpath, relpath
from typing import Any

from launcher.apply.look import Choices
from launcher.cli.kinds import several_of
from launcher.plan.model import Plan
from launcher.plan.orphans import Scope
from launcher.plan.verdict import FAIL_ON, matches
from launcher.specs import Launch


def add_arguments(parser: Any) -> None:
    group = parser.add_argument_group("What to decide")
    group.add_argument(
        "--rerun",
        metavar="JOB",
        action="append",
        default=[],
        help="run this job again although its document is the same; may be repeated",
    )
    group.add_argument(
        "--retry-failed", action="store_true", help="run the jobs again that failed or were lost"
    )
    group.add_argument(
        "--prune",
        action="store_true",
        help="stop live jobs of the directories given that no file declares any more",
    )
    group.add_argument(
        "--take-over", action="store_true", help="take jobs over that another repository has applied"
    )
    group.add_argument(
        "--fail-on",
        metavar="LIST",
        type=several_of(*FAIL_ON),
        default=(),
        help="exit 3 when a job is held, an orphan is found, or a job drifted: some of it was removed or "
        "stopped by hand (comma-separated: held,orphan,drift)",
    )


def choices(launches: Sequence[Launch], args: Any) -> Choices:
    """The options as the planner takes them."""
    return Choices(
        rerun=tuple(args.rerun),
        retry_failed=args.retry_failed,
        prune=args.prune,
        take_over=args.take_over,
        scopes=_scopes(launches, args.files or ["."]),
    )


def _scopes(launches: Sequence[Launch], paths: Sequence[str]) -> tuple[Scope, ...]:
    """Where orphans are sought: in the directories among `paths`, never around single files."""
    found: dict[Scope, None] = {}
    for directory in (realpath(path) for path in paths if isdir(path)):
        for launch in launches:
            root = realpath(launch.root)
            if commonpath([directory, realpath(join(root, launch.file))]) != directory:
                continue
            inside = commonpath([root, directory]) == root
            below = relpath(directory, root) if inside else ""
            below = "" if below == "." else below
            found[Scope(origin=launch.origin, target=launch.key.target, directory=below)] = None
    return tuple(found)


def matched(plan: Plan, fail_on: Sequence[str]) -> list[str]:
    """What of `--fail-on` the plan shows, as phrases."""
    return [f"{word}: {', '.join(map(str, keys))}" for word, keys in matches(plan, fail_on).items()]
