"""Named resources and the parts of a resource."""

import re

import pytest

from launcher.errors import LauncherError
from launcher.specs import (
    NULL_RESOURCE,
    GiB,
    Resource,
    get_named_resources,
    instance_type_from_resource,
    named_resources,
    named_resources_aws as aws,
    resource,
)
from launcher.specs.resources import _factories
from tests.plugin.package import distribution


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """An installed package that registers named resources."""
    (tmp_path / "shelf.py").write_text(
        "from launcher.specs import Resource\n"
        "def big():\n    return Resource(128, 16, 4096)\n"
        "def mine():\n    return Resource(3, 0, 5)\n"
        "def plain():\n    return {'cpu': 1}\n"
        "def fails():\n    return {}['cpu']\n"
    )
    points = {
        "big": "shelf:big",
        "gpu.small": "shelf:mine",
        "gone": "shelf:gone",
        "nowhere": "no_such_shelf:x",
        "plain": "shelf:plain",
        "fails": "shelf:fails",
    }
    distribution(tmp_path, "shelf", "launcher.named_resources", points)
    monkeypatch.syspath_prepend(str(tmp_path))
    _factories.cache_clear()
    yield
    _factories.cache_clear()


GENERIC = {
    "gpu.small": (8, 1, 32), "gpu.medium": (16, 2, 64), "gpu.large": (32, 4, 128), "gpu.xlarge": (64, 8, 256),
    "cpu.nano": (1, 0, 0.5), "cpu.micro": (1, 0, 1), "cpu.small": (1, 0, 2), "cpu.medium": (2, 0, 4),
    "cpu.large": (2, 0, 8), "cpu.xlarge": (8, 0, 32),
}  # fmt: skip


@pytest.mark.parametrize(("name", "amounts"), GENERIC.items(), ids=GENERIC)
def test_generic_resources_have_their_cores_gpus_and_memory(name, amounts):
    cpu, gpu, gib = amounts
    assert named_resources[name] == Resource(cpu, gpu, gib * GiB) == get_named_resources(name)


INSTANCES = """
    t3.medium 2 0 4; m5.2xlarge 8 0 32; c5.18xlarge 72 0 142; p3.2xlarge 8 1 61; p3.8xlarge 32 4 244
    p3.16xlarge 64 8 488; p3dn.24xlarge 96 8 768 efa=1; p4d.24xlarge 96 8 1152 efa=4
    p4de.24xlarge 96 8 1152 efa=4; p5.48xlarge 192 8 2048 efa=32; p5en.48xlarge 192 8 2048 efa=16
    g4dn.xlarge 4 1 16; g4dn.metal 96 8 384 efa=1; g5.8xlarge 32 1 128 efa=1; g5.48xlarge 192 8 768 efa=1
    g6e.24xlarge 96 4 768 efa=2; g6e.48xlarge 192 8 1536 efa=4; trn1.2xlarge 8 0 32 neuron=1
    trn1.32xlarge 128 0 512 efa=8 neuron=16; inf2.xlarge 4 0 16 neuron=1; inf2.48xlarge 192 0 768 neuron=12
"""
"""Name, cores, GPUs, GiB, devices."""
DEVICES = {"efa": "vpc.amazonaws.com/efa", "neuron": "aws.amazon.com/neurondevice"}


@pytest.mark.parametrize("line", [part.strip() for part in re.split("[;\n]", INSTANCES) if part.strip()])
def test_instance_types_pay_the_memory_tax(line):
    name, cpu, gpu, gib, *devices = line.split()
    made = named_resources[f"aws_{name}"]
    counts = {DEVICES[kind]: int(count) for kind, _, count in (each.partition("=") for each in devices)}
    assert made == Resource(int(cpu), int(gpu), int(gib) * 983, {aws.K8S_ITYPE: name}, counts)
    assert getattr(aws, "aws_" + name.replace(".", "_"))() == made
    assert instance_type_from_resource(made) == name


SIZES = """
    t3 medium; m5 2xlarge; c5 18xlarge; p3 2xlarge 8xlarge 16xlarge; p3dn 24xlarge; p4d 24xlarge
    p4de 24xlarge; p5 48xlarge; p5en 48xlarge; g4dn xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge metal
    g5 xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge
    g6e xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge
    trn1 2xlarge 32xlarge; inf2 xlarge 8xlarge 24xlarge 48xlarge
"""


def test_every_instance_type_of_the_table_is_there():
    rows = [row.split() for row in re.split("[;\n]", SIZES) if row.strip()]
    assert set(aws.NAMED_RESOURCES) == {f"aws_{family}.{size}" for family, *sizes in rows for size in sizes}


def test_the_instance_type_of_a_resource_without_one_is_none_with_a_warning():
    with pytest.warns(UserWarning, match="names no instance type"):
        assert instance_type_from_resource(Resource(1, 0, 1)) is None


@pytest.mark.parametrize("name", ["NULL", "MISSING"])
def test_the_names_null_and_missing_mean_no_resource(name):
    assert named_resources[name] is NULL_RESOURCE


def test_each_access_makes_a_new_resource():
    first = named_resources["gpu.small"]
    first.cpu = 99
    assert named_resources["gpu.small"].cpu == 8


def test_named_resources_can_be_looked_up_and_listed():
    assert "gpu.small" in named_resources
    assert "gpu.tiny" not in named_resources
    assert {"gpu.small", "aws_t3.medium", "NULL"} <= set(named_resources)
    assert len(named_resources) == len(set(named_resources))


def test_an_unknown_name_is_a_key_error_with_the_nearest():
    with pytest.raises(KeyError) as caught:
        named_resources["gpu.smal"]
    assert isinstance(caught.value, LauncherError)
    assert str(caught.value) == "there is no named resource `gpu.smal`. Did you mean `gpu.small`?"
    with pytest.raises(KeyError, match=r"There are: .*gpu\.small"):
        named_resources["zzzzzz"]


@pytest.mark.usefixtures("plugins")
def test_plugins_add_names_and_win_over_built_in_ones():
    assert named_resources["big"] == Resource(128, 16, 4096)
    assert named_resources["gpu.small"] == Resource(3, 0, 5)


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(("name", "why"), [
    ("gone", "AttributeError: module 'shelf' has no attribute 'gone'"),
    ("nowhere", "ModuleNotFoundError: No module named 'no_such_shelf'"),
    ("plain", "TypeError: want a Resource, got {'cpu': 1}"),
    ("fails", "KeyError: 'cpu'"),
])  # fmt: skip
def test_a_broken_plugin_is_reported_when_it_is_used(name: str, why: str) -> None:
    assert name in named_resources
    with pytest.raises(LauncherError) as caught:
        named_resources[name]
    assert str(caught.value).startswith(f"the resource `{name}` cannot be loaded from ")
    assert str(caught.value).endswith(f": {why}")


def test_the_parts_of_a_resource_have_defaults_may_be_zero_and_give_way_to_a_named_resource():
    assert resource() == Resource(2, 0, 1024)
    assert resource(cpu=1, gpu=2, memMB=3) == Resource(1, 2, 3)
    assert resource(cpu=0, gpu=0, memMB=0) == Resource(0, 0, 0)
    assert resource(cpu=1, gpu=1, memMB=1, h="cpu.nano") == named_resources["cpu.nano"]
