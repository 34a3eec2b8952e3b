"""How jobs in containers end: cancelled, out of time, out of memory, after retries by every policy."""

import json

import pytest

from launcher.specs import AppState
from tests import processes
from tests.lanes import thinned
from tests.scenarios.test_cancel import (  # noqa: F401
    test_a_second_interrupt_kills_the_run,
    test_an_interrupted_run_is_followed_to_its_end,
)


def test_a_cancelled_job_is_cancelled_for_clients_that_read_only_the_engine(scenario):
    file, _ = scenario.running()
    [app] = scenario.apps()
    scenario.cancel("job")
    assert processes.gone(scenario.watchers(), timeout_s=60)
    scenario.forget()
    assert scenario.state(f"local_docker://{scenario.token}/{app}") is AppState.CANCELLED
    assert scenario.actions(file) == {"job": "hold"}


def test_a_job_from_another_home_can_be_cancelled(scenario, tmp_path, monkeypatch):
    scenario.running()
    [app] = scenario.apps()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
        scenario.cancel(f"local_docker://{scenario.token}/{app}")
    assert [one.state for one in scenario.containers(app)] == ["exited"]
    assert scenario.state("job") is AppState.CANCELLED
    assert scenario.status("job")["message"].startswith("cancelled by ")
    assert "by hand" not in scenario.plan("job.launcher.yaml", "--fail-on", "drift")


AGAIN = 'cd $LAUNCHER_SCRATCH; echo x >>runs; n=$(wc -l <runs); echo "run $n"; printf "$n begun"; '
"""Counts its runs, and leaves a line unfinished."""


@pytest.mark.parametrize("more", ["replica\nretry_delay: 1s", "role"], ids=lambda it: it[:7])
def test_logs_of_one_restart_are_the_output_of_that_run_alone(scenario, more):
    file = scenario.job(f"{AGAIN}[ $n = 3 ]", role=f"max_retries: 2\nretry_policy: {more}")
    scenario.run_to_end(file)
    for n in range(3):
        whole = f"run {n + 1}\n{n + 1} begun"
        assert scenario.logs("job", "--restart", str(n)) == whole
        assert scenario.logs("job", "--restart", str(n), "--follow", "--tail", "9") == whole
    assert "no output of restart 3" in scenario.launcher("logs", "job", "--restart", "3", code=1).err


@pytest.mark.parametrize("policy", thinned(["role", "replica", "application"], every=3))
def test_restarts_by_the_watcher_are_events_and_lines_of_followed_output(scenario, policy):
    role = f"max_retries: 2\nretry_policy: {policy}\nretry_delay: 1s"
    file = scenario.job(f"{AGAIN}[ $n = 3 ]", role=role)
    report = [f"main/0 exited with 1; restart {n} of 2 in {n} s" for n in (1, 2)]
    shown = scenario.run_to_end(file, "--format", "jsonl").out
    events = [json.loads(line) for line in shown.splitlines()]
    found = [event for event in events if event["event"] == "restarting"]
    assert [(each["message"], each["policy"], each["restart"]) for each in found] == [
        (report[0], policy.upper(), 1),
        (report[1], policy.upper(), 2),
    ]
    followed = scenario.run_to_end(file, "--rerun", "job", "--logs").err
    assert [line for line in followed.splitlines() if "restart" in line] == [f"job {line}" for line in report]
    attached = scenario.launcher("run", file).err
    assert [line for line in attached.splitlines() if "restart" in line] == report


def test_restarts_by_the_engine_have_no_times_and_a_clear_error(scenario):
    """The remedy that the error names works."""
    file = scenario.job(f"{AGAIN}[ $n = 2 ]", role="max_retries: 2\nretry_policy: replica")
    scenario.run_to_end(file)
    printed = scenario.launcher("logs", "job", "--restart", "0", code=1).err
    assert "the engine restarted main/0 by itself, and keeps no times of that" in printed
    assert "`retry_delay: 1s`" in printed
    file.write_text(file.read_text() + "    retry_delay: 1s\n")
    scenario.run_to_end(file)
    assert scenario.logs("job", "--restart", "0") == "run 1\n1 begun"
