"""Jobs in containers take turns, as the engine's times show, also with other homes and local jobs."""

import os
import signal
from functools import partial

import pytest

from launcher.turns.machine import machine, slots_table
from launcher.turns.table import tickets
from tests import processes
from tests.scenario import Scenario
from tests.waiting import until

CORES = machine(with_gpus=False).cpu
ALL = f"resource: {{cpu: {CORES}}}"
HALF = f"resource: {{cpu: {CORES / 2}}}"


def runs(scenario) -> list[tuple[str, str, str]]:
    """Return (begin, end, job) of each container that has run, in order, by the engine's clock."""
    found = [one for one in scenario.containers() if one.labels.get("launcher.part") == "replica"]
    states = [(scenario.daemon.inspect(one.id)["State"], one.labels["launcher.job"]) for one in found]
    return sorted((padded(state["StartedAt"]), padded(state["FinishedAt"]), job) for state, job in states)


def padded(moment: str) -> str:
    """Return a time of the engine with the zeros that the engine leaves out at its end."""
    return moment.removesuffix("Z").ljust(len("2000-01-01T00:00:00.123456789"), "0")


def test_two_jobs_of_half_the_cores_run_at_once_in_the_order_of_the_plan(scenario):
    jobs = [f"job{k:02}" for k in range(12)]
    for job in jobs:
        scenario.job("true", name=job, role=HALF)
    scenario.run_to_end(".")
    ran = {job: (begin, end) for begin, end, job in runs(scenario)}
    assert sorted(ran) == jobs
    for k, job in enumerate(jobs):
        begin, _ = ran[job]
        before = [each for each in jobs[:k] if ran[each][1] > begin]
        assert len(before) <= 1, (job, before)  # all but one of those before it had ended
        at_once = [other for other, (since, until) in ran.items() if since <= begin < until]
        assert len(at_once) <= 2, (job, at_once)


def test_local_jobs_and_jobs_in_containers_share_the_cores(scenario):
    log = scenario.folder / "log"
    for k in range(3):
        script = f"echo begin >>{log}; echo end >>{log}"
        scenario.job(script, name=f"job{k}a", role=ALL)
        Scenario.job(scenario, script, name=f"job{k}b", role=ALL, top="scheduler: local_cwd")
    scenario.run_to_end(".")
    assert log.read_text().split() == ["begin", "end"] * 6


def queued_behind(scenario, gate) -> None:
    """Jobs in line: `first` runs until the gate opens; `second` and `third`, in another watcher, wait."""
    scenario.job(gate.script, name="first", role=ALL)
    log = scenario.folder / "log"
    for job in ("second", "third"):
        scenario.job(f"echo {job} >>{log}", name=job, role=ALL)
    scenario.apply("first.launcher.yaml")
    with scenario.other_watcher():
        scenario.apply(".")
    assert states(scenario) == ["running", "queued", "queued"]


def states(scenario) -> list[str]:
    return [scenario.attempts(job)[-1].state for job in ("first", "second", "third")]


@pytest.mark.parametrize("scheduler", ["docker", "local_cwd"])
def test_the_next_job_in_line_replaces_a_killed_watcher_and_waits_for_its_containers(
    scenario, gate, scheduler
):
    log = scenario.folder / "log"
    scenario.job(f"{gate.script}; echo first >>{log}", name="first", role=ALL)
    scenario.apply("first.launcher.yaml")
    job = scenario.job if scheduler == "docker" else partial(Scenario.job, scenario)
    top = "" if scheduler == "docker" else f"scheduler: {scheduler}"
    job(f"echo second >>{log}", name="second", role=ALL, top=top)
    with scenario.other_watcher():
        scenario.apply("second.launcher.yaml")
    first = scenario.attempts("first")[-1].app_id
    dead = scenario.supervisors()[first]
    scenario.kill_watcher(first)
    until(lambda: scenario.supervisors().get(first, dead) != dead)
    until(lambda: not any(each.is_left for each in tickets(slots_table())))
    assert [each.state for each in tickets(slots_table())] == ["holds", "queued"]
    gate.open()
    scenario.wait("second")
    assert log.read_text().split() == ["first", "second"]
    scenario.wait("first")


def test_the_share_of_a_killed_watcher_is_free_once_its_containers_are_gone(scenario, gate):
    queued_behind(scenario, gate)
    first = scenario.attempts("first")[-1].app_id
    watcher = scenario.supervisors()[first]
    os.kill(watcher, signal.SIGSTOP)  # it would see that, and free its share
    scenario.remove_by_hand([scenario.container(first)])
    processes.kill([watcher])
    until(lambda: (scenario.folder / "log").exists())
    scenario.wait("third")
    assert (scenario.folder / "log").read_text().split() == ["second", "third"]


def test_the_share_of_a_killed_watcher_is_kept_while_no_app_is_in_line(scenario, gate):
    scenario.job(gate.script, name="first", role=ALL)
    scenario.apply("first.launcher.yaml")
    first = scenario.attempts("first")[-1].app_id
    scenario.kill_watcher(first)
    [held] = tickets(slots_table())
    assert (held.app, held.is_left) == (first, True)
    assert "its watcher has died" in scenario.launcher("queue").out
    scenario.job("true", name="second", role=ALL)
    scenario.apply("second.launcher.yaml")
    assert scenario.attempts("second")[-1].state == "queued"
    gate.open()
    scenario.wait("second")
    (_, end, _), (begin, _, _) = runs(scenario)
    assert end < begin
