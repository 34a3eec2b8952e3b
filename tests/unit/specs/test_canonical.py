"""The normal form of a launch: what is in it, what is not, and that nothing is lost."""

import json
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given

from launcher.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    JobKey,
    Launch,
    Lifecycle,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    app_from_document,
    digest,
    document,
    renormalise,
)
from launcher.specs.canonical import UnstorableValueError, to_workspace
from launcher.specs.launch import ProjectRef, WorkspaceRef
from tests.unit.specs.strategies import LAUNCH, launch_of


def small_role() -> Role:
    return Role("trainer", "", entrypoint="python")


def full_role() -> Role:
    return Role(
        name="trainer",
        image="img:1",
        min_replicas=1,
        entrypoint="python",
        args=["-m", "train"],
        env={"B": "2", "A": "1"},
        num_replicas=2,
        max_retries=3,
        retry_policy=RetryPolicy.REPLICA,
        resource=Resource(0.5, 0, 4096, {"c": "x"}, {"d": 1}, {"t": 1}),
        port_map={"tcp": 29500},
        metadata={"k": [1, {"x": None}]},
        mounts=[
            VolumeMount("cache", "/z"),
            BindMount("./data", "/data", read_only=True),
            DeviceMount("/dev/fuse", "/dev/fuse"),
            DeviceMount("/dev/a", "/dev/b", "r"),
        ],
    )


def test_the_smallest_document_has_only_the_fields_that_every_document_has():
    assert document(launch_of(AppDef("app", [small_role()]))) == {
        "scheduler": "local_cwd",
        "roles": [{"name": "trainer", "entrypoint": "python"}],
    }


def test_a_document_of_a_full_launch_has_every_field():
    launch = launch_of(AppDef("app", [full_role()]), cfg={"log_dir": "x", "unset": None}, timeout_s=60)
    assert document(launch) == {
        "scheduler": "local_cwd", "cfg": {"log_dir": "x"}, "timeout_s": 60,
        "roles": [
            {
                "name": "trainer", "image": "img:1", "min_replicas": 1, "entrypoint": "python",
                "args": ["-m", "train"], "env": {"A": "1", "B": "2"}, "num_replicas": 2, "max_retries": 3,
                "retry_policy": "REPLICA",
                "resource": {
                    "cpu_millis": 500, "gpu": 0, "memory_bytes": 4096 * 2**20, "capabilities": {"c": "x"},
                    "devices": {"d": 1}, "tags": {"t": 1},
                },
                "port_map": {"tcp": 29500},
                "metadata": {"k": [1, {"x": None}]},
                "mounts": [{"type": "bind", "src": "./data", "dst": "/data", "read_only": True},
                    {"type": "device", "src": "/dev/a", "dst": "/dev/b", "permissions": "r"},
                    {"type": "device", "src": "/dev/fuse", "dst": "/dev/fuse"},
                    {"type": "volume", "src": "cache", "dst": "/z"}],
            }
        ],
    }  # fmt: skip


def test_options_of_a_role_are_normalised_as_the_options_of_the_app():
    cfg = {"shm_size": "8g", "ulimits": {"nofile": "64"}, "grace_s": 2.0, "user": None}
    made = document(launch_of(AppDef("app", [replace(small_role(), cfg=cfg)]), cfg=cfg))
    [role] = made["roles"]
    assert role["cfg"] == made["cfg"] == {"shm_size": "8g", "ulimits": {"nofile": "64"}, "grace_s": 2}
    assert app_from_document(made, "app", {}).roles[0].cfg == role["cfg"]
    bare = launch_of(AppDef("app", [replace(small_role(), cfg={"user": None})]))
    assert document(bare) == document(launch_of(AppDef("app", [small_role()])))


def test_the_digests_of_lr1_never_change():
    """A changed digest would make a recorded attempt plan as changed."""
    small = launch_of(AppDef("app", [small_role()]))
    full = launch_of(AppDef("app", [full_role()]), cfg={"log_dir": "x"}, timeout_s=60)
    assert [digest(document(small)), digest(document(full))] == [
        "lr1:sha256:458337682622d528a79acfc33bb4f9640f933c24c43b8a175dba0d7f67c95df6",
        "lr1:sha256:3a80fce222ce018e299b199c5be9795c171783c7af170e65fd7ee0b3d35ff87d",
    ]


def digest_of(launch: Launch) -> str:
    return digest(document(launch))


FULL = launch_of(AppDef("app", [full_role()]))
UNTOLD = [
    {"key": JobKey("other", "prod", "name")},
    {"lifecycle": Lifecycle(on_failed="rerun", protect=True)},
    *({"enabled": False}, {"description": "words"}, {"root": "/elsewhere"}),
    *({"file": "other.launcher.yaml"}, {"origin": "github.com/a/b"}),
    {"app": AppDef("other-name", [full_role()], {"team": "vision"})},
]


@pytest.mark.parametrize("field", UNTOLD, ids=lambda field: next(iter(field)))
def test_fields_outside_of_the_digest_do_not_change_the_document(field):
    assert document(replace(FULL, **field)) == document(FULL)


@pytest.mark.parametrize("field", [{"scheduler": "local_dir"}, {"cfg": {"a": "b"}}, {"timeout_s": 5}])
def test_scheduler_options_and_timeout_are_in_the_digest(field):
    assert digest_of(replace(FULL, **field)) != digest_of(FULL)


CHANGED = {
    "name": "other", "image": "img:2", "entrypoint": "sh", "args": ["train", "-m"],
    "env": {"A": "1", "B": "3"}, "num_replicas": 3, "min_replicas": None, "max_retries": 0,
    "retry_policy": RetryPolicy.ROLE, "resource": Resource(0.5, 1, 4096), "port_map": {"tcp": 29501},
    "metadata": {}, "mounts": [],
}  # fmt: skip


@pytest.mark.parametrize(("field", "value"), CHANGED.items(), ids=CHANGED)
def test_every_field_of_a_role_is_in_the_digest(field, value):
    assert digest_of(launch_of(AppDef("app", [replace(full_role(), **{field: value})]))) != digest_of(FULL)


def test_the_order_of_roles_counts_and_that_of_keys_and_mounts_does_not():
    role = full_role()
    turned = replace(role, env=dict(reversed(role.env.items())), mounts=list(reversed(role.mounts)))
    assert digest_of(launch_of(AppDef("app", [turned]))) == digest_of(FULL)
    two = [small_role(), role]
    assert digest_of(launch_of(AppDef("app", two))) != digest_of(launch_of(AppDef("app", two[::-1])))


@pytest.mark.parametrize(
    ("cpu", "millis"), [(2, 2000), (2.0, 2000), (1.001, 1001), (0.29, 290), (1 / 3, 333), (0.1 + 0.2, 300)]
)
def test_cpus_are_millicores(cpu, millis):
    role = replace(small_role(), resource=Resource(cpu, 0, 1))
    [made] = document(launch_of(AppDef("a", [role])))["roles"]
    assert made["resource"]["cpu_millis"] == millis
    assert type(made["resource"]["cpu_millis"]) is int


def test_a_whole_option_is_the_same_as_int_and_float():
    assert (
        len({digest_of(launch_of(AppDef("a", [small_role()]), cfg={"grace_s": s})) for s in (10, 10.0)}) == 1
    )


def test_text_is_hashed_as_utf_8():
    role = replace(small_role(), args=["Grüße", "\udcff"])
    assert digest_of(launch_of(AppDef("a", [role]))).startswith("lr1:sha256:")


@pytest.mark.parametrize(("metadata", "where"), [
    ({"a": float("nan")}, "roles.trainer.metadata.a"),
    ({"a": [1, object()]}, "roles.trainer.metadata.a[1]"),
    ({"a": {1: 2}}, "roles.trainer.metadata.a: every key must be text"),
    ({"a": {1, 2}}, "roles.trainer.metadata.a"),
])  # fmt: skip
def test_a_value_that_json_cannot_hold_is_refused_with_its_place(metadata, where):
    app = AppDef("a", [replace(small_role(), metadata=metadata)])
    with pytest.raises(UnstorableValueError) as caught:
        document(launch_of(app))
    assert str(caught.value).startswith(where)


@given(LAUNCH)
def test_the_app_comes_back_from_its_document(launch):
    made = document(launch)
    assert app_from_document(made, launch.app.name, launch.app.metadata) == launch.app


@given(LAUNCH)
def test_a_document_survives_json_and_keeps_its_digest(launch):
    made = document(launch)
    stored = json.loads(json.dumps(made))
    assert stored == made
    assert digest(stored) == digest(made)


@given(LAUNCH)
def test_a_document_is_its_own_normal_form(launch):
    made = document(launch)
    assert renormalise(made) == made
    again = launch_of(
        app_from_document(made, "x", {}), cfg=made.get("cfg", {}), timeout_s=made.get("timeout_s")
    )
    assert document(again) == made


@pytest.mark.slow
@given(LAUNCH)
def test_making_a_document_edits_and_shares_nothing(launch):
    before = deepcopy(launch)
    made = document(launch)
    assert launch == before
    app = app_from_document(made, "x", {})
    kept = deepcopy(made)
    for role in app.roles:
        role.args.append("x")
        role.env["x"] = "y"
        role.resource.capabilities.clear() if role.resource.cpu != -1 else None
        role.metadata.clear()
    assert made == kept


@given(LAUNCH)
def test_no_nulls_empties_or_defaults_of_ours_are_written(launch):
    made = document(launch)
    for fields in (made, *made["roles"], *(role.get("resource", {"x": 1}) for role in made["roles"])):
        assert all(value not in (None, {}, []) or key == "entrypoint" for key, value in fields.items())
    for role in made["roles"]:
        assert role.get("num_replicas") != 1
        assert role.get("retry_policy") != "APPLICATION"


def test_an_earlier_document_with_defaults_written_out_is_brought_into_form():
    stored = {
        "scheduler": "local_cwd",
        "cfg": {},
        "timeout_s": None,
        "roles": [
            {
                "name": "trainer",
                "entrypoint": "python",
                "num_replicas": 1,
                "args": [],
                "mounts": [
                    {"type": "bind", "src": "b", "dst": "/b", "read_only": False},
                    {"type": "bind", "src": "a", "dst": "/a"},
                ],
            }
        ],
    }
    mounts = [{"type": "bind", "src": "a", "dst": "/a"}, {"type": "bind", "src": "b", "dst": "/b"}]
    assert renormalise(stored) == {
        "scheduler": "local_cwd",
        "roles": [{"name": "trainer", "entrypoint": "python", "mounts": mounts}],
    }


def test_fields_that_a_later_version_wrote_are_kept():
    stored = {
        "scheduler": "s",
        "workspace": "sha256:1",
        "roles": [{"name": "a", "entrypoint": "x", "secrets": {"K": "env:K"}}],
    }
    assert renormalise(stored) == stored


@pytest.mark.parametrize(("resource", "fields"), [
    (Resource(cpu=2, gpu=-1, memMB=-1), {"cpu_millis": 2000}),
    (Resource(cpu=-1.0, gpu=0, memMB=-1), {"gpu": 0}),
    (Resource(cpu=-1, gpu=4, memMB=-1), {"gpu": 4}),
    (Resource(cpu=-1, gpu=-1, memMB=1), {"memory_bytes": 2**20}),
    (Resource(cpu=0.5, gpu=0, memMB=0), {"cpu_millis": 500, "gpu": 0, "memory_bytes": 0}),
    (Resource(cpu=0, gpu=0, memMB=0), {"cpu_millis": 0, "gpu": 0, "memory_bytes": 0}),
])  # fmt: skip
def test_an_amount_that_is_not_reported_is_in_no_document(resource: Resource, fields: dict[str, int]) -> None:
    role = replace(small_role(), resource=resource)
    made = document(launch_of(AppDef("a", roles=[role])))
    assert made["roles"][0]["resource"] == fields
    assert app_from_document(made, "a", {}).roles[0].resource == resource


def test_projects_of_a_workspace_come_back_with_their_digests() -> None:
    projects = (ProjectRef("lib", "src/lib", "ws1:sha256:1"), ProjectRef("run.py", ".", "ws1:sha256:2"))
    launch = replace(launch_of(AppDef("a", roles=[small_role()])), workspace=WorkspaceRef("", "", projects))
    made = document(launch)
    assert made["workspace"] == {
        "projects": {
            "lib": {"target": "src/lib", "digest": "ws1:sha256:1"},
            "run.py": {"target": ".", "digest": "ws1:sha256:2"},
        }
    }
    assert to_workspace(made["workspace"]) == launch.workspace
    assert renormalise(made) == made
