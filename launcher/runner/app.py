"""What a Runner does to an app before a scheduler gets it: check it, and tell it its parent."""

from __future__ import annotations

from dataclasses import replace

from launcher.errors import LauncherError
from launcher.specs.app import AppDef
from launcher.specs.check import check_app

PARENT_RUN_ID = "LAUNCHER_PARENT_RUN_ID"


class InvalidAppException(LauncherError, ValueError):
    """The app cannot be run as it is written; the message names every problem."""


def check(app: AppDef) -> None:
    """Raises InvalidAppException for what is no app, or breaks a rule of `launcher.specs.check`."""
    if not isinstance(app, AppDef):
        raise InvalidAppException(f"want an AppDef, got {app!r}")

    problems = check_app(app)
    if problems:
        lines = [f"{'.'.join(map(str, problem.path))}: {problem.message}" for problem in problems]
        raise InvalidAppException(f"app `{app.name}` cannot be run:\n  " + "\n  ".join(lines))


def with_parent(app: AppDef, parent_run_id: str | None) -> AppDef:
    """The app with the parent's id in the environment of every role; the caller's stays as it is."""
    if not parent_run_id:
        return app

    roles = [replace(role, env={**role.env, PARENT_RUN_ID: parent_run_id}) for role in app.roles]
    return replace(app, roles=roles)
