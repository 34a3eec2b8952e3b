"""Plan and apply with containers: which jobs run, are kept, and survive the loss of local records."""

import pytest

from launcher.specs import AppState
from tests import processes
from tests.scenarios.test_apply import (  # noqa: F401
    test_a_failed_job_is_held_until_a_user_asks,
    test_a_job_without_its_file_is_an_orphan_that_prune_destroys,
    test_a_protected_job_is_never_stopped,
    test_a_saved_plan_applied_twice_is_stale_the_second_time,
    test_a_second_apply_keeps_the_finished_job_and_reports_it_unchanged,
    test_an_apply_with_one_bad_job_file_submits_no_job,
    test_replacing_a_running_job_needs_approval_and_stops_the_old_attempt_first,
    test_retry_failed_runs_every_failed_job_again,
    test_twenty_applies_at_once_make_one_attempt,
    test_twenty_applies_of_one_saved_plan_make_one_attempt,
)


def test_a_job_runs_to_its_end_in_its_containers(scenario):
    file = scenario.job("echo it ran as $(hostname)", replicas=2)
    assert scenario.actions(file) == {"job": "create"}
    done = scenario.launcher("apply", file, "--yes", "--wait", "--logs")
    assert done.out.count("it ran as job-") == 2  # the plan shows the command, too
    [app] = scenario.apps()
    assert [one.state for one in scenario.containers(app)] == ["exited", "exited"]
    assert scenario.actions(file) == {"job": "keep"}


def test_a_plan_writes_nothing_on_the_engine_or_at_home(scenario):
    scenario.plan(scenario.job("true"))
    assert scenario.things() == []
    assert not scenario.home.exists()


def test_pruned_containers_run_nothing_again(scenario):
    file = scenario.job("true", replicas=2)
    scenario.run_to_end(file)
    scenario.prune()
    assert scenario.containers() == []
    assert scenario.actions(file) == {"job": "keep"}
    assert scenario.attempts()[-1].state == "succeeded"
    scenario.plan(file, "--detailed-exitcode", code=0)


def test_containers_pruned_before_any_command_saw_their_end_leave_their_outcome(scenario):
    """Apply did not wait: the watcher recorded the end before the containers were removed."""
    file = scenario.job("true")
    scenario.apply(file)
    [app] = scenario.apps()
    assert processes.gone(scenario.watchers(), timeout_s=60)
    scenario.prune(app)
    assert scenario.actions(file) == {"job": "keep"}
    assert scenario.state("job") is AppState.SUCCEEDED


@pytest.mark.parametrize(("script", "state"), [("true", "SUCCEEDED"), ("exit 3", "FAILED")])
def test_the_outcome_of_an_ended_job_is_read_from_the_engine_when_local_records_are_lost(
    scenario, script, state
):
    file = scenario.job(script)
    scenario.run_to_end(file, code=None)
    [app] = scenario.apps()
    scenario.forget()
    assert scenario.actions(file) == {"job": "keep" if state == "SUCCEEDED" else "hold"}
    handle = f"local_docker://{scenario.token}/{app}"
    assert scenario.state(handle) is AppState[state]
    assert app in scenario.launcher("list", "-s", "local_docker").out


def test_a_running_job_is_kept_and_described_when_local_records_are_lost(scenario):
    file, gate = scenario.running()
    [app] = scenario.apps()
    scenario.forget()
    assert scenario.actions(file) == {"job": "keep"}
    handle = f"local_docker://{scenario.token}/{app}"
    assert scenario.state(handle) is AppState.RUNNING
    assert "echo $$" in scenario.launcher("describe", handle).out
    gate.open()
    scenario.wait(handle)
    assert scenario.actions(file) == {"job": "keep"}


def test_a_replacement_without_an_image_leaves_the_old_attempt_running(scenario):
    file, gate = scenario.running()
    [old] = scenario.apps()
    started = scenario.daemon.inspect(scenario.container(old).id)["State"]["StartedAt"]

    scenario.job(gate.script, image=f"launcher-test/{scenario.token}:nowhere", top="cfg: {image_pull: never}")
    failed = scenario.launcher("apply", file, "--yes", "--allow-destructive", code=None)
    assert failed.code not in (0, 2)
    assert f"{scenario.token}:nowhere" in failed.err
    state = scenario.daemon.inspect(scenario.container(old).id)["State"]
    assert (state["Running"], state["StartedAt"]) == (True, started)
    assert scenario.apps() == [old]
    scenario.cancel("job")
