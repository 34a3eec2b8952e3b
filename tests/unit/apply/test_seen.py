"""Which jobs have seen files: those whose replicas run in a checkout of this machine."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.apply.engines import Engines
from launcher.apply.observe import CheckoutFiles
from launcher.schedulers.api import Scheduler
from launcher.schedulers.docker.scheduler import DockerScheduler
from launcher.schedulers.local.scheduler import create_dir_scheduler, create_scheduler
from launcher.schedulers.slurm.scheduler import SlurmScheduler
from launcher.specs.app import AppDef, Role
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey, Launch, WorkspaceRef
from launcher.specs.secret import Secret


def launch(root: Path, *, scheduler: str = "local_cwd", image: str = "", **role: object) -> Launch:
    given = {"entrypoint": "python3", "args": ["train.py"], **role}
    return Launch(
        key=JobKey("default", "default", "train"),
        app=AppDef(name="train", roles=[Role(name="main", image=image, **given)]),
        scheduler=scheduler,
        root=str(root),
        file="jobs/train.launcher.yaml",
        origin=str(root),
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("jobs/train.py", "src/train.py", "libs/model.py", "out.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("import model")
    return tmp_path


def seen(job: Launch) -> list[str]:
    with Engines(readonly=True) as engines:
        return sorted(CheckoutFiles(engines).of(job).record)


def test_a_role_runs_beside_its_job_file_or_where_the_job_says(root: Path):
    assert seen(launch(root)) == ["jobs/train.py"]
    assert seen(replace(launch(root), cfg={"cwd": "../src"})) == ["src/train.py"]
    assert seen(replace(launch(root), workspace=WorkspaceRef("../src", "ws1:x"))) == ["src/train.py"]
    assert seen(launch(root, scheduler="local_dir", image="$<job.dir>/../src")) == ["src/train.py"]
    assert seen(launch(root, scheduler="local_dir", image="relative")) == []
    args = ["$<job.dir>/train.py", "${img_root}/../out.txt"]
    assert seen(launch(root, args=args)) == ["jobs/train.py", "out.txt"]


def test_pythonpath_of_a_role_is_searched(root: Path):
    env = {"PYTHONPATH": "../none:../libs:/usr/lib"}
    assert seen(launch(root, env=env)) == ["jobs/train.py", "libs/model.py"]
    assert seen(launch(root, env={"PYTHONPATH": Secret("env:X")})) == ["jobs/train.py"]


def test_schedulers_say_themselves_whether_replicas_run_in_the_checkout():
    for scheduler in (DockerScheduler, SlurmScheduler):
        assert scheduler.checkout_folder is Scheduler.checkout_folder
    assert create_scheduler("s").checkout_folder("", {}) == os.getcwd()
    assert create_dir_scheduler("s").checkout_folder("/tmp", {}) == "/tmp"


def test_a_job_that_runs_outside_of_the_checkout_has_no_seen_files(root: Path):
    assert seen(launch(root, scheduler="slurm")) == []
    assert seen(launch(root, scheduler="local_docker", image="busybox")) == []


def test_files_that_inputs_cover_are_no_seen_files(root: Path):
    with Engines(readonly=True) as engines:
        job = launch(root)
        record = {"jobs/train.py": "other"}
        ran = Attempt(
            key=job.key,
            number=1,
            app_id="train-1",
            scheduler=job.scheduler,
            digest="",
            document={},
            seen=record,
            state="succeeded",
        )
        files = CheckoutFiles(engines)
        assert files.edited(job, ran) == ("jobs/train.py",)
        assert files.edited(job, ran, covered=["jobs/train.py"]) == ()
        assert files.edited(job, replace(ran, state="running")) == ()
        assert files.edited(job, replace(ran, seen={})) == ()
