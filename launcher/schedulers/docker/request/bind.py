"""Bind a request to an app id and to GPUs, and check what was edited in it before. Pure.

A request has the symbolic app id until it is scheduled, so that one dry run can be scheduled more than
once. Each edit of it takes effect, or is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from launcher.errors import SchedulerError
from launcher.schedulers.docker.labels import PREFIX
from launcher.schedulers.docker.names import OUTPUT, container_name, is_of_need, stem
from launcher.schedulers.docker.request.body import argv, check_parameters, environment, labels
from launcher.schedulers.docker.request.job import DockerContainer, DockerJob
from launcher.schedulers.docker.request.labelling import replica_labels
from launcher.schedulers.docker.request.rules import shares_host_name
from launcher.schedulers.replica_request import RANK0_ENV, binder, without_output
from launcher.specs.macros import SYMBOLIC_APP_ID, hosts_of
from launcher.specs.order import HOST_VARIABLES


def bind_request(job: DockerJob, app_id: str, outputs: Mapping[str, str] | None = None) -> DockerJob:
    """The request under a real app id: a new value, macros and escapes resolved.

    Args:
        outputs: macro → volume or absolute path of each output folder, for the sources of mounts. Without
            any, for an app without a job, the app's own is left out.

    Raises SchedulerError for a container that was edited into what cannot be created.
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
    """`roles`: of the app, in their order."""
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
        name: named[value] if _names_host(name) and value in named else bind(value)
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


def _names_host(variable: str) -> bool:
    """Whether the value of a variable is a host: unlike other text, its name may have to be cut."""
    return variable == RANK0_ENV or variable.startswith(HOST_VARIABLES)


def _check_edits(container: DockerContainer, name: str) -> None:
    """Raises SchedulerError for an edited container that could not be created as it stands.

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
    """Raises SchedulerError where an edit of the job itself would be lost.

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


# GPUs


def with_gpus(job: DockerJob, dealt: Sequence[str]) -> DockerJob:
    """The request with the ids of each replica's GPUs in place of `$<gpus>`.

    A replica for which too few were dealt, as without a turn, leaves the choice to the engine.
    """
    from launcher.turns.deal import shares

    wanted = [sum(_number(each) for each in _asked(container)) for container in job.containers]
    found = [[device for device in text.split(",") if device] for text in shares(dealt, wanted)]
    return replace(job, containers=[_filled(*pair) for pair in zip(job.containers, found, strict=True)])


def _filled(container: DockerContainer, devices: Sequence[str]) -> DockerContainer:
    requests, begin = [], 0
    for each in container.kwargs.get("device_requests") or ():
        if _is_symbolic(each):
            end = begin + _number(each)
            requests.append(_request(each, devices[begin:end]))
            begin = end
        else:
            requests.append(each)
    return replace(container, kwargs={**container.kwargs, "device_requests": requests})


def _request(symbolic: Mapping[str, Any], devices: Sequence[str]) -> dict[str, Any]:
    """The engine takes a count or ids, not both."""
    left_out = "count" if len(devices) == _number(symbolic) else "device_ids"
    filled = {**symbolic, "device_ids": list(devices)}
    return {name: value for name, value in filled.items() if name != left_out}


def _asked(container: DockerContainer) -> list[Mapping[str, Any]]:
    return [each for each in container.kwargs.get("device_requests") or () if _is_symbolic(each)]


def _is_symbolic(request: Mapping[str, Any]) -> bool:
    from launcher.turns.deal import GPUS

    return request.get("device_ids") == [GPUS] and isinstance(request.get("count"), int)


def _number(request: Mapping[str, Any]) -> int:
    return max(int(request["count"]), 0)
