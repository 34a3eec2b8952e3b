"""`apply --wait` of many jobs: one thread follows them all, and reports each start, restart and end once."""

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests import processes
from tests.scenario import until_line
from tests.waiting import until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux"),
]
TURNS = "[queue]\ncpu = 2\n"
LIMIT_S = 60.0


def follow(scenario, script, jobs, role="resource: {cpu: 1}", shown="jsonl"):
    """Start `apply --wait` of a matrix. Its events, if it prints them, are read with `events_of`."""
    scenario.write("launcher.toml", TURNS)
    scenario.job(script, name="many", top=f"matrix: {{n: {{range: [0, {jobs}]}}}}", role=role)
    return scenario.start("apply", "many.launcher.yaml", "--yes", "--wait", "--format", shown)


def events_of(client):
    out, err = client.communicate(timeout=LIMIT_S)
    assert "Traceback" not in err, err
    return [json.loads(line) for line in out.splitlines()]


def app_of(scenario, job):
    """Return the app id of a job that is running."""
    until(lambda: [each.state for each in scenario.attempts(job)] == ["running"])
    return next(app for app in scenario.supervisors() if app.startswith(f"{job}-"))


def count(scenario, state, jobs):
    """Return the number of jobs in a state, by the ledger."""
    found = (scenario.attempts(f"many-{n}")[-1:] for n in range(jobs))
    return sum(attempt.state == state for last in found for attempt in last)


def test_each_start_restart_and_end_of_many_jobs_is_reported_once_and_in_order(scenario):
    gate, role = scenario.folder / "gate", "resource: {cpu: 1}\nmax_retries: 1"
    wait = f"until [ -e {gate} ]; do sleep 0.02; done"
    once = f"test -e {scenario.folder}/$<matrix.n> || {{ touch {scenario.folder}/$<matrix.n>; exit 3; }}"
    client = follow(scenario, f"{wait}; {once}", 12, role=role)
    until(lambda: count(scenario, "queued", 12) >= 10)
    gate.touch()
    events = events_of(client)
    jobs = {f"many-{n}" for n in range(12)}
    for name in ("restarting", "ended"):
        assert Counter(each["job"] for each in events if each["event"] == name) == dict.fromkeys(jobs, 1)
    queued = {each["job"] for each in events if each["event"] == "attempt_queued"}
    started = Counter(each["job"] for each in events if each["event"] == "started")
    assert len(queued) >= 10
    assert started == dict.fromkeys(jobs, 1)
    for job in jobs:
        own = [each["event"] for each in events if each.get("job") == job]
        assert own.index("started") < own.index("restarting") < own.index("ended")
    done = events[-1]
    assert {job["state"] for job in done["jobs"]} == {"succeeded"}
    assert {attempt.state for job in jobs for attempt in scenario.attempts(job)} == {"succeeded"}


def test_a_client_that_waits_for_many_jobs_has_few_threads_and_descriptors(scenario):
    gate = scenario.folder / "gate"
    client = follow(scenario, f"until [ -e {gate} ]; do sleep 0.02; done", 60, shown="text")
    threads, files = Path(f"/proc/{client.pid}/task"), Path(f"/proc/{client.pid}/fd")
    until(lambda: count(scenario, "queued", 60) >= 57)
    until(lambda: len([*threads.iterdir()]) <= 3)
    assert len([*files.iterdir()]) <= 20
    gate.touch()
    client.communicate(timeout=LIMIT_S)
    assert client.returncode == 0
    assert count(scenario, "succeeded", 60) == 60


@pytest.mark.parametrize("what", ["killed", "removed"])
def test_an_app_whose_processes_were_killed_is_reported_as_lost_while_others_go_on(scenario, what):
    gate = scenario.folder / "gate"
    client = follow(scenario, f"until [ -e {gate} ]; do sleep 0.02; done", 4, role="resource: {cpu: 0.25}")
    app_id = app_of(scenario, "many-2")
    supervisor = scenario.supervisors()[app_id]
    os.kill(supervisor, signal.SIGSTOP)
    processes.kill([pid for pid in processes.of_app(str(scenario.home), app_id) if pid != supervisor])
    if what == "removed":
        # In one step: half removed, with a live supervisor, the record would count as damaged.
        shutil.rmtree((scenario.home / "local" / "apps" / app_id).rename(scenario.folder / "removed"))
    processes.kill([supervisor])
    ended = json.loads(until_line(client.stdout, '"ended"'))
    assert (ended["event"], ended["job"], ended["state"]) == ("ended", "many-2", "lost")
    gate.touch()
    states = {job["job"]: job["state"] for job in events_of(client)[-1]["jobs"]}
    assert states == {**dict.fromkeys(("many-0", "many-1", "many-3"), "succeeded"), "many-2": "lost"}


def test_an_app_that_cannot_be_read_keeps_no_other_from_its_end(scenario):
    gate = scenario.folder / "gate"
    client = follow(scenario, f"until [ -e {gate} ]; do sleep 0.02; done", 4, role="resource: {cpu: 0.25}")
    record = scenario.home / "local" / "apps" / app_of(scenario, "many-2") / "events.jsonl"
    until(lambda: count(scenario, "running", 4) == 4)
    with open(record, "r+b") as file:
        assert file.read(5) == b'{"v":'
        file.write(b"9")  # as a newer version writes it
    gate.touch()
    out, err = client.communicate(timeout=LIMIT_S)
    assert client.returncode == 1, out + err
    assert "newer version" in out + err
    assert [scenario.attempts(f"many-{n}")[-1].state for n in (0, 1, 3)] == ["succeeded"] * 3


def test_jobs_in_line_whose_holder_was_killed_are_left_to_the_next_apply(scenario):
    gate = scenario.folder / "gate"
    client = follow(scenario, f"until [ -e {gate} ]; do sleep 0.02; done", 6, role="resource: {cpu: 2}")
    app_of(scenario, "many-0")
    until(lambda: count(scenario, "queued", 6) == 5)
    pids = processes.of_home(str(scenario.home))
    of_line = [pid for pid in pids if "line_holder" in processes.describe(pid)]
    first = [pid for app, pid in scenario.supervisors().items() if not app.startswith("many-0-")]
    processes.kill([*of_line, *first])
    gate.touch()
    done = events_of(client)[-1]
    states = Counter(job["state"] for job in done["jobs"])
    assert states["succeeded"] >= 1
    assert states["queued"] + states["succeeded"] == 6, states
    scenario.run_to_end("many.launcher.yaml")
    assert [[each.state for each in scenario.attempts(f"many-{n}")] for n in range(6)] == [["succeeded"]] * 6
