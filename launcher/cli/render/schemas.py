"""The published schemas of errors, of the result of an apply, and of a verified attempt."""

from __future__ import annotations

from typing import Any

from launcher.cli.render.failures import ERROR_FIELDS
from launcher.cli.render.findings import findings_schema, object_schema
from launcher.inventory.verify import LINKS
from launcher.inventory.verify import MARKS as MARKS_OF_LINKS
from launcher.plan.step import MARKS


def error_schema() -> dict[str, Any]:
    """The schema of an error; the published file is this one, byte for byte. Later versions may add codes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:error-v1",
        "title": "launcher error",
        "description": "What a command that fails prints with --json.",
        **object_schema(
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
    """The schema of the result of an apply; the published file is this one, byte for byte."""
    text, absent = {"type": "string"}, {"type": ["string", "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:result-v1",
        "title": "launcher result",
        "description": "What `launcher apply --json` prints when it is done.",
        **object_schema(
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
    """The schema of a verified attempt; the published file is this one, byte for byte."""
    text, absent = {"type": "string"}, {"type": ["string", "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:verify-v1",
        "title": "launcher verify",
        "description": "What `launcher verify --json` prints.",
        **object_schema(
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
