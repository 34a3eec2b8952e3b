"""Retries: restarts by each policy, their events, and the logs of each run."""

import json
import re
import subprocess
import sys

import jsonschema
import pytest

from launcher.apply.events import event_schema
from launcher.runner import get_runner
from tests.scenario import until_line

TWICE = 'echo "run $LAUNCHER_RESTART"; printf "$LAUNCHER_RESTART begun"; [ $LAUNCHER_RESTART = 2 ]'
"""Fails twice, each time within a line."""


def test_a_restart_makes_no_new_attempt(scenario):
    file = scenario.job("[ $LAUNCHER_RESTART = 1 ]", role="max_retries: 1\nretry_policy: replica")
    scenario.run_to_end(file)
    assert len(scenario.attempts()) == 1
    assert scenario.actions(file) == {"job": "keep"}


def restarted(scenario, policy="replica", delay="1s"):
    return scenario.job(TWICE, role=f"max_retries: 3\nretry_policy: {policy}\nretry_delay: {delay}")


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "options"), [("replica", []), ("role", ["--logs"]), ("application", [])])
def test_restarts_are_events_of_an_apply_that_waits(scenario, policy, options):
    file = restarted(scenario, policy)
    shown = scenario.run_to_end(file, "--format", "jsonl", *options).out
    events = [json.loads(line) for line in shown.splitlines()]
    check = jsonschema.Draft202012Validator(event_schema()).validate
    for event in events:
        check(event)
    found = [event for event in events if event["event"] == "restarting"]
    assert [(each["role"], each["replica"], each["restart"], each["max_retries"]) for each in found] == [
        ("main", 0, 1, 3),
        ("main", 0, 2, 3),
    ]
    assert [(each["delay_s"], each["policy"], each["message"]) for each in found] == [
        (1, policy.upper(), "main/0 exited with 1; restart 1 of 3 in 1 s"),
        (2, policy.upper(), "main/0 exited with 1; restart 2 of 3 in 2 s"),
    ]
    names = [event["event"] for event in events]
    assert names.index("started") < names.index("restarting") < names.index("ended")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["replica", "role", "application"])
def test_restarts_are_shown_between_the_output_of_the_two_runs(scenario, policy):
    file = restarted(scenario, policy, delay="0")
    report = ["main/0 exited with 1; restart 1 of 3", "main/0 exited with 1; restart 2 of 3"]
    done = scenario.run_to_end(file, "--logs")
    assert [line for line in done.err.splitlines() if "restart" in line] == [f"job {line}" for line in report]
    assert [line for line in scenario.launcher("run", file).err.splitlines() if "restart" in line] == report
    for argv in (["job", "--follow"], ["job", "--follow", "--timestamps"]):
        followed = scenario.spawn(
            [sys.executable, "-m", "launcher", "logs", *argv], stderr=subprocess.STDOUT
        ).communicate()[0]
        kinds = re.findall(r"(run \d|restart \d)", followed)
        assert kinds == ["run 0", "restart 1", "run 1", "restart 2", "run 2"]
    assert "restart" not in scenario.launcher("logs", "job", "--follow", "--tail", "9").err
    assert "restart" not in scenario.launcher("logs", "job").err


def test_restarts_of_roles_that_are_not_followed_are_not_shown(scenario):
    file = scenario.write(
        "job.launcher.yaml",
        """
        version: 1
        name: job
        roles:
          fails: {run: "[ $LAUNCHER_RESTART = 1 ]", max_retries: 1, retry_policy: role}
          other: {run: echo hello}
        """,
    )
    scenario.run_to_end(file)
    assert scenario.launcher("logs", "job/other", "--follow").err == ""
    shown = scenario.launcher("logs", "job/fails", "--follow").err
    assert shown == "fails/0 exited with 1; restart 1 of 1\n"


@pytest.mark.slow
def test_logs_of_one_restart_are_the_output_of_that_run_alone(scenario):
    file = restarted(scenario, delay="0")
    scenario.run_to_end(file)
    for n in range(3):
        whole = f"run {n}\n{n} begun"
        assert scenario.logs("job", "--restart", str(n)) == whole
        assert scenario.logs("job", "--restart", str(n), "--follow") == whole
        assert scenario.logs("job", "--restart", str(n), "--tail", "1") == f"{n} begun"
        assert scenario.logs("job", "--restart", str(n), "--regex", "run") == f"run {n}\n"
        with get_runner() as runner:
            handle = scenario.status("job")["handle"]
            assert "".join(runner.log_lines(handle, "main", restart=n)) == whole
    refused = scenario.launcher("logs", "job", "--restart", "3", code=1).err
    assert "has no output of restart 3" in refused


def test_logs_of_one_restart_follow_the_run_that_goes_on(scenario):
    gate = scenario.gate()
    script = f'echo "run $LAUNCHER_RESTART"; [ $LAUNCHER_RESTART != 1 ] || {{ {gate.script}; }}; exit 1'
    file = scenario.job(script, role="max_retries: 2\nretry_policy: replica")
    scenario.apply(file)
    gate.entered()
    follower = scenario.start("logs", "job", "--restart", "1", "--follow")
    assert until_line(follower.stdout, "run") == "run 1\n"
    gate.open()
    assert follower.communicate()[0] == ""
    scenario.wait("job", code=5)
    assert scenario.logs("job", "--restart", "2") == "run 2\n"


def test_logs_of_one_restart_show_only_the_replicas_that_restarted(scenario):
    script = 'echo "$<replica_id>-$LAUNCHER_RESTART"; [ $<replica_id> = 0 ] || [ $LAUNCHER_RESTART = 1 ]'
    scenario.run_to_end(scenario.job(script, replicas=2, role="max_retries: 1\nretry_policy: replica"))
    assert scenario.logs("job", "--restart", "1") == "1-1\n"
    assert sorted(scenario.logs("job", "--restart", "0", "--no-prefix").split()) == ["0-0", "1-0"]
