"""The commands serve the apps of an installed scheduler as they serve apps of a built-in one."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers import get_scheduler
from launcher.specs import AppDef, Role
from launcher.state.store import Store
from tests.scenario import Scenario


@pytest.fixture
def job(scenario: Scenario) -> Any:
    def write(script: str, **fields: Any) -> Path:
        return scenario.job(script, top="scheduler: procs", **fields)

    return write


def apps(scenario: Scenario, *argv: str) -> list[tuple[str, str]]:
    """(job, state) of every app that `launcher list` shows."""
    shown = json.loads(scenario.launcher("list", "--json", *argv).out)
    return [(app["name"], app["state"]) for app in shown]


def test_a_job_is_validated_planned_and_applied(scenario: Scenario, job: Any) -> None:
    file = job("echo hello")
    assert "valid: 1 job" in scenario.launcher("validate", file).err
    assert scenario.actions(file) == {"job": "create"}
    scenario.run_to_end(file)
    assert scenario.actions(file) == {"job": "keep"}
    (attempt,) = scenario.attempts()
    assert (attempt.scheduler, attempt.state) == ("procs", "succeeded")


@pytest.mark.slow
def test_schedulers_lists_a_plugin_with_the_docstring_of_its_factory(scenario: Scenario) -> None:
    listed = json.loads(scenario.launcher("schedulers", "--json").out)
    about = {each["name"]: each["about"] for each in listed}
    assert about["procs"].startswith("Replicas run as plain processes of this machine")


def test_list_and_status_show_the_apps_of_a_plugin(scenario: Scenario, job: Any) -> None:
    gate = scenario.gate()
    scenario.apply(job(gate.script, replicas=1))
    gate.entered()
    assert apps(scenario) == apps(scenario, "-s", "procs") == [("job", "RUNNING")]
    assert [replica["state"] for replica in scenario.status("job")["replicas"]] == ["RUNNING"]
    gate.open()
    scenario.wait("job")
    assert apps(scenario) == [("job", "SUCCEEDED")]


@pytest.mark.slow
def test_an_end_that_no_client_saw_is_recorded_by_the_next_list(scenario: Scenario, job: Any) -> None:
    gate = scenario.gate()
    scenario.apply(job(f"{gate.script}; exit 3"))
    gate.entered()
    gate.open()
    while apps(scenario) != [("job", "FAILED")]:
        pass
    (attempt,) = scenario.attempts()
    assert (attempt.state, attempt.exit_code, attempt.message) == ("failed", 3, "main/0 exited with 3")


def test_logs_are_read_and_followed(scenario: Scenario, job: Any) -> None:
    gate = scenario.gate()
    scenario.apply(job(f"echo one; {gate.script}; echo two", replicas=1))
    gate.entered()
    assert scenario.logs("job") == "one\n"
    gate.open()
    assert scenario.logs("job", "--follow") == "one\ntwo\n"
    assert scenario.logs("job/main/0", "--tail", "1") == "two\n"
    assert "no role `man`" in scenario.launcher("logs", "job/man", code=None).err


def test_logs_of_one_restart_are_refused_with_the_remedy(scenario: Scenario, job: Any) -> None:
    scenario.run_to_end(job("echo one"))
    output = scenario.launcher("logs", "job", "--restart", "0", code=1).err
    assert "procs cannot tell the output of one restart from that of another" in output
    assert "--since" in output


@pytest.mark.slow
def test_a_replica_that_writes_to_its_log_started_once(scenario: Scenario, job: Any) -> None:
    scenario.run_to_end(job("sleep 0.3; echo late; sleep 0.3"))
    (replica,) = scenario.status("job")["replicas"]
    began, ended = (datetime.fromisoformat(replica[at]) for at in ("started_at", "ended_at"))
    assert (ended - began).total_seconds() > 0.5


def test_wait_reports_how_an_app_ended(scenario: Scenario, job: Any) -> None:
    scenario.apply(job("sleep 0.2; exit 4", replicas=2))
    assert "FAILED: main/" in scenario.wait("job", code=5).out
    assert scenario.status("job")["exit_code"] == 4


@pytest.mark.slow
def test_cancel_stops_every_replica(scenario: Scenario, job: Any) -> None:
    scenario.apply(job("trap '' TERM; echo up; while :; do sleep 0.1; done", replicas=2))
    scenario.cancel("job", "--grace", "0.2")
    assert apps(scenario) == [("job", "CANCELLED")]
    assert scenario.launcher("cancel", "job").err.endswith("had already ended: CANCELLED\n")


def test_gc_removes_an_ended_app(scenario: Scenario, job: Any) -> None:
    scenario.run_to_end(job("true"))
    app_id = scenario.attempts()[0].app_id
    assert app_id in scenario.launcher("gc", "--older-than", "0").out
    assert not (scenario.home / "procs" / app_id).exists()
    assert apps(scenario) == [("job", "SUCCEEDED")]
    assert "were removed" in scenario.launcher("logs", "job", code=None).err


@pytest.mark.slow
def test_gc_finishes_the_removal_of_a_killed_client(scenario: Scenario, job: Any) -> None:
    scenario.run_to_end(job("true"))
    left = scenario.home / "procs" / ".gone-job-1"
    left.mkdir()
    assert [name for name, _ in apps(scenario, "-s", "procs")] == ["job"]
    scenario.launcher("gc", "--older-than", "1d")
    assert not left.exists()


def test_run_shows_the_output_and_the_end_of_its_app(scenario: Scenario, job: Any) -> None:
    done = scenario.launcher("run", job("echo hello; exit 2"), code=5)
    assert done.out == "hello\n"
    assert "FAILED" in done.err
    assert apps(scenario, "-s", "procs") == [("job", "FAILED")]


@pytest.mark.slow
def test_the_end_of_an_app_without_a_job_is_recorded_by_the_next_list(scenario: Scenario) -> None:
    scheduler = get_scheduler("procs", "session", detach=True)
    role = Role("main", "", entrypoint="sh", args=["-c", "exit 3"])
    app_id = scheduler.submit(AppDef("alone", [role]), {})
    scheduler.wait(app_id)
    assert apps(scenario) == [("alone", "FAILED")]
    with Store.open(readonly=True) as store:
        recorded = store.app(app_id)
    assert (recorded.state, recorded.exit_code) == ("failed", 3)


@pytest.mark.slow
def test_an_app_that_cannot_be_started_is_taken_back(scenario: Scenario) -> None:
    file = scenario.job("true", top="scheduler: procs\ncfg: {cwd: missing}")
    assert "main/0 cannot be started" in scenario.apply(file, code=None).err
    assert apps(scenario) == []
    assert not any((scenario.home / "procs").iterdir())
