"""Errors as JSON objects: the one that a failing command prints with --json, and those within results."""

from __future__ import annotations

from collections.abc import Iterable
from json import dumps
from typing import Any

from launcher.cli.render.apps import app_json
from launcher.errors import JobFileError, LauncherError
from launcher.state.records import AppRecord

Problem = tuple[str, LauncherError]
"""The subject of an error (a handle, a file or an engine), and the error."""

_INTERRUPTS = {130: ("interrupted", "interrupted by Ctrl-C"), 143: ("terminated", "ended by SIGTERM")}
_LEFT = "apps that have started keep running, except that of `launcher run`: `launcher status` shows them"


def failure(error: LauncherError) -> dict[str, Any]:
    """The object of an error, as `launcher schema error` describes it."""
    found = error.diagnostics if isinstance(error, JobFileError) else ()
    codes = [each.code for each in found if each.severity == "error"] or [each.code for each in found]
    hint = f"launcher explain {codes[0]}" if codes else error.hint
    return {
        "code": error.code,
        "message": str(error),
        "hint": hint or None,
        "exit": error.exit_code,
        **({"diagnostics": [each.to_json() for each in found]} if found else {}),
    }


def interruption(exit_code: int) -> dict[str, Any]:
    """Return the object of a command that a signal has ended, from its exit code."""
    code, message = _INTERRUPTS[exit_code]
    return {"code": code, "message": message, "hint": _LEFT, "exit": exit_code}


def fault(error: BaseException) -> dict[str, Any]:
    """The object of an error that launcher did not expect. Its text may be anything, so it is left out."""
    message = f"launcher has failed unexpectedly: {type(error).__name__}"
    return {"code": "internal", "message": message, "hint": "the traceback is on stderr", "exit": 1}


def problems_json(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Return the errors of a command that went on after them, each with its subject."""
    return [{"what": what, **failure(error)} for what, error in problems]


def apps_result(apps: Iterable[AppRecord], problems: Iterable[Problem], exit_code: int) -> str:
    """Return the result of a command that acts on apps: the outcome for each app."""
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
