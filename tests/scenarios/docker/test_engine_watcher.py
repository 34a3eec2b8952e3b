"""The watcher in a container of the engine: apps go on without the client's machine, and nothing is left."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from launcher.schedulers import get_scheduler
from launcher.schedulers.docker import gc
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.watchers import HOME, TURNS_FOLDER
from launcher.schedulers.docker.watching import container
from launcher.schedulers.docker.watching.waiting import hand_over
from launcher.specs.app import AppDef, Resource, Role
from launcher.specs.status import AppState
from tests import processes
from tests.contract.conftest import Gate
from tests.docker_scenario import DockerScenario
from tests.engines.images import PYTHON_IMAGE, SHELL_IMAGE
from tests.engines.own import OwnEngine
from tests.engines.port import engine_port
from tests.scenarios.docker.watched import Watched, make_own_image
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(600)
SECRET = "value-of-a-secret-of-the-tests"


def test_all_work_goes_on_without_the_client_and_its_state_folder(scenario, watched, gate, way, monkeypatch):
    log = scenario.folder / "log"
    monkeypatch.setenv("TOKEN", SECRET)
    service = (
        f"{{image: '{SHELL_IMAGE}', run: 'exec nc -ll -p 7000 -e true', service: true,"
        " ready: {port: 7000, every: 1s}, resource: {}}"
    )
    watched.job(gate.script, name="prepare")
    file = watched.job(
        f'echo "$TOKEN" >>{log}; [ $(wc -l <{log}) -gt 1 ]',
        name="train",
        top="needs: [prepare]",
        role='env: {TOKEN: {secret: "env:TOKEN"}}\nmax_retries: 1\nretry_policy: application\n'
        "depends_on: {db: ready}",
    )
    file.write_text(f"{file.read_text()}  db: {service}\n")
    watched.job("exec sleep 1000", name="limited", top="timeout: 2s")
    scenario.apply(".")
    watched.forget_client()
    [watcher] = watched.watchers()
    shown = json.dumps([scenario.daemon.inspect(each.id) for each in scenario.containers()])
    assert SECRET not in shown + json.dumps(scenario.daemon.inspect(watcher))
    gate.open()
    watched.ends(prepare="succeeded", train="succeeded", limited="failed")
    assert log.read_text() == f"{SECRET}\n" * 2


@pytest.mark.parametrize("how", ["kill", "stop", pytest.param("remove", marks=pytest.mark.slow)])
def test_an_app_and_a_waiting_attempt_go_on_after_the_end_of_their_watcher(scenario, watched, gate, how):
    log = scenario.folder / "log"
    runs = 1 if how == "remove" else 2  # the restarts of an app whose record is lost are unknown
    script = f"{gate.script}; echo run >>{log}; [ $(wc -l <{log}) = {runs} ]"
    watched.job(script, name="first", role="max_retries: 1\nretry_policy: application")
    watched.job(f"echo second >>{log}", name="second", top="needs: [first]")
    scenario.apply(".")
    watched.forget_client()
    pid, [watcher] = watched.pid, watched.watchers()
    if how == "kill":
        processes.kill([pid])
    elif how == "stop":
        scenario.daemon.kill(watcher)
    else:
        scenario.daemon.ask("DELETE", f"/containers/{watcher}", force="1", v="1")
    assert processes.gone([pid], timeout_s=PATIENCE_S)
    assert scenario.status("second")["attempt_state"] == "waiting"
    until(lambda: scenario.actions(".") == {"first": "keep", "second": "resume"})
    scenario.status("first")
    scenario.apply(".")
    watched.forget_client()
    gate.open()
    watched.ends(first="succeeded", second="succeeded")
    assert log.read_text().split() == [*["run"] * runs, "second"]
    assert scenario.actions(".") == {"first": "keep", "second": "keep"}


@pytest.mark.slow
def test_a_killed_watcher_keeps_a_pause_before_a_restart_and_counts_all_restarts(scenario, watched):
    log = scenario.folder / "log"

    def runs(number: int) -> bool:
        return log.exists() and log.read_text().count("run") == number

    retries = "max_retries: 2\nretry_policy: application\nretry_delay: 3s"
    watched.job(f"echo run >>{log}; exit 3", role=retries)
    scenario.apply(".")
    for number in (1, 2):
        until(partial(runs, number))
        until(lambda: scenario.containers()[0].state == "exited")
        processes.kill([watched.pid])
        assert scenario.status("job")["attempt_state"] == "running"
    watched.ends(job="failed")
    assert log.read_text().split() == ["run"] * 3


def test_a_cancelled_app_and_a_cancelled_waiting_attempt_leave_no_watcher(scenario, watched, gate):
    watched.job(gate.script, name="first")
    watched.job("true", name="second", top="needs: [first]")
    scenario.apply(".")
    scenario.cancel("second")
    scenario.cancel("first")
    watched.ends(first="cancelled", second="cancelled")
    names = {each.name for each in scenario.things()}
    shared = {name for each in gc._shared(connect(), time.time() + 2 * gc.FRESH_S) for name in each.names}
    assert names.isdisjoint(shared)  # no gc takes the outcomes for what a watcher has left


@pytest.mark.parametrize("cpu", [-1.0, 0.1], ids=["at_once", "in_turn"])
def test_an_app_keeps_its_containers_when_its_watcher_reads_two_handovers_late(
    scenario: DockerScenario, watched: Watched, gate: Gate, monkeypatch: pytest.MonkeyPatch, cpu: float
) -> None:
    """The client gives its first order up, and sends another one; the watcher then reads both."""
    watched.job(gate.script, name="first")
    scenario.apply(".")
    monkeypatch.setattr(container, "ANSWER_S", 3.0)
    role = Role("main", SHELL_IMAGE, entrypoint="true", resource=Resource(cpu=cpu, memMB=-1, gpu=-1))
    cfg = {"watcher": "engine", "watcher_image": watched.image}
    scheduler = get_scheduler("local_docker", scenario.token, detach=True)
    pid, [watcher] = watched.pid, watched.watchers()
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as client:
        submitted = client.submit(scheduler.submit, AppDef("late", [role]), cfg)
        until(lambda: len(scenario.daemon.inspect(watcher)["ExecIDs"] or ()) == 2)
        os.kill(pid, signal.SIGCONT)
        found = scheduler.wait(submitted.result(), timeout_s=PATIENCE_S)
    assert found is not None
    assert found.state is AppState.SUCCEEDED
    scheduler.close()
    gate.open()
    until(lambda: not watched.watchers())


def test_handing_over_an_app_that_its_watcher_already_has_succeeds_at_once(
    scenario: DockerScenario, watched: Watched, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients with two state folders may find at the same moment that an app has no watcher."""
    watched.job(gate.script)
    scenario.apply(".")
    monkeypatch.setenv("LAUNCHER_HOME", str(scenario.folder / "other-home"))
    engine = connect()
    [app] = engine.containers("launcher.part=replica", f"launcher.session={scenario.token}")
    hand_over(engine, app)
    engine.close()
    gate.open()
    watched.ends(job="succeeded")


def test_an_image_without_python_is_refused_and_leaves_nothing(scenario, watched):
    scenario.daemon.tag(SHELL_IMAGE, watched.image)
    watched.job("true")
    done = scenario.launcher("apply", ".", "--yes", code=1)
    assert f"the watcher cannot run in the image {watched.image}" in done.err
    assert "python3" in done.err
    assert "watcher_image" in done.err
    assert watched.watchers() == []
    assert scenario.containers() == []


def test_a_watcher_takes_volumes_of_another_user_and_ends_where_it_cannot_write(scenario, engine, gate):
    """User namespaces, or the watcher's image, give volumes to another user.

    One that fails before it listens is not started for ever.
    """
    make_own_image(PYTHON_IMAGE)
    watched = Watched(scenario)
    for folder in (HOME, TURNS_FOLDER):
        watched.give_folder(folder, uid=200000, mode=0o777)
    watched.job(gate.script)
    scenario.apply(".")
    assert len(watched.watchers()) == 1
    gate.open()
    watched.ends(job="succeeded")
    watched.give_folder(f"{HOME}/docker", uid=200000, mode=0o700)
    done = scenario.launcher("apply", watched.job("true", name="other"), "--yes", code=1)
    assert f"cannot keep state in {HOME}/docker: user 200000 owns it" in done.err
    assert watched.watchers() == []


def test_an_engine_whose_socket_is_not_where_its_watcher_looks_for_it_is_named_by_its_socket(
    scenario: DockerScenario, engine: OwnEngine
) -> None:
    make_own_image(PYTHON_IMAGE)
    watched = Watched(scenario)
    watched.job("true")
    with engine_port() as port, pytest.MonkeyPatch.context() as way:
        way.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        done = scenario.launcher("apply", ".", "--yes", code=1)
    assert "/var/run/docker.sock of its machine" in done.err
    assert "unix://PATH" in done.err
    assert "Python 3.10" not in done.err
    assert watched.watchers() == []
