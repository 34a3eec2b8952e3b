"""Commands on many apps act on all at once: no app starts meanwhile, and no process is left."""

import json
import os
import signal

import pytest

from launcher.turns.machine import machine, slots_table
from launcher.turns.table import tickets
from tests import processes

MEMBERS = 12

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def sweep(scenario):
    """A file whose first job holds all cores, so that its other jobs are in line. Each job logs its run."""
    share = f"resource: {{cpu: {machine(with_gpus=False).cpu:g}}}"
    file = scenario.job(
        f"echo $<matrix.n> >>{scenario.folder}/ran; exec sleep 1000",
        name="sweep",
        role=share,
        top=f"matrix: {{n: {{range: [0, {MEMBERS}]}}}}",
    )
    scenario.apply(file)
    yield file
    scenario.cancel("sweep", "--yes", "--grace", "0")


@pytest.fixture
def long_line(scenario):
    """A file as that of `sweep`, with so many jobs in line that a plan reads the line and no record."""
    share = f"resource: {{cpu: {machine(with_gpus=False).cpu:g}}}"
    file = scenario.job("exec sleep 1000", name="sweep", role=share, top="matrix: {n: {range: [0, 120]}}")
    scenario.apply(file)
    yield file
    scenario.cancel("sweep", "--yes", "--grace", "0")


def ran(scenario):
    return (scenario.folder / "ran").read_text().split()


def test_a_cancel_of_all_apps_starts_no_app_in_line(scenario, sweep):
    done = scenario.cancel("sweep", "--yes")
    assert f"{MEMBERS} apps: {MEMBERS} cancelled" in done.err
    assert ran(scenario) == ["0"]
    assert scenario.supervisors() == {}
    assert [left for app in scenario.apps() for left in scenario.processes_of(app)] == []
    assert tickets(slots_table()) == []
    states = [scenario.attempts(f"sweep-{n}")[-1].state for n in range(MEMBERS)]
    assert states == ["cancelled"] * MEMBERS


def test_a_refused_cancel_counts_the_apps_by_state_and_stops_none(scenario, sweep):
    done = scenario.cancel("sweep", code=3)
    assert f"{MEMBERS} apps would be stopped: {MEMBERS - 1} queued, 1 running" in done.err
    found = json.loads(scenario.launcher("status", "sweep", "--json").out)
    assert [each["attempt_state"] for each in found] == ["running", *["queued"] * (MEMBERS - 1)]


def test_a_wait_reports_the_last_state_of_each_app(scenario, sweep):
    lines = scenario.launcher("wait", "sweep", "--timeout", "0", code=5).out.splitlines()
    assert len(lines) == MEMBERS
    assert sum("QUEUED: " in line and "in line for" in line for line in lines) == MEMBERS - 1
    scenario.cancel("sweep", "--yes")
    lines = scenario.launcher("wait", "sweep", code=5).out.splitlines()
    assert [line.split()[1].rstrip(":") for line in lines] == ["CANCELLED"] * MEMBERS


def test_status_of_many_apps_equals_the_status_of_each_app(scenario, sweep):
    found = {each["job"]: each for each in json.loads(scenario.launcher("status", "sweep", "--json").out)}
    assert len(found) == MEMBERS
    assert found["sweep-5"] == scenario.status("sweep-5")
    assert found["sweep-0"] == scenario.status("sweep-0")


def test_a_rerun_withdraws_all_apps_in_line_and_keeps_their_order(scenario, sweep):
    scenario.apply(sweep, "--rerun", "sweep", "--allow-destructive")
    states = [[each.state for each in scenario.attempts(f"sweep-{n}")] for n in range(MEMBERS)]
    assert states == [["cancelled", "running"], *[["skipped", "queued"]] * (MEMBERS - 1)]
    line = json.loads(scenario.launcher("queue", "--json").out)["line"]
    assert [each["app_id"].rpartition("-")[0] for each in line] == [f"sweep-{n}-2" for n in range(1, MEMBERS)]
    scenario.cancel("sweep", "--yes")
    assert set(ran(scenario)) == {"0"}


def test_start_now_starts_the_named_apps_in_line_and_leaves_the_others(scenario, sweep):
    out = scenario.launcher("start", "sweep-[1-3]", "--now").out.splitlines()
    assert sorted(line.split()[0].rpartition("/")[2].rpartition("-")[0] for line in out) == [
        "sweep-1-1",
        "sweep-2-1",
        "sweep-3-1",
    ]
    assert all("RUNNING, was" in line and "in line" in line for line in out)
    found = json.loads(scenario.launcher("status", "sweep", "--json").out)
    states = [each["attempt_state"] for each in found]
    assert states == ["running"] * 4 + ["queued"] * (MEMBERS - 4)


def kinds(scenario, file):
    """Return the action and the first reason of each job in a new plan."""
    plan = json.loads(scenario.launcher("plan", file, "--json", code=None).out)
    return {each["key"]["job"]: (each["action"], each["reasons"][0].get("detail")) for each in plan["jobs"]}


def test_a_plan_of_a_long_line_knows_of_each_app_that_has_just_left_it(scenario, long_line):
    queued = ("keep", "attempt 1 is in line")
    jobs = [f"sweep-{n}" for n in range(1, 120)]
    assert {job: kinds(scenario, long_line)[job] for job in jobs} == dict.fromkeys(jobs, queued)
    for n in range(5):
        gone = f"sweep-{10 + n}"
        scenario.cancel(gone, "--yes")
        jobs.remove(gone)
        found = kinds(scenario, long_line)
        assert found[gone][0] == "hold"
        assert {job: found[job] for job in jobs} == dict.fromkeys(jobs, queued)


def test_a_plan_of_a_long_line_whose_holder_was_killed_submits_its_apps_again(scenario, long_line):
    [holder] = {pid for pid in scenario.supervisors().values() if "line_holder" in processes.describe(pid)}
    os.kill(holder, signal.SIGKILL)
    assert processes.gone([holder], timeout_s=10)
    again = {job for job, (kind, _) in kinds(scenario, long_line).items() if kind == "resume"}
    assert len(again) >= 118, "the first app in line has a supervisor"
