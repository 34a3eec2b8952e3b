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


def in_line(scenario, members, script="exec sleep 1000"):
    """Apply a matrix whose first job holds all cores, so that its other jobs are in line; return its file."""
    share = f"resource: {{cpu: {machine(with_gpus=False).cpu:g}}}"
    top = f"matrix: {{n: {{range: [0, {members}]}}}}"
    file = scenario.job(script, name="sweep", role=share, top=top)
    scenario.apply(file)
    return file


@pytest.fixture
def sweep(scenario):
    """A file of a few jobs, each of which logs its run."""
    yield in_line(scenario, MEMBERS, f"echo $<matrix.n> >>{scenario.folder}/ran; exec sleep 1000")
    scenario.cancel("sweep", "--yes", "--grace", "0")


@pytest.fixture
def long_line(scenario):
    """A file with so many jobs in line that a plan reads the line and no record."""
    yield in_line(scenario, 120)
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
    lines = scenario.launcher("wait", "sweep", code=5).out.splitlines()
    assert [line.split()[1].rstrip(":") for line in lines] == ["CANCELLED"] * MEMBERS


def test_commands_on_many_apps_report_the_state_of_each_and_stop_none(scenario, sweep):
    refused = scenario.cancel("sweep", code=3)
    assert f"{MEMBERS} apps would be stopped: {MEMBERS - 1} queued, 1 running" in refused.err
    lines = scenario.launcher("wait", "sweep", "--timeout", "0", code=5).out.splitlines()
    assert len(lines) == MEMBERS
    assert sum("QUEUED: " in line and "in line for" in line for line in lines) == MEMBERS - 1
    found = json.loads(scenario.launcher("status", "sweep", "--json").out)
    assert [each["attempt_state"] for each in found] == ["running", *["queued"] * (MEMBERS - 1)]
    of_job = {each["job"]: each for each in found}
    assert of_job["sweep-5"] == scenario.status("sweep-5")
    assert of_job["sweep-0"] == scenario.status("sweep-0")


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
        "sweep-1-1", "sweep-2-1", "sweep-3-1",
    ]  # fmt: skip
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
    found = kinds(scenario, long_line)
    assert {job: found[job] for job in jobs} == dict.fromkeys(jobs, queued)
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
