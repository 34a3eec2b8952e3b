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
    """Raises LauncherError when it cannot be read or is no JSON."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise LauncherError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise LauncherError(f"{path} is not a saved plan: {error}") from error


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
    """Raises PlanFileError when it is no usable plan, LauncherError when it cannot be read."""
    from launcher.plan.codec import loads

    try:
        with open(path, "rb") as file:
            return loads(file.read(), name=path)
    except OSError as error:
        raise LauncherError(f"cannot read {path}: {error.strerror or error}") from error


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
