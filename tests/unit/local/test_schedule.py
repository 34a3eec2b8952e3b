"""The turns of apps that a program starts by the scheduler: at once by default, or in line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher import paths
from launcher.schedulers.local import rundir
from launcher.schedulers.local.scheduler import LocalScheduler
from launcher.specs import AppDef, AppState, Resource, Role
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import digest, document
from launcher.specs.jobkey import JobKey, attempt_id
from launcher.specs.launch import Launch
from launcher.turns.asking import ask_of
from launcher.turns.folders import gpu_table, slots_table
from launcher.turns.machine import machine
from launcher.turns.table import draw, tickets
from tests import processes

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
def attached(folder: Path) -> Iterator[LocalScheduler]:
    made = LocalScheduler("s")
    yield made
    made.close()


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
    assert found is not None
    return found.state


def output(scheduler: LocalScheduler, app_id: str) -> list[str]:
    """What the first replica has printed at the end."""
    assert scheduler.wait(app_id) is not None
    return [line.rstrip("\n") for line in scheduler.log_iter(app_id, "r")]


def in_line(folder: str = "") -> list[tuple[str, str]]:
    return [(each.app, each.state) for each in tickets(folder or slots_table())]


def test_apps_start_at_once_over_capacity_too(attached: LocalScheduler) -> None:
    one, two = started(attached, app_of()), started(attached, app_of())
    assert [state(attached, each) for each in (one, two)] == ["running", "running"]
    assert in_line() == [(one, "holds"), (two, "holds")]


def test_an_app_in_line_waits_for_those_that_started_at_once(detached: LocalScheduler) -> None:
    one = started(detached, app_of())
    detached.in_turn = True
    two = started(detached, app_of("echo ran"))
    seen = detached.describe(two)
    assert seen is not None
    assert (state(detached, two), seen.state) == ("queued", AppState.PENDING)
    detached.cancel(one, grace_s=0)
    assert output(detached, two) == ["ran"]
    assert in_line() == []


def test_an_attached_app_in_line_ends_with_its_scheduler(
    attached: LocalScheduler, detached: LocalScheduler
) -> None:
    started(detached, app_of())
    attached.in_turn = True
    app_id = started(attached, app_of("echo ran"))
    assert state(attached, app_id) == "queued"
    attached.close()
    found = detached.record(app_id)
    assert found is not None
    assert (found.state, found.message) == ("cancelled", "its Runner was closed")
    assert list(detached.log_iter(app_id, "r")) == []


def test_an_attached_app_in_line_ends_with_its_process(detached: LocalScheduler, folder: Path) -> None:
    started(detached, app_of())
    script = (
        "import sys, os, signal\n"
        "from tests.unit.local.test_schedule import LocalScheduler, app_of, started\n"
        "scheduler = LocalScheduler('s')\nscheduler.in_turn = True\n"
        "print(started(scheduler, app_of('echo ran')), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    app_id = done.stdout.strip()
    assert detached.wait(app_id) is not None
    found = detached.record(app_id)
    assert found is not None
    assert (found.state, found.message) == ("cancelled", "its parent process ended")


def test_an_app_that_asks_for_nothing_has_no_ticket(detached: LocalScheduler) -> None:
    started(detached, app_of(resource=Resource(-1, -1, -1)))
    assert not os.path.exists(paths.slots())


def test_a_run_of_an_app_that_asks_for_nothing_loads_nothing_for_turns(scenario: Any) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "launcher", "run", str(scenario.job("true"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "launcher.schedulers.local.supervisor_client" in done.stderr
    assert "launcher.turns" not in done.stderr


def test_a_dry_run_shows_that_gpus_are_dealt_later(detached: LocalScheduler) -> None:
    text = str(detached.submit_dryrun(app_of(resource=gpus(1)), {}))
    assert "CUDA_VISIBLE_DEVICES=$<gpus>" in text


def test_gpus_are_dealt_once(detached: LocalScheduler) -> None:
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


def test_over_capacity_the_least_used_gpus_are_shared(detached: LocalScheduler) -> None:
    started(detached, app_of(resource=gpus(3)))
    assert output(detached, started(detached, app_of(SHOW_GPUS, gpus(2)))) == ["GPUs 3,0"]


def test_a_roles_own_variable_wins(detached: LocalScheduler) -> None:
    app = app_of(SHOW_GPUS, gpus(1), env={"CUDA_VISIBLE_DEVICES": "7"})
    assert output(detached, started(detached, app)) == ["GPUs 7"]


def test_an_inherited_variable_narrows_what_is_dealt(
    detached: LocalScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,2")
    assert output(detached, started(detached, app_of(SHOW_GPUS, gpus(1)))) == ["GPUs 3"]


def test_a_restarted_replica_keeps_its_gpus(detached: LocalScheduler) -> None:
    script = SHOW_GPUS + "exit $((1 - LAUNCHER_RESTART))"
    app = app_of(script, gpus(2), num_replicas=1, max_retries=1)
    assert output(detached, started(detached, app)) == ["GPUs 0,1", "GPUs 0,1"]


def test_two_state_folders_share_the_gpus(
    detached: LocalScheduler, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started(detached, app_of(resource=gpus(3)))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
        other = LocalScheduler("s", detach=True)
        other.in_turn = True
        assert output(other, started(other, app_of(SHOW_GPUS, gpus(1)))) == ["GPUs 3"]
        waits = started(other, app_of(resource=gpus(2)))
        assert state(other, waits) == "queued"
        other.cancel(waits)
        other.close()


# Apps that plans make


def attempt_of(app: AppDef, name: str = "job", number: int = 1) -> Attempt:
    key = JobKey("p", "default", name)
    made = document(Launch(key=key, app=app, scheduler="local_cwd", root="/", file="f", origin="o"))
    return Attempt(
        key=key,
        number=number,
        app_id=attempt_id(key, number),
        scheduler="local_cwd",
        digest=digest(made),
        document=made,
    )


def applied(scheduler: LocalScheduler, app: AppDef, name: str, *, turn: bool = True) -> tuple[str, str]:
    """Submit an attempt that waits for its turn; its app id and the state in which it was accepted."""
    reservation = scheduler.reserve(attempt_of(app, name))
    if turn:
        reservation.turn = ask_of(app, reservation.app_id, machine(with_gpus=True))
        assert reservation.turn is not None
        reservation.turn.number = draw(reservation.turn.tables, 1)
    scheduler.create(reservation, app, {})
    scheduler.start(reservation)
    return reservation.app_id, reservation.accepted


def test_an_attempt_is_accepted_in_line(detached: LocalScheduler) -> None:
    assert detached.on_this_machine()
    one, first = applied(detached, app_of(), "one")
    two, second = applied(detached, app_of("echo ran"), "two")
    assert (first, second) == ("running", "queued")
    found = detached.attempt(two)
    assert found is not None
    assert (found.state, found.message) == ("queued", "waits for its turn")
    assert found.owner.startswith("pid ")
    assert [each.app_id for each in detached.observe([], [one])] == [two]
    detached.cancel(one, grace_s=0)
    assert output(detached, two) == ["ran"]


def test_an_attempt_whose_supervisor_died_in_line_is_submitted_again(
    detached: LocalScheduler, folder: Path
) -> None:
    one, _ = applied(detached, app_of(), "one")
    two, _ = applied(detached, app_of("echo ran"), "two")
    os.kill(processes.supervisors(str(folder))[two], signal.SIGKILL)
    view = rundir.read_state(rundir.app_dir(str(folder / "local"), two))
    while view is not None and view.lock_held:
        time.sleep(0.01)
        view = rundir.read_state(rundir.app_dir(str(folder / "local"), two))
    found = detached.attempt(two)
    assert found is not None
    assert (found.state, found.owner) == ("queued", "")
    assert in_line() == [(one, "holds")]
    again, accepted = applied(detached, app_of("echo ran"), "two")
    assert (again, accepted) == (two, "queued")
    detached.cancel(one, grace_s=0)
    assert output(detached, two) == ["ran"]


def test_a_withdrawn_attempt_never_runs(detached: LocalScheduler) -> None:
    one, _ = applied(detached, app_of(), "one")
    two, _ = applied(detached, app_of(), "two")
    assert not detached.withdraw(one)
    assert detached.withdraw(two)
    found = detached.attempt(two)
    assert found is not None
    assert (found.state, found.message, found.started_at) == ("skipped", "withdrawn", None)
    assert in_line() == [(one, "holds")]


def test_without_a_turn_each_replica_sees_all_gpus(detached: LocalScheduler) -> None:
    app_id, accepted = applied(detached, app_of(SHOW_GPUS, gpus(2)), "job", turn=False)
    assert accepted == "running"
    assert output(detached, app_id) == ["GPUs all"]
