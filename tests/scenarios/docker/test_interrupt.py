"""Ctrl-C in an apply, with containers."""

import json
import sys

from tests.scenarios.test_interrupt import (  # noqa: F401
    test_a_replacement_tells_of_the_old_attempt_too,
    test_what_was_interrupted_is_listed_as_it_is,
    test_what_was_not_started_is_taken_back_and_that_is_reported,
    test_what_was_started_goes_on_and_that_is_reported,
)

INTERRUPTED_STARTING = """
import sys
from launcher.__main__ import main
from tests.half_start import interrupted_starting

interrupted_starting()
sys.argv = ["launcher", *sys.argv[1:]]
sys.exit(main())
"""


def test_interrupted_between_two_replicas_the_rest_is_started_and_that_is_reported(scenario):
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
