"""The schedulers under the import paths and with the arguments that programs from elsewhere use."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers import DEFAULT_SCHEDULER_MODULES
from launcher.schedulers.docker_scheduler import (
    DockerScheduler,
    create_scheduler as create_docker,
    has_docker,
)
from launcher.schedulers.local_scheduler import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    LocalScheduler,
    create_scheduler,
)
from launcher.specs import AppDef, AppDryRunInfo, Role


def app(script: str = "true", image: str = "") -> AppDef:
    return AppDef("demo", [Role("main", image, entrypoint="sh", args=["-c", script])])


def first(scheduler: LocalScheduler, given: AppDef, **cfg: object) -> object:
    """Return the first replica of a dry run."""
    return scheduler.submit_dryrun(given, cfg).request.role_params["main"][0]


def test_the_schedulers_are_made_with_the_arguments_that_torchx_takes(tmp_path: Path) -> None:
    assert create_scheduler("s", cache_size=5, unknown="x").backend == "local_cwd"
    assert LocalScheduler("s", CWDImageProvider, cache_size=100).backend == "local_cwd"
    by_folder = LocalScheduler("s", image_provider_class=LocalDirectoryImageProvider)
    assert by_folder.backend == "local_dir"
    assert first(by_folder, app(image=str(tmp_path))).cwd == str(tmp_path)
    assert isinstance(create_docker("s"), DockerScheduler)
    assert set(DEFAULT_SCHEDULER_MODULES) == {"local_cwd", "local_docker"}


def test_a_cache_size_below_one_app_is_refused() -> None:
    with pytest.raises(ValueError, match="cache_size of at least 1, got 0"):
        LocalScheduler("s", CWDImageProvider, cache_size=0)


class Fetched(ImageProvider):
    """An image provider of a user, which knows nothing of our providers."""

    def __init__(self, cfg: object) -> None:
        self.root = "/images"

    def fetch_role(self, role: Role) -> str:
        role.env["FETCHED"] = role.image
        return f"{self.root}/{role.image}"

    def get_cwd(self, image: str) -> str | None:
        return None


def test_a_custom_image_provider_decides_where_roles_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = app(image="train")
    before = deepcopy(given)
    param = first(LocalScheduler("s", Fetched, extra_paths=["/opt/x"]), given)
    assert param.args[0] == "/images/train/sh"
    assert (param.cwd, param.env["FETCHED"]) == (str(tmp_path), "train")
    assert param.env["PATH"] == f"/opt/x:{tmp_path}"
    assert given == before


def test_a_missing_image_folder_is_a_value_error(tmp_path: Path) -> None:
    provider = LocalDirectoryImageProvider({})
    assert provider.fetch(str(tmp_path)) == str(tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        provider.fetch(str(tmp_path / "none"))


def test_torchelastic_logs_follow_the_log_folder(tmp_path: Path) -> None:
    param = first(LocalScheduler("s"), app(), log_dir=str(tmp_path))
    assert param.env["PET_LOG_DIR"] == f"{tmp_path}/s/$<app_id>/torchelastic/main"


def test_an_edited_request_runs_as_it_was_edited_or_not_at_all(tmp_path: Path) -> None:
    scheduler = LocalScheduler("s")
    try:
        info = scheduler.submit_dryrun(app(), {"log_dir": str(tmp_path / "logs")})
        info.request.role_params["main"][0].args[-1] = "pwd; echo $ADDED"
        info.request.role_params["main"][0].env["ADDED"] = "yes"
        info.request.role_params["main"][0].cwd = str(tmp_path)
        app_id = scheduler.schedule(info)
        scheduler.wait(app_id, 30)
        assert list(scheduler.log_iter(app_id, "main")) == [f"{tmp_path}\n", "yes\n"]
        info.request.role_params["main"][0].stdout = "/tmp/mine.log"
        with pytest.raises(SchedulerError, match="`stdout` of main/0 is /tmp/mine"):
            scheduler.schedule(info)
        request = replace(info.request, app_dir="/x")
        with pytest.raises(SchedulerError, match="`app_dir`"):
            scheduler.schedule(AppDryRunInfo(request, str, app=app(), cfg=info.cfg))
    finally:
        scheduler.close()


def test_has_docker_is_false_where_no_engine_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert has_docker() is False
    monkeypatch.setenv("DOCKER_HOST", "nonsense")
    assert has_docker() is False
