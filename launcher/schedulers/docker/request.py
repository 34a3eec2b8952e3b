"""Derive the request of local_docker from an AppDef, and bind it to an app id and to GPUs. Pure.

A request has the symbolic app id until it is scheduled, so that one dry run can be scheduled more than
once. Each edit of a request takes effect, or is refused when the request is bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from launcher.dataclass import replace
from launcher.errors import SchedulerError
from launcher.schedulers.devices import get_device_mounts
from launcher.schedulers.docker.job import (
    DockerContainer,
    DockerJob,
    argv,
    check_parameters,
    environment,
    labels,
)
from launcher.schedulers.docker.labels import DEFAULT_GRACE_S, PREFIX, SCHEDULER, is_by_engine, replica_labels
from launcher.schedulers.docker.names import (
    NETWORK,
    OUTPUT,
    SCRATCH,
    container_name,
    error_file,
    is_of_need,
    output_of_need,
    scratch_volume,
    stem,
)
from launcher.schedulers.docker.rules import check, notes, resolves_names, shares_host_name
from launcher.schedulers.replica_request import (
    RANK0_ENV,
    Surroundings,
    binder,
    handle_of,
    host_variables,
    option,
    retries_of,
    rules_of_roles,
    without_output,
)
from launcher.specs.app import AppDef, CfgVal, Resource, Role
from launcher.specs.macros import HOST_VARIABLES, SYMBOLIC_APP_ID, escape, hosts_of
from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount
from launcher.specs.outputs import has_output, jobs_read, output_macro

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
        outputs: see `bind_request`.

    Raises InvalidRunConfigException for options out of range, RejectedAppError for an app that cannot run.
    """
    check(app, cfg)
    job = DockerJob(
        app_id=SYMBOLIC_APP_ID,
        containers=[],
        handle=handle_of(SCHEDULER, session),
        scratch=scratch_volume(SYMBOLIC_APP_ID),
        network=str(cfg.get("network") or NETWORK),
        role_retries=retries_of(app),
        role_rules=rules_of_roles(app),
        timeout_s=option(cfg, "timeout_s", int),
        grace_s=option(cfg, "grace_s", float, DEFAULT_GRACE_S),
        copy_env=option(cfg, "copy_env", list, []),
        image_pull=option(cfg, "image_pull", str, "missing"),
        notes=notes(app, cfg),
    )
    around = _surroundings(job, app)
    for role in app.roles:
        job.containers += [_container(role, *each, job, cfg, around) for each in _replicas(role, around)]
    return job if app_id == SYMBOLIC_APP_ID else bind_request(job, app_id, outputs)


def _surroundings(job: DockerJob, app: AppDef) -> Surroundings:
    """The `Surroundings` of replicas, with the paths of output folders in the container."""
    alone, resolved = shares_host_name(job.network), resolves_names(job.network)
    return Surroundings(
        handle=job.handle,
        scratch=SCRATCH,
        output=OUTPUT if has_output(app) else "",
        hosts={
            variable: "localhost" if alone else symbolic_name(role, 0)
            for variable, role in host_variables(app).items()
            if resolved or variable == RANK0_ENV
        },
        values={
            **({output_macro(): OUTPUT} if has_output(app) else {}),
            **{output_macro(job): output_of_need(job) for job in jobs_read(app)},
        },
    )


def _replicas(role: Role, around: Surroundings) -> Iterator[tuple[int, Role]]:
    """As `around.replicas`, but the sources of mounts keep the macros of output folders."""
    if not around.values:
        yield from around.replicas(role)
        return
    sources = replace(around, values={}).replicas(role)
    for (k, filled), (_, plain) in zip(around.replicas(role), sources, strict=True):
        yield k, replace(filled, mounts=plain.mounts)


def _container(
    role: Role, k: int, filled: Role, job: DockerJob, cfg: Mapping[str, CfgVal], around: Surroundings
) -> DockerContainer:
    """The container of a replica. `filled`: the role with the macros of this replica."""
    cfg = {**cfg, **{key: value for key, value in role.cfg.items() if value is not None}}
    name = symbolic_name(role.name, k)
    command = [filled.entrypoint, *filled.args]
    devices = [each for each in filled.mounts if isinstance(each, DeviceMount)]
    devices += get_device_mounts(filled.resource.devices)
    own_entrypoint = bool(cfg.get("override_entrypoint"))
    optional: dict[str, Any] = {
        "entrypoint": command[:1] if own_entrypoint else None,
        "hostname": None if shares_host_name(job.network) else name,
        "devices": [f"{each.src_path}:{each.dst_path}:{each.permissions}" for each in devices],
        "restart_policy": _restart_policy(role),
        **_limits(role.resource),
        "ports": _ports(role, job.network, option(cfg, "ports", str, "ephemeral")),
        "working_dir": cfg.get("workdir"),
        **_of_options(cfg),
    }
    size, files = option(cfg, "log_max_size", str, "100m"), option(cfg, "log_max_files", int, 5)
    given = {variable: escape(value) for variable, value in option(cfg, "env", dict, {}).items()}
    kwargs = {
        "name": name,
        # These override the variables of `copy_env`, which are added at the creation.
        "environment": around.environment(
            {**given, **filled.env},
            error_file=error_file(role.name, k),
            logs=f"{SCRATCH}/.torchelastic/{stem(role.name)}-{k}",
        ),
        "labels": replica_labels(role.name, k),
        "network": job.network,
        "mounts": _mounts(job, filled, around.values),
        "privileged": bool(cfg.get("privileged")),
        "init": option(cfg, "init", bool, True),
        # The log driver json-file bounds its files, and every engine can read them back.
        "log_config": {"type": "json-file", "config": {"max-size": size, "max-file": str(files)}},
        **{key: value for key, value in optional.items() if value},
    }
    return DockerContainer(role.image, command[1:] if own_entrypoint else command, kwargs, role.name, k)


def _restart_policy(role: Role) -> dict[str, Any] | None:
    """The policy by which the engine restarts a replica; None where the watcher or nothing restarts it."""
    rule = (role.max_retries, role.retry_policy, role.retry_delay)
    if role.max_retries <= 0 or not is_by_engine(rule, is_probed=role.ready is not None):
        return None
    return {"Name": "on-failure", "MaximumRetryCount": role.max_retries}


def _of_options(cfg: Mapping[str, CfgVal]) -> dict[str, Any]:
    """The arguments for the user, the limits and the file systems of a container that options give."""
    given = {
        "user": str(cfg.get("user") or ""),
        "shm_size": str(cfg.get("shm_size") or "").removesuffix("iB"),
        "ulimits": [_limit(name, str(text)) for name, text in option(cfg, "ulimits", dict, {}).items()],
        "tmpfs": option(cfg, "tmpfs", list),
        "cap_add": option(cfg, "cap_add", list),
        "extra_hosts": option(cfg, "extra_hosts", dict),
        "read_only": cfg.get("read_only"),
    }
    return {name: value for name, value in given.items() if value}


def _limit(name: str, text: str) -> dict[str, Any]:
    """A limit of `SOFT:HARD`, or of one number for both."""
    soft, _, hard = text.partition(":")
    return {"name": name, "soft": int(soft), "hard": int(hard or soft)}


def _ports(role: Role, network: str, policy: str) -> dict[str, tuple[str, int | None]]:
    if policy == "none" or shares_host_name(network):
        return {}
    return {
        f"{port}/tcp": ("127.0.0.1", port if policy == "fixed" else None) for port in role.port_map.values()
    }


def _limits(resource: Resource) -> dict[str, Any]:
    """Memory, CPUs and GPUs of one replica; an amount that is left open (-1) or 0 is not limited."""
    out: dict[str, Any] = {}
    if resource.memMB > 0:
        is_whole = resource.memMB == int(resource.memMB)
        size = f"{int(resource.memMB)}m" if is_whole else f"{round(resource.memMB * _MIB)}b"
        out["mem_limit"] = out["shm_size"] = size
    if resource.cpu > 0:
        out["nano_cpus"] = round(resource.cpu * 1e9)
    if resource.gpu > 0:
        from launcher.turns.line import GPU_IDS

        request = {"count": resource.gpu, "device_ids": [GPU_IDS], "capabilities": [["compute", "utility"]]}
        out["device_requests"] = [request]
    return out


def _mounts(job: DockerJob, role: Role, folders: Mapping[str, str]) -> list[dict[str, Any]]:
    """The app's shared volume, the bind and volume mounts of the role, and the output folders.

    The sources of output folders are still macros; only the app's own is writable.
    """
    return [
        _mount("volume", job.scratch, SCRATCH),
        *(_of_role(each) for each in role.mounts if not isinstance(each, DeviceMount)),
        *(_mount("volume", f"$<{name}>", path, path != OUTPUT) for name, path in folders.items()),
    ]


def _of_role(mount: BindMount | VolumeMount) -> dict[str, Any]:
    if isinstance(mount, VolumeMount):
        return _mount("volume", mount.src, mount.dst_path, mount.read_only)
    return _mount("bind", os.path.expanduser(mount.src_path), mount.dst_path, mount.read_only)


def _mount(kind: str, source: str, target: str, read_only: bool = False) -> dict[str, Any]:
    return {"type": kind, "source": source, "target": target, "read_only": read_only}


# -- an app id ---------------------------------------------------------------------------------------------


def bind_request(job: DockerJob, app_id: str, outputs: Mapping[str, str] | None = None) -> DockerJob:
    """The request under a real app id: a new value, macros and escapes resolved.

    Args:
        outputs: macro → volume or absolute path of each output folder, for the sources of mounts. For an
            app without a job there are none, and the app's own output folder is left out.

    Raises SchedulerError for an edited container that cannot be created.
    """
    bind = binder(app_id)
    roles = list(dict.fromkeys(each.role for each in job.containers))
    return replace(
        job,
        app_id=app_id,
        containers=[_bind_container(each, app_id, roles, outputs or {}) for each in job.containers],
        handle=bind(job.handle),
        scratch=bind(job.scratch),
        role_retries=dict(job.role_retries),
        role_rules=deepcopy(job.role_rules),
        copy_env=list(job.copy_env),
        notes=list(job.notes),
    )


def _bind_container(
    container: DockerContainer, app_id: str, roles: Sequence[str], outputs: Mapping[str, str]
) -> DockerContainer:
    """The container under a real app id. `roles`: the roles of the app, in order."""
    symbolic = symbolic_name(container.role, container.replica)
    _check_edits(container, symbolic)
    kwargs = deepcopy(container.kwargs)
    kwargs["name"] = container_name(app_id, container.role, container.replica)
    kwargs["network"] = kwargs.pop("network_mode", None) or kwargs.get("network")
    alone = shares_host_name(kwargs["network"] or "")
    if kwargs.get("hostname") == symbolic:  # an edited hostname stays
        kwargs["hostname"] = None if alone else kwargs["name"]
    hosts = {role: "localhost" if alone else container_name(app_id, role, 0) for role in roles}
    known = hosts_of(hosts)
    bind, bind_source = binder(app_id, known), binder(app_id, {**known, **outputs})
    named = {symbolic_name(role, 0): host for role, host in hosts.items()}
    kwargs["environment"] = {
        # Only host names may have to be cut.
        name: named.get(value) or bind(value) if name.startswith((RANK0_ENV, HOST_VARIABLES)) else bind(value)
        for name, value in environment(kwargs.get("environment") or {}).items()
    }
    if not outputs:
        kwargs["mounts"] = [each for each in kwargs.get("mounts") or () if each.get("target") != OUTPUT]
        kwargs["environment"] = without_output(kwargs["environment"], OUTPUT)
    kwargs["labels"] = labels(kwargs.get("labels") or {})
    for mount in kwargs.get("mounts") or ():
        for name in mount.keys() & {"source", "Source"}:
            mount[name] = bind_source(mount[name] or "")
        if is_of_need(mount) and mount["source"].startswith("/"):
            mount["type"] = "bind"  # a folder of this machine
    if kwargs.get("devices"):
        kwargs["devices"] = [bind(each) if isinstance(each, str) else each for each in kwargs["devices"]]
    if kwargs.get("entrypoint"):
        kwargs["entrypoint"] = bind(argv(kwargs["entrypoint"]))
    return replace(container, command=bind(argv(container.command)), kwargs=kwargs)


def symbolic_name(role: str, k: int) -> str:
    """The name of a container under the symbolic app id."""
    return f"{SYMBOLIC_APP_ID}-{stem(role)}-{k}"


def _check_edits(container: DockerContainer, name: str) -> None:
    """Raise SchedulerError for an edited container that cannot be created as it is.

    Args:
        name: the name of the container under the symbolic app id.
    """
    check_parameters(container.kwargs)
    if container.kwargs.get("name") != name:
        raise SchedulerError(
            f"the name of a container cannot be edited: `{container.kwargs.get('name')}`",
            hint="it is made of the app id; set `hostname`, or an alias in `networking_config`",
        )
    own = replica_labels(container.role, container.replica)
    for label, value in labels(container.kwargs.get("labels") or {}).items():
        if label.startswith(PREFIX) and own.get(label) != value:
            raise SchedulerError(
                f"the label `{label}` cannot be edited: labels that begin with `{PREFIX}` are launcher's",
                hint="give it another name",
            )


def check_head(job: DockerJob, derived: DockerJob) -> None:
    """Raise SchedulerError where a user's edit of the job, outside of its containers, would be lost.

    Args:
        derived: the job as it was before any edit.
    """
    for name in ("app_id", "handle", "scratch"):
        if getattr(job, name) != getattr(derived, name):
            raise SchedulerError(f"`{name}` of a request cannot be edited: it is made when it is scheduled")
    for name, hint in (
        ("role_retries", "set `max_retries` and `retry_policy` of the role before the dry run"),
        ("role_rules", "set them in the role before the dry run"),
        ("network", "edit `kwargs['network']` of its containers"),
    ):
        if getattr(job, name) != getattr(derived, name):
            raise SchedulerError(f"`{name}` of a request cannot be edited", hint=hint)


# -- GPUs --------------------------------------------------------------------------------------------------


def with_gpus(job: DockerJob, dealt: Sequence[str]) -> DockerJob:
    """The request with the ids of each replica's GPUs in place of `$<gpus>`.

    A replica that was dealt too few GPUs, as without a turn, leaves the choice to the engine.
    """
    from launcher.turns.line import GPU_IDS, shares

    def is_symbolic(request: Mapping[str, Any]) -> bool:
        return request.get("device_ids") == [GPU_IDS] and isinstance(request.get("count"), int)

    def number(request: Mapping[str, Any]) -> int:
        return max(request["count"], 0) if is_symbolic(request) else 0

    def filled(container: DockerContainer, devices: Sequence[str]) -> DockerContainer:
        requests = []
        for each in container.kwargs.get("device_requests") or ():
            count = number(each)
            own, devices = devices[:count], devices[count:]
            if is_symbolic(each):  # the engine takes a count or ids, not both
                left_out = "count" if len(own) == count else "device_ids"
                given = {**each, "device_ids": list(own)}
                each = {name: value for name, value in given.items() if name != left_out}
            requests.append(each)
        return replace(container, kwargs={**container.kwargs, "device_requests": requests})

    wanted = [sum(map(number, each.kwargs.get("device_requests") or ())) for each in job.containers]
    found = [[device for device in text.split(",") if device] for text in shares(dealt, wanted)]
    return replace(job, containers=[filled(*pair) for pair in zip(job.containers, found, strict=True)])
