"""A container as the engine's API wants it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from launcher.schedulers.docker.request.job import DockerContainer
from launcher.specs.secret import Secret

_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_SIZE = re.compile(r"(\d+)([bkmg]?)", re.IGNORECASE)


def engine_config(container: DockerContainer) -> dict[str, Any]:
    """The body of POST /containers/create, but for the name. Values of secrets must be in the environment.

    Source: Docker Engine API 1.41, ContainerCreate.
    """
    kwargs = container.kwargs
    body: dict[str, Any] = {
        "Image": container.image,
        "Cmd": list(container.command),
        "Entrypoint": kwargs.get("entrypoint"),
        "Env": _environment(kwargs.get("environment") or {}),
        "Labels": dict(kwargs.get("labels") or {}),
        "Hostname": kwargs.get("hostname"),
        "User": kwargs.get("user"),
        "WorkingDir": kwargs.get("working_dir"),
        "ExposedPorts": {port: {} for port in kwargs.get("ports") or {}},
        "HostConfig": _given(_host_config(kwargs)),
    }
    return _given(body)


def _host_config(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "NetworkMode": kwargs.get("network"),
        "Mounts": [_mount(mount) for mount in kwargs.get("mounts") or ()],
        "Devices": [_device(text) for text in kwargs.get("devices") or ()],
        "DeviceRequests": [_device_request(each) for each in kwargs.get("device_requests") or ()],
        "RestartPolicy": kwargs.get("restart_policy"),
        "Memory": _bytes(kwargs.get("mem_limit")),
        "ShmSize": _bytes(kwargs.get("shm_size")),
        "NanoCpus": kwargs.get("nano_cpus"),
        "Privileged": kwargs.get("privileged"),
        "Init": kwargs.get("init"),
        "PortBindings": {port: [_binding(*at)] for port, at in (kwargs.get("ports") or {}).items()},
        "LogConfig": _log_config(kwargs.get("log_config")),
    }


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    empty: tuple[Any, ...] = (None, {}, [], "")
    return {name: value for name, value in fields.items() if value not in empty}


def _environment(environment: Mapping[str, str]) -> list[str]:
    for name, value in environment.items():
        if isinstance(value, Secret):  # its text is the reference, which would pass for the value
            raise ValueError(f"the value of {name} was not read")
    return [f"{name}={value}" for name, value in environment.items()]


def _mount(mount: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Type": mount["type"],
        "Source": mount["source"],
        "Target": mount["target"],
        "ReadOnly": bool(mount.get("read_only")),
    }


def _device(text: str) -> dict[str, str]:
    source, destination, permissions = text.split(":")
    return {"PathOnHost": source, "PathInContainer": destination, "CgroupPermissions": permissions}


def _device_request(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"Count": request["count"], "Capabilities": request["capabilities"]}


def _binding(address: str, port: int | None) -> dict[str, str]:
    """An empty port lets the engine pick one."""
    return {"HostIp": address, "HostPort": "" if port is None else str(port)}


def _log_config(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {"Type": config["type"], "Config": dict(config["config"])} if config else None


def _bytes(size: str | int | None) -> int | None:
    if size is None or isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f"`{size}` is no size")
    return int(match[1]) * _UNITS[match[2].lower() or "b"]
