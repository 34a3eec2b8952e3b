"""The request that a client sends to a supervisor, and its text form."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from launcher.dataclass import dataclass, field
from launcher.schedulers.replica_request import alike, shown_value
from launcher.specs.secret import Secret, hide
from launcher.text import plural

DEFAULT_GRACE_S = 10.0
LOGS = "logs"

_OURS = frozenset(
    {
        "LAUNCHER_ATTEMPT",
        "LAUNCHER_EDITION",
        "LAUNCHER_JOB_ID",
        "LAUNCHER_NEEDS",
        "LAUNCHER_OUTPUT_DIR",
        "LAUNCHER_RANK0_HOST",
        "LAUNCHER_SCRATCH",
        "PET_LOG_DIR",
        "TORCHELASTIC_ERROR_FILE",
    }
)


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
        params = {role: [*map(_stored_param, each)] for role, each in self.role_params.items()}
        return {**vars(self), "role_params": params}


def _stored_param(param: ReplicaParam) -> dict[str, Any]:
    return {**vars(param), "env": {name: _stored(value) for name, value in param.env.items()}}


def _stored(value: str) -> str | dict[str, str]:
    return {"secret": str(value)} if isinstance(value, Secret) else value


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
