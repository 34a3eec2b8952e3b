"""An apply that Ctrl-C interrupts reports the true state of each of its jobs."""

import sys

import pytest

from launcher.apply.apply import apply_lock
from tests.lanes import sampled


def interrupted(scenario, step, *argv):
    """Run `launcher apply ARGV`, interrupt it when it reports `step`; return its stderr."""
    command = [sys.executable, "-m", "tests.kill_at", "interrupt", step, "1", "--", "apply", *map(str, argv)]
    process = scenario.spawn([*command, "--yes"])
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    return err


@pytest.mark.slow
@pytest.mark.parametrize("step", sampled(["reserving", "reserved", "created", "starting"], "created"))
def test_an_interrupted_apply_takes_back_an_unstarted_attempt_and_reports_it(scenario, step):
    file = scenario.job("exec sleep 1000")
    err = interrupted(scenario, step, file, "--wait")
    assert "was taken back" in err
    assert "detached" not in err
    assert scenario.attempts() == []
    assert scenario.actions(file) == {"job": "create"}


def test_an_apply_that_was_interrupted_before_it_reached_a_job_says_that_it_did_nothing(scenario):
    file = scenario.job("exec sleep 1000")
    with apply_lock("default", "default", timeout_s=0):
        err = interrupted(scenario, "waiting", file, "--wait")
    assert "interrupted: no job was started or stopped" in err
    assert "detached" not in err
    assert scenario.attempts() == []


def test_an_interrupted_apply_leaves_a_started_attempt_running_and_reports_it(scenario):
    file = scenario.job("exec sleep 1000")
    err = interrupted(scenario, "started", file)
    [attempt] = scenario.attempts()
    assert f"{attempt.app_id} goes on" in err
    assert scenario.state(attempt.app_id).name == "RUNNING"
    scenario.cancel(attempt.app_id)


@pytest.mark.slow
def test_an_interrupted_replacement_reports_the_old_attempt_too(scenario):
    scenario.apply(scenario.job("exec sleep 1000"))
    err = interrupted(scenario, "created", scenario.job("exec sleep 2000"), "--allow-destructive")
    [old] = scenario.attempts()
    assert "job-2-" in err
    assert "was taken back" in err
    assert f"{old.app_id} goes on" in err
    scenario.cancel("job")


@pytest.mark.slow
def test_an_interrupted_apply_names_the_jobs_that_it_did_not_begin(scenario):
    """Submissions that other threads have begun are finished; no further one is begun."""
    files = [scenario.job("exec sleep 1000", name=f"job-{number}") for number in range(20)]
    err = interrupted(scenario, "reserving", *files)
    report = [line for line in err.splitlines() if " interrupted: " in line]
    assert len(report) == len({line.split()[0] for line in report}) == len(files)
    assert "was not begun" in err
    made = [attempt for number in range(20) for attempt in scenario.attempts(f"job-{number}")]
    assert err.count(" goes on ") == len(made)
    for attempt in made:
        assert f"{attempt.app_id} goes on" in err
        scenario.cancel(attempt.app_id)


@pytest.mark.slow
def test_list_shows_the_present_state_of_an_attempt_whose_apply_was_interrupted(scenario):
    """The ledger records the start at the next apply; list shows the running attempt before that."""
    file = scenario.job("exec sleep 1000")
    interrupted(scenario, "started", file)
    assert '"state": "RUNNING"' in scenario.launcher("list", "--json").out
    scenario.apply(file)
    assert [attempt.state for attempt in scenario.attempts()] == ["running"]
    scenario.cancel("job")
