"""Saved plans as files: read, check and write them."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from launcher.errors import JobFileError, LauncherError
from launcher.files import read_regular, write_whole
from launcher.git import commit_of
from launcher.plan.model import Plan

if TYPE_CHECKING:
    from launcher.jobfile.diagnostics.diagnostic import Diagnostic
    from launcher.plan.effects import Approval


def findings(path: str) -> list[Diagnostic]:
    """Return the problems that keep a saved plan from being applied; empty for a valid plan."""
    from launcher.jobfile.diagnostics.diagnostic import Diagnostic
    from launcher.plan.codec import PlanFileError, loads

    try:
        raw = _bytes(path)
        try:
            json.loads(raw.decode())  # names line and column of a syntax error
        except RecursionError as error:
            raise _not_json(path, ValueError("it is nested too deeply")) from error
        except ValueError as error:
            raise _not_json(path, error) from error
        loads(raw, name=path)
    except JobFileError as error:
        return [*error.diagnostics]
    except PlanFileError as error:
        return [
            Diagnostic(file=path, span=None, code="invalid-value", message=str(error), hint=error.hint or "")
        ]
    return []


def _bytes(path: str) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        from launcher.jobfile.diagnostics.diagnostic import job_file_error
        from launcher.jobfile.text.document import unreadable

        raise job_file_error([unreadable(path, path, error)]) from error


def _not_json(path: str, error: ValueError) -> LauncherError:
    from launcher.jobfile.diagnostics.diagnostic import Diagnostic, Span, job_file_error

    span, text = None, ""
    if isinstance(error, json.JSONDecodeError):
        line, column = error.lineno, error.colno
        text = error.doc.split("\n")[line - 1]
        span = Span(line=line, column=column, end_line=line, end_column=column + 1)
    message = f"the file is not a saved plan: it is not JSON ({getattr(error, 'msg', error)})"
    hint = "save a plan with `launcher plan --out`; job files end in .launcher.yaml or .launcher.toml"
    return job_file_error(
        [Diagnostic(file=path, span=span, code="invalid-value", message=message, hint=hint, source_line=text)]
    )


def write_text(path: str, text: str, *, errors: str = "strict", is_public: bool = False) -> None:
    """Write a file atomically, behind a link too; a pipe or a device as it is. Raises LauncherError.

    Args:
        errors, is_public: see `write_whole`.
    """
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8", errors=errors, newline="\n") as file:
                file.write(text)
        else:
            write_whole(os.path.realpath(path), text, errors=errors, is_public=is_public, tidies=True)
    except OSError as error:
        raise LauncherError(f"cannot write {path}: {error.strerror or error}") from error


def read_plan(path: str) -> Plan:
    """Read a saved plan.

    Raises SealError if it was edited, PlanFileError if it is not a valid plan, JobFileError if it cannot be
    read.
    """
    from launcher.plan.codec import loads

    return loads(_bytes(path), name=path)


def read_approval(path: str) -> Approval:
    """Read the effects of a saved plan, or a list of effects; raises what `read_plan` does."""
    from launcher.plan.codec import loads_approval

    return loads_approval(_bytes(path), name=path)


def document(plan: Plan) -> str:
    """The text of the saved plan, with an id, the time and the commits of its job files."""
    from uuid import uuid4

    from launcher.plan.codec import dumps

    launches = [step.launch for step in plan.steps if step.launch is not None]
    roots = {launch.origin: launch.root for launch in launches}
    commits = {origin: commit for origin, root in roots.items() if (commit := commit_of(root))}
    return dumps(plan.stamped(plan_id=str(uuid4()), created_at=time.time(), commits=commits))
