"""Rules over several fields: every problem with its place, none for a good app."""

from dataclasses import replace

import pytest

from launcher.specs import (
    MISSING,
    AppDef,
    BindMount,
    DeviceMount,
    Problem,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    check_app,
)

GOOD = Role(
    name="trainer",
    image="img:1",
    min_replicas=2,
    entrypoint="$<img_root>/run",
    args=["$<app_id>", "$$<x>", "$HOME"],
    env={"RUN": "${app_id}"},
    num_replicas=2,
    max_retries=1,
    retry_policy=RetryPolicy.REPLICA,
    resource=Resource(0.5, 0, -1),
    port_map={"tcp": 29500},
    metadata={"a": ["$<role>", 1, None]},
    mounts=[BindMount("~/x", "/x"), VolumeMount("v-$<app_id>", "/v"), DeviceMount("/dev/a", "/dev/a", "rw")],
)
AT = ("roles", "trainer")
GPU_TYPE = (*AT, "resource", "capabilities", "gpu_type")


def _gpus(count: int, kind: object) -> Resource:
    return Resource(1, count, 1, capabilities={"gpu_type": kind})


def problems(**fields: object) -> list[Problem]:
    return check_app(AppDef("app", [replace(GOOD, **fields)]))


def test_a_good_app_has_no_problems():
    by_text = replace(GOOD, name="text", retry_policy="ROLE")
    assert check_app(AppDef("my app", [GOOD, replace(GOOD, name="other"), by_text])) == []


def test_an_app_needs_a_role():
    assert check_app(AppDef("app")) == [
        Problem(("roles",), "missing-field", "an app needs at least one role")
    ]


def test_roles_of_one_name_are_one_problem():
    found = check_app(AppDef("app", [GOOD, replace(GOOD), replace(GOOD, name="b")]))
    assert found == [Problem(AT, "duplicate-role", "2 roles are named `trainer`")]


@pytest.mark.parametrize("name", ["", " ", "-", "..", ".hidden", "a/b", "a\nb", "a\0b", "é"])
def test_names_that_cannot_stand_in_paths_and_handles_are_problems(name):
    assert [(p.path, p.code) for p in check_app(AppDef(name, [GOOD]))] == [(("name",), "unusable-name")]
    assert [p.code for p in problems(name=name)] == ["unusable-name"]


@pytest.mark.parametrize(("fields", "path", "code", "message"), [
    ({"name": 3}, ("roles", 3, "name"), "wrong-type", "got 3"),
    ({"entrypoint": ""}, (*AT, "entrypoint"), "missing-field", "no entrypoint"),
    ({"entrypoint": MISSING}, (*AT, "entrypoint"), "missing-field", "no entrypoint"),
    ({"entrypoint": 3}, (*AT, "entrypoint"), "wrong-type", "got 3 (int)"),
    ({"args": "--lr 1"}, (*AT, "args"), "wrong-type", "args is a list"),
    ({"args": ["a", 3]}, (*AT, "args", 1), "wrong-type", "got 3 (int)"),
    ({"args": ["a\0"]}, (*AT, "args", 0), "unusable-text", "NUL"),
    ({"args": ["\ud800"]}, (*AT, "args", 0), "unusable-text", "lone surrogate"),
    ({"env": {"\ud800": ""}}, (*AT, "env", "\ud800"), "unusable-name", "cannot name"),
    ({"env": ["A=1"]}, (*AT, "env"), "wrong-type", "env is a mapping"),
    ({"env": {"A": 1}}, (*AT, "env", "A"), "wrong-type", "got 1 (int)"),
    ({"env": {"A": "a\0"}}, (*AT, "env", "A"), "unusable-text", "NUL"),
    ({"env": {"A=B": "x"}}, (*AT, "env", "A=B"), "unusable-name", "'A=B' cannot name"),
    ({"env": {"": "x"}}, (*AT, "env", ""), "unusable-name", "'' cannot name"),
    ({"image": None}, (*AT, "image"), "wrong-type", "got None"),
    ({"image": "i-$<app_id>"}, (*AT, "image"), "reference-phase", "`$<app_id>` cannot stand here"),
    ({"num_replicas": 0, "min_replicas": None}, (*AT, "num_replicas"), "out-of-range", "got 0"),
    ({"num_replicas": True, "min_replicas": None}, (*AT, "num_replicas"), "out-of-range", "got True"),
    ({"num_replicas": "2", "min_replicas": None}, (*AT, "num_replicas"), "out-of-range", "got '2'"),
    ({"min_replicas": 3}, (*AT, "min_replicas"), "out-of-range", "3, more than num_replicas, which is 2"),
    ({"min_replicas": -1}, (*AT, "min_replicas"), "out-of-range", "got -1"),
    ({"max_retries": -1}, (*AT, "max_retries"), "out-of-range", "got -1"),
    ({"retry_policy": "never"}, (*AT, "retry_policy"), "unknown-variant", "REPLICA, APPLICATION, ROLE"),
    ({"port_map": {"x": 0}}, (*AT, "port_map", "x"), "out-of-range", "got 0"),
    ({"port_map": {"x": 65536}}, (*AT, "port_map", "x"), "out-of-range", "got 65536"),
    ({"port_map": {"x": "80"}}, (*AT, "port_map", "x"), "out-of-range", "got '80'"),
    ({"resource": None}, (*AT, "resource"), "wrong-type", "resource is a Resource, got None"),
    ({"resource": Resource(-2, 0, 1)}, (*AT, "resource", "cpu"), "out-of-range", "got -2"),
    ({"resource": Resource(1, "1", 1)}, (*AT, "resource", "gpu"), "out-of-range", "got '1'"),
    ({"resource": Resource(1, 0, float("nan"))}, (*AT, "resource", "memMB"), "out-of-range", "got nan"),
    ({"resource": _gpus(0, "a100")}, GPU_TYPE, "constraint", "there are none: set `gpu`"),
    ({"resource": _gpus(-1, "a100")}, GPU_TYPE, "constraint", "there are none: set `gpu`"),
    ({"resource": _gpus(1, "a100:2")}, GPU_TYPE, "unusable-text", "got 'a100:2'"),
    ({"resource": _gpus(1, 4090)}, GPU_TYPE, "unusable-text", "got 4090"),
    ({"mounts": ["type=bind"]}, (*AT, "mounts", 0), "wrong-type", "want a BindMount"),
    ({"mounts": [BindMount("", "/a")]}, (*AT, "mounts", 0), "missing-field",
        "a source and a destination"),
    ({"mounts": [VolumeMount("v", "")]}, (*AT, "mounts", 0), "missing-field",
        "a source and a destination"),
    ({"mounts": [BindMount("~ada/x", "/a")]}, (*AT, "mounts", 0), "unusable-path", "another user's home"),
    ({"mounts": [DeviceMount("/a", "/a", "x")]}, (*AT, "mounts", 0), "unknown-variant", "got `x`"),
    ({"mounts": [BindMount("/a", "/$<role>")]}, (*AT, "mounts", 0), "reference-phase", "cannot stand"),
    ({"mounts": [BindMount("/a", "/x"), VolumeMount("v", "/x")]}, (*AT, "mounts", 1),
        "duplicate-destination", "mounts 1 and 2 have one destination, `/x`"),
    ({"mounts": [BindMount("/a", "/x"), VolumeMount("v", "/x/./y/../")]}, (*AT, "mounts", 1),
        "duplicate-destination", "mounts 1 and 2 have one destination, `/x/./y/../`"),
    ({"args": ["é" * 65_536]}, (*AT, "args", 0), "unusable-text", "cannot hold more than 131,071 bytes"),
    ({"env": {"A": "x" * 131_072}}, (*AT, "env", "A"), "unusable-text", "more than 131,071 bytes"),
    ({"args": ["$<replica>"]}, (*AT, "args", 0), "unknown-reference",
        "`$<replica>` names nothing; did you mean `replica_id`?, or write `$$<replica>` for the text"),
    ({"metadata": {"a": [{"b": "$<x>"}]}}, (*AT, "metadata", "a", 0, "b"), "unknown-reference", "`$<x>`"),
])  # fmt: skip
def test_each_problem_has_its_place_its_code_and_the_value(fields, path, code, message):
    found = problems(**fields)
    assert [(problem.path, problem.code) for problem in found] == [(path, code)]
    assert message in found[0].message


def test_all_problems_are_reported_at_once():
    found = problems(entrypoint="", num_replicas=0, min_replicas=None, max_retries=-1, port_map={"x": 0})
    assert [problem.path[-1] for problem in found] == ["entrypoint", "num_replicas", "max_retries", "x"]
