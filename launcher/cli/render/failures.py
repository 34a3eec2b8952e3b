"""Errors as JSON objects: the one that a failing command prints with --json, and those within results."""

from __future__ import annotations

from json import dumps

from launcher.errors import JobFileError, LauncherError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from launcher.state.records import AppRecord

    Problem = tuple[str, LauncherError]
    """What an error is about (a handle, a file, an engine), and the error."""

_INTERRUPTS = {130: ("interrupted", "interrupted by Ctrl-C"), 143: ("terminated", "ended by SIGTERM")}
_LEFT = "apps that have started keep running, except that of `launcher run`: `launcher status` shows them"


def failure(error: LauncherError) -> dict[str, Any]:
    """The object of an error, as `launcher schema error` describes it."""
    found = error.diagnostics if isinstance(error, JobFileError) else ()
    message, hint = str(error), error.hint
    if found:
        from launcher.cli.render.findings import in_short

        message, hint = in_short(found), f"launcher explain {found[0].code}"
    return {
        "code": error.code,
        "message": message,
        "hint": hint or None,
        "exit": error.exit_code,
        **({"diagnostics": [each.to_json() for each in found]} if found else {}),
    }


def interruption(exit_code: int) -> dict[str, Any]:
    """The object of a command that a signal has ended, from the exit code of that."""
    code, message = _INTERRUPTS[exit_code]
    return {"code": code, "message": message, "hint": _LEFT, "exit": exit_code}


def problems_json(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """The errors of a command that has gone on after them, each with what it is about."""
    return [{"what": what, **failure(error)} for what, error in problems]


def apps_result(apps: Iterable[AppRecord], problems: Iterable[Problem], exit_code: int) -> str:
    """The result of a command that acts on apps: what became of each."""
    from launcher.cli.render.apps import app_json

    found = list(map(app_json, apps))
    value = {"exit": exit_code, "apps": found, "problems": problems_json(problems)}
    return dumps(value, indent=2, ensure_ascii=False)


ERROR_FIELDS: dict[str, dict[str, Any]] = {
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


def error_schema() -> dict[str, Any]:
    """The schema of an error; the published file is this one, byte for byte. Later versions may add codes."""
    from launcher.cli.render.findings import findings_schema, object_schema

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
    from launcher.cli.render.findings import object_schema
    from launcher.plan.step import MARKS

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
