"""Ctrl-C in an apply, with containers."""

import json
import sys

from tests.scenarios import test_interrupt as local


def test_an_interrupted_apply_takes_back_created_containers_and_reports_it(scenario):
    local.test_an_interrupted_apply_takes_back_an_unstarted_attempt_and_reports_it(scenario, "created")


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
