"""Map special devices, named as in clouds and Kubernetes, to device files of a host; kinds of GPUs."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from launcher.specs.app import AppDef
from launcher.specs.mounts import DeviceMount
from launcher.specs.named_resources_aws import EFA_DEVICE, NEURON_DEVICE
from launcher.specs.resources import gpu_type
from launcher.text import name_hint


def to_devicemounts(num_devices: int, device_type: str) -> list[DeviceMount]:
    """The files `device_type` with a number behind it, from 0 on."""
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


def gpu_type_notes(app: AppDef, scheduler: str, *, is_here: bool) -> Iterator[str]:
    """Yield a note for each role whose GPUs may be of another kind than it asks for.

    Args:
        is_here: whether replicas get GPUs of this machine; the GPUs of another machine are unknown.
    """
    kinds = {role.name: kind for role in app.roles if (kind := gpu_type(role.resource))}
    if not kinds:
        return
    from launcher.turns.machine import gpu_names

    names = gpu_names() if is_here else ()
    for role, kind in kinds.items():
        if not names:
            yield (
                f"role `{role}`: {scheduler} does not look at gpu_type `{kind}`: the GPUs of its machine are"
                " unknown"
            )
        elif not all(is_gpu_of_type(name, kind) for name in names):
            listed = ", ".join(f"{count} x {name}" for name, count in Counter(names).items())
            yield (
                f"role `{role}`: it asks for GPUs of the kind `{kind}`, and the machine has {listed};"
                f" {scheduler} takes any of them"
            )


def is_gpu_of_type(name: str, kind: str) -> bool:
    """Whether users call a GPU `kind` whose driver names it `name`, such as "NVIDIA A100-SXM4-80GB".

    True for `a100`, `A100-80GB`, `nvidia_a100-sxm4-80gb`; `rtx4090` is "NVIDIA GeForce RTX 4090".
    """
    words, wanted = (re.findall(r"[a-z0-9]+", text.lower()) for text in (name, kind))
    pairs = map("".join, pairwise(words))
    return set(wanted) <= {*words, *pairs}
