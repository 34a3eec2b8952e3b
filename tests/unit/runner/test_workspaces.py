"""Workspaces in the Python API: every role gets one, and the caller's app stays unchanged."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import LauncherError, SchedulerError
from launcher.runner import Runner, get_runner
from launcher.schedulers.docker.image_build import LABEL
from launcher.specs import AppDef, AppDryRunInfo, AppState, CfgVal, Role, runopts
from launcher.workspace import (
    DirWorkspaceMixin,
    TmpDirWorkspaceMixin,
    Workspace,
    WorkspaceError,
    WorkspaceMixin,
)
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.unit.runner.engine import MemoryScheduler


class DirScheduler(DirWorkspaceMixin, MemoryScheduler):
    pass


class TmpDirScheduler(TmpDirWorkspaceMixin, MemoryScheduler):
    pass


class Own(WorkspaceMixin[None]):
    """A custom workspace, for text that is no path of this machine."""

    def workspace_opts(self) -> runopts:
        opts = runopts()
        opts.add("flavour", str, "how it is built", default="plain")
        return opts

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        role.image = f"{role.image}+{workspace}+{cfg['flavour']}"
        role.env["BUILT"] = "1"


class OwnScheduler(Own, MemoryScheduler):
    pass


def app(*images: str) -> AppDef:
    roles = [Role(f"r{n}", image, entrypoint="echo", env={}) for n, image in enumerate(images or ("a", "b"))]
    return AppDef("demo", roles)


def runner_of(kind: Any) -> tuple[Runner, Any]:
    runner = Runner("s", {"mine": kind})
    return runner, runner._scheduler("mine")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text("print(1)")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "util.py").touch()
    return folder


def test_options_of_the_workspace_are_run_options() -> None:
    _, engine = runner_of(DirScheduler)
    assert {"job_dir", "queue", "depth"} <= dict(engine.run_opts()).keys()


@pytest.mark.parametrize("way", ["runner", "scheduler"])
def test_every_role_of_a_copy_gets_the_workspace(project: Path, tmp_path: Path, way: str) -> None:
    runner, engine = runner_of(DirScheduler)
    given, job_dir = app(), str(tmp_path / "job")
    before = copy.deepcopy(given)
    if way == "runner":
        runner.run(given, "mine", {"job_dir": job_dir}, str(project))
    else:
        engine.submit(given, {"job_dir": job_dir}, str(project))
    (ran,) = engine.apps.values()
    assert [role.image for role in ran.roles] == [job_dir, job_dir]
    assert (tmp_path / "job" / "main.py").exists()
    assert given == before


def test_a_dry_run_builds_nothing(project: Path, tmp_path: Path) -> None:
    runner, _ = runner_of(DirScheduler)
    info = runner.dryrun(app(), "mine", {"job_dir": str(tmp_path / "job")}, str(project))
    assert not (tmp_path / "job").exists()
    runner.schedule(info)
    assert (tmp_path / "job" / "main.py").exists()


class ImagesScheduler(MemoryScheduler):
    """Builds workspaces into images, as local_docker does."""

    builds_workspaces = True

    def workspace_app(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: Any) -> AppDef:
        roles = [replace(role, image=f"{role.image}:{workspace.digest}") for role in app.roles]
        return AppDef(app.name, roles)


def test_an_edit_of_a_dry_run_outlives_the_build(project: Path) -> None:
    runner, engine = runner_of(ImagesScheduler)
    info = runner.dryrun(app(), "mine", workspace=str(project))
    info.request = replace(info.request, name="other")
    assert runner.schedule(info) == "mine://s/other-0"
    assert all(":" in role.image for role in engine.apps["other-0"].roles)


def test_an_edit_that_a_build_would_lose_is_refused(project: Path, tmp_path: Path) -> None:
    runner, engine = runner_of(DirScheduler)
    info = runner.dryrun(app(), "mine", {"job_dir": str(tmp_path / "job")}, str(project))
    info.request = AppDef("other", info.request.roles)
    with pytest.raises(SchedulerError, match="edits are lost"):
        runner.schedule(info)
    assert engine.apps == {}


def test_several_projects_are_merged_into_one_folder_for_all_roles(project, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runner, engine = runner_of(TmpDirScheduler)
    runner.run(app(), "mine", workspace=Workspace({str(project): "", str(tmp_path / "lib"): "lib"}))
    (ran,) = engine.apps.values()
    (image,) = {role.image for role in ran.roles}
    assert (Path(image) / "lib" / "util.py").exists()
    assert [str(made) for made in tmp_path.glob("launcher_workspace_*")] == [image]


def test_a_custom_mixin_gets_the_text_and_the_resolved_options() -> None:
    runner, engine = runner_of(OwnScheduler)
    given = app()
    runner.run(given, "mine", workspace="//foo/bar:main")
    (ran,) = engine.apps.values()
    assert [role.image for role in ran.roles] == ["a+//foo/bar:main+plain", "b+//foo/bar:main+plain"]
    assert [role.env for role in given.roles] == [{}, {}]


@pytest.mark.parametrize("way", ["runner", "scheduler"])
def test_roles_see_one_request_of_a_submission(way: str) -> None:
    seen: list[str] = []

    class Watching(Role):
        def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
            seen.append(dryrun_info.request.roles[0].image)
            return dryrun_info

    runner, engine = runner_of(OwnScheduler)
    given = AppDef("demo", [Watching("r", "a", entrypoint="echo")])
    if way == "runner":
        runner.run(given, "mine", workspace="//foo")
    else:
        engine.submit(given, {}, "//foo")
    assert seen == ["a+//foo+plain"]


def test_a_failed_build_submits_nothing(tmp_path: Path) -> None:
    runner, engine = runner_of(DirScheduler)
    with pytest.raises(WorkspaceError):
        runner.run(app(), "mine", {"job_dir": str(tmp_path / "job")}, str(tmp_path / "none"))
    assert engine.apps == {}
    assert not (tmp_path / "job").exists()


def test_a_scheduler_that_cannot_build_a_workspace_refuses_it(project: Path) -> None:
    runner, _ = runner_of(MemoryScheduler)
    with pytest.raises(SchedulerError, match="cannot build workspaces"):
        runner.run(app(), "mine", workspace=str(project))
    with pytest.raises(SchedulerError, match="not 7"):
        get_runner().dryrun(app(), "local_cwd", workspace=7)


# local


def local(script: str) -> AppDef:
    return AppDef("demo", [Role("main", "", entrypoint="sh", args=["-c", script])])


@pytest.mark.parametrize("form", [str, Path, "file://{}".format, lambda path: Workspace({str(path): ""})])
def test_local_cwd_runs_in_the_folder_itself(project: Path, form: Any) -> None:
    with get_runner() as runner:
        handle = runner.run(local("pwd; cat main.py"), "local_cwd", workspace=form(project))
        runner.wait(handle, timeout_s=30)
        assert list(runner.log_lines(handle, "main")) == [f"{project}\n", "print(1)"]


def test_local_schedulers_refuse_the_workspaces_in_which_an_app_cannot_run(project, tmp_path):
    several = Workspace({str(project): "", str(tmp_path / "lib"): "lib"})
    in_folder = AppDef("demo", [Role("main", str(project), entrypoint="true")])
    with get_runner() as runner:
        runner.dryrun(local("true"), "local_cwd", {"cwd": str(project)}, str(project))
        for given, scheduler, cfg, workspace, why, hint in (
            (local("true"), "local_cwd", {}, several, "one folder", "local_docker"),
            (local("true"), "local_cwd", {"cwd": str(tmp_path)}, str(project), "`cwd`", ""),
            (in_folder, "local_dir", {}, str(project), "workspace", "image"),
        ):
            with pytest.raises(LauncherError, match=why) as refused:
                runner.run(given, scheduler, cfg, workspace)
            assert hint in (refused.value.hint or "")


# docker


@pytest.mark.parametrize("form", [Workspace, lambda projects: str(projects).replace("'", '"')])
def test_projects_are_put_together_in_an_image_and_the_copy_is_gone(
    project: Path, tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch, form: Any
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (project / "mark").write_text(token)
    workspace = form({str(project): "", str(tmp_path / "lib"): "lib"})
    given = AppDef("demo", [Role("main", SHELL_IMAGE, entrypoint="sh", args=["-c", "cat mark; ls lib"])])
    with get_runner(token) as runner:
        info = runner.dryrun(given, "local_docker", workspace=workspace)
        assert list((tmp_path / "tmp").iterdir()) == []
        handle = runner.schedule(info)
        image = info.request.containers[0].image
        try:
            status = runner.wait(handle, timeout_s=60)
            assert status.state == AppState.SUCCEEDED
            assert "".join(runner.log_lines(handle, "main")) == f"{token}util.py\n"
            assert list((tmp_path / "tmp").iterdir()) == []
        finally:
            _remove(image, token)


def _remove(image: str, token: str) -> None:
    daemon = Daemon()
    daemon.remove(
        [
            each
            for each in daemon.everything()
            if each.labels.get("launcher.session") == token or (each.name == image and LABEL in each.labels)
        ]
    )


def test_a_project_that_changes_after_the_dry_run_is_refused(project, tmp_path, token):
    (project / "mark").write_text(token)
    workspace = Workspace({str(project): "", str(tmp_path / "lib"): "lib"})
    with get_runner(token) as runner:
        app = AppDef("demo", [Role("r", SHELL_IMAGE, entrypoint="true")])
        info = runner.dryrun(app, "local_docker", workspace=workspace)
        (project / "main.py").write_text("print(2)")
        with pytest.raises(WorkspaceError, match="changed"):
            runner.schedule(info)
