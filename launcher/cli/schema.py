"""`launcher schema`: print the JSON Schemas that are published under schemas/."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps
from typing import Any

from launcher.apply.event_schema import event_schema
from launcher.cli.console import Console
from launcher.cli.render.findings import findings_schema
from launcher.cli.render.schemas import error_schema, result_schema, verify_schema
from launcher.jobfile import job_schema
from launcher.jobfile.schema.options import Declared
from launcher.jobfile.schema.project import project_schema
from launcher.notify.message import notification_schema
from launcher.plan.codec import plan_schema
from launcher.schedulers import DEFAULT_SCHEDULERS, get_scheduler
from launcher.schedulers.registry import imported

USAGE = "schema KIND [--json]"
HELP = """\
Print a JSON Schema (draft 2020-12).

job           job files: for editors that check and complete YAML and TOML
project       launcher.toml: for editors
plan          saved plans: what `launcher plan --out` writes
event         a line of `launcher apply --format jsonl`
result        what `launcher apply --json` prints
notification  what `apply --notify` and [notify] of launcher.toml send
error         what any command with --json prints when it fails
diagnostics   what `launcher validate --json` prints
verify        what `launcher verify --json` prints"""
EXAMPLES = "  launcher schema job >schemas/job-v1.schema.json"

_SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "job": lambda: job_schema(declared_schedulers()),
    "project": lambda: project_schema(declared_schedulers()),
    "plan": plan_schema,
    "event": event_schema,
    "result": result_schema,
    "notification": notification_schema,
    "error": error_schema,
    "diagnostics": findings_schema,
    "verify": verify_schema,
}
KINDS = tuple(_SCHEMAS)


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "kind",
        metavar="KIND",
        choices=KINDS,
        help="job, project, plan, event, result, notification, error, diagnostics or verify",
    )
    parser.add_argument("--json", action="store_true", help="print errors as JSON too")


def run(args: Any, console: Console) -> int:
    console.print(dumps(schema(args.kind), indent=2))
    return 0


def schema(kind: str) -> dict[str, Any]:
    return _SCHEMAS[kind]()


def declared_schedulers() -> dict[str, Declared]:
    """The built-in schedulers, as the schemas of files show them."""
    return {
        name: Declared(str(imported(home).__doc__).splitlines()[0], get_scheduler(name, "").run_opts())
        for name, home in DEFAULT_SCHEDULERS.items()
    }
