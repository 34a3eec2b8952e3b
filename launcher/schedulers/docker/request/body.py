"""Convert the arguments of the Docker SDK's `containers.create` to the body of the engine's API. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from launcher.errors import SchedulerError
from launcher.schedulers.docker.request import sdk_values as sdk
from launcher.schedulers.docker.request.job import DockerContainer
from launcher.specs.secret import Secret
from launcher.text import did_you_mean


def _each(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [one(value) for value in values]


def _as_given(value: Any) -> Any:
    return value


_CONFIG: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "domainname": ("Domainname", _as_given),
    "entrypoint": ("Entrypoint", sdk.argv),
    "healthcheck": ("Healthcheck", sdk.healthcheck),
    "hostname": ("Hostname", _as_given),
    "labels": ("Labels", sdk.labels),
    "mac_address": ("MacAddress", _as_given),
    "network_disabled": ("NetworkDisabled", _as_given),
    "networking_config": ("NetworkingConfig", lambda value: {"EndpointsConfig": dict(value)}),
    "ports": ("ExposedPorts", lambda value: {port: {} for port in sdk.ports(value)}),
    "stdin_open": ("OpenStdin", _as_given),
    "stop_signal": ("StopSignal", str),
    "user": ("User", str),
    "working_dir": ("WorkingDir", _as_given),
}
_HOST: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "blkio_weight": ("BlkioWeight", _as_given),
    "blkio_weight_device": ("BlkioWeightDevice", _as_given),
    "cap_add": ("CapAdd", _as_given),
    "cap_drop": ("CapDrop", _as_given),
    "cgroup_parent": ("CgroupParent", _as_given),
    "cgroupns": ("CgroupnsMode", _as_given),
    "cpu_count": ("CpuCount", _as_given),
    "cpu_percent": ("CpuPercent", _as_given),
    "cpu_period": ("CpuPeriod", _as_given),
    "cpu_quota": ("CpuQuota", _as_given),
    "cpu_rt_period": ("CPURealtimePeriod", _as_given),
    "cpu_rt_runtime": ("CPURealtimeRuntime", _as_given),
    "cpu_shares": ("CpuShares", _as_given),
    "cpuset_cpus": ("CpusetCpus", _as_given),
    "cpuset_mems": ("CpusetMems", _as_given),
    "device_cgroup_rules": ("DeviceCgroupRules", _as_given),
    "device_read_bps": ("BlkioDeviceReadBps", _as_given),
    "device_read_iops": ("BlkioDeviceReadIOps", _as_given),
    "device_requests": ("DeviceRequests", _each(sdk.device_request)),
    "device_write_bps": ("BlkioDeviceWriteBps", _as_given),
    "device_write_iops": ("BlkioDeviceWriteIOps", _as_given),
    "devices": ("Devices", _each(sdk.device)),
    "dns": ("Dns", _as_given),
    "dns_opt": ("DnsOptions", _as_given),
    "dns_search": ("DnsSearch", _as_given),
    "extra_hosts": ("ExtraHosts", sdk.hosts),
    "group_add": ("GroupAdd", sdk.texts),
    "init": ("Init", _as_given),
    "ipc_mode": ("IpcMode", _as_given),
    "isolation": ("Isolation", _as_given),
    "kernel_memory": ("KernelMemory", sdk.size),
    "links": ("Links", sdk.links),
    "log_config": ("LogConfig", sdk.log_config),
    "mem_limit": ("Memory", sdk.size),
    "mem_reservation": ("MemoryReservation", sdk.size),
    "mem_swappiness": ("MemorySwappiness", _as_given),
    "memswap_limit": ("MemorySwap", sdk.size),
    "mounts": ("Mounts", _each(sdk.mount)),
    "nano_cpus": ("NanoCpus", _as_given),
    "network": ("NetworkMode", _as_given),
    "network_mode": ("NetworkMode", _as_given),
    "oom_kill_disable": ("OomKillDisable", _as_given),
    "oom_score_adj": ("OomScoreAdj", _as_given),
    "pid_mode": ("PidMode", _as_given),
    "pids_limit": ("PidsLimit", _as_given),
    "ports": ("PortBindings", sdk.ports),
    "privileged": ("Privileged", _as_given),
    "publish_all_ports": ("PublishAllPorts", _as_given),
    "read_only": ("ReadonlyRootfs", _as_given),
    "restart_policy": ("RestartPolicy", _as_given),
    "runtime": ("Runtime", _as_given),
    "security_opt": ("SecurityOpt", _as_given),
    "shm_size": ("ShmSize", sdk.size),
    "storage_opt": ("StorageOpt", _as_given),
    "sysctls": ("Sysctls", sdk.texts_by_name),
    "tmpfs": ("Tmpfs", sdk.tmpfs),
    "ulimits": ("Ulimits", _each(sdk.ulimit)),
    "userns_mode": ("UsernsMode", _as_given),
    "uts_mode": ("UTSMode", _as_given),
    "volume_driver": ("VolumeDriver", _as_given),
    "volumes": ("Binds", sdk.binds),
    "volumes_from": ("VolumesFrom", sdk.names),
}
REFUSED = {
    "auto_remove": "the outcome would be gone with the container; `launcher gc` removes finished ones",
    "command": "edit `command` of the container itself",
    "detach": "containers are always detached",
    "image": "edit `image` of the container itself",
    "init_path": "engines no longer know it; `init=True` uses their own",
    "lxc_conf": "engines no longer know it",
    "platform": "name an image of that platform by its digest",
    "remove": "the outcome would be gone with the container; `launcher gc` removes finished ones",
    "tty": "stdout and stderr could not be told apart in the logs",
    "use_config_proxy": "put the variables of the proxy into `environment`",
    "version": "it is the client that speaks a version of the API",
}
"""Parameter of the SDK that launcher refuses → what to do instead."""
PARAMETERS = frozenset({"environment", "name", *_CONFIG, *_HOST})
"""The parameters that a container can be created with."""


def engine_config(container: DockerContainer) -> dict[str, Any]:
    """The body of POST /containers/create, but for the name. Values of secrets must be in the environment.

    Raises SchedulerError for a parameter that `containers.create` does not have, with the nearest one, for
    one that launcher refuses, and for a value of the wrong form.
    Source: Docker Engine API 1.41, ContainerCreate.
    """
    kwargs = {name: value for name, value in container.kwargs.items() if value is not None}
    check_parameters(kwargs)
    return _given(
        {
            "Image": container.image,
            "Cmd": sdk.argv(container.command),
            "Env": _environment(sdk.environment(kwargs.get("environment") or {})),
            **_fields(kwargs, _CONFIG),
            "HostConfig": _given(_fields(kwargs, _HOST)),
        }
    )


def check_parameters(kwargs: Mapping[str, Any]) -> None:
    """Raises SchedulerError for a parameter in `kwargs` that is unknown or refused."""
    for name in sorted(kwargs.keys() - PARAMETERS):
        if name in REFUSED:
            raise SchedulerError(f"local_docker cannot take `{name}`: {REFUSED[name]}")
        hint = (
            did_you_mean(name, sorted(PARAMETERS))
            or "want a parameter of the Docker SDK's `containers.create`"
        )
        raise SchedulerError(f"`containers.create` has no parameter `{name}`", hint=hint)


def _fields(
    kwargs: Mapping[str, Any], fields: Mapping[str, tuple[str, Callable[[Any], Any]]]
) -> dict[str, Any]:
    return {
        fields[name][0]: _converted(name, kwargs[name], fields[name][1]) for name in kwargs if name in fields
    }


def _converted(name: str, value: Any, convert: Callable[[Any], Any]) -> Any:
    try:
        return convert(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Without the value: it may contain a token, as the options of a log driver do.
        raise SchedulerError(f"cannot create a container with this `{name}`: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    empty: tuple[Any, ...] = (None, {}, [], "")
    return {name: value for name, value in fields.items() if value not in empty}


def _environment(environment: Mapping[str, str | None]) -> list[str]:
    """`NAME=value` of each; a variable without a value (None) is removed from those of the image."""
    for name, value in environment.items():
        if isinstance(value, Secret):  # its text is the reference, which would pass for the value
            raise ValueError(f"the value of {name} was not read")
    return [name if value is None else f"{name}={value}" for name, value in environment.items()]
