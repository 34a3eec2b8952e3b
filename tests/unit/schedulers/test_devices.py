"""Values that a machine or a scheduler lacks: special devices, kinds of GPUs, unsupported fields."""

from typing import Any

import pytest

from launcher.schedulers import get_scheduler
from launcher.schedulers.checks import gpu_type_notes, is_gpu_of_type, unsupported
from launcher.schedulers.devices import get_device_mounts
from launcher.specs import AppDef, DeviceMount, Resource, Role, named_resources


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


@pytest.mark.parametrize(("name", "kinds", "others"), [
    ("NVIDIA A100-SXM4-80GB", ("a100", "A100", "A100-80GB", "nvidia_a100-sxm4-80gb", "a100.80gb"),
        ("a10", "h100", "a100-40gb", "1g.5gb", "100")),
    ("NVIDIA GeForce RTX 4090", ("rtx4090", "4090"), ()),
])  # fmt: skip
def test_a_gpu_is_of_the_kinds_that_its_name_holds_and_of_no_other(name, kinds, others):
    found = {kind: is_gpu_of_type(name, kind) for kind in (*kinds, *others)}
    assert found == {**dict.fromkeys(kinds, True), **dict.fromkeys(others, False)}


@pytest.fixture(autouse=True)
def two_kinds(gpu_driver):
    """The machine has two GPUs: an A100 and a T4."""
    gpu_driver("NVIDIA A100-SXM4-80GB", "Tesla T4")


def notes(kind: str, *, is_here: bool = True) -> list[str]:
    resource = Resource(1, 1, 1, capabilities={"gpu_type": kind} if kind else {})
    return [*gpu_type_notes(AppDef("app", [Role("main", "", resource=resource)]), "mine", is_here=is_here)]


def test_a_gpu_of_another_kind_is_noted_with_the_kinds_of_the_machine():
    assert notes("") == []
    assert notes("t4") == [
        "role `main`: it asks for GPUs of the kind `t4`, and the machine has 1 x NVIDIA A100-SXM4-80GB,"
        " 1 x Tesla T4; mine takes any of them"
    ]


def test_the_kind_of_a_gpu_is_not_checked_where_the_gpus_are_unknown():
    unknown = "role `main`: mine does not look at gpu_type `t4`: the GPUs of its machine are unknown"
    assert notes("t4", is_here=False) == [unknown]


@pytest.mark.parametrize("scheduler", ["local_cwd", "local_docker"])
def test_the_dry_run_notes_a_gpu_of_another_kind(scheduler, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    resource = Resource(-1, 1, -1, capabilities={"gpu_type": "h100"})
    app = AppDef("app", [Role("main", "busybox:1.37", entrypoint="true", resource=resource)])
    made = get_scheduler(scheduler, "session").submit_dryrun(app, {}).request.notes
    assert [note for note in made if f"Tesla T4; {scheduler} takes any of them" in note]


@pytest.mark.parametrize("supports", [None, (), {"service"}])
@pytest.mark.parametrize("fields", [
    {},
    {"retry_delay": 0, "service": False, "ready": None, "depends_on": {}},
    {"retry_delay": 0.0, "service": None, "depends_on": None},
])  # fmt: skip
def test_a_scheduler_that_declares_nothing_takes_default_values(supports: Any, fields: Any) -> None:
    app = AppDef("a", [Role("main", "", entrypoint="true", **fields)])
    assert [*unsupported(app, supports, "mine")] == []


@pytest.mark.parametrize("supports", [None, ()])
def test_a_value_that_a_scheduler_does_not_support_is_refused(supports: Any) -> None:
    app = AppDef("a", [Role("main", "", entrypoint="true", retry_delay=1)])
    assert [problem.path[-1] for problem in unsupported(app, supports, "mine")] == ["retry_delay"]
