"""Binding puts one checkout and one home into a launch and leaves the run's macros open."""

from copy import deepcopy

import pytest
from hypothesis import given

from launcher.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    InvalidRunConfigException,
    JobKey,
    Launch,
    ProjectRef,
    Role,
    VolumeMount,
    WorkspaceRef,
    bind,
    bind_cfg,
    bind_launch,
    bind_workspace,
    macros,
    runopts,
)
from tests.unit.specs.strategies import APP


def bound(role: Role, directory: str = "/repo/job", home: str = "/home/ada") -> Role:
    return bind(AppDef("app", [role]), directory=directory, home=home).roles[0]


def test_the_job_directory_is_filled_in_wherever_text_may_hold_it():
    role = Role(
        "r",
        "$<job.dir>/image",
        entrypoint="$<job.dir>/run",
        args=["$<job.dir>"],
        env={"D": "$<job.dir>:x"},
        metadata={"a": [{"b": "$<job.dir>"}]},
        mounts=[
            BindMount("$<job.dir>/d", "/$<job.dir>"),
            VolumeMount("v$<job.dir>", "/v"),
            DeviceMount("$<job.dir>", "/d"),
        ],
    )
    assert bound(role, "/w") == Role(
        "r",
        "/w/image",
        entrypoint="/w/run",
        args=["/w"],
        env={"D": "/w:x"},
        metadata={"a": [{"b": "/w"}]},
        mounts=[BindMount("/w/d", "//w"), VolumeMount("v/w", "/v"), DeviceMount("/w", "/d")],
    )


def test_run_macros_and_their_escapes_stay_for_the_run():
    role = bound(Role("r", "", args=["$<app_id> $$<x> $${y}", "$<job.dir> ${replica_id} $$<x> $${app_id}"]))
    assert role.args == ["$<app_id> $$<x> $${y}", "/repo/job ${replica_id} $$<x> $${app_id}"]
    assert macros.Values("", "ID", "0", "").apply(role).args == ["ID $<x> ${y}", "/repo/job 0 $<x> ${app_id}"]


def test_a_directory_with_the_text_of_a_macro_is_a_directory():
    role = bound(Role("r", "$<job.dir>", args=["$<job.dir>/$<app_id>"]), "/w/$<app_id>")
    assert macros.Values("", "ID", "0", "").apply(role).args == ["/w/$<app_id>/ID"]
    assert role.image == "/w/$<app_id>"


def test_escapes_in_text_without_run_macros_are_resolved():
    role = bound(Role("r", "a-$$<x>", mounts=[VolumeMount("v", "/$${d}")]))
    assert (role.image, role.mounts[0].dst_path) == ("a-$<x>", "/${d}")


@pytest.mark.parametrize(
    ("source", "absolute"),
    [
        ("data", "/repo/job/data"),
        ("./data", "/repo/job/data"),
        ("../data/", "/repo/data"),
        (".", "/repo/job"),
        ("/data/../other", "/other"),
        ("~", "/home/ada"),
        ("~/data", "/home/ada/data"),
        ("a/~/b", "/repo/job/a/~/b"),
        ("$<job.dir>/../x", "/repo/x"),
        ("$<app_id>/x", "/repo/job/$<app_id>/x"),
        ("data-$<replica_id>", "/repo/job/data-$<replica_id>"),
        ("$<img_root>/x/../y", "$<img_root>/x/../y"),
        ("${img_root}", "${img_root}"),
        ("$$<job.dir>", "/repo/job/$$<job.dir>"),
    ],
)
def test_sources_of_bind_mounts_become_absolute(source, absolute):
    assert bound(Role("r", "", mounts=[BindMount(source, "/d", True)])).mounts == [
        BindMount(absolute, "/d", True)
    ]


def test_a_home_with_the_text_of_a_macro_is_a_home():
    role = bound(Role("r", "", mounts=[BindMount("~/x", "/d")]), home="/h/$<app_id>")
    assert macros.Values("", "ID", "0", "").apply(role).mounts == [BindMount("/h/$<app_id>/x", "/d")]


def test_volumes_and_devices_are_no_relative_paths():
    mounts = [VolumeMount("cache", "/c"), DeviceMount("fuse", "/dev/fuse")]
    assert bound(Role("r", "", mounts=mounts)).mounts == mounts


def test_metadata_of_the_app_is_filled_in():
    app = bind(AppDef("app", [], {"at": "$<job.dir>", "text": "$$<x>"}), directory="/w", home="/h")
    assert app.metadata == {"at": "/w", "text": "$<x>"}


@given(APP)
def test_binding_edits_and_shares_nothing(app):
    before = deepcopy(app)
    made = bind(app, directory="/w", home="/h")
    for role in made.roles:
        role.args.append("x")
        role.env["new"] = "y"
        role.mounts.clear()
        role.resource.capabilities["new"] = "y"
    assert app == before


@given(APP)
def test_binding_a_launch_twice_equals_binding_it_once(app):
    for role in app.roles:
        role.image = "image"  # text that is fixed now loses its escapes, once
        role.mounts = [m for m in role.mounts if not m.dst_path.count("$")]
    app.metadata = {}
    once = bind(app, directory="/w", home="/h")
    assert bind(once, directory="/w", home="/h") == once


# -- options -----------------------------------------------------------------------------------------------


def options(*names: str) -> runopts:
    made = runopts()
    types = {"timeout_s": int, "tags": list[str]}
    for name in names:
        made.add(name, type_=types.get(name, str), help="")
    return made


LOCAL = options("cwd", "log_dir", "timeout_s", "tags")


def test_replicas_run_in_the_directory_of_the_job_file():
    assert bind_cfg({}, opts=LOCAL, timeout_s=None, directory="/w") == {"cwd": "/w"}
    assert bind_cfg({"cwd": None}, opts=LOCAL, timeout_s=None, directory="/w") == {"cwd": "/w"}


@pytest.mark.parametrize(
    ("given", "absolute"),
    [("sub", "/w/sub"), ("../x", "/x"), ("/abs", "/abs"), ("$<job.dir>/y", "/w/y"), ("~/z", "/h/z")],
)
@pytest.mark.parametrize("option", ["cwd", "log_dir"])
def test_folders_are_relative_to_the_job_file(option, given, absolute):
    made = bind_cfg({option: given}, opts=LOCAL, timeout_s=None, directory="/w", home="/h")
    assert made == {"cwd": "/w", option: absolute}


def test_the_timeout_becomes_an_option():
    assert bind_cfg({}, opts=LOCAL, timeout_s=60, directory="/w") == {"cwd": "/w", "timeout_s": 60}


def test_an_option_of_the_scheduler_stays_where_the_job_has_no_timeout():
    assert bind_cfg({"timeout_s": 5}, opts=LOCAL, timeout_s=None, directory="/w")["timeout_s"] == 5


def test_a_timeout_that_the_scheduler_cannot_keep_is_refused():
    with pytest.raises(InvalidRunConfigException, match="has no timeout") as caught:
        bind_cfg({}, opts=options("cwd"), timeout_s=60, directory="/w")
    assert caught.value.cfg_key == "timeout_s"


def test_two_timeouts_are_refused_unless_they_agree():
    assert bind_cfg({"timeout_s": 60}, opts=LOCAL, timeout_s=60, directory="/w")["timeout_s"] == 60
    with pytest.raises(InvalidRunConfigException, match="given twice: 60 s and 5 s"):
        bind_cfg({"timeout_s": 5}, opts=LOCAL, timeout_s=60, directory="/w")


def test_a_scheduler_without_folder_and_timeout_options_gets_the_options_as_given():
    cfg = {"tags": ["$<job.dir>/a", "$$<x>"]}
    made = bind_cfg(cfg, opts=options("tags"), timeout_s=None, directory="/w")
    assert made == {"tags": ["/w/a", "$<x>"]}
    assert cfg == {"tags": ["$<job.dir>/a", "$$<x>"]}


@pytest.mark.parametrize(
    ("workspace", "cwd"),
    [("src", "/w/src"), (".", "/w"), ("../x", "/x"), ("~/x", "/h/x"), ("$<job.dir>/s", "/w/s"), ("/a", "/a")],
)
def test_replicas_run_in_the_workspace(workspace: str, cwd: str) -> None:
    made = bind_cfg({}, opts=LOCAL, timeout_s=None, directory="/w", home="/h", workspace=workspace)
    assert made == {"cwd": cwd}
    assert bind_workspace(workspace, directory="/w", home="/h") == cwd


def test_a_folder_given_as_an_option_wins_over_the_workspace() -> None:
    made = bind_cfg({"cwd": "run"}, opts=LOCAL, timeout_s=None, directory="/w", workspace="src")
    assert made == {"cwd": "/w/run"}


def test_a_scheduler_without_a_folder_to_run_in_gets_no_workspace() -> None:
    assert bind_cfg({}, opts=options("x"), timeout_s=None, directory="/w", workspace="src") == {}


def a_launch(workspace: WorkspaceRef) -> Launch:
    return Launch(
        key=JobKey("p", "default", "j"),
        app=AppDef("j", [Role("r", "", entrypoint="run", env={"D": "$<job.dir>"})]),
        scheduler="local_cwd",
        timeout_s=60,
        workspace=workspace,
        root="/repo",
        file="jobs/j.launcher.yaml",
        origin="/repo",
    )


def test_a_bound_launch_has_absolute_paths_and_leaves_the_launch_as_written() -> None:
    launch = a_launch(WorkspaceRef("", "", (ProjectRef("~/lib", "lib", "d1"), ProjectRef("src", ".", "d2"))))
    before = deepcopy(launch)
    made = bind_launch(launch, opts=LOCAL, home="/h")
    assert made.app.roles[0].env == {"D": "/repo/jobs"}
    assert made.cfg == {"cwd": "/repo/jobs", "timeout_s": 60}
    assert made.workspace == WorkspaceRef(
        "", "", (ProjectRef("/h/lib", "lib", "d1"), ProjectRef("/repo/jobs/src", ".", "d2"))
    )
    assert made.launch is launch
    assert launch == before


def test_a_bound_launch_runs_in_its_workspace_unless_other_options_are_given() -> None:
    launch = a_launch(WorkspaceRef("../src", "d"))
    made = bind_launch(launch, opts=LOCAL, home="/h")
    assert made.cfg["cwd"] == "/repo/src"
    assert made.workspace == WorkspaceRef("/repo/src", "d")
    assert bind_launch(launch, opts=LOCAL, home="/h", cfg={"cwd": "~/x"}).cfg["cwd"] == "/h/x"
