"""DockerWorkspaceMixin builds images of workspaces for plug-in schedulers, and pushes them to a registry."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.runner import Runner
from launcher.specs import AppDef, InvalidRunConfigException, Role
from launcher.workspace.docker_workspace import DockerWorkspaceMixin
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.engines.registry import registry, tags
from tests.unit.runner.engine import MemoryScheduler


class ImageScheduler(DockerWorkspaceMixin, MemoryScheduler):
    """A scheduler that would run images on another machine."""


@pytest.fixture
def runner(token: str) -> Iterator[Runner]:
    with Runner("s", {"mine": ImageScheduler}) as opened:
        engine: Any = opened._scheduler("mine")
        yield opened
        for name in {role.image for app in engine.apps.values() for role in app.roles} - {SHELL_IMAGE}:
            Daemon().remove_image(name)


@pytest.fixture
def folder(tmp_path: Path, token: str) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mark").write_text(token)
    return tmp_path / "src"


def app() -> AppDef:
    return AppDef("demo", [Role("r", SHELL_IMAGE, entrypoint="true")])


def image_of(runner: Runner, handle: str) -> str:
    found = runner.describe(handle)
    return found.roles[0].image


def test_a_scheduler_gets_workspace_images_named_by_their_content(runner: Runner, folder: Path) -> None:
    given = app()
    first, again = (image_of(runner, runner.run(given, "mine", workspace=str(folder))) for _ in range(2))
    assert first == again
    assert first.startswith("launcher-workspace:")
    assert given.roles[0].image == SHELL_IMAGE


def test_the_options_of_the_mixin_and_of_the_scheduler_are_both_offered(runner: Runner) -> None:
    assert {"image_repo", "quiet", "queue"} <= dict(runner.scheduler_run_opts("mine")).keys()


def test_a_scheduler_with_the_mixin_connects_to_no_engine_without_a_workspace(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "nonsense")
    with Runner("s", {"mine": ImageScheduler}) as runner:
        runner.run(app(), "mine")


def test_images_are_pushed_to_the_repository_in_the_options(runner, folder, tmp_path):
    engine: Any = runner._scheduler("mine")
    local = image_of(runner, runner.run(app(), "mine", workspace=str(folder)))
    built = AppDef("demo", [Role("r", local), Role("other", "busybox:1")])
    with registry(tmp_path) as address:
        repo, tag = f"{address}/team/{folder.parent.name.lower()}", local.rpartition(":")[2]
        found = engine.dryrun_push_images(built, {"image_repo": repo})
        assert found == {local: (repo, tag)}
        assert [role.image for role in built.roles] == [f"{repo}:{tag}", "busybox:1"]
        try:
            engine.push_images(found)
            assert tags(address, repo.partition("/")[2]) == [tag]
        finally:
            Daemon().remove_image(f"{repo}:{tag}")


def test_a_push_without_a_repository_is_refused() -> None:
    built = AppDef("demo", [Role("r", "launcher-workspace:abc")])
    with pytest.raises(InvalidRunConfigException, match="where to push"):
        DockerWorkspaceMixin().dryrun_push_images(built, {})
    assert built.roles[0].image == "launcher-workspace:abc"
    assert DockerWorkspaceMixin().dryrun_push_images(app(), {}) == {}
    DockerWorkspaceMixin().push_images({})
