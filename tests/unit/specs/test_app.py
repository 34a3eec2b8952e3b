"""AppDef, Role and Resource are the plain dataclasses that component functions know."""

from copy import deepcopy
from dataclasses import fields

import pytest

from launcher.specs import (
    ALL,
    MISSING,
    NONE,
    NULL_RESOURCE,
    AppDef,
    CfgVal,
    GiB,
    Resource,
    RetryPolicy,
    Role,
)


def test_constants_of_specs_have_the_established_values():
    assert (MISSING, NONE, ALL, GiB) == ("<MISSING>", "<NONE>", "all", 1024)
    assert Resource(-1, -1, -1) == NULL_RESOURCE


def test_resource_is_positional_and_mutable():
    resource = Resource(2, 1, 3 * GiB, {"a": 1}, {"dev": 2}, {"t": "x"})
    assert (resource.cpu, resource.gpu, resource.memMB) == (2, 1, 3072)
    assert (resource.capabilities, resource.devices, resource.tags) == ({"a": 1}, {"dev": 2}, {"t": "x"})
    resource.cpu = 0.5
    assert resource.cpu == 0.5


def test_resource_equality_is_field_equality():
    assert Resource(1, 0, 5) == Resource(cpu=1, gpu=0, memMB=5)
    assert Resource(1, 0, 5) != Resource(1, 0, 5, tags={"a": "b"})


def test_copying_a_resource_merges_capabilities_and_the_keyword_wins():
    original = Resource(1, 2, 3, {"a": "old", "b": "kept"}, {"dev": 1}, {"t": [1]})
    before = deepcopy(original)
    copied = Resource.copy(original, a="new", c="added")
    assert copied.capabilities == {"a": "new", "b": "kept", "c": "added"}
    assert original == before


def test_copying_a_resource_keeps_tags_and_shares_nothing():
    original = Resource(1, 2, 3, devices={"dev": 1}, tags={"t": [1]})
    copied = Resource.copy(original)
    assert copied == original
    copied.devices["dev"] = 9
    copied.tags["t"] = "changed"
    assert original == Resource(1, 2, 3, devices={"dev": 1}, tags={"t": [1]})


def test_role_fields_stand_in_the_established_order():
    assert [field.name for field in fields(Role)] == [
        "name",
        "image",
        "min_replicas",
        "base_image",
        "entrypoint",
        "args",
        "env",
        "num_replicas",
        "max_retries",
        "retry_policy",
        "resource",
        "port_map",
        "metadata",
        "mounts",
        "retry_delay",
        "service",
        "ready",
        "depends_on",
        "cfg",
    ]


def test_a_role_has_the_established_defaults():
    role = Role("trainer", "image")
    assert (role.min_replicas, role.base_image, role.entrypoint) == (None, None, MISSING)
    assert (role.args, role.env, role.port_map, role.metadata, role.mounts) == ([], {}, {}, {}, [])
    assert (role.num_replicas, role.max_retries, role.retry_policy) == (1, 0, RetryPolicy.APPLICATION)
    assert role.resource is NULL_RESOURCE


def test_the_third_positional_field_of_a_role_is_min_replicas():
    assert Role("trainer", "image", 3).min_replicas == 3


def test_roles_do_not_share_their_containers():
    first, second = Role("a", ""), Role("b", "")
    first.args.append("x")
    first.env["x"] = "y"
    assert (second.args, second.env) == ([], {})


def test_pre_proc_returns_the_info_that_it_was_given():
    info = object()
    assert Role("a", "").pre_proc("local_cwd", info) is info


def test_app_is_positional_with_empty_defaults():
    assert AppDef("app") == AppDef(name="app", roles=[], metadata={})
    assert AppDef("app", [Role("a", "")], {"k": "v"}).metadata == {"k": "v"}


def test_there_are_three_retry_policies_named_as_their_values():
    assert {policy.name: policy.value for policy in RetryPolicy} == {
        "REPLICA": "REPLICA",
        "APPLICATION": "APPLICATION",
        "ROLE": "ROLE",
    }


@pytest.mark.parametrize("policy", list(RetryPolicy))
def test_a_retry_policy_prints_and_compares_as_its_name(policy):
    assert str(policy) == f"{policy}" == policy == policy.name


def test_cfg_values_are_plain_types():
    assert CfgVal == str | int | float | bool | list[str] | dict[str, str] | None
