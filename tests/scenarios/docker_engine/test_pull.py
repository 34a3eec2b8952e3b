"""Pulls of the images of an app, and their reports, with a registry on this machine."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers.docker import images
from launcher.schedulers.docker.client.errors import ImageNotFound
from launcher.schedulers.docker.image_build import build_workspace
from launcher.schedulers.workspaces import bind_workspace
from launcher.specs import AppDef, Role
from tests.contract.conftest import DockerCase
from tests.contract.test_staged import attempt_of
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.engines.registry import registry
from tests.scenarios.docker_engine.bench import Bench, bench


class Pulls:
    """An image in its own registry, an app of one role that runs it, and the reports of its pulls."""

    def __init__(self, case: DockerCase, own: Bench, address: str) -> None:
        self.case = case
        self.engine = own.engine
        self.own = own
        self.image = f"{address}/{own.token}:1"
        self.events: list[tuple[str, str, Mapping[str, Any]]] = []
        case.scheduler.on_progress = lambda *news: self.events.append(news)

    def here(self, version: str) -> str:
        """Give the engine this version of the image; return its id."""
        made = self.own.create("sh", "-c", f"echo {version} >/version")
        self.engine.start(made)
        self.own.ended(made)
        committed = commit(made, self.image, {"launcher.session": self.own.token})
        self.engine.remove(made)
        return committed

    def there(self, version: str) -> None:
        """Give the registry this version of the image, and remove the image from the engine."""
        self.here(version)
        self.engine.push(self.image)
        Daemon().remove_image(self.image)

    def run(self, policy: str) -> str:
        """Run an app; return the version of its image."""
        role = Role("r", self.image, entrypoint="cat", args=["/version"])
        app_id = self.case.start(AppDef("pulls", [role]), image_pull=policy)
        self.case.end(app_id)
        return self.case.lines(app_id)[0].strip()


def commit(container: str, name: str, labels: Mapping[str, str]) -> str:
    """Make an image of a container; return its id."""
    repo, _, tag = name.rpartition(":")
    found = Daemon().ask("POST", "/commit", {"Labels": labels}, container=container, repo=repo, tag=tag)
    return str(found["Id"])


@pytest.fixture
def pulls(case: DockerCase, token: str, tmp_path: Path) -> Iterator[Pulls]:
    with registry(tmp_path) as address, bench(token) as own:
        yield Pulls(case, own, address)
        own.clear()
        for image in own.engine.images(own.label):
            for tag in image.tags or (image.id,):
                Daemon().remove_image(tag)


def test_a_missing_image_is_pulled_once_and_the_pull_is_reported_with_app_and_image(pulls: Pulls) -> None:
    pulls.there("one")
    assert pulls.run("missing") == "one"
    [app_id] = {app_id for app_id, _, _ in pulls.events}
    assert app_id == pulls.case.listed()[0].app_id
    assert list(dict.fromkeys(kind for _, kind, _ in pulls.events)) == ["pulling", "pulled"]
    assert all(facts["image"] == pulls.image for _, _, facts in pulls.events)
    sizes = [(facts["done"], facts["total"]) for _, _, facts in pulls.events if facts.get("total")]
    assert all(0 <= done <= total for done, total in sizes)
    pulls.events.clear()
    assert pulls.run("missing") == "one"
    assert pulls.events == []


def test_an_image_on_the_engine_is_used_unless_the_policy_is_always(pulls: Pulls) -> None:
    pulls.there("new")
    pulls.here("old")
    assert pulls.run("never") == "old"
    assert pulls.run("missing") == "old"
    assert pulls.events == []
    assert pulls.run("always") == "new"


def test_an_image_that_no_registry_has_is_named_and_leaves_no_container(pulls, launcher_home):
    with pytest.raises(SchedulerError, match=f"cannot create r/0: image {pulls.image}: .*not found"):
        pulls.run("missing")
    assert pulls.case.rests_of(launcher_home) == []


@pytest.mark.parametrize("policy", ["missing", "always"])
def test_an_attempt_pulls_the_image_of_its_reservation(pulls: Pulls, policy: str) -> None:
    """The reservation uses the first image of the app; its pull is reported once, under the app id."""
    pulls.there("one")
    staged: Any = pulls.case.scheduler
    app = AppDef("pulls", [Role("r", pulls.image, entrypoint="cat", args=["/version"])])
    attempt = attempt_of(pulls.case, app)
    attempt = replace(attempt, document={**attempt.document, "cfg": {"image_pull": policy}})
    reservation = staged.reserve(attempt)
    staged.create(reservation, app, {"image_pull": policy})
    staged.start(reservation)
    pulls.case.end(attempt.app_id)
    assert [(app_id, kind) for app_id, kind, _ in pulls.events if kind == "pulled"] == [
        (attempt.app_id, "pulled")
    ]


def test_the_base_of_a_workspace_is_pulled_once_for_an_attempt(pulls: Pulls, tmp_path: Path) -> None:
    pulls.there("one")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "token").write_text(pulls.own.token)
    staged: Any = pulls.case.scheduler
    app, cfg = AppDef("pulls", [Role("r", pulls.image, entrypoint="cat")]), {"image_pull": "always"}
    attempt = attempt_of(pulls.case, app)
    reservation = staged.reserve(replace(attempt, document={**attempt.document, "cfg": cfg}))
    built = staged.build_workspace(app, cfg, bind_workspace(tmp_path / "src"), app_id=attempt.app_id)
    staged.abort(reservation)
    assert [kind for _, kind, _ in pulls.events if kind == "pulled"] == ["pulled"]
    Daemon().remove_image(built.roles[0].image)


def test_an_attempt_that_may_not_pull_leaves_no_container_when_its_image_is_missing(
    pulls: Pulls, launcher_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reservation uses another image of the engine, and takes one more where the first is gone."""
    found = iter(["sha256:" + "0" * 64, SHELL_IMAGE])
    monkeypatch.setattr(images, "any_of", lambda _: next(found))
    staged: Any = pulls.case.scheduler
    app, cfg = AppDef("pulls", [Role("r", pulls.image, entrypoint="cat")]), {"image_pull": "never"}
    attempt = attempt_of(pulls.case, app)
    reservation = staged.reserve(replace(attempt, document={**attempt.document, "cfg": cfg}))
    with pytest.raises(SchedulerError, match=f"cannot create r/0: image {pulls.image}: ") as caught:
        staged.create(reservation, app, cfg)
    assert list(found) == []
    assert "docker pull" in (caught.value.hint or "")
    assert pulls.case.rests_of(launcher_home) == []
    assert pulls.events == []


def test_the_image_of_a_workspace_is_asked_of_no_registry(pulls: Pulls, tmp_path: Path) -> None:
    """With image_repo the image has the name of a registry, also where it was built without a push."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "token").write_text(pulls.own.token)
    app = AppDef("app", [Role("r", SHELL_IMAGE, entrypoint="sh")])
    workspace = bind_workspace(tmp_path / "src")
    built = build_workspace(pulls.engine, app, {}, workspace).roles[0].image
    try:
        assert images.ensure_image(pulls.engine, built, "always", pulls.events.append) is not None
        assert pulls.events == []
    finally:
        Daemon().remove_image(built)
    with pytest.raises(ImageNotFound, match=f"the engine has no image {built}"):  # removed by hand
        images.ensure_image(pulls.engine, built, "missing", pulls.events.append)
    assert pulls.events == []


def test_an_image_based_on_a_workspace_image_is_pulled_like_any_other(pulls, tmp_path):
    """The image inherits the labels of its base, and is no workspace image."""
    pulls.there("new")
    role = Role("r", SHELL_IMAGE, entrypoint="sh")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "token").write_text(pulls.own.token)
    workspace = bind_workspace(tmp_path / "src")
    built = build_workspace(pulls.engine, AppDef("app", [role]), {}, workspace).roles[0].image
    pulls.engine.tag(built, pulls.image)
    try:
        assert pulls.run("always") == "new"
    finally:
        Daemon().remove_image(built)
