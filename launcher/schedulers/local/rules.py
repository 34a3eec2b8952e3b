"""The requirements of apps that the local scheduler rejects, or ignores with a note."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.schedulers.checks import check_runnable, overridden, without_containers
from launcher.schedulers.local.options import options
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.check import Problem
from launcher.specs.secret import Secret


def check(app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
    """Raise RejectedAppError for an invalid app, InvalidRunConfigException for options out of range."""
    options("local_cwd").check_values(cfg)
    check_runnable(app, lambda app: problems(app, cfg))


def problems(app: AppDef, cfg: Mapping[str, CfgVal]) -> list[Problem]:
    """The problems of an app and its options on this scheduler. Paths of options begin with `cfg`."""
    found = []
    if cfg.get("log_dir") and cfg.get("log_max_mb") is not None:
        message = (
            "log_max_mb bounds logs in the state folder; those in a `log_dir` are complete: leave one out"
        )
        found.append(Problem(("cfg", "log_max_mb"), "unusable-text", message))
    # PATH is composed when replicas are spawned, and shown when an executable is not found in it.
    return found + [
        Problem(("roles", role.name, "env", "PATH"), "unusable-text", "PATH cannot be a secret")
        for role in app.roles
        if isinstance(role.env.get("PATH"), Secret)
    ]


def notes(app: AppDef, scheduler: str) -> list[str]:
    """Notes on what the app requests and local processes do not get."""
    out = overridden(app)
    for role in app.roles:
        if role.resource.cpu > 0 or role.resource.memMB > 0:
            out.append(f"role `{role.name}`: cpu and memory are not enforced by {scheduler}")
        out += without_containers(role, scheduler, "this machine", "this host's ports")
    return out
