"""A cancel leaves no process of a job, whatever the job started."""

import signal

import pytest

from launcher.paths import actor
from launcher.specs import AppState
from tests import processes
from tests.scenario import until_line

STUBBORN = "trap '{}' TERM; echo up; while :; do sleep 0.1; done"


@pytest.mark.parametrize("command", ["cancel", "replace"])
@pytest.mark.slow
def test_a_supervisor_that_stays_suspended_is_killed_and_the_wait_for_it_is_reported(scenario, command):
    scenario.running(top="cfg: {grace_s: 0.1}")
    [(app, supervisor)] = scenario.supervisors().items()
    with processes.held(supervisor):
        if command == "cancel":
            done = scenario.cancel("job")
        else:
            done = scenario.apply(scenario.job("true"), "--allow-destructive")
    assert f"waiting for {app} to stop: its supervisor (pid {supervisor}) is suspended" in done.err
    assert scenario.processes_of(app) == []
    assert scenario.attempts()[0].state == "cancelled"
    scenario.run_to_end(scenario.job("true"))  # the lock of the apply is free again


def test_a_cancelled_job_is_held_at_the_next_apply(scenario):
    file, _ = scenario.running()
    scenario.cancel("job")
    assert scenario.actions(file) == {"job": "hold"}


STOPS = {"timeout": "timed out after 2 s", "peer": "main/1 failed", "cancel": "cancelled by "}


@pytest.mark.slow
@pytest.mark.parametrize("why", STOPS)
def test_status_shows_why_a_replica_was_stopped_for_any_exit_code(scenario, why):
    gate, go = scenario.gate(), scenario.folder / "go"
    fails = f"until [ -e {go} ]; do sleep 0.1; done; exit 9" if why == "peer" else "exit 0"
    enters = "" if why == "timeout" else gate.script + ";"  # its time may be up before it enters
    waits = f"trap 'exit 0' TERM; {enters} while :; do sleep 0.1; done"
    file = scenario.job(
        f"if [ $<replica_id> = 1 ]; then {fails}; fi; {waits}",
        replicas=2,
        top="timeout: 2s" if why == "timeout" else "",
    )
    scenario.apply(file)
    if enters:
        gate.entered()
        gate.open()
    go.touch()
    if why == "cancel":
        scenario.cancel("job")
    scenario.wait("job", code=5)
    first = scenario.status("job")["replicas"][0]
    assert first["state"] == "CANCELLED"
    assert first["exit_code"] == 0 or why == "timeout"
    assert first["message"].startswith(STOPS[why])
    assert STOPS[why] in scenario.launcher("status", "job").out.partition("REPLICA")[2]


def test_an_interrupted_run_is_followed_to_its_end(scenario):
    client = scenario.start("run", scenario.job(STUBBORN.format("echo cleaned; exit 3")))
    handle = until_line(client.stderr, "://").strip()
    until_line(client.stdout, "up")
    client.send_signal(signal.SIGTERM)
    out, err = client.communicate()
    assert "cleaned" in out
    assert "cancelling job" in err
    assert f"CANCELLED: interrupted by {actor()}" in err.splitlines()[-1]
    assert client.returncode == 143
    assert scenario.processes_of(handle.rpartition("/")[2]) == []
    assert scenario.status(handle)["message"] == f"interrupted by {actor()}"


@pytest.mark.slow
def test_a_second_interrupt_kills_the_run(scenario):
    file = scenario.job(STUBBORN.format("echo no"), top="cfg: {grace_s: 1000}")
    client = scenario.start("run", file)
    handle = until_line(client.stderr, "://").strip()
    until_line(client.stdout, "up")
    client.send_signal(signal.SIGINT)
    until_line(client.stdout, "no")
    client.send_signal(signal.SIGINT)
    _, err = client.communicate()
    assert "CANCELLED: interrupted by" in err.splitlines()[-1]
    assert client.returncode == 130
    assert scenario.processes_of(handle.rpartition("/")[2]) == []


@pytest.mark.slow
def test_an_interrupted_wait_detaches_and_cancels_nothing(scenario):
    gate = scenario.gate()
    client = scenario.start("apply", scenario.job(gate.script), "--yes", "--wait")
    until_line(client.stderr, "job started")
    gate.entered()
    client.send_signal(signal.SIGINT)
    assert client.wait() == 130
    assert len(scenario.supervisors()) == 1
    gate.open()
    scenario.wait("job")
    assert scenario.state("job") is AppState.SUCCEEDED


def test_the_grace_option_of_cancel_overrides_that_of_the_job(scenario):
    gate = scenario.gate()
    scenario.apply(scenario.job(f"trap '' TERM; {gate.script}; sleep 1000", top="cfg: {grace_s: 1000}"))
    gate.entered()
    [app] = scenario.supervisors()
    scenario.cancel("job", "--grace", "100ms")
    assert scenario.processes_of(app) == []
    assert scenario.state("job") is AppState.CANCELLED
    assert "expected a duration" in scenario.launcher("cancel", "job", "--grace", "soon", code=64).err
