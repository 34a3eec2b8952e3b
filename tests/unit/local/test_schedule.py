"""The turns of apps that a program starts by the scheduler: at once by default, or in line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.local.scheduler import LocalScheduler
from launcher.specs import AppDef, Resource, Role
from launcher.turns.machine import gpu_table
from launcher.turns.table import tickets

ALL_CORES = Resource(cpu=10**6, gpu=0, memMB=-1)  # more than there are: such an app runs alone
SHOW_GPUS = 'echo "GPUs ${CUDA_VISIBLE_DEVICES-all}"; '


@pytest.fixture
def folder(launcher_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """LAUNCHER_HOME of a user with four GPUs."""
    monkeypatch.setenv("LAUNCHER_GPUS", "4")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return launcher_home


@pytest.fixture
def detached(folder: Path) -> Iterator[LocalScheduler]:
    made = LocalScheduler("s", detach=True)
    yield made
    for app in made.list():
        made.cancel(app.app_id, grace_s=0)
    made.close()


def app_of(script: str = "exec sleep 1000", resource: Resource = ALL_CORES, **role: Any) -> AppDef:
    args = ["-c", script]
    return AppDef("app", [Role(name="r", image="", entrypoint="sh", args=args, resource=resource, **role)])


def gpus(count: int) -> Resource:
    return Resource(cpu=-1, gpu=count, memMB=-1)


def started(scheduler: LocalScheduler, app: AppDef) -> str:
    return scheduler.schedule(scheduler.submit_dryrun(app, {}))


def state(scheduler: LocalScheduler, app_id: str) -> str:
    found = scheduler.record(app_id)
    return found.state


def output(scheduler: LocalScheduler, app_id: str) -> list[str]:
    """Return the output of the first replica at its end."""
    assert scheduler.wait(app_id) is not None
    return [line.rstrip("\n") for line in scheduler.log_iter(app_id, "r")]


def test_no_gpu_is_dealt_to_two_apps(detached: LocalScheduler) -> None:
    detached.in_turn = True
    shown = SHOW_GPUS + "exec sleep 1000"
    one, two = (started(detached, app_of(shown, gpus(2))) for _ in range(2))
    three = started(detached, app_of(SHOW_GPUS, gpus(1)))
    assert state(detached, three) == "queued"
    assert {each.dealt for each in tickets(gpu_table()) if each.app in (one, two)} == {("0", "1"), ("2", "3")}
    detached.cancel(two, grace_s=0)
    assert output(detached, three) == ["GPUs 2"]
    assert output_now(detached, one) == ["GPUs 0,1"]


def output_now(scheduler: LocalScheduler, app_id: str) -> list[str]:
    return [line.rstrip("\n") for line in scheduler.log_iter(app_id, "r")]


# Apps that plans make
