"""Derive the request of local_docker from an AppDef. Pure.

A request is built with the symbolic app id (`$<app_id>`, with escapes), so that a plan shows what will run;
`bind.py` gives it a real one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from launcher.schedulers.devices import get_device_mounts
from launcher.schedulers.docker.labels import SCHEDULER
from launcher.schedulers.docker.names import (
    NETWORK,
    OUTPUT,
    SCRATCH,
    error_file,
    output_of_need,
    scratch_volume,
    stem,
)
from launcher.schedulers.docker.options import DEFAULT_GRACE_S
from launcher.schedulers.docker.request.bind import RANK0_ENV, bind_request, symbolic_name
from launcher.schedulers.docker.request.job import DockerContainer, DockerJob
from launcher.schedulers.docker.request.labelling import replica_labels
from launcher.schedulers.docker.request.rules import check, notes, resolves_names, shares_host_name
from launcher.specs.app import AppDef, CfgVal, Resource, Role
from launcher.specs.macros import SYMBOLIC_APP_ID, escape, macros
from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount
from launcher.specs.order import host_variable, rules_of, serving
from launcher.specs.outputs import OUTPUT_VARIABLE, has_output, jobs_read, output_macro
from launcher.turns.deal import GPUS

_GPU_CAPABILITIES = ["compute", "utility"]
_MIB = 2**20


def build_request(
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    app_id: str = SYMBOLIC_APP_ID,
    *,
    session: str,
    outputs: Mapping[str, str] | None = None,
) -> DockerJob:
    """The request for `app`. Asks no engine, reads no clock or environment, edits nothing.

    Args:
        cfg: resolved run options.
        app_id: the symbolic id leaves escapes and `$<app_id>` for `bind_request`.
        outputs: as in `bind_request`.

    Raises InvalidRunConfigException for options out of range, RejectedAppError for what cannot be run.
    """
    check(app, cfg)
    job = DockerJob(
        app_id=SYMBOLIC_APP_ID,
        containers=[],
        handle=f"{SCHEDULER}://{escape(session)}/{SYMBOLIC_APP_ID}",
        scratch=scratch_volume(SYMBOLIC_APP_ID),
        network=str(cfg.get("network") or NETWORK),
        role_retries={role.name: (role.max_retries, str(role.retry_policy)) for role in app.roles},
        role_rules={role.name: rules for role in app.roles if (rules := rules_of(role))},
        timeout_s=_of(cfg, "timeout_s", int),
        grace_s=_of(cfg, "grace_s", float, DEFAULT_GRACE_S),
        copy_env=_of(cfg, "copy_env", list, []),
        image_pull=_of(cfg, "image_pull", str, "missing"),
        notes=notes(app, cfg),
    )
    folders = _output_folders(app)
    fixed = _environment_of_all(job, app, folders)
    for role in app.roles:
        job.containers += [_container(role, k, job, cfg, fixed, folders) for k in range(role.num_replicas)]
    return job if app_id == SYMBOLIC_APP_ID else bind_request(job, app_id, outputs)


def _container(
    role: Role,
    k: int,
    job: DockerJob,
    cfg: Mapping[str, CfgVal],
    fixed: Mapping[str, str],
    folders: Mapping[str, str],
) -> DockerContainer:
    """`folders`: macro → path in the container of each output folder; not for the sources of mounts."""
    values = macros.Values(img_root="", app_id=SYMBOLIC_APP_ID, replica_id=str(k), rank0_env=RANK0_ENV)
    filled = values.apply(role, partial={"app_id"}, hosts=folders)
    if folders:
        filled = replace(filled, mounts=values.apply(role, partial={"app_id"}).mounts)
    name = symbolic_name(role.name, k)
    command = [filled.entrypoint, *filled.args]
    optional: dict[str, Any] = {
        "entrypoint": command[:1] if cfg.get("override_entrypoint") else None,
        "hostname": None if shares_host_name(job.network) else name,
        "devices": _devices(filled),
        "restart_policy": _restart_policy(role),
        **_limits(role.resource),
        "ports": _ports(role, job.network, _of(cfg, "ports", str, "ephemeral")),
        "user": cfg.get("user"),
        "working_dir": cfg.get("workdir"),
    }
    kwargs = {
        "name": name,
        "environment": _environment(filled, k, cfg, fixed),
        "labels": replica_labels(role.name, k),
        "network": job.network,
        "mounts": [*_mounts(filled, SYMBOLIC_APP_ID), *_output_mounts(folders)],
        "privileged": bool(cfg.get("privileged")),
        "init": _of(cfg, "init", bool, True),
        "log_config": _log_config(cfg),
        **{key: value for key, value in optional.items() if value},
    }
    left = command[1:] if cfg.get("override_entrypoint") else command
    return DockerContainer(role.image, left, kwargs, role.name, k)


def _environment_of_all(job: DockerJob, app: AppDef, folders: Mapping[str, str]) -> dict[str, str]:
    def host(role: str) -> str:
        return "localhost" if shares_host_name(job.network) else symbolic_name(role, 0)

    served = serving(app) if resolves_names(job.network) else ()
    return {
        "LAUNCHER_JOB_ID": job.handle,
        RANK0_ENV: host(app.roles[0].name),
        "LAUNCHER_SCRATCH": SCRATCH,
        **({OUTPUT_VARIABLE: OUTPUT} if output_macro() in folders else {}),
        **{host_variable(role): host(role) for role in served},
    }


def _environment(role: Role, k: int, cfg: Mapping[str, CfgVal], fixed: Mapping[str, str]) -> dict[str, str]:
    """The environment of a replica. The variables of `copy_env` come below it when containers are created."""
    return {
        "TORCHELASTIC_ERROR_FILE": error_file(role.name, k),
        "PET_LOG_DIR": f"{SCRATCH}/.torchelastic/{stem(role.name)}-{k}",
        **{name: escape(value) for name, value in _of(cfg, "env", dict, {}).items()},
        **role.env,
        **fixed,
    }


def _ports(role: Role, network: str, policy: str) -> dict[str, tuple[str, int | None]]:
    if policy == "none" or shares_host_name(network):
        return {}
    return {
        f"{port}/tcp": ("127.0.0.1", port if policy == "fixed" else None) for port in role.port_map.values()
    }


def _log_config(cfg: Mapping[str, CfgVal]) -> dict[str, Any]:
    """The log driver json-file: it bounds its files, and every engine can read them back."""
    size, files = _of(cfg, "log_max_size", str, "100m"), _of(cfg, "log_max_files", int, 5)
    return {"type": "json-file", "config": {"max-size": size, "max-file": str(files)}}


def _of(cfg: Mapping[str, CfgVal], name: str, kind: Callable[[Any], Any], otherwise: Any = None) -> Any:
    value = cfg.get(name)
    return otherwise if value is None else kind(value)


def _limits(resource: Resource) -> dict[str, Any]:
    """Memory, CPUs and GPUs of one replica; what is left open (-1) or 0 is not limited."""
    out: dict[str, Any] = {}
    if resource.memMB > 0:
        out["mem_limit"] = out["shm_size"] = _size(resource.memMB)
    if resource.cpu > 0:
        out["nano_cpus"] = round(resource.cpu * 1e9)
    if resource.gpu > 0:
        capabilities = [list(_GPU_CAPABILITIES)]
        out["device_requests"] = [{"count": resource.gpu, "device_ids": [GPUS], "capabilities": capabilities}]
    return out


def _restart_policy(role: Role) -> dict[str, Any] | None:
    """The engine restarts a replica by itself only where it does so at once, and nothing else with it.

    It takes no replica that was not ready in time for failed.
    """
    watched = role.retry_delay or role.ready is not None
    if role.max_retries > 0 and role.retry_policy == "REPLICA" and not watched:
        return {"Name": "on-failure", "MaximumRetryCount": role.max_retries}
    return None


def _size(mebibytes: float) -> str:
    return f"{int(mebibytes)}m" if mebibytes == int(mebibytes) else f"{round(mebibytes * _MIB)}b"


def _mounts(role: Role, app_id: str) -> list[dict[str, Any]]:
    """The volume that the app shares, then the bind and volume mounts of the role."""
    scratch = {"type": "volume", "source": scratch_volume(app_id), "target": SCRATCH, "read_only": False}
    return [scratch, *(_mount(each) for each in role.mounts if not isinstance(each, DeviceMount))]


def _output_folders(app: AppDef) -> dict[str, str]:
    """Macro → path in the container, of the app's own output folder and of those that it reads."""
    own = {output_macro(): OUTPUT} if has_output(app) else {}
    return {**own, **{output_macro(job): output_of_need(job) for job in jobs_read(app)}}


def _output_mounts(folders: Mapping[str, str]) -> list[dict[str, Any]]:
    """A mount for each output folder, its source still a macro; only the app's own is writable."""
    return [
        {"type": "volume", "source": f"$<{name}>", "target": path, "read_only": path != OUTPUT}
        for name, path in folders.items()
    ]


def _devices(role: Role) -> list[str]:
    """`source:destination:permissions` of the role's device mounts and of the devices of its resource."""
    found = [each for each in role.mounts if isinstance(each, DeviceMount)]
    found += get_device_mounts(role.resource.devices)
    return [f"{each.src_path}:{each.dst_path}:{each.permissions}" for each in found]


def _mount(mount: BindMount | VolumeMount) -> dict[str, Any]:
    if isinstance(mount, VolumeMount):
        kind, source = "volume", mount.src
    else:
        kind, source = "bind", os.path.expanduser(mount.src_path)
    return {"type": kind, "source": source, "target": mount.dst_path, "read_only": mount.read_only}
