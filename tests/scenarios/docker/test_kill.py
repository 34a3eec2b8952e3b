"""SIGKILL at any point, with containers: one attempt, each replica ran once, nothing is left."""

import os
import signal

import pytest

from launcher.specs import AppState
from tests import processes
from tests.scenarios.test_kill import (  # noqa: F401
    killed,
    runs,
    span,
    test_a_saved_plan_finishes_the_work_of_its_killed_client,
    test_an_apply_takes_the_named_steps_in_their_order,
    test_the_next_apply_finishes_the_replacement_of_a_killed_client,
    test_the_next_apply_finishes_the_work_of_a_client_killed_at_a_named_step,
    test_the_next_apply_finishes_the_work_of_a_client_killed_at_a_random_moment,
)

pytestmark = pytest.mark.timeout(600)  # many applies in a row, beside other tests


@pytest.mark.parametrize("step", ["reserved", "created"])
def test_an_app_whose_client_was_killed_before_the_start_is_taken_back(scenario, runs, step):  # noqa: F811
    """The watcher takes back the app that its client cannot start any more, or the next apply does."""
    file, log = runs
    assert killed(scenario, "step", step, "1", argv=["apply", file, "--yes"])
    assert not log.exists()
    assert processes.gone(scenario.watchers(), timeout_s=60)  # until then it is in progress
    assert scenario.actions(file)["job"] in ("create", "resume")
    scenario.run_to_end(file)
    assert len(log.read_text().split()) == 2


def test_a_job_outlives_its_killed_watcher(scenario):
    file, gate = scenario.running()
    [(app, watcher)] = scenario.supervisors().items()
    os.kill(watcher, signal.SIGKILL)
    assert processes.gone([watcher], timeout_s=60)

    assert scenario.actions(file) == {"job": "keep"}
    assert scenario.state("job") is AppState.RUNNING
    gate.open()
    assert scenario.wait("job").code == 0
    assert scenario.attempts()[-1].state == "succeeded"
    assert len(scenario.containers(app)) == 1
