"""Many replicas under a low limit of open files, many jobs at once, and a lock of another process."""

import os
import resource

import pytest

SOFT = 128
REPLICAS = 200


@pytest.fixture
def few_files():
    """Lower the soft limit of open files for processes of the test; the hard limit stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_logs_of_many_replicas_are_followed_while_waiting(scenario, few_files):
    file = scenario.job("echo here", replicas=REPLICAS)
    shown = scenario.launcher("apply", file, "--yes", "--wait", "--logs")
    assert (shown.out + shown.err).count("| here") == REPLICAS


@pytest.mark.slow
def test_an_apply_waits_for_a_held_lock_and_then_names_its_owner(scenario):
    from launcher.apply.apply import apply_lock

    file = scenario.job("true")
    with apply_lock("default", "default", timeout_s=1):
        done = scenario.launcher("apply", file, "--yes", "--lock-timeout", "1s", code=7)
        assert str(os.getpid()) in done.err
        assert scenario.actions(file) == {"job": "create"}  # a plan takes no lock
    scenario.run_to_end(file)
