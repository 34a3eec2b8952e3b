"""`launcher schema`: print the JSON Schemas that are published under schemas/."""

from __future__ import annotations

from json import dumps
from typing import Any

from launcher.apply.event_schema import event_schema
from launcher.cli.console import Console
from launcher.cli.render.findings import findings_schema
from launcher.jobfile import job_schema
from launcher.jobfile.schema.options import Declared
from launcher.jobfile.schema.project import project_schema
from launcher.plan.codec import plan_schema
from launcher.schedulers import DEFAULT_SCHEDULERS, get_scheduler
from launcher.schedulers.registry import imported

USAGE = "schema job|project|plan|event|diagnostics"
HELP = """\
Print a JSON Schema (draft 2020-12).

job          job files: for editors that check and complete YAML and TOML
project      launcher.toml: for editors
plan         saved plans: what `launcher plan --out` writes
event        a line of `launcher apply --format jsonl`
diagnostics  what `launcher validate --format json` prints"""
EXAMPLES = "  launcher schema job >schemas/job-v1.schema.json"

KINDS = ("job", "project", "plan", "event", "diagnostics")


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "kind", metavar="KIND", choices=KINDS, help="job, project, plan, event or diagnostics"
    )


def run(args: Any, console: Console) -> int:
    console.print(dumps(schema(args.kind), indent=2))
    return 0


def schema(kind: str) -> dict[str, Any]:
    if kind == "plan":
        return plan_schema()
    if kind == "event":
        return event_schema()
    if kind == "diagnostics":
        return findings_schema()
    if kind == "project":
        return project_schema(declared_schedulers())
    return job_schema(declared_schedulers())


def declared_schedulers() -> dict[str, Declared]:
    """The built-in schedulers, as the schemas of files show them."""
    return {
        name: Declared(str(imported(home).__doc__).splitlines()[0], get_scheduler(name, "").run_opts())
        for name, home in DEFAULT_SCHEDULERS.items()
    }
