"""Map special devices, named as in clouds and Kubernetes, to device files of a host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

from launcher.specs.mounts import DeviceMount
from launcher.specs.named_resources_aws import EFA_DEVICE, NEURON_DEVICE
from launcher.text import name_hint


def to_devicemounts(num_devices: int, device_type: str) -> list[DeviceMount]:
    """The mounts of the device files named `device_type` and a number, counted from 0."""
    return [DeviceMount(f"{device_type}{n}", f"{device_type}{n}") for n in range(num_devices)]


def efa_to_devicemounts(num_devices: int) -> list[DeviceMount]:
    """The first EFA network devices of the machine, /dev/infiniband/uverbs0 and on."""
    return to_devicemounts(num_devices, "/dev/infiniband/uverbs")


def neuron_to_devicemounts(num_devices: int) -> list[DeviceMount]:
    """The first AWS Neuron accelerators of the machine, /dev/neuron0 and on."""
    return to_devicemounts(num_devices, "/dev/neuron")


DEVICES: dict[str, Callable[[int], list[DeviceMount]]] = {
    EFA_DEVICE: efa_to_devicemounts,
    NEURON_DEVICE: neuron_to_devicemounts,
}
"""Device name → function that returns the mounts for a number of devices."""


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
