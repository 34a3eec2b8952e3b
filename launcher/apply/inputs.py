"""What a plan needs of this machine besides its engines: secrets that are there, workspaces as planned."""

from __future__ import annotations

import os
from collections.abc import Iterator

from launcher import secrets
from launcher.apply.submit import bound_app, directory_of
from launcher.errors import LauncherError, SecretError, StaleError
from launcher.plan.model import Plan
from launcher.plan.step import Step
from launcher.specs.binding import bind_workspace
from launcher.specs.launch import Launch
from launcher.specs.secret import Secret


def check_secrets(plan: Plan) -> None:
    """Raises SecretError naming job, role and variable of every secret that cannot be read."""
    lines = [line for step in plan.steps if step.starts and step.launch for line in _missing(step.launch)]
    if lines:
        raise SecretError(
            "secrets are missing:" + "".join(f"\n  {line}" for line in lines),
            hint="nothing was submitted; provide them and apply again",
        )


def _missing(launch: Launch) -> Iterator[str]:
    if not any(isinstance(value, Secret) for role in launch.app.roles for value in role.env.values()):
        return
    for role in bound_app(launch).roles:
        found = {name: str(value) for name, value in role.env.items() if isinstance(value, Secret)}
        reasons = secrets.missing(found.values())
        for name, reference in found.items():
            if reference in reasons:
                yield f"{launch.key}: role `{role.name}`: {name} (secret {reference}): {reasons[reference]}"


def check_workspaces(plan: Plan) -> None:
    """Hash the workspaces of what is to start again. Raises StaleError for those that are not as planned."""
    seen: dict[str, str] = {}
    lines = [line for step in plan.steps if step.starts for line in _moved(step, seen)]
    if lines:
        raise StaleError(
            "the plan cannot be applied any more:" + "".join(f"\n  {line}" for line in lines),
            hint="make a new plan",
        )


def _moved(step: Step, seen: dict[str, str]) -> Iterator[str]:
    launch = step.launch
    if launch is None or launch.workspace is None:
        return
    for part in launch.workspace.projects or (launch.workspace,):
        path = bind_workspace(part.path, directory=directory_of(launch), home=os.path.expanduser("~"))
        if path not in seen:
            seen[path] = _digest_or_why(path)
        if seen[path] != part.digest:
            yield (
                f"{step.key}: the workspace `{part.path}` is not what was planned: "
                f"expected {part.digest}, found {seen[path]}"
            )


def _digest_or_why(path: str) -> str:
    from launcher.workspace.context import project_digest

    try:
        return project_digest(path)
    except LauncherError as error:
        return str(error)
