"""Binding puts one checkout and one home into a launch and leaves the run's macros open."""

from copy import deepcopy

import pytest
from hypothesis import given

from launcher.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    InvalidRunConfigException,
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
from tests.unit.specs.strategies import APP, launch_of


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


def test_a_directory_and_a_home_with_the_text_of_a_macro_are_folders():
    mounts = [BindMount("~/x", "/d"), VolumeMount("cache", "/c"), DeviceMount("fuse", "/dev/fuse")]
    role = bound(
        Role("r", "$<job.dir>", args=["$<job.dir>/$<app_id>"], mounts=mounts), "/w/$<app_id>", "/h/$<role>"
    )
    made = macros.Values("", "ID", "0", "").apply(role)
    assert (made.args, made.image) == (["/w/$<app_id>/ID"], "/w/$<app_id>")
    assert made.mounts == [BindMount("/h/$<role>/x", "/d"), *mounts[1:]]  # no paths that could be relative


def test_escapes_in_text_without_run_macros_are_resolved():
    role = bound(Role("r", "a-$$<x>", mounts=[VolumeMount("v", "/$${d}")]))
    assert (role.image, role.mounts[0].dst_path) == ("a-$<x>", "/${d}")


@pytest.mark.parametrize(("source", "absolute"), [
    ("data", "/repo/job/data"), ("./data", "/repo/job/data"), ("../data/", "/repo/data"),
    (".", "/repo/job"), ("/data/../other", "/other"), ("~", "/home/ada"), ("~/data", "/home/ada/data"),
    ("a/~/b", "/repo/job/a/~/b"), ("$<job.dir>/../x", "/repo/x"),
    ("$<app_id>/x", "/repo/job/$<app_id>/x"), ("data-$<replica_id>", "/repo/job/data-$<replica_id>"),
    ("$<img_root>/x/../y", "$<img_root>/x/../y"), ("${img_root}", "${img_root}"),
    ("$$<job.dir>", "/repo/job/$$<job.dir>"),
])  # fmt: skip
def test_sources_of_bind_mounts_become_absolute(source, absolute):
    assert bound(Role("r", "", mounts=[BindMount(source, "/d", True)])).mounts == [
        BindMount(absolute, "/d", True)
    ]


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


def bound_options(cfg: dict[str, object], opts: runopts = LOCAL, **more: object) -> dict[str, object]:
    return bind_cfg(cfg, **{"opts": opts, "timeout_s": None, "directory": "/w", "home": "/h", **more})


@pytest.mark.parametrize(("given", "more", "bound"), [
    ({}, {}, {"cwd": "/w"}),
    ({"cwd": None}, {}, {"cwd": "/w"}),
    ({"cwd": "run"}, {"workspace": "src"}, {"cwd": "/w/run"}),
    ({}, {"opts": options("x"), "workspace": "src"}, {}),
    ({}, {"timeout_s": 60}, {"cwd": "/w", "timeout_s": 60}),
    ({"timeout_s": 5}, {}, {"cwd": "/w", "timeout_s": 5}),
    ({"timeout_s": 60}, {"timeout_s": 60}, {"cwd": "/w", "timeout_s": 60}),
    ({"tags": ["$<job.dir>/a", "$$<x>"]}, {"opts": options("tags")}, {"tags": ["/w/a", "$<x>"]}),
])  # fmt: skip
def test_options_are_bound_to_the_folder_the_workspace_and_the_timeout_of_a_job(given, more, bound):
    before = deepcopy(given)
    assert bound_options(given, **more) == bound
    assert given == before


@pytest.mark.parametrize(("given", "absolute"), [
    ("sub", "/w/sub"), (".", "/w"), ("../x", "/x"), ("/abs", "/abs"), ("$<job.dir>/y", "/w/y"),
    ("~/z", "/h/z"),
])  # fmt: skip
def test_folders_and_workspaces_are_relative_to_the_job_file(given, absolute):
    for option in ("cwd", "log_dir"):
        assert bound_options({option: given}) == {"cwd": "/w", option: absolute}
    assert bound_options({}, workspace=given) == {"cwd": absolute}
    assert bind_workspace(given, directory="/w", home="/h") == absolute


@pytest.mark.parametrize(
    ("given", "opts", "why"),
    [({}, options("cwd"), "has no timeout"), ({"timeout_s": 5}, LOCAL, "given twice: 60 s and 5 s")],
)
def test_a_timeout_that_a_scheduler_cannot_keep_or_that_is_given_twice_is_refused(given, opts, why):
    with pytest.raises(InvalidRunConfigException, match=why) as caught:
        bound_options(given, opts, timeout_s=60)
    assert caught.value.cfg_key == "timeout_s"


def a_launch(workspace: WorkspaceRef) -> Launch:
    app = AppDef("j", [Role("r", "", entrypoint="run", env={"D": "$<job.dir>"})])
    where = {"root": "/repo", "file": "jobs/j.launcher.yaml", "origin": "/repo"}
    return launch_of(app, timeout_s=60, workspace=workspace, **where)


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
