"""Limits, mounts, devices and restart policy of a replica, as parameters of the Docker SDK."""

from __future__ import annotations

import os
from typing import Any

from launcher.schedulers.devices import get_device_mounts
from launcher.schedulers.docker.names import SCRATCH, scratch_volume
from launcher.specs.app import Resource, Role
from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount

LEAST_MEMORY_MB = 6  # the engine refuses less
LEAST_CPU = 0.01

_GPU_CAPABILITIES = ["compute", "utility"]
_MIB = 2**20


def limits(resource: Resource) -> dict[str, Any]:
    """Memory, CPUs and GPUs of one replica; what is left open (-1) or 0 is not limited."""
    out: dict[str, Any] = {}
    if resource.memMB > 0:
        out["mem_limit"] = out["shm_size"] = _size(resource.memMB)
    if resource.cpu > 0:
        out["nano_cpus"] = round(resource.cpu * 1e9)
    if resource.gpu > 0:
        out["device_requests"] = [{"count": resource.gpu, "capabilities": [list(_GPU_CAPABILITIES)]}]
    return out


def restart_policy(role: Role) -> dict[str, Any] | None:
    """The engine restarts a replica by itself only where nothing else is to be restarted with it."""
    if role.max_retries > 0 and role.retry_policy == "REPLICA":
        return {"Name": "on-failure", "MaximumRetryCount": role.max_retries}
    return None


def _size(mebibytes: float) -> str:
    return f"{int(mebibytes)}m" if mebibytes == int(mebibytes) else f"{round(mebibytes * _MIB)}b"


def mounts(role: Role, app_id: str) -> list[dict[str, Any]]:
    """The volume that the app shares, then the bind and volume mounts of the role."""
    scratch = {"type": "volume", "source": scratch_volume(app_id), "target": SCRATCH, "read_only": False}
    return [scratch, *(_mount(each) for each in role.mounts if not isinstance(each, DeviceMount))]


def devices(role: Role) -> list[str]:
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
