"""gc removes ended apps and keeps their outcomes, and no job runs again because of it."""

import json
import os
import signal
from pathlib import Path

import pytest

from launcher.specs import AppState
from launcher.turns.machine import slots_table
from tests import processes
from tests.waiting import until


@pytest.fixture
def three(scenario):
    """The app ids of three successful attempts of one job, oldest first."""
    file = scenario.job("echo hello")
    scenario.run_to_end(file)
    for _ in range(2):
        scenario.run_to_end(file, "--rerun", "job")
    return [attempt.app_id for attempt in scenario.attempts()]


def test_gc_removes_folders_and_keeps_outcomes(scenario, three):
    scenario.launcher("gc", "--older-than", "0")
    assert scenario.apps() == []
    assert [attempt.state for attempt in scenario.attempts()] == ["succeeded"] * 3
    assert scenario.actions("job.launcher.yaml") == {"job": "keep"}
    assert scenario.state("job@1") is AppState.SUCCEEDED


def test_gc_removes_the_apps_that_its_options_choose_and_reports_the_others_with_the_reason(scenario, three):
    def gc(*options):
        return json.loads(scenario.launcher("gc", *options, "--json").out)

    scenario.run_to_end(scenario.job("true", name="other", top="project: b"))
    [other] = scenario.attempts("other", project="b")
    everything = sorted([*three, other.app_id])
    said = scenario.launcher("gc").err  # by default, apps of the last week stay
    assert "no apps to remove" in said
    assert "kept 4 apps: ended too recently (--older-than)" in said
    scenario.launcher("gc", "--older-than", "0", "-s", "local_dir")
    assert "`local_cwd`" in scenario.launcher("gc", "-s", "local_cdw", code=64).err
    report = gc("--older-than", "0", "--project", "default", "--dry-run")
    assert [app["handle"].rpartition("/")[2] for app in report["removed"]] == three
    assert scenario.apps() == everything
    report = gc("--keep", "2", "--project", "default")
    assert report["kept"] == [{"what": "2 apps", "why": "among the newest of their job (--keep)"}]
    assert scenario.apps() == sorted([*three[1:], other.app_id])
    scenario.launcher("gc", "--keep", "1")
    assert scenario.apps() == sorted([three[-1], other.app_id])
    report = gc("--older-than", "0", "--project", "b")
    assert [app["handle"].partition("://")[2].partition("/")[0] for app in report["removed"]] == ["b"]
    assert report["kept"] == []
    assert scenario.apps() == three[-1:]


def test_gc_keeps_running_apps(scenario):
    _, gate = scenario.running()
    assert "kept 1 live job: work in progress" in scenario.launcher("gc", "--older-than", "0").err
    assert scenario.apps() == list(scenario.supervisors())
    gate.open()
    scenario.wait("job")


def test_gc_removes_apps_without_a_job_file_and_list_shows_them_no_more(scenario):
    scenario.launcher("run", scenario.job("true"))
    assert len(json.loads(scenario.launcher("list", "--json").out)) == 1
    scenario.launcher("gc", "--older-than", "0")
    assert json.loads(scenario.launcher("list", "--json").out) == []


@pytest.mark.slow
def test_gc_records_an_outcome_that_the_ledger_lost_before_it_removes_the_app(scenario, three):
    for path in scenario.home.glob("ledger.db*"):
        path.unlink()
    scenario.launcher("gc", "--older-than", "0")
    assert scenario.apps() == []
    assert scenario.actions("job.launcher.yaml") == {"job": "keep"}


def test_gc_records_the_end_of_a_lost_app_and_removes_the_app(scenario):
    file, _ = scenario.running()
    [supervisor] = scenario.supervisors().values()
    os.kill(supervisor, signal.SIGKILL)
    assert processes.gone([supervisor], timeout_s=60)
    scenario.launcher("gc", "--older-than", "0")
    assert scenario.apps() == []
    assert scenario.attempts()[0].state == "lost"
    assert scenario.actions(file) == {"job": "hold"}


@pytest.mark.slow
def test_gc_keeps_an_app_until_the_client_that_ran_it_has_read_its_end(scenario):
    """`run` is suspended after the end of its app, and still reads the end afterwards."""
    gate = scenario.gate()
    script = scenario.write("job.sh", gate.script)
    client = scenario.start("run", "utils.sh", "--", "sh", str(script))
    gate.entered()
    (app,) = scenario.supervisors().items()
    client.send_signal(signal.SIGSTOP)
    gate.open()
    assert processes.gone([app[1]], timeout_s=60)
    kept = scenario.launcher("gc", "--older-than", "0")
    assert "the client that started it still runs" in kept.err + kept.out
    client.send_signal(signal.SIGCONT)
    _, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    scenario.launcher("gc", "--older-than", "0")
    assert scenario.apps() == []


def test_gc_removes_the_tickets_of_killed_supervisors_and_keeps_those_of_live_apps(scenario):
    share = "resource: {cpu: 0.001}"
    scenario.running(name="live", role=share)
    scenario.apply(scenario.job("exec sleep 1000", name="killed", role=share))
    [app_id] = [app_id for app_id in scenario.supervisors() if app_id.startswith("killed")]
    processes.kill([scenario.supervisors()[app_id]])
    scenario.wait("killed", code=5)
    until(lambda: not scenario.processes_of(app_id))
    left = {each.name for each in Path(slots_table()).iterdir()}
    scenario.launcher("gc", "--dry-run")
    assert {each.name for each in Path(slots_table()).iterdir()} == left
    scenario.launcher("gc")
    assert {each.name for each in Path(slots_table()).iterdir()} == {
        each for each in left if app_id not in each
    }
    assert any(app_id in each for each in left)
    scenario.cancel("live")
