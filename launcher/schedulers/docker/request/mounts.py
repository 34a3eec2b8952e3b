"""Mounts and devices of a role, in the words of the Docker SDK."""

from __future__ import annotations

import os
from typing import Any

from launcher.schedulers.devices import get_device_mounts
from launcher.schedulers.docker.names import SCRATCH, scratch_volume
from launcher.specs.app import Role
from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount


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
