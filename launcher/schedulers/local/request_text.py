"""A local request as text to read: what runs, where, with which variables."""

from __future__ import annotations

import os
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from launcher.schedulers.local.request import PopenRequest, ReplicaParam

_OURS = frozenset(
    {"LAUNCHER_JOB_ID", "LAUNCHER_RANK0_HOST", "LAUNCHER_SCRATCH", "PET_LOG_DIR", "TORCHELASTIC_ERROR_FILE"}
)
_SENSITIVE = (
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "API_KEY",
    "APIKEY",
    "_KEY",
    "AUTH",
)
_HIDDEN = "(value not shown)"


def render(request: PopenRequest) -> str:
    """Aligned lines, stable for equal requests. Values under sensitive-looking names are not shown."""
    lines = [*_head(request)]
    for role, params in request.role_params.items():
        retries, policy = request.role_retries.get(role, (0, "APPLICATION"))
        lines += ["", f"role {role}: {len(params)} replica{'s' if len(params) != 1 else ''}"]
        if retries:
            lines.append(_line("retries", f"{retries} ({policy.lower()})"))
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


def _replica_blocks(params: list[ReplicaParam], dirs: list[str]) -> Iterator[str]:
    """Replicas that look alike are shown once, as a range."""
    start = 0
    for k in range(1, len(params) + 1):
        if k < len(params) and _shown(params[k]) == _shown(params[start]):
            continue
        if len(params) > 1:
            yield f"  replica {start}" if k - start == 1 else f"  replicas {start} to {k - 1}"
        yield from _shown(params[start])
        if k - start == 1:
            yield _line("logs", dirs[start])
        else:
            yield _line("logs", os.path.join(os.path.dirname(dirs[start]), f"{{{start}..{k - 1}}}"))
        start = k


def _shown(param: ReplicaParam) -> list[str]:
    lines = [_line("command", shlex.join(param.args)), _line("runs in", param.cwd or "")]
    env = [f"{name}={_value(name, value)}" for name, value in sorted(param.env.items()) if name not in _OURS]
    return lines + [_line("env" if n == 0 else "", text) for n, text in enumerate(env)]


def looks_sensitive(name: str) -> bool:
    """Whether a variable's name suggests that its value is nobody's business."""
    upper = name.upper()
    return any(word in upper for word in _SENSITIVE) or upper == "KEY"


def _value(name: str, value: str) -> str:
    return _HIDDEN if looks_sensitive(name) else value


def _line(label: str, text: str) -> str:
    return f"  {label:<8}  {text}".rstrip()
