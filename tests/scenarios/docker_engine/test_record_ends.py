"""reap returns the ends of apps that have a record here, and removes the containers of dead clients."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import LauncherError
from launcher.schedulers.docker import record, tombstones
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.names import scratch_volume
from launcher.schedulers.docker.status import DockerAppView
from launcher.schedulers.docker.watching import ends
from launcher.schedulers.docker.watching.ends import record_ends
from launcher.schedulers.owner import this_process
from launcher.schedulers.registry import open_store
from launcher.specs.attempt import Attempt
from launcher.state.records import AppRecord
from tests import processes
from tests.contract.conftest import DockerCase
from tests.contract.test_staged import KILLED, attempt_of, seen, submit
from tests.engines.docker import Daemon
from tests.scenarios.docker_engine.raw_apps import SLEEP, RawApp
from tests.scenarios.docker_engine.sweeps import traces


def ended(case: DockerCase) -> str:
    """Run an attempt to its end; return its app id. No client has read the end."""
    attempt = submit(case, case.scheduler, case.app("exit 3"))
    case.end(attempt.app_id)
    return attempt.app_id


def recorded_ends(case: DockerCase) -> list[tuple[str, str]]:
    staged: Any = case.scheduler
    return [(each.app_id, each.state) for each in staged.reap()]


def test_reap_does_not_return_the_end_of_an_app_of_another_home(case, tmp_path, monkeypatch):
    app_id = ended(case)
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
        assert recorded_ends(case) == []
    assert recorded_ends(case) == [(app_id, "failed")]


def test_reap_keeps_containers_that_a_client_of_another_home_has_created(case, staged, tmp_path, monkeypatch):
    app = case.app()
    reservation = staged.reserve(attempt_of(case, app))
    staged.create(reservation, app, {})
    before = traces(reservation.app_id)
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
        assert recorded_ends(case) == []
    assert traces(reservation.app_id) == before
    staged.abort(reservation)


def test_reap_removes_the_record_of_a_recorded_app_without_containers(case: DockerCase) -> None:
    app_id = ended(case)
    recorded_ends(case)
    assert record.exists(record.folder(app_id))
    daemon = Daemon()
    daemon.remove([one for one in daemon.everything() if one.labels.get("launcher.app-id") == app_id])
    assert recorded_ends(case) == []
    assert not record.exists(record.folder(app_id))


def test_reap_removes_the_containers_that_a_killed_run_has_created(case, launcher_home):
    """No later apply would take up an app without a job."""
    gone = subprocess.Popen(["true"])
    owner = replace(this_process(), pid=gone.pid)
    gone.wait()
    with closing(connect()) as engine:
        app = RawApp(engine, case.session, {"r": [SLEEP, SLEEP]}, owner=owner)
        lock = record.claim(app.app_dir)
        app.create()
        lock.release()
        assert record_ends(engine) == []
    assert case.rests_of(launcher_home) == []


def created(case: DockerCase) -> Any:
    """Return a reservation whose two replicas exist and have a scratch volume."""
    staged: Any = case.scheduler
    app = case.app(replicas=2)
    reservation = staged.reserve(attempt_of(case, app))
    staged.create(reservation, app, {})
    return reservation


def test_a_replica_that_the_engine_creates_after_its_list_does_not_count_as_started(case, monkeypatch):
    """A client may be killed while the engine works on its last request."""
    reservation = created(case)
    late, lists = [], ends.list_containers

    def listed(engine: Any, app_id: str) -> Any:
        found = lists(engine, app_id)
        if not late:
            late.extend(each for each in found if each.name.endswith("-r-1"))
            return [each for each in found if each not in late]
        return found

    monkeypatch.setattr(ends, "list_containers", listed)
    with closing(connect()) as engine:
        assert ends.remove_objects(engine, reservation.app_id, force=False)
    assert (len(late), traces(reservation.app_id)) == (1, [])
    case.scheduler.abort(reservation)


def test_an_app_is_removed_although_another_program_uses_its_volume(case, monkeypatch):
    monkeypatch.setattr(ends, "_IN_USE_S", 0.0)
    reservation = created(case)
    volume = scratch_volume(reservation.app_id)
    body = {"Image": case.image, "Cmd": ["true"], "HostConfig": {"Binds": [f"{volume}:/scratch"]}}
    user = Daemon().ask("POST", "/containers/create", {**body, "Labels": {"launcher.session": case.session}})
    with closing(connect()) as engine:
        assert ends.remove_objects(engine, reservation.app_id, force=False)
        assert [volume in each for each in traces(reservation.app_id)] == [True]
        engine.remove(user["Id"])
    case.scheduler.abort(reservation)
    assert traces(reservation.app_id) == []


def test_reap_keeps_the_reservation_of_a_killed_apply(case: DockerCase) -> None:
    attempt = attempt_of(case, case.app("true"))
    argv = [sys.executable, "-c", KILLED, case.name, "reserved", json.dumps(attempt.to_json())]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout.readline() == "there\n"
        client.send_signal(signal.SIGKILL)
    assert recorded_ends(case) == []
    assert seen(case.scheduler) == [(attempt.app_id, "reserved")]
    submit(case, case.scheduler, case.app("true"))
    case.end(attempt.app_id)


def test_reap_starts_a_watcher_for_an_app_without_one(case: DockerCase, launcher_home: Path) -> None:
    attempt = submit(case, case.scheduler, case.app("exec sleep 1000"))
    watcher = processes.supervisors(str(launcher_home))[attempt.app_id]
    processes.kill([watcher])
    assert processes.gone([watcher], timeout_s=60)
    assert not record.is_locked(record.folder(attempt.app_id))
    assert recorded_ends(case) == []
    assert record.is_locked(record.folder(attempt.app_id))


def test_the_outcome_at_the_engine_is_that_of_its_first_writer_unless_that_writer_lost_it(case, own):
    """Two clients may judge one end at different moments, as before and after a restart of the engine."""
    attempt = submit(case, case.scheduler, case.app("exec sleep 1000"))
    labels = own.engine.containers(f"launcher.app-id={attempt.app_id}")[0].labels
    lost, failed, succeeded = (
        DockerAppView(state=state, message=state, ended_at=at, final=True)
        for at, state in enumerate(("lost", "failed", "succeeded"))
    )
    for view, stays in ((lost, lost), (lost, lost), (failed, failed), (succeeded, failed), (lost, failed)):
        found = tombstones.write(own.engine, labels, view)
        stone = tombstones.read(own.engine, attempt.app_id).outcome
        assert (found.state, found.message, found.ended_at) == (stone.state, stone.message, stone.ended_at)
        assert found.state == stays.state
    case.scheduler.cancel(attempt.app_id, grace_s=0)
    assert case.scheduler.attempt(attempt.app_id).state == "failed"


DOCKER = "local_docker"


def on_record() -> dict[str, AppRecord]:
    with open_store(readonly=True) as store:
        return {app.app_id: app for app in store.apps(DOCKER)}


def test_an_app_has_a_row_from_its_reservation_to_its_removal(case: DockerCase, staged: Any) -> None:
    attempt = attempt_of(case, case.app("exit 3"))
    reservation = staged.reserve(attempt)
    assert on_record()[attempt.app_id].key == attempt.key
    staged.abort(reservation)
    assert on_record() == {}
    ended: Attempt = submit(case, staged, case.app("exit 3"))
    case.end(ended.app_id)
    assert [each.app_id for each in staged.reap()] == [ended.app_id]
    app = on_record()[ended.app_id]
    assert (app.state, app.exit_code, app.name) == ("failed", 3, attempt.key.job)
    staged.remove(ended.app_id)
    assert on_record() == {}


def test_an_app_that_no_job_file_made_has_a_row(case: DockerCase, staged: Any) -> None:
    app_id = case.scheduler.submit(case.app("exit 0"), {})
    assert on_record()[app_id].job is None
    case.end(app_id)
    staged.reap()
    assert on_record()[app_id].state == "succeeded"


@pytest.mark.parametrize("reserved", [False, True])
def test_an_attempt_that_cannot_be_created_leaves_no_row(case, staged, reserved):
    app = case.app("true")
    app.roles[0].image = "localhost:1/there/is/none:such"
    start = (lambda: submit(case, staged, app)) if reserved else (lambda: staged.submit(app, {}))
    with pytest.raises(LauncherError):
        start()
    assert on_record() == {}
