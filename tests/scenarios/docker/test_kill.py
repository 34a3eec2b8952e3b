"""Clients that are killed or interrupted, and killed watchers: each replica runs once, nothing is left.

Sweeps over the acts before that are in docker_engine/test_turns.py.
"""

import json
import os
import signal
import sys

import pytest

from launcher.specs import AppState
from tests import processes
from tests.scenarios import test_interrupt, test_kill as local
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


def test_an_interrupted_apply_takes_back_created_containers_and_reports_it(scenario):
    test_interrupt.test_an_interrupted_apply_takes_back_an_unstarted_attempt_and_reports_it(
        scenario, "created"
    )


INTERRUPTED_STARTING = """
import sys
from launcher.__main__ import main
from tests.half_start import interrupted_starting

interrupted_starting()
sys.argv = ["launcher", *sys.argv[1:]]
sys.exit(main())
"""


def test_an_apply_interrupted_between_two_replicas_starts_the_rest_and_reports_it(scenario):
    file = scenario.job("exec sleep 1000", replicas=3)
    client = scenario.spawn([sys.executable, "-c", INTERRUPTED_STARTING, "apply", str(file), "--yes"])
    _, err = client.communicate(timeout=240)
    assert client.returncode == 130, err
    [attempt] = scenario.attempts()
    assert f"{attempt.app_id} goes on" in err
    assert attempt.state == "running"
    [item] = json.loads(scenario.launcher("list", "--json").out)
    assert item["state"] == "RUNNING"
    scenario.cancel("job")
