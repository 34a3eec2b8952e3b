"""The request that a client sends to a supervisor: its options, apps that it rejects, its text form."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from launcher.dataclass import dataclass, field
from launcher.schedulers.checks import (
    add_times,
    check_runnable,
    gpu_type_notes,
    overridden,
    without_containers,
)
from launcher.schedulers.replica_request import alike, shown_value
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.check import Problem
from launcher.specs.runopts import runopts
from launcher.specs.secret import Secret, hide
from launcher.text import plural

DEFAULT_GRACE_S = 10.0
LOGS = "logs"

_OURS = (
    "LAUNCHER_ATTEMPT", "LAUNCHER_EDITION", "LAUNCHER_JOB_ID", "LAUNCHER_NEEDS", "LAUNCHER_OUTPUT_DIR",
    "LAUNCHER_RANK0_HOST", "LAUNCHER_SCRATCH", "PET_LOG_DIR", "TORCHELASTIC_ERROR_FILE",
)  # fmt: skip


class LocalOpts(TypedDict, total=False):
    """The run options as a type for programs; `options` has all of them."""

    log_dir: str | None
    prepend_cwd: bool | None
    auto_set_cuda_visible_devices: bool | None


@dataclass
class ReplicaParam:
    """One replica: its command line, its variables beyond the inherited environment, and its log files.

    Secrets among the variables are references (`specs.secret.Secret`); their values are never stored here.
    """

    args: list[str]
    env: dict[str, str]
    stdout: str | None = None
    stderr: str | None = None
    combined: str | None = None
    cwd: str | None = None


@dataclass
class PopenRequest:
    """The request to a supervisor. `str(request)` is the text for users.

    Attributes:
        log_dir: the folder that holds the log folders of all replicas.
        role_params, role_log_dirs: role → a value for each replica, in order.
        handle: the handle of the app; `app_dir`: its folder of records below the state folder.
        role_retries: role → (max_retries, retry policy).
        role_rules: role → the other fields that the supervisor follows, where they are set.
        role_gpus: role → GPUs that each of its replicas asks for, where it asks for any.
        timeout_s: time limit of the whole app, restarts included; None for no limit.
        grace_s: time from TERM to KILL when the app is stopped.
        log_max_mb: megabytes (10^6 bytes) that the log of one replica may take; None for no bound.
        notes: requests of the app that this scheduler does not fulfil.
    """

    app_id: str
    log_dir: str
    role_params: dict[str, list[ReplicaParam]]
    role_log_dirs: dict[str, list[str]]

    handle: str = ""
    app_dir: str = ""
    role_retries: dict[str, tuple[int, str]] = field(default_factory=dict)
    timeout_s: int | None = None
    grace_s: float = DEFAULT_GRACE_S
    log_max_mb: int | None = None
    notes: list[str] = field(default_factory=list)
    role_rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    role_gpus: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return _render(self)

    @property
    def separate_streams(self) -> bool:
        """Whether stdout and stderr have files of their own beside the combined log, as with a `log_dir`."""
        return self.log_dir != os.path.join(self.app_dir, LOGS)

    def to_json(self) -> dict[str, Any]:
        params = {role: [*map(_stored, each)] for role, each in self.role_params.items()}
        return {**vars(self), "role_params": params}


def _stored(param: ReplicaParam) -> dict[str, Any]:
    env = param.env.items()
    stored = {name: {"secret": str(value)} if isinstance(value, Secret) else value for name, value in env}
    return {**vars(param), "env": stored}


def _render(request: PopenRequest) -> str:
    """Aligned lines, stable for equal requests. Values under sensitive-looking names are not shown."""
    lines = [*_head(request)]
    for role, params in request.role_params.items():
        retries, policy = request.role_retries.get(role, (0, "APPLICATION"))
        lines += ["", f"role {role}: {plural(len(params), 'replica')}"]
        if retries:
            lines.append(_line("retries", f"{retries} ({policy.lower()})"))
        lines += [
            _line(name.replace("_", " "), str(value))
            for name, value in request.role_rules.get(role, {}).items()
        ]
        lines += _replica_blocks(params, request.role_log_dirs[role])
    if request.notes:
        lines += ["", *(f"note: {note}" for note in request.notes)]
    return "\n".join(lines) + "\n"


def _head(request: PopenRequest) -> Iterator[str]:
    yield f"app {request.app_id}"
    yield _line("handle", request.handle)
    yield _line("logs", request.log_dir)
    if request.timeout_s is not None:
        yield _line("timeout", f"{request.timeout_s} s")
    yield _line("grace", f"{request.grace_s:g} s")
    if request.log_max_mb is not None:
        yield _line("log bound", f"{request.log_max_mb} MB")


def _replica_blocks(params: list[ReplicaParam], dirs: list[str]) -> Iterator[str]:
    shown = [_shown(param) for param in params]
    for first, last in alike(shown):
        if len(params) > 1:
            yield f"  replica {first}" if first == last else f"  replicas {first} to {last}"
        yield from shown[first]
        many = os.path.join(os.path.dirname(dirs[first]), f"{{{first}..{last}}}")
        yield _line("logs", dirs[first] if first == last else many)


def _shown(param: ReplicaParam) -> list[str]:
    import shlex

    lines = [_line("command", shlex.join(hide(param.args))), _line("runs in", param.cwd or "")]
    env = [f"{name}={shown_value(name, param.env[name])}" for name in sorted(param.env) if name not in _OURS]
    return lines + [_line("env" if n == 0 else "", text) for n, text in enumerate(env)]


def _line(label: str, text: str) -> str:
    return f"  {label:<8}  {text}".rstrip()


# -- options and requirements ------------------------------------------------------------------------------


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


def check(app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
    """Raise RejectedAppError for an invalid app, InvalidRunConfigException for options out of range."""
    options("local_cwd").check_values(cfg)  # of all local schedulers
    check_runnable(app, problems(app, cfg))


def problems(app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterator[Problem]:
    """Yield the problems of an app and its options on this scheduler. Paths of options begin with `cfg`."""
    if cfg.get("log_dir") and cfg.get("log_max_mb") is not None:
        message = (
            "log_max_mb bounds logs in the state folder; those in a `log_dir` are complete: leave one out"
        )
        yield Problem(("cfg", "log_max_mb"), "unusable-text", message)
    for role in app.roles:
        # PATH is composed when replicas are spawned, and shown when an executable is not found in it.
        if isinstance(role.env.get("PATH"), Secret):
            yield Problem(("roles", role.name, "env", "PATH"), "unusable-text", "PATH cannot be a secret")


def notes(app: AppDef, scheduler: str) -> list[str]:
    """Notes on requests of the app that local processes do not get."""
    out = overridden(app)
    for role in app.roles:
        if role.resource.cpu > 0 or role.resource.memMB > 0:
            out.append(f"role `{role.name}`: cpu and memory are not enforced by {scheduler}")
        out += without_containers(role, scheduler, "this machine", "this host's ports")
    return [*out, *gpu_type_notes(app, scheduler, is_here=True)]
