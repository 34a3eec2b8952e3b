"""Saved plans as files: tell them from job files, read them."""

from __future__ import annotations

from launcher.errors import LauncherError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.plan.model import Plan


def is_saved_plan(path: str) -> bool:
    """Whether `path` is a saved plan rather than a job file: a JSON file is, whatever is in it."""
    return path.endswith(".json")


def read_json(path: str) -> Any:
    """Raises JobFileError, with a diagnostic, when it cannot be read or is no JSON."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise _not_json(path, error) from error


def _unreadable(path: str, error: OSError) -> LauncherError:
    from launcher.jobfile import job_file_error
    from launcher.jobfile.source import unreadable

    return job_file_error([unreadable(path, path, error)])


def _not_json(path: str, error: ValueError) -> LauncherError:
    import json

    from launcher.jobfile import Diagnostic, Span, job_file_error

    span, text = None, ""
    if isinstance(error, json.JSONDecodeError):
        line, column = error.lineno, error.colno
        text = error.doc.split("\n")[line - 1]
        span = Span(line=line, column=column, end_line=line, end_column=column + 1)
    message = f"the file is no saved plan: it is not JSON ({getattr(error, 'msg', error)})"
    hint = "`launcher plan --out` writes one; a job file ends in .launcher.yaml or .launcher.toml"
    return job_file_error(
        [Diagnostic(file=path, span=span, code="invalid-value", message=message, hint=hint, source_line=text)]
    )


def write_text(path: str, text: str) -> None:
    """Write a file whole or not at all. Raises LauncherError."""
    import os

    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError as error:
        if os.path.exists(beside):
            os.unlink(beside)
        raise LauncherError(f"cannot write {path}: {error.strerror or error}") from error


def read_plan(path: str) -> Plan:
    """Raises PlanFileError when it is no usable plan, JobFileError when it cannot be read."""
    from launcher.plan.codec import loads

    try:
        with open(path, "rb") as file:
            return loads(file.read(), name=path)
    except OSError as error:
        raise _unreadable(path, error) from error


def document(plan: Plan) -> str:
    """The text of the plan as it is saved, with an id, its time and the commits of its job files."""
    import time
    from uuid import uuid4

    from launcher.apply.plans import commit_of
    from launcher.plan.codec import dumps

    launches = [step.launch for step in plan.steps if step.launch is not None]
    roots = {launch.origin: launch.root for launch in launches}
    commits = {origin: commit for origin, root in roots.items() if (commit := commit_of(root))}
    return dumps(plan.sealed(plan_id=str(uuid4()), created_at=time.time(), commits=commits))
