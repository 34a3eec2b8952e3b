"""Plan and apply with containers: which jobs run, are kept, and survive the loss of local records."""

from launcher.specs import AppState
from tests import processes


def test_a_job_runs_to_its_end_in_its_containers(scenario):
    file = scenario.job("echo it ran as $(hostname)", replicas=2)
    assert scenario.actions(file) == {"job": "create"}
    done = scenario.launcher("apply", file, "--yes", "--wait", "--logs")
    assert done.out.count("it ran as job-") == 2  # the plan shows the command, too
    [app] = scenario.apps()
    assert [one.state for one in scenario.containers(app)] == ["exited", "exited"]
    assert scenario.actions(file) == {"job": "keep"}


def test_containers_pruned_before_any_command_saw_their_end_leave_their_outcome(scenario):
    """Apply did not wait: the watcher recorded the end before the containers were removed."""
    file = scenario.job("true")
    scenario.apply(file)
    [app] = scenario.apps()
    assert processes.gone(scenario.watchers(), timeout_s=60)
    scenario.prune(app)
    assert scenario.actions(file) == {"job": "keep"}
    assert scenario.state("job") is AppState.SUCCEEDED


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
