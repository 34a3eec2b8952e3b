"""Roles that wait for each other: every command on them, and SIGKILL at each step."""

import json
import socket
import sys

import pytest

from tests import processes
from tests.lanes import sampled, thinned
from tests.scenarios.test_kill import killed

STEPS = ["reserving", "reserved", "created", "starting", "started", "recorded"]
DEATHS = [
    ("created", 1), ("starting", 1), ("spawn", 1), ("started", 1), ("ready", 1), ("spawn", 2), ("exit", 1),
    ("stopping", 1), ("exit", 2), ("ended", 1),
]  # fmt: skip
FINISHED = {("exit", 1), ("stopping", 1), ("exit", 2), ("ended", 1)}
"""The deaths after the last end that counts."""


def ordered(scenario, *, server="touch up; exec sleep 1000", client="cat up; echo run >>runs"):
    """Write a job with a client that waits for a ready service; `runs` gets a line for each run."""
    return scenario.write(
        "job.launcher.yaml",
        f"""
        version: 1
        name: job
        roles:
          client:
            run: {json.dumps(client)}
            depends_on: [server]
          server:
            run: {json.dumps(server)}
            service: true
            ready: {{file: up}}
        """,
    )


def assert_done_once(scenario, file):
    scenario.run_to_end(file)
    attempt = scenario.attempts()[-1]
    assert attempt.state == "succeeded"
    assert (scenario.folder / "runs").read_text() == "run\n"
    assert scenario.actions(file) == {"job": "keep"}
    for app in scenario.apps():
        assert scenario.processes_of(app) == []


def test_apply_returns_while_a_role_waits_and_a_plan_keeps_it(scenario):
    gate = scenario.gate()
    file = ordered(scenario, server=f"{gate.script}; touch up; exec sleep 1000")
    scenario.apply(file)
    gate.entered()
    assert scenario.actions(file) == {"job": "keep"}
    scenario.apply(file)
    shown = scenario.launcher("status", "job", code=None).out
    [line] = [line for line in shown.splitlines() if line.startswith("client/0")]
    assert line.split() == ["client/0", "WAITING", "for", "server", "(ready)"]
    gate.open()
    scenario.wait("job")
    assert_done_once(scenario, file)


def test_commands_of_another_home_do_not_disturb_a_waiting_role(scenario):
    """The plan of the other home does not know the attempt, and does not affect it."""
    gate = scenario.gate()
    file = ordered(scenario, server=f"{gate.script}; touch up; exec sleep 1000")
    scenario.apply(file)
    gate.entered()
    scenario.launcher("plan", file, env=scenario.elsewhere)
    scenario.launcher("list", env=scenario.elsewhere)
    gate.open()
    scenario.wait("job")
    assert_done_once(scenario, file)


@pytest.mark.parametrize("step", sampled(STEPS, "starting", first=1, every=2))
def test_the_next_apply_finishes_the_work_of_a_killed_client(scenario, step):
    file = ordered(scenario)
    assert killed(scenario, "step", step, "1", argv=["apply", file, "--yes"])
    assert_done_once(scenario, file)
    assert [attempt.number for attempt in scenario.attempts()] == [1]


@pytest.mark.parametrize("death", sampled(DEATHS, ("ready", 1), ("exit", 1), first=1, every=2), ids=str)
def test_the_record_of_a_killed_supervisor_decides_the_outcome_of_the_app(scenario, death):
    event, n = death
    file = ordered(scenario)
    process = scenario.spawn(
        [sys.executable, "-m", "tests.kill_at", "record", event, str(n), "--", "apply", str(file), "--yes"]
    )
    process.communicate()
    assert processes.gone(scenario.supervisors().values(), timeout_s=60)
    if death not in FINISHED:
        scenario.launcher("list")  # ends what the dead supervisor has left: its client may be about to write
        left = [pid for app in scenario.apps() for pid in scenario.processes_of(app)]
        assert processes.gone(left, timeout_s=60)
        (scenario.folder / "runs").unlink(missing_ok=True)
        scenario.run_to_end(file, "--retry-failed")
    assert_done_once(scenario, file)


def test_a_plan_shows_a_changed_order_of_roles_by_its_path(scenario):
    file = ordered(scenario, server="exec sleep 1000")
    scenario.apply(file)
    file.write_text(file.read_text().replace("{file: up}", "{file: up, timeout: 5m}"))
    [job] = scenario.plan_document(file)["jobs"]
    assert job["action"] == "replace"
    assert [change["path"] for change in job["changes"]] == ["roles.server.ready.timeout"]
    scenario.cancel("job")


def test_a_saved_plan_starts_roles_in_their_order(scenario):
    file = ordered(scenario)
    scenario.plan(file, "--out", "plan.json")
    scenario.launcher("apply", "plan.json", "--wait")
    assert_done_once(scenario, file)


def test_an_apply_names_a_taken_port_and_shows_no_empty_command(scenario):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        file = scenario.write(
            "job.launcher.yaml",
            f"version: 1\nname: job\nroles: {{main: {{entrypoint: 'true', ready: {{port: {port}}}}}}}\n",
        )
        message = scenario.launcher("apply", file, "--yes", code=1).err
    assert f"cannot start main/0: port {port} is in use by another process" in message
    assert "command:" not in message
    assert scenario.apps() == []


COMMANDS = (
    ["apply", "job.launcher.yaml", "--yes", "--wait"],
    ["apply", "job.launcher.yaml", "--yes", "--rerun", "job", "--allow-destructive"],
    ["status", "job", "--json"], ["wait", "job"], ["cancel", "job"], ["list", "--json"],
    ["logs", "job", "--follow"], ["logs", "job", "--restart", "0"],
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("first", thinned(range(len(COMMANDS)), every=3))
def test_eight_commands_at_once_leave_one_outcome_and_no_process(scenario, first):
    """The commands start in several rotations, on a job that has not run before and on one that has."""
    file = ordered(scenario, client="cat up; sleep 0.2; echo run >>runs")
    for _ in range(2):
        commands = [*COMMANDS[first:], *COMMANDS[:first]]
        started = [scenario.start(*argv) for argv in commands]
        for argv, process in zip(commands, started, strict=True):
            message = "".join(process.communicate(timeout=120))
            assert process.returncode in (0, 1, 5), (argv, process.returncode, message)
            assert "Traceback" not in message, (argv, message)
        scenario.launcher("wait", "job", code=None)
        assert processes.gone(scenario.supervisors().values(), timeout_s=60)
        assert [scenario.processes_of(app) for app in scenario.apps()] == [[]] * len(scenario.apps())
        states = [attempt.state for attempt in scenario.attempts()]
        assert set(states) <= {"succeeded", "cancelled"}, states
        runs = scenario.folder / "runs"
        count = len(runs.read_text().split()) if runs.exists() else 0
        assert states.count("succeeded") <= count <= len(states)
    scenario.run_to_end(file, "--rerun", "job")
    assert scenario.attempts()[-1].state == "succeeded"
    assert scenario.actions(file) == {"job": "keep"}
