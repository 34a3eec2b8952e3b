"""Special devices by the names that clouds and Kubernetes give them → the files of this host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

from launcher.specs.mounts import DeviceMount
from launcher.specs.resources_aws import EFA_DEVICE, NEURON_DEVICE
from launcher.text import name_hint


def efa_mounts(count: int) -> list[DeviceMount]:
    """The first `count` EFA network devices of the machine, /dev/infiniband/uverbs0 and on."""
    return _numbered("/dev/infiniband/uverbs", count)


def neuron_mounts(count: int) -> list[DeviceMount]:
    """The first `count` AWS Neuron accelerators of the machine, /dev/neuron0 and on."""
    return _numbered("/dev/neuron", count)


def _numbered(path: str, count: int) -> list[DeviceMount]:
    return [DeviceMount(f"{path}{n}", f"{path}{n}") for n in range(count)]


DEVICES: dict[str, Callable[[int], list[DeviceMount]]] = {
    EFA_DEVICE: efa_mounts,
    NEURON_DEVICE: neuron_mounts,
}
"""Device name → what mounts so many of them."""


def get_device_mounts(devices: Mapping[str, int]) -> list[DeviceMount]:
    """The mounts of `Resource.devices`. An unknown device is left out, with a UserWarning."""
    out: list[DeviceMount] = []
    for name, count in devices.items():
        if name not in DEVICES:
            hint = name_hint(name, DEVICES)
            warnings.warn(f"unknown device `{name}` is left out; {hint}", UserWarning, stacklevel=2)
            continue
        out += DEVICES[name](count)
    return out
