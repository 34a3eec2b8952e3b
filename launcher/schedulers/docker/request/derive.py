"""Derive the request of local_docker from an AppDef. Pure.

A request is first built with the symbolic app id (`$<app_id>`, with escapes) and bound to a real one when it
is scheduled, so that a plan shows what will run and one dry run can be scheduled more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from launcher.schedulers.docker.labels import SCHEDULER
from launcher.schedulers.docker.names import (
    NETWORK,
    SCRATCH,
    container_name,
    error_file,
    scratch_volume,
    stem,
)
from launcher.schedulers.docker.options import DEFAULT_GRACE_S
from launcher.schedulers.docker.request import resources, sdk_values
from launcher.schedulers.docker.request.edits import check_edits
from launcher.schedulers.docker.request.job import DockerContainer, DockerJob
from launcher.schedulers.docker.request.labelling import replica_labels
from launcher.schedulers.docker.request.rules import check, notes, shares_host_name
from launcher.specs.app import AppDef, CfgVal, Role
from launcher.specs.macros import SYMBOLIC_APP_ID, escape, macros, substitute
from launcher.specs.secret import Secret

RANK0_ENV = "LAUNCHER_RANK0_HOST"


def build_request(
    app: AppDef, cfg: Mapping[str, CfgVal], app_id: str = SYMBOLIC_APP_ID, *, session: str
) -> DockerJob:
    """The request for `app`. Asks no engine, reads no clock or environment, edits nothing.

    Args:
        cfg: resolved run options.
        app_id: the symbolic id leaves escapes and `$<app_id>` for `bind_request`.

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
        timeout_s=_of(cfg, "timeout_s", int),
        grace_s=_of(cfg, "grace_s", float, DEFAULT_GRACE_S),
        copy_env=_of(cfg, "copy_env", list, []),
        image_pull=_of(cfg, "image_pull", str, "missing"),
        notes=notes(app, cfg),
    )
    rank0 = _name(app.roles[0], 0)
    fixed = _environment_of_all(job, rank0)
    for role in app.roles:
        job.containers += [_container(role, k, job, cfg, fixed) for k in range(role.num_replicas)]
    return job if app_id == SYMBOLIC_APP_ID else bind_request(job, app_id)


def bind_request(job: DockerJob, app_id: str) -> DockerJob:
    """The request under a real app id: a new value, macros and escapes resolved.

    Raises SchedulerError for a container that was edited into what cannot be created.
    """
    values = {"app_id": app_id}

    def bind(text: str) -> str:
        return substitute(text, values)

    rank0 = job.containers[0].role
    return replace(
        job,
        app_id=app_id,
        containers=[_bind_container(each, app_id, bind, rank0) for each in job.containers],
        handle=bind(job.handle),
        scratch=bind(job.scratch),
        role_retries=dict(job.role_retries),
        copy_env=list(job.copy_env),
        notes=list(job.notes),
    )


def _bind_container(
    container: DockerContainer, app_id: str, bind: Callable[[str], str], rank0: str
) -> DockerContainer:
    """`rank0`: the role of the first container."""
    symbolic = f"{SYMBOLIC_APP_ID}-{stem(container.role)}-{container.replica}"
    check_edits(container, symbolic)
    kwargs = deepcopy(container.kwargs)
    kwargs["name"] = container_name(app_id, container.role, container.replica)
    kwargs["network"] = kwargs.pop("network_mode", None) or kwargs.get("network")
    alone = shares_host_name(kwargs["network"] or "")
    if kwargs.get("hostname") == symbolic:  # an edited hostname stays
        kwargs["hostname"] = None if alone else kwargs["name"]
    environment = sdk_values.environment(kwargs.get("environment") or {})
    names_rank0 = environment.get(RANK0_ENV) == f"{SYMBOLIC_APP_ID}-{stem(rank0)}-0"
    kwargs["environment"] = {
        name: bind(value) if isinstance(value, str) and not isinstance(value, Secret) else value
        for name, value in environment.items()
    }
    if names_rank0:
        kwargs["environment"][RANK0_ENV] = "localhost" if alone else container_name(app_id, rank0, 0)
    kwargs["labels"] = sdk_values.labels(kwargs.get("labels") or {})
    for mount in kwargs.get("mounts") or ():
        for name in mount.keys() & {"source", "Source"}:
            mount[name] = bind(mount[name] or "")
    if kwargs.get("devices"):
        kwargs["devices"] = [bind(each) if isinstance(each, str) else each for each in kwargs["devices"]]
    if kwargs.get("entrypoint"):
        kwargs["entrypoint"] = [bind(part) for part in sdk_values.argv(kwargs["entrypoint"])]
    command = [bind(part) for part in sdk_values.argv(container.command)]
    return replace(container, command=command, kwargs=kwargs)


def _container(
    role: Role, k: int, job: DockerJob, cfg: Mapping[str, CfgVal], fixed: Mapping[str, str]
) -> DockerContainer:
    values = macros.Values(img_root="", app_id=SYMBOLIC_APP_ID, replica_id=str(k), rank0_env=RANK0_ENV)
    filled = values.apply(role, partial={"app_id"})
    name = _name(role, k)
    command = [filled.entrypoint, *filled.args]
    optional: dict[str, Any] = {
        "entrypoint": command[:1] if cfg.get("override_entrypoint") else None,
        "hostname": None if shares_host_name(job.network) else name,
        "devices": resources.devices(filled),
        "restart_policy": resources.restart_policy(role),
        **resources.limits(role.resource),
        "ports": _ports(role, job.network, _of(cfg, "ports", str, "ephemeral")),
        "user": cfg.get("user"),
        "working_dir": cfg.get("workdir"),
    }
    kwargs = {
        "name": name,
        "environment": _environment(filled, k, cfg, fixed),
        "labels": replica_labels(role.name, k),
        "network": job.network,
        "mounts": resources.mounts(filled, SYMBOLIC_APP_ID),
        "privileged": bool(cfg.get("privileged")),
        "init": _of(cfg, "init", bool, True),
        "log_config": _log_config(cfg),
        **{key: value for key, value in optional.items() if value},
    }
    left = command[1:] if cfg.get("override_entrypoint") else command
    return DockerContainer(role.image, left, kwargs, role.name, k)


def _name(role: Role, k: int) -> str:
    return f"{SYMBOLIC_APP_ID}-{stem(role.name)}-{k}"


def _environment_of_all(job: DockerJob, rank0: str) -> dict[str, str]:
    return {
        "LAUNCHER_JOB_ID": job.handle,
        RANK0_ENV: "localhost" if shares_host_name(job.network) else rank0,
        "LAUNCHER_SCRATCH": SCRATCH,
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
