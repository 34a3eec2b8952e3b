"""SIGKILL of a client after its containers exist, and of a watcher: each replica runs once, nothing is left.

Sweeps over the acts before that are in docker_engine/test_turns.py.
"""

import os
import signal

import pytest

from launcher.specs import AppState
from tests import processes
from tests.scenarios import test_kill as local
from tests.scenarios.test_kill import runs  # noqa: F401

pytestmark = pytest.mark.timeout(600)  # many applies in a row, beside other tests


@pytest.mark.parametrize("step", ["starting", "started"])
def test_the_next_apply_finishes_the_work_of_a_killed_client(scenario, runs, step):  # noqa: F811
    local.test_the_next_apply_finishes_the_work_of_a_client_killed_at_a_named_step(scenario, runs, step)


@pytest.mark.parametrize("step", ["stopping", "stopped"])
def test_the_next_apply_finishes_the_replacement_of_a_killed_client(scenario, step):
    local.test_the_next_apply_finishes_the_replacement_of_a_killed_client(scenario, step)


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
