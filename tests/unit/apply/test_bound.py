"""A launch is bound once: an apply creates the app that its plan has dry-run."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import launcher
from launcher.apply import apply_launches, apply_plan, make_plan
from launcher.errors import SchedulerError
from launcher.schedulers.local.scheduler import LocalScheduler
from launcher.schedulers.staged import Reservation
from launcher.specs import AppDef, AppDryRunInfo, CfgVal, Launch
from tests.unit.schedulers.plugins import scheduler_plugins

CALLS: list[tuple[str, AppDef]] = []


class Recorded(LocalScheduler):
    """local_cwd under another name, which records the calls that it gets."""

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[Any]:
        CALLS.append(("dry run", app))
        return super()._submit_dryrun(app, cfg)

    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        CALLS.append(("create", app))
        super().create(reservation, app, cfg)


def create_scheduler(session_name: str, detach: bool = False, **_: object) -> Recorded:
    return Recorded(session_name, backend="recorded", detach=detach)


@pytest.fixture(autouse=True)
def recorded(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    folder = tmp_path_factory.mktemp("installed")
    scheduler_plugins(folder, monkeypatch, recorded=f"{__name__}:create_scheduler")


@pytest.fixture
def launch(tmp_path: Path, launcher_home: Path) -> Launch:
    file = tmp_path / "job.launcher.yaml"
    file.write_text(
        "version: 1\nname: job\nscheduler: recorded\n"
        "roles: {main: {entrypoint: 'true', env: {HERE: $<job.dir>}}}\n"
    )
    return launcher.load_job(str(file))


def asked() -> list[str]:
    return [what for what, _ in CALLS]


def test_a_plan_makes_one_dry_run_of_each_job_that_it_starts_and_keeps_the_request(launch: Launch) -> None:
    plan = make_plan([launch])
    assert asked() == ["dry run"]
    bound = plan.steps[0].bound
    assert "recorded://default/$<app_id>" in repr(bound.info)


def test_an_apply_creates_the_app_that_it_has_dry_run(launch: Launch, tmp_path: Path) -> None:
    apply_launches([launch], wait=True)
    assert asked() == ["dry run", "create"]
    (_, checked), (_, created) = CALLS
    assert created is checked
    assert created.roles[0].env == {"HERE": str(tmp_path)}


def test_finished_work_is_not_dry_run_again(launch: Launch) -> None:
    apply_launches([launch], wait=True)
    CALLS.clear()
    apply_launches([launch], wait=True)
    assert asked() == []


def test_a_plan_that_is_passed_on_is_bound_again_for_the_folder_it_is_applied_in(launch: Launch) -> None:
    """The dry run was made with the plan: an engine can refuse it only when the job is created."""
    apply_plan(make_plan([launch]), wait=True)
    assert asked() == ["dry run", "create"]
    (_, checked), (_, created) = CALLS
    assert created == checked


def test_every_refusal_comes_before_the_first_write(launch: Launch, launcher_home: Path) -> None:
    wrong = replace(launch, key=launch.key._replace(job="wrong"), cfg={"cwd": "/no/such/folder"})
    with pytest.raises(SchedulerError, match=r"wrong: .*no/such/folder"):
        apply_launches([launch, wrong])
    assert "create" not in asked()


OPENS = """
import sys, launcher
opened = []
sys.addaudithook(lambda event, about: opened.append(about[0]) if event == "sqlite3.connect" else None)
launcher.make_plan([launcher.load_job(sys.argv[1])])
print(len(opened))
"""


def test_a_plan_and_the_scheduler_of_its_jobs_read_one_open_ledger(tmp_path, launcher_home):
    file = tmp_path / "job.launcher.yaml"
    file.write_text("version: 1\nname: job\nscheduler: local_cwd\nroles: {main: {entrypoint: 'true'}}\n")
    apply_launches([launcher.load_job(str(file))], wait=True)
    opens = subprocess.check_output([sys.executable, "-c", OPENS, str(file)], text=True)
    assert int(opens) == 1
