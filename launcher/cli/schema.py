"""`launcher schema`: print the JSON Schemas that are published under schemas/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launcher.apply.events import event_schema
from launcher.cli.console import Console
from launcher.cli.render.findings import VERSION
from launcher.inventory.verify import LINKS, MARKS as MARKS_OF_LINKS
from launcher.jobfile.diagnostic import CODES
from launcher.jobfile.schema.files import job_schema, project_schema
from launcher.jobfile.schema.options import SchedulerSchema
from launcher.notify import notification_schema
from launcher.plan.schema import plan_schema
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

_ERROR_FIELDS: dict[str, dict[str, Any]] = {
    "code": {
        "type": "string",
        "pattern": "^[a-z]+(-[a-z]+)*$",
        "description": "The kind of error, such as usage, job-file, blocked, app-not-found, interrupted.",
    },
    "message": {"type": "string", "description": "What is wrong."},
    "hint": {"type": ["string", "null"], "description": "What would be right, or what to do next."},
    "exit": {"type": "integer", "minimum": 1, "description": "The exit code of the command."},
}
"""The schemas of the fields that every error has."""

_TEXT = {"type": "string"}
_ABSENT = {"type": ["string", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_POSITION = {"type": "integer", "minimum": 1}


def findings_schema() -> dict[str, Any]:
    """The schema of diagnostics. Later versions may add fields."""
    return {
        **_document(
            "diagnostics",
            "What is wrong with job files, every problem at once, in file order.",
            " ".join(_ERROR_FIELDS),
            version={"const": VERSION},
            **_ERROR_FIELDS,
            jobs={**_COUNT, "description": "The jobs of the files that are right."},
            errors=_COUNT,
            warnings=_COUNT,
            diagnostics={"type": "array", "items": {"$ref": "#/$defs/diagnostic"}},
        ),
        "$defs": {
            "diagnostic": _object(
                "label hint related",
                file={**_TEXT, "description": "The path as it was typed, or as it was found below one."},
                span={"anyOf": [{"$ref": "#/$defs/span"}, {"type": "null"}]},
                code={"enum": sorted(CODES), "description": "`launcher explain CODE` tells more."},
                severity={"enum": ["error", "warning"]},
                message={**_TEXT, "description": "What is wrong, in one sentence."},
                label={**_TEXT, "description": "The remedy in a few words."},
                hint={**_TEXT, "description": "More help."},
                related={"type": "array", "items": {"$ref": "#/$defs/related"}},
            ),
            "related": _object(
                file=_TEXT, span={"anyOf": [{"$ref": "#/$defs/span"}, {"type": "null"}]}, message=_TEXT
            ),
            "span": {
                "description": "Positions count from 1, columns in characters; the end is exclusive.",
                **_object(line=_POSITION, column=_POSITION, end_line=_POSITION, end_column=_POSITION),
            },
        },
    }


def _document(name: str, description: str, optional: str = "", /, **properties: Any) -> dict[str, Any]:
    """Return the schema of a document, which is byte for byte the published file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:launcher:{name}-v1",
        "title": f"launcher {name}",
        "description": description,
        **_object(optional, **properties),
    }


def _object(optional: str = "", /, **properties: Any) -> dict[str, Any]:
    required = [name for name in properties if name not in optional.split()]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def error_schema() -> dict[str, Any]:
    """The schema of an error. Later versions may add codes."""
    return {
        **_document(
            "error",
            "What a command that fails prints with --json.",
            "diagnostics",
            **_ERROR_FIELDS,
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
    return {
        **_document(
            "result",
            "What `launcher apply --json` prints when it is done.",
            exit={"type": "integer", "description": "The exit code: 0, 1, or 5 with --wait."},
            jobs={"type": "array", "items": {"$ref": "#/$defs/job"}},
            problems={"type": "array", "items": {"$ref": "#/$defs/problem"}},
        ),
        "$defs": {
            "job": _object(
                **dict.fromkeys(("project", "target", "job"), _TEXT),
                action={"enum": [*MARKS]},
                attempt={"type": ["integer", "null"]},
                **dict.fromkeys(("app_id", "handle", "state"), _ABSENT),
                message=_TEXT,
                **dict.fromkeys(("output", "error", "hint"), _ABSENT),
                warnings={"type": "array", "items": _TEXT},
            ),
            "problem": {
                "description": "A job that could not be applied, and why.",
                **_object(what={**_TEXT, "description": "The name of the job."}, **_ERROR_FIELDS),
            },
        },
    }


def verify_schema() -> dict[str, Any]:
    """The schema of a verified attempt."""
    return {
        **_document(
            "verify",
            "What `launcher verify --json` prints.",
            **dict.fromkeys(("handle", "app_id", "project", "target", "job"), _TEXT),
            attempt={"type": "integer"},
            records={"type": "array", "items": _TEXT, "description": "The records that were compared."},
            links={"type": "array", "items": {"$ref": "#/$defs/link"}},
        ),
        "$defs": {
            "link": _object(
                name={"enum": [*LINKS]},
                mark={"enum": [*MARKS_OF_LINKS]},
                value={**_ABSENT, "description": "What is on record, such as a digest."},
                why=_TEXT,
                expected=_ABSENT,
                found=_ABSENT,
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
