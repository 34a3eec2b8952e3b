"""`launcher schema`: print the JSON Schemas that are published under schemas/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launcher.apply.events import event_schema
from launcher.cli.console import Console
from launcher.cli.render.findings import ERROR_FIELDS, document_schema, findings_schema, object_schema
from launcher.inventory.verify import LINKS
from launcher.inventory.verify import MARKS as MARKS_OF_LINKS
from launcher.jobfile.schema.job import job_schema
from launcher.jobfile.schema.options import SchedulerSchema
from launcher.jobfile.schema.project import project_schema
from launcher.notify import notification_schema
from launcher.plan.codec import plan_schema
from launcher.plan.step import MARKS
from launcher.schedulers.registry import DEFAULT_SCHEDULERS, get_scheduler, imported

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


def error_schema() -> dict[str, Any]:
    """The schema of an error. Later versions may add codes."""
    return {
        **document_schema(
            "error",
            "What a command that fails prints with --json.",
            "diagnostics",
            **ERROR_FIELDS,
            diagnostics={
                "type": "array",
                "items": {"$ref": "#/$defs/diagnostic"},
                "description": "Every problem of job files, as `launcher validate --json` prints them.",
            },
        ),
        "$defs": findings_schema()["$defs"],
    }


def result_schema() -> dict[str, Any]:
    """The schema of the result of an apply."""
    text, absent = {"type": "string"}, {"type": ["string", "null"]}
    return {
        **document_schema(
            "result",
            "What `launcher apply --json` prints when it is done.",
            exit={"type": "integer", "description": "The exit code: 0, 1, or 5 with --wait."},
            jobs={"type": "array", "items": {"$ref": "#/$defs/job"}},
            problems={"type": "array", "items": {"$ref": "#/$defs/problem"}},
        ),
        "$defs": {
            "job": object_schema(
                **dict.fromkeys(("project", "target", "job"), text),
                action={"enum": [*MARKS]},
                attempt={"type": ["integer", "null"]},
                **dict.fromkeys(("app_id", "handle", "state"), absent),
                message=text,
                **dict.fromkeys(("output", "error", "hint"), absent),
                warnings={"type": "array", "items": text},
            ),
            "problem": {
                "description": "A job that could not be applied, and why.",
                **object_schema(what={**text, "description": "The name of the job."}, **ERROR_FIELDS),
            },
        },
    }


def verify_schema() -> dict[str, Any]:
    """The schema of a verified attempt."""
    text, absent = {"type": "string"}, {"type": ["string", "null"]}
    return {
        **document_schema(
            "verify",
            "What `launcher verify --json` prints.",
            **dict.fromkeys(("handle", "app_id", "project", "target", "job"), text),
            attempt={"type": "integer"},
            records={"type": "array", "items": text, "description": "The records that were compared."},
            links={"type": "array", "items": {"$ref": "#/$defs/link"}},
        ),
        "$defs": {
            "link": object_schema(
                name={"enum": [*LINKS]},
                mark={"enum": [*MARKS_OF_LINKS]},
                value={**absent, "description": "What is on record, such as a digest."},
                why=text,
                expected=absent,
                found=absent,
            )
        },
    }


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
    parser.option("--json", "print errors as JSON too")


def run(args: Any, console: Console) -> int:
    console.json(schema(args.kind), ascii=True)
    return 0


def schema(kind: str) -> dict[str, Any]:
    return _SCHEMAS[kind]()


def declared_schedulers() -> dict[str, SchedulerSchema]:
    """The built-in schedulers, as the schemas of files show them."""
    return {
        name: SchedulerSchema(str(imported(home).__doc__).splitlines()[0], get_scheduler(name, "").run_opts())
        for name, home in DEFAULT_SCHEDULERS.items()
    }
