"""The run options of the local schedulers."""

from __future__ import annotations

from typing import TypedDict

from launcher.schedulers.checks import add_times
from launcher.schedulers.local.popen import DEFAULT_GRACE_S
from launcher.specs.runopts import runopts


class LocalOpts(TypedDict, total=False):
    """The run options as a type for programs; `options` has all of them."""

    log_dir: str | None
    prepend_cwd: bool | None
    auto_set_cuda_visible_devices: bool | None


def options(backend: str) -> runopts:
    """`local_dir` has no `cwd`: its replicas run in their image."""
    opts = runopts()
    opts.add(
        "log_dir",
        str,
        "folder for the logs, by session, app, role and replica; the state folder if not given",
    )
    opts.add(
        "log_max_mb",
        int,
        "megabytes (10^6 bytes) that the log of each replica may take: its first quarter and its newest"
        " output stay; no bound if not given, for what a job printed may be its result",
        minimum=1,
    )
    opts.add("prepend_cwd", bool, "look for executables in the working folder first, not last", default=False)
    opts.add(
        "auto_set_cuda_visible_devices",
        bool,
        "without effect: the GPUs of this host are always dealt out to the replicas that ask for them",
        default=False,
    )
    if backend != "local_dir":
        opts.add("cwd", str, "folder the replicas run in; the current one unless a job file says")
    add_times(opts, DEFAULT_GRACE_S)
    return opts
