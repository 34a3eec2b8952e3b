"""Prepare an app for a scheduler: check it, and add the id of its parent."""

from __future__ import annotations

from launcher.dataclass import replace
from launcher.errors import LauncherError
from launcher.specs.app import AppDef
from launcher.specs.check import check_app

PARENT_RUN_ID = "LAUNCHER_PARENT_RUN_ID"


class InvalidAppException(LauncherError, ValueError):
    """The app is invalid; the message names every problem."""


def check(app: AppDef) -> None:
    """Raise InvalidAppException for anything but an app without problems (`launcher.specs.check`)."""
    if not isinstance(app, AppDef):
        raise InvalidAppException(f"want an AppDef, got {app!r}")

    problems = check_app(app)
    if problems:
        lines = [f"{'.'.join(map(str, problem.path))}: {problem.message}" for problem in problems]
        raise InvalidAppException(f"app `{app.name}` cannot be run:\n  " + "\n  ".join(lines))


def with_parent(app: AppDef, parent_run_id: str | None) -> AppDef:
    """A copy of the app with the parent's id in the environment of every role."""
    if not parent_run_id:
        return app

    roles = [replace(role, env={**role.env, PARENT_RUN_ID: parent_run_id}) for role in app.roles]
    return replace(app, roles=roles)
