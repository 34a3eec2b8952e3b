"""The run options of local schedulers, and requirements of apps that they reject or ignore with a note."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypedDict

from launcher.schedulers.checks import add_times, check_runnable, overridden, without_containers
from launcher.schedulers.local.popen import DEFAULT_GRACE_S
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.check import Problem
from launcher.specs.runopts import runopts
from launcher.specs.secret import Secret


class LocalOpts(TypedDict, total=False):
    """The run options as a type for programs; `options` has all of them."""

    log_dir: str | None
    prepend_cwd: bool | None
    auto_set_cuda_visible_devices: bool | None


def options(backend: str) -> runopts:
    """The run options of a local scheduler. `local_dir` has no `cwd`: its replicas run in their image."""
    opts = runopts()
    opts.add(
        "log_dir",
        str,
        "folder for the logs, by session, app, role and replica; the state folder if not given",
        example="logs",
    )
    opts.add(
        "log_max_mb",
        int,
        "megabytes (10^6 bytes) that the log of each replica may take: its first quarter and its newest"
        " output stay; no bound if not given, for what a job printed may be its result",
        minimum=1,
        example=100,
    )
    opts.add("prepend_cwd", bool, "look for executables in the working folder first, not last", default=False)
    opts.add(
        "auto_set_cuda_visible_devices",
        bool,
        "without effect: the GPUs of this host are always dealt out to the replicas that ask for them",
        default=False,
    )
    if backend != "local_dir":
        what = "folder the replicas run in; the current one unless a job file says"
        opts.add("cwd", str, what, example="/srv/train")
    add_times(opts, DEFAULT_GRACE_S)
    return opts


@cache
def _all_options() -> runopts:
    return options("local_cwd")


def check(app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
    """Raise RejectedAppError for an invalid app, InvalidRunConfigException for options out of range."""
    _all_options().check_values(cfg)
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
    """Notes on requests of the app that local processes do not get."""
    out = overridden(app)
    for role in app.roles:
        if role.resource.cpu > 0 or role.resource.memMB > 0:
            out.append(f"role `{role.name}`: cpu and memory are not enforced by {scheduler}")
        out += without_containers(role, scheduler, "this machine", "this host's ports")
    return out
