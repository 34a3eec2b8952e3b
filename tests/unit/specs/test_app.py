"""AppDef, Role and Resource are the plain dataclasses that component functions know."""

from copy import deepcopy
from dataclasses import fields

from launcher.specs import ALL, MISSING, NONE, NULL_RESOURCE, AppDef, CfgVal, GiB, Resource, RetryPolicy, Role


def test_constants_of_specs_have_the_established_values():
    assert (MISSING, NONE, ALL, GiB) == ("<MISSING>", "<NONE>", "all", 1024)
    assert Resource(-1, -1, -1) == NULL_RESOURCE
    assert CfgVal == str | int | float | bool | list[str] | dict[str, str] | None


def test_resource_is_positional_and_mutable():
    resource = Resource(2, 1, 3 * GiB, {"a": 1}, {"dev": 2}, {"t": "x"})
    assert (resource.cpu, resource.gpu, resource.memMB) == (2, 1, 3072)
    assert (resource.capabilities, resource.devices, resource.tags) == ({"a": 1}, {"dev": 2}, {"t": "x"})
    resource.cpu = 0.5
    assert resource.cpu == 0.5


def test_a_copied_resource_has_merged_capabilities_and_shares_nothing():
    original = Resource(1, 2, 3, {"a": "old", "b": "kept"}, {"dev": 1}, {"t": [1]})
    before = deepcopy(original)
    copied = Resource.copy(original, a="new", c="added")
    assert copied == Resource(1, 2, 3, {"a": "new", "b": "kept", "c": "added"}, {"dev": 1}, {"t": [1]})
    copied.devices["dev"] = 9
    copied.tags["t"].append(2)
    assert original == before


FIELDS = """
    name image min_replicas base_image entrypoint args env num_replicas max_retries retry_policy resource
    port_map metadata mounts retry_delay service ready depends_on cfg
"""


def test_role_fields_stand_in_the_established_order():
    assert [field.name for field in fields(Role)] == FIELDS.split()


def test_a_role_has_the_established_defaults():
    role = Role("trainer", "image")
    assert (role.min_replicas, role.base_image, role.entrypoint) == (None, None, MISSING)
    assert (role.args, role.env, role.port_map, role.metadata, role.mounts) == ([], {}, {}, {}, [])
    assert (role.num_replicas, role.max_retries, role.retry_policy) == (1, 0, RetryPolicy.APPLICATION)
    assert role.resource is NULL_RESOURCE


def test_pre_proc_returns_the_info_that_it_was_given():
    info = object()
    assert Role("a", "").pre_proc("local_cwd", info) is info


def test_app_is_positional_with_empty_defaults():
    assert AppDef("app") == AppDef(name="app", roles=[], metadata={})
    assert AppDef("app", [Role("a", "")], {"k": "v"}).metadata == {"k": "v"}


def test_each_of_three_retry_policies_prints_and_compares_as_its_name():
    names = ["REPLICA", "APPLICATION", "ROLE"]
    policies = list(RetryPolicy)
    assert policies == [policy.name for policy in policies] == [f"{policy}" for policy in policies] == names
