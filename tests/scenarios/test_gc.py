"""gc: what is left of ended apps goes, how they ended stays, and nothing runs again because of it."""

import json
import signal

import pytest

from launcher.specs import AppState
from tests import processes


@pytest.fixture
def three(scenario):
    """A job with three attempts that have succeeded; the app ids, oldest first."""
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


def test_gc_without_options_leaves_the_last_week_alone(scenario, three):
    assert "no apps to remove" in scenario.launcher("gc").err
    assert scenario.apps() == sorted(three)


@pytest.mark.slow
def test_the_newest_of_a_job_can_be_kept(scenario, three):
    scenario.run_to_end(scenario.job("true", name="other"))
    [other] = scenario.attempts("other")
    scenario.launcher("gc", "--keep", "1")
    assert scenario.apps() == sorted([three[-1], other.app_id])


@pytest.mark.slow
def test_one_project_can_be_chosen(scenario, three):
    scenario.run_to_end(scenario.job("true", name="other", top="project: b"))
    report = json.loads(scenario.launcher("gc", "--older-than", "0", "--project", "b", "--json").out)
    assert [app["handle"].partition("://")[2].partition("/")[0] for app in report["removed"]] == ["b"]
    assert report["kept"] == []
    assert scenario.apps() == sorted(three)


@pytest.mark.slow
def test_a_dry_run_shows_what_would_go_and_changes_nothing(scenario, three):
    report = json.loads(scenario.launcher("gc", "--older-than", "0", "--dry-run", "--json").out)
    assert [app["handle"].rpartition("/")[2] for app in report["removed"]] == three
    assert scenario.apps() == sorted(three)


@pytest.mark.slow
def test_what_stays_is_named_with_the_reason(scenario, three):
    assert "kept 3 apps: ended too recently (--older-than)" in scenario.launcher("gc").err
    report = json.loads(scenario.launcher("gc", "--keep", "2", "--json").out)
    assert report["kept"] == [{"what": "2 apps", "why": "among the newest of their job (--keep)"}]


def test_what_runs_is_left_alone(scenario):
    _, gate = scenario.running()
    assert "kept 1 live job: work in progress" in scenario.launcher("gc", "--older-than", "0").err
    assert scenario.apps() == list(scenario.supervisors())
    gate.open()
    scenario.wait("job")


def test_apps_that_no_job_file_made_go_too_and_are_listed_no_more(scenario):
    scenario.launcher("run", scenario.job("true"))
    assert len(json.loads(scenario.launcher("list", "--json").out)) == 1
    scenario.launcher("gc", "--older-than", "0")
    assert json.loads(scenario.launcher("list", "--json").out) == []


def test_only_apps_of_the_scheduler_that_is_named_go(scenario, three):
    scenario.launcher("gc", "--older-than", "0", "-s", "local_dir")
    assert scenario.apps() == sorted(three)
    assert "`local_cwd`" in scenario.launcher("gc", "-s", "local_cdw", code=64).err


@pytest.mark.slow
def test_an_outcome_that_the_ledger_lost_is_on_record_again_before_its_app_goes(scenario, three):
    for path in scenario.home.glob("ledger.db*"):
        path.unlink()
    scenario.launcher("gc", "--older-than", "0")
    assert scenario.apps() == []
    assert scenario.actions("job.launcher.yaml") == {"job": "keep"}


def test_the_end_of_a_lost_app_is_recorded_and_it_is_removed(scenario):
    import os
    import signal

    from tests import processes

    file, _ = scenario.running()
    [supervisor] = scenario.supervisors().values()
    os.kill(supervisor, signal.SIGKILL)
    assert processes.gone([supervisor], timeout_s=60)
    scenario.launcher("gc", "--older-than", "0")
    assert scenario.apps() == []
    assert scenario.attempts()[0].state == "lost"
    assert scenario.actions(file) == {"job": "hold"}


@pytest.mark.slow
def test_an_app_stays_until_the_client_that_ran_it_has_read_how_it_ended(scenario):
    """Suspended between the end of its app and its own, `run` would find nothing to tell of."""
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
