"""Turns of apps whose watcher is on the engine: they share its machine, whatever client they have."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.schedulers.docker.watchers import TURNS
from launcher.turns.machine import machine
from tests import processes
from tests.contract.conftest import Gate
from tests.docker_scenario import DockerScenario
from tests.engines.images import PYTHON_IMAGE
from tests.engines.own import OwnEngine
from tests.engines.proxy import Proxy, everything
from tests.scenarios.docker.watched import Watched, make_own_image
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)
CORES = machine(with_gpus=False).cpu


@pytest.fixture
def log(scenario: DockerScenario) -> Path:
    return scenario.folder / "log"


@pytest.fixture
def one_at_a_time(scenario: DockerScenario) -> None:
    """The jobs of the test, which no others share their project with, run one at a time."""
    scenario.write("launcher.toml", f'project = "{scenario.token}"\n\n[queue]\nmax_parallel = 1\n')


def states(scenario: DockerScenario, *jobs: str) -> list[str]:
    return [scenario.status(job)["attempt_state"] for job in jobs]


@pytest.fixture
def other(scenario: DockerScenario) -> Iterator[Watched]:
    """Jobs of the same test with another watcher on the engine."""
    made = Watched(scenario, name="other")
    yield made
    made.remove()


def lines(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def in_line(scenario: DockerScenario, watched: Watched, gate: Gate, log: Path, *names: str) -> None:
    """Apply jobs: `first` runs until the gate opens, and the others are in line behind it."""
    watched.job(f"echo first >>{log}; {gate.script}", name="first")
    for name in names:
        watched.job(f"echo {name} >>{log}", name=name)
    scenario.apply(".")
    until(lambda: lines(log) == ["first"])
    assert states(scenario, "first", *names) == ["running", *["queued"] * len(names)]


def test_the_next_job_starts_without_the_client_and_its_state_folder(
    scenario: DockerScenario, watched: Watched, gate: Gate, log: Path, one_at_a_time: None
) -> None:
    watched.job(f"echo begin >>{log}; {gate.script}; echo end >>{log}", name="a")
    for job in ("b", "c"):
        watched.job(f"echo {job} >>{log}", name=job)
    scenario.apply(".")
    until(lambda: states(scenario, "a", "b", "c") == ["running", "queued", "queued"])
    watched.forget_client()
    until(lambda: lines(log) == ["begin"])
    gate.open()
    watched.ends(a="succeeded", b="succeeded", c="succeeded")
    assert lines(log) == ["begin", "end", "b", "c"]


def test_every_state_folder_shows_the_line_and_moves_the_apps_in_it(
    scenario: DockerScenario,
    engine: OwnEngine,  # whose line has no apps of other tests, which would change the places
    gate: Gate,
    log: Path,
    one_at_a_time: None,
    tmp_path: Path,
) -> None:
    """A changed job keeps its place. Each command looks once at the watcher, which all apps in line share."""
    make_own_image(PYTHON_IMAGE)
    watched = Watched(scenario)
    in_line(scenario, watched, gate, log, "second", "third", "twelfth")
    watched.job(f"echo again >>{log}", name="third")
    scenario.apply(".")
    assert [each.state for each in scenario.attempts("third")] == ["skipped", "queued"]
    for command in ("list -s local_docker", "plan .", "status second third"):
        with Proxy(tmp_path / "p.sock", everything) as proxy:
            env = {**os.environ, "DOCKER_HOST": proxy.host}
            scenario.launcher(*command.split(), env=env, code=None)
            looks = [each for each in proxy.seen if f"/containers/{next(iter(watched.names()))}/" in each]
        assert len(looks) < 2 * 3, (command, looks)
    [first] = scenario.attempts("first")
    project = f"local_docker://{scenario.token}"
    for env in (None, scenario.elsewhere):
        shown = scenario.launcher("list", "-s", "local_docker", env=env).out
        assert f"1st in line for the place of project {scenario.token}" in shown
        assert "3rd in line" in shown
        queue = scenario.launcher("queue", env=env).out
        assert f"the engine {scenario.daemon.host}" in queue
        [engine] = json.loads(scenario.launcher("queue", "--json", env=env).out)["engines"]
        assert first.app_id in [each["app_id"] for each in engine["holders"]]
        ours = [each for each in engine["line"] if f"project {scenario.token}" in each["groups"]]
        assert [each["app_id"].partition("-")[0] for each in ours] == ["second", "third", "twelfth"]
    [twelfth], [second] = scenario.attempts("twelfth"), scenario.attempts("second")
    started = scenario.launcher("start", f"{project}/{twelfth.app_id}", "--now", env=scenario.elsewhere)
    assert "3rd in line" in started.out
    until(lambda: lines(log) == ["first", "twelfth"])
    scenario.launcher("cancel", f"{project}/{second.app_id}", env=scenario.elsewhere)
    assert states(scenario, "first", "second", "third") == ["running", "cancelled", "queued"]
    gate.open()
    watched.ends(first="succeeded", second="cancelled", third="succeeded", twelfth="succeeded")
    assert lines(log) == ["first", "twelfth", "again"]


@pytest.mark.parametrize("how", ["killed", "removed"])
def test_the_watchers_of_an_engine_share_its_line(scenario, watched, other, gate, log, one_at_a_time, how):
    in_line(scenario, watched, gate, log)
    other.job(f"echo second >>{log}", name="second")
    scenario.apply(".")
    [first] = scenario.attempts("first")
    assert states(scenario, "second") == ["queued"]
    assert watched.watchers() != other.watchers()
    watched.forget_client()
    if how == "killed":
        processes.kill([watched.pid])
    elif how == "removed":
        watched.remove_watchers()
    gate.open()
    until(lambda: lines(log) == ["first", "second"])
    if how == "removed":  # only its container knows the end
        other.ends(second="succeeded")
        handle = f"local_docker://{scenario.token}/{first.app_id}"
        assert "SUCCEEDED" in scenario.launcher("status", handle).out
    else:
        other.ends(first="succeeded", second="succeeded")
        watched.ends(first="succeeded", second="succeeded")


def test_jobs_share_the_cores_of_the_engine_and_their_volume_is_removed_by_gc(scenario, engine, gate, log):
    make_own_image(PYTHON_IMAGE)
    watched = Watched(scenario)
    cores, has = f"resource: {{cpu: {CORES}}}", f"{CORES:g} cores"
    watched.job(f"echo begin >>{log}; {gate.script}; echo end >>{log}", name="a", role=cores)
    watched.job(f"echo b >>{log}", name="b", role=cores)
    plan = scenario.launcher("plan", ".").out
    assert f"of {CORES:g} of the engine: 1 at a time" in plan
    scenario.apply(".")
    [a] = scenario.attempts("a")
    assert scenario.status("b")["message"] == f"1st in line for {has} held by {a.app_id}"
    assert "volume launcher-turns" not in scenario.launcher("gc", "-s", "local_docker").out
    scenario.forget()
    gate.open()
    watched.ends(a="succeeded", b="succeeded")
    assert lines(log) == ["begin", "end", "b"]
    assert TURNS in {each.name for each in scenario.daemon.volumes()}
    scenario.launcher("gc", "-s", "local_docker")
    assert TURNS not in {each.name for each in scenario.daemon.volumes()}


def test_a_restarted_engine_loses_what_ran_and_its_share_and_the_next_apply_resumes_the_others(
    scenario: DockerScenario, engine: OwnEngine, gate: Gate, log: Path, one_at_a_time: None
) -> None:
    make_own_image(PYTHON_IMAGE)
    watched = Watched(scenario)
    in_line(scenario, watched, gate, log, "second")
    watched.job(f"echo third >>{log}", name="third", top="needs: [first]")
    scenario.apply(".")
    scenario.forget()
    engine.stop()
    engine.up()
    until(lambda: scenario.status("first")["attempt_state"] == "lost")
    scenario.apply(".", "--rerun", "first")
    until(lambda: lines(log) == ["first", "first"])
    assert states(scenario, "first", "second", "third") == ["running", "queued", "waiting"]
    scenario.forget()
    gate.open()
    watched.ends(first="succeeded", second="succeeded", third="succeeded")
    assert lines(log) == ["first", "first", "second", "third"]


def test_apps_without_a_job_hold_their_shares_at_the_engine(scenario, watched, gate, log):
    for name in ("first", "second"):
        watched.job(f"echo {name} >>{log}; {gate.script}", name=name, role="resource: {cpu: 0.25}")
    started = [
        scenario.launcher("run", "first.launcher.yaml", "--detach").out,
        scenario.launcher("run", "second.launcher.yaml", "--detach", "--queue").out,
    ]
    ours = {each.strip().rpartition("/")[2] for each in started}
    until(lambda: sorted(lines(log)) == ["first", "second"])
    [engine] = json.loads(scenario.launcher("queue", "--json").out)["engines"]
    held = [each["cpu"] for each in engine["holders"] if each["app_id"] in ours]  # other tests use the table
    assert held == [0.25, 0.25]
    gate.open()
    until(lambda: not watched.watchers())
