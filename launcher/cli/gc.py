"""`launcher gc`: remove logs, records and containers of apps that have ended."""

from __future__ import annotations

import time
from typing import Any

from launcher.apply.gc import Collected, Rule, collect_here, ended
from launcher.cli.arguments import count, duration
from launcher.cli.console import Console
from launcher.cli.render.findings import problems_json
from launcher.cli.render.values import Cell, ago, iso, table
from launcher.errors import UsageError
from launcher.inventory.recorded import with_apps_here
from launcher.text import plural

USAGE = "gc [OPTIONS]"
HELP = """\
Remove logs, records, scratch folders and containers of apps that ended long
ago, and Docker networks and workspace images that no app uses and that are
older than an hour. Live apps are not touched. What stays is listed with the
reason.

The outcome of every job stays recorded, here and on the Docker engine (an
empty volume per job), so gc never makes a job run again. Only --tombstones
removes these volumes, for all users of the engine.

--logs removes the logs of apps and keeps their records: `status`, `history` and
`describe` show the same as before. A container goes with its log.

By default, gc removes what ended more than a week ago."""
EXAMPLES = """\
  launcher gc --dry-run             show what would be removed
  launcher gc --older-than 1d       apps that ended more than a day ago
  launcher gc --logs --older-than 7d   logs, and no records
  launcher gc --keep 3              all but the newest three apps of every job
  launcher gc -s local_docker --older-than 0"""

WEEK_S = 7 * 86400.0


def add_arguments(parser: Any) -> None:
    parser.option(
        "--older-than TIME",
        "only apps that ended at least this long ago: 12h, 30d (default: 7d, or 0 with --keep)",
        type=duration,
    )
    parser.option("--keep N", "keep the newest N apps of every job, whatever their age", type=count)
    parser.option("-s, --scheduler SCHEDULER", "only apps of this scheduler")
    parser.option("--project PROJECT", "only apps and outcomes of this project's jobs")
    parser.option("--logs", "remove only logs: attempts keep their records and their status")
    parser.option(
        "--tombstones", "also remove the outcomes stored on the engine, and list the jobs that will run again"
    )
    parser.option(
        "--outputs", "also remove output folders, except those of each job's latest success and attempt"
    )
    parser.option("--dry-run", "show what would be removed")
    parser.option("--json", "print JSON")


def run(args: Any, console: Console) -> int:
    if args.logs and (args.tombstones or args.outputs):
        other = "--tombstones" if args.tombstones else "--outputs"
        raise UsageError(f"--logs and {other} cannot be combined", hint="run gc twice")
    older_than_s = args.older_than
    if older_than_s is None:
        older_than_s = WEEK_S if args.keep is None else 0.0
    rule = Rule(older_than_s=older_than_s, keep=args.keep or 0, project=args.project)
    names = [args.scheduler] if args.scheduler is not None else with_apps_here()
    now = time.time()
    options = {"logs": args.logs, "tombstones": args.tombstones, "outputs": args.outputs}
    done = collect_here(names, rule, now=now, dry_run=args.dry_run, **options)
    if args.scheduler is not None and [name for name, _ in done.problems] == names:
        raise done.problems[0][1]
    code = 1 if any("://" in what for what, _ in done.problems) else 0
    _show(done, code, args, console, now)
    return code


def _show(done: Collected, code: int, args: Any, console: Console, now: float) -> None:
    for what, error in done.problems:
        console.warn(f"{what}: {'not removed' if '://' in what else 'skipped'}: {error}")
    if args.json:
        removed = [
            {"handle": app.handle, "name": app.name, "ended_at": iso(ended(app))} for app in done.removed
        ]
        kept = [{"what": what, "why": why} for what, why in done.kept]
        value = {"exit": code, "removed": removed, "shared": done.shared, "kept": kept}
        console.json({**value, "problems": problems_json(done.problems)})
        return
    if done.removed:
        rows: list[list[Cell]] = [
            [(app.name, "bold"), ago(ended(app), now), app.handle] for app in done.removed
        ]
        console.print(table(["NAME", "ENDED", "APP"], rows, color=console.color))
    for line in done.shared:
        console.print(f"{'would remove' if args.dry_run else 'removed'} {line}")
    word = "would be removed" if args.dry_run else "removed"
    number = len(done.removed)
    if args.logs:
        console.note(f"logs of {plural(number, 'app')} {word}" if number else "no logs to remove")
    else:
        console.note(f"{plural(number, 'app')} {word}" if number else "no apps to remove")
    for what, why in done.kept:
        console.note(f"kept {what}: {why}")
