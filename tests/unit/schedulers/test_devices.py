"""Special devices become mounts of this host's device files."""

import pytest

from launcher.schedulers.devices import get_device_mounts
from launcher.specs import DeviceMount, named_resources


def test_efa_and_neuron_devices_keep_their_paths_inside():
    assert get_device_mounts({"vpc.amazonaws.com/efa": 2, "aws.amazon.com/neurondevice": 1}) == [
        DeviceMount("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0"),
        DeviceMount("/dev/infiniband/uverbs1", "/dev/infiniband/uverbs1"),
        DeviceMount("/dev/neuron0", "/dev/neuron0"),
    ]


def test_the_devices_of_every_named_resource_are_known():
    for name in named_resources:
        get_device_mounts(named_resources[name].devices)


def test_an_unknown_device_is_left_out_with_a_warning_that_names_the_nearest():
    with pytest.warns(UserWarning, match=r"`vpc.amazonaws.com/eva`.*`vpc.amazonaws.com/efa`"):
        assert get_device_mounts({"vpc.amazonaws.com/eva": 1}) == []
