"""An app id is reserved for its live owner, and goes to the first client after the owner's death."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import ReservedError, SchedulerError
from launcher.schedulers import get_scheduler
from launcher.schedulers.docker import record, reserve, tombstones
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.names import scratch_volume
from launcher.schedulers.owner import this_process
from launcher.specs import AppState
from launcher.specs.attempt import Attempt
from tests import processes
from tests.contract.conftest import DockerCase
from tests.contract.test_staged import attempt_of, observed, seen, submit
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.scenarios.docker_engine.bench import Bench


@pytest.fixture
def elsewhere(case: DockerCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempt]:
    """An attempt that a client on another machine has reserved, with a home on that machine."""
    attempt = attempt_of(case, case.app("true"))
    far = replace(this_process(), host="far-away", boot="b", home="/home/far/.launcher")
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "far"))
        there.setattr(reserve, "this_process", lambda: far)
        reservation: Any = case.another().reserve(attempt)
    yield attempt
    reservation.lock.release()


def taken_over(case: DockerCase) -> Any:
    made: Any = case.another()
    made.take_over = True
    return made


def test_take_over_takes_no_reservation_of_a_living_client_of_this_machine(case, staged):
    reservation = staged.reserve(attempt_of(case, case.app()))
    with pytest.raises(ReservedError, match=f"by pid {os.getpid()} on {os.uname().nodename}"):
        taken_over(case).reserve(reservation.attempt)
    staged.abort(reservation)


def test_take_over_takes_no_running_app(case: DockerCase) -> None:
    attempt = submit(case, case.scheduler, case.app("exec sleep 1000"))
    with pytest.raises(ReservedError, match="running"):
        taken_over(case).reserve(attempt)


def test_a_living_client_with_another_home_keeps_its_reservation(case, staged, tmp_path, monkeypatch):
    reservation = staged.reserve(attempt_of(case, case.app()))
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
        with pytest.raises(ReservedError, match=f"by pid {os.getpid()} "):
            case.another().reserve(reservation.attempt)
        assert case.rests_of(tmp_path / "other")[-1].startswith("container")  # the other's, and no record
    staged.abort(reservation)


def rename_reservation(own: Bench, attempt: Attempt) -> None:
    own.engine.rename(attempt.app_id, own.name())


def test_a_renamed_reservation_of_a_living_client_is_respected(case, staged, own, elsewhere):
    rename_reservation(own, elsewhere)
    with pytest.raises(ReservedError, match=r"taken \(reserved\) by pid \d+ on far-away"):
        staged.reserve(elsewhere)
    [found] = observed(staged)
    assert (found.state, found.owner) == ("reserved", f"pid {os.getpid()} on far-away")
    assert own.engine.inspect(own.name()) is not None
    staged.abort(taken_over(case).reserve(elsewhere))
    assert containers(elsewhere.app_id) == []


def test_a_renamed_reservation_becomes_an_app(case: DockerCase, staged: Any, own: Bench) -> None:
    app = case.app("true")
    attempt = attempt_of(case, app)
    reservation = staged.reserve(attempt)
    rename_reservation(own, attempt)
    staged.create(reservation, app, {})
    assert own.engine.inspect(own.name()) is None
    staged.start(reservation)
    assert case.end(attempt.app_id).state is AppState.SUCCEEDED


def test_a_client_can_abort_its_renamed_reservation(case, staged, own, launcher_home):
    reservation = staged.reserve(attempt_of(case, case.app()))
    rename_reservation(own, reservation.attempt)
    staged.abort(reservation)
    assert case.rests_of(launcher_home) == []


def containers(app_id: str) -> list[str]:
    """Return the containers of an app with their states."""
    own = (one for one in Daemon().containers() if one.labels.get("launcher.app-id") == app_id)
    return sorted(map(str, own))


HALF = """
import json, sys
from launcher.schedulers import get_scheduler
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import app_from_document
from tests.half_start import dies_starting

dies_starting()
staged = get_scheduler("local_docker", "x")
attempt = Attempt.from_json(json.loads(sys.argv[1]))
reservation = staged.reserve(attempt)
staged.create(reservation, app_from_document(attempt.document, "train", {}), {})
staged.start(reservation)
"""


FAR = """
from dataclasses import replace
from launcher.schedulers.docker import reserve
real = reserve.this_process
reserve.this_process = lambda: replace(real(), host="far", boot="b", home="/home/far/.launcher")
"""


def half_started(attempt: Attempt, first: str = "") -> None:
    """Submit an attempt, and kill its client and its watcher after the start of the first replica."""
    ran = subprocess.run([sys.executable, "-c", first + HALF, json.dumps(attempt.to_json())], check=False)
    assert ran.returncode == -signal.SIGKILL


CREATED = """
import json, os, sys
from launcher.schedulers import get_scheduler
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import app_from_document
from tests import processes

staged = get_scheduler("local_docker", "x")
attempt = Attempt.from_json(json.loads(sys.argv[1]))
staged.create(staged.reserve(attempt), app_from_document(attempt.document, "train", {}), {})
processes.kill([*processes.watchers(os.environ["LAUNCHER_HOME"]), os.getpid()])
"""


def test_an_attempt_in_line_whose_containers_a_killed_client_removed_was_not_cancelled(case, monkeypatch):
    """Its watcher was killed, too: after it had created the containers, before it recorded the start."""
    attempt = attempt_of(case, case.app("true"))
    subprocess.run([sys.executable, "-c", CREATED, json.dumps(attempt.to_json())], check=False)
    assert record.append(record.folder(attempt.app_id), "queued")
    assert seen(case.scheduler) == [(attempt.app_id, "created")]

    def remove_and_die(*removals: Any) -> None:
        run_parallel(*removals)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(reserve, "run_parallel", remove_and_die)
        with pytest.raises(KeyboardInterrupt):
            case.another().reserve(attempt)
    assert containers(attempt.app_id) == []
    assert observed(case.scheduler) == []
    case.scheduler.abort(case.scheduler.reserve(attempt))


def test_a_half_started_app_is_not_created_again_survives_an_aborted_resume_and_can_be_cancelled(
    case: DockerCase, staged: Any, launcher_home: Path
) -> None:
    """A replica has run: a changed document gets a new attempt, never the id of this one."""
    attempt = attempt_of(case, case.app("exec sleep 1000", replicas=2))
    half_started(attempt)
    before = containers(attempt.app_id)
    assert len(before) == 2
    with pytest.raises(ReservedError, match="running"):
        staged.reserve(attempt_of(case, case.app("exec sleep 2000", replicas=2)))
    staged.abort(staged.reserve(attempt))
    assert containers(attempt.app_id) == before
    assert [(each.state, each.unstarted) for each in observed(staged)] == [("running", 1)]
    staged.cancel(attempt.app_id)
    assert seen(staged) == [(attempt.app_id, "cancelled")]
    assert processes.of_home(str(launcher_home)) == []


def test_a_half_started_app_of_another_machine_is_watched_here_once_it_was_taken_over(
    case, tmp_path, monkeypatch, launcher_home
):
    app = case.app("exec sleep 1000", replicas=2)
    attempt = attempt_of(case, app)
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "far"))
        half_started(attempt, FAR)
    submit(case, taken_over(case), app)
    watcher = processes.supervisors(str(launcher_home))[attempt.app_id]
    processes.kill([watcher])
    assert processes.gone([watcher], timeout_s=60)
    assert not record.is_locked(record.folder(attempt.app_id))
    assert case.scheduler.describe(attempt.app_id).state is AppState.RUNNING
    assert record.is_locked(record.folder(attempt.app_id))


def test_one_of_many_clients_gets_an_app_id(case: DockerCase) -> None:
    from concurrent.futures import ThreadPoolExecutor

    attempt = attempt_of(case, case.app())

    def take(_: int) -> Any:
        staged: Any = case.another()
        try:
            return staged, staged.reserve(attempt)
        except ReservedError:
            return None

    with ThreadPoolExecutor(8) as pool:
        [(staged, reservation)] = filter(None, pool.map(take, range(8)))
    assert [one.name for one in Daemon().containers() if one.name == attempt.app_id] == [attempt.app_id]
    staged.abort(reservation)


def test_a_read_only_scheduler_refuses_every_change(case: DockerCase, launcher_home: Path) -> None:
    made: Any = get_scheduler("local_docker", case.session, detach=True, readonly=True)
    calls: dict[str, tuple[Any, ...]] = {
        "reserve": (attempt_of(case, case.app()),),
        "submit": (case.app(), {}),
        "cancel": ("some-app",),
        "remove": ("some-app",),
        "reap": (),
        "sweep": (),
    }
    for call, given in calls.items():
        with pytest.raises(SchedulerError, match="readonly"):
            getattr(made, call)(*given)
    made.close()
    assert case.rests_of(launcher_home) == []


def test_an_app_does_not_get_the_scratch_folder_of_an_earlier_app_with_its_id(case, staged):
    app = case.app(f"ls -A $LAUNCHER_SCRATCH >>{case.shared}/seen; touch $LAUNCHER_SCRATCH/old")
    attempt = submit(case, staged, app)
    case.end(attempt.app_id)
    Daemon().remove(
        one for one in Daemon().containers() if one.labels.get("launcher.app-id") == attempt.app_id
    )
    record.remove(record.folder(attempt.app_id))
    with pytest.raises(ReservedError, match="succeeded"):  # its end is on record at the engine
        staged.reserve(attempt)
    staged.forget_outcome(attempt.app_id)
    submit(case, staged, app)
    case.end(attempt.app_id)
    assert (case.shared / "seen").read_text() == ""


def test_a_foreign_volume_is_neither_used_nor_removed(case: DockerCase, own: Bench) -> None:
    app = case.app("true")
    own.engine.create_volume(name := scratch_volume(attempt_of(case, app).app_id), own.labels())
    with pytest.raises(SchedulerError, match="one that is not launcher's has this name") as caught:
        submit(case, case.scheduler, app)
    assert caught.value.hint == f"remove it: docker volume rm {name}"
    assert [each.name for each in own.engine.volumes(own.label)] == [name]


def test_a_volume_that_a_stopping_engine_half_made_is_made_again(case: DockerCase, own: Bench) -> None:
    """The volume has no labels, is younger than the attempt, and would block its name for ever."""
    app = case.app("true")
    attempt = attempt_of(case, app)
    halves = [scratch_volume(attempt.app_id), tombstones.name_of(attempt.app_id)]
    for name in halves:
        own.engine.create_volume(name, {})
    submit(case, case.scheduler, app)
    case.end(attempt.app_id)
    assert all(volume.labels for name in halves if (volume := own.engine.volume(name)))
    assert tombstones.read(own.engine, attempt.app_id) is not None


def test_a_scratch_volume_that_an_engine_half_made_for_a_killed_client_is_made_again(case, own):
    app = case.app("true")
    attempt = replace(attempt_of(case, app), created_at=time.time() + 60)
    own.engine.create_volume(name := scratch_volume(attempt.app_id), {})
    reservation = case.scheduler.reserve(attempt)
    case.scheduler.create(reservation, app, {})
    assert own.engine.volume(name).labels["launcher.app-id"] == attempt.app_id
    case.scheduler.start(reservation)
    case.end(attempt.app_id)


@pytest.mark.parametrize("end", ["", "-r-0"])
def test_a_container_name_that_a_foreign_container_has_is_reported_as_foreign(case, own, end):
    app = case.app("true")
    name = f"{attempt_of(case, app).app_id}{end}"
    own.engine.create(name, {"Image": SHELL_IMAGE, "Labels": own.labels()})
    with pytest.raises(SchedulerError, match=f"not launcher's holds the name {name}(\n|$)") as caught:
        submit(case, case.scheduler, app)
    assert caught.value.hint == f"remove or rename it: docker rm {name}"
