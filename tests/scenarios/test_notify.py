"""The outcome of each attempt reaches its receivers, whatever is killed. They verify each request."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.state import outbox
from tests import processes
from tests.lanes import EVERY_ACT
from tests.scenario import Scenario
from tests.sink import KEY, PATIENCE_S, Sink
from tests.waiting import until


def project(scenario: Scenario, sink: Sink, more: str = "") -> None:
    scenario.write("launcher.toml", f'[notify]\nurl = "{sink.url}"\nsecret = "env:HOOK_KEY"\n{more}\n')


def senders() -> list[int]:
    """Return the processes that send the outcomes of this LAUNCHER_HOME."""
    home = os.environ["LAUNCHER_HOME"]
    found = processes.of_home(home)
    words = b"from launcher.notify import main"
    return [pid for pid in found if words in Path(f"/proc/{pid}/cmdline").read_bytes()]


def until_sent() -> None:
    """Wait until no outcome is left to be sent."""
    until(lambda: not any(os.listdir(group) for group in outbox.groups()))


def kill_senders() -> None:
    found = until(senders)
    processes.kill(found)
    processes.gone(found, timeout_s=PATIENCE_S)


def test_the_url_of_launcher_toml_gets_each_outcome_and_no_file_has_the_key(scenario, sink):
    project(scenario, sink)
    scenario.apply(scenario.job("echo boom >&2; exit 3", name="bad"), scenario.job("true", name="good"))
    got = {body["data"]["job"]: (id, body) for id, body in sink.wait(2)}
    id, body = got["bad"]
    assert id.startswith(f"{scenario.attempts('bad')[0].app_id}_failed_")
    assert body["data"]["message"] == "main/0 exited with 3: boom"
    assert got["good"][1]["type"] == "attempt.succeeded"
    until_sent()
    written = [path for path in scenario.home.rglob("*") if path.is_file()]
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []


def test_a_command_of_the_command_line_gets_the_outcomes_on_its_standard_input(scenario):
    scenario.apply(scenario.job("true"), "--notify", "sh -c 'cat >new && mv new outcome'")
    until_sent()
    body = json.loads((scenario.folder / "outcome").read_text())
    assert body["data"]["app_id"] == scenario.attempts()[0].app_id


def test_the_next_command_replaces_a_killed_sender(scenario, sink):
    project(scenario, sink, 'on = ["succeeded"]')
    _, gate = scenario.running()
    kill_senders()
    gate.open()
    scenario.wait("job")
    sink.wait()
    until_sent()


@pytest.mark.slow
def test_a_sender_keeps_no_pipe_of_the_command_open(scenario, sink):
    project(scenario, sink)
    gate = scenario.gate()
    read, write = os.pipe()
    argv = [sys.executable, "-m", "launcher", "apply", str(scenario.job(gate.script)), "--yes"]
    assert scenario.spawn(argv, pass_fds=(write,)).wait() == 0
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == ""
    gate.entered()
    gate.open()
    sink.wait()
    until_sent()


def test_an_outcome_that_no_receiver_has_got_is_named_by_status_and_sent_later(scenario, sink):
    project(scenario, sink)
    sink.answer = 503
    scenario.run_to_end(scenario.job("true"))
    sink.wait()
    until(lambda: "HTTP status 503" in scenario.launcher("status", "job").out)
    kill_senders()
    sink.answer = 204
    for group in outbox.groups():
        for app_id, record in outbox.records(group):  # as after the pause
            for each in record["left"]:
                each["due_at"] = 0.0
            outbox.write(group, app_id, record, 0.0)
    scenario.launcher("list")
    until_sent()
    assert len(sink.ids) == 1


def test_a_missing_key_refuses_the_apply_before_anything_starts(scenario, sink, monkeypatch):
    project(scenario, sink)
    monkeypatch.delenv("HOOK_KEY")
    done = scenario.apply(scenario.job("true"), code=1)
    assert "notify: secret (env:HOOK_KEY): the environment variable HOOK_KEY is not set" in done.err
    assert scenario.attempts() == []


def test_an_approval_holds_the_receivers_that_it_was_given_for(scenario, sink):
    project(scenario, sink)
    file = scenario.job("true")
    scenario.launcher("plan", file, "--out", "plan.json")
    scenario.write("launcher.toml", '[notify]\ncommand = ["touch", "stolen"]\n')
    done = scenario.launcher("apply", file, "--approved", "plan.json", code=4)
    assert "`[notify]` of launcher.toml changed since" in done.err
    scenario.launcher("apply", "plan.json")
    sink.wait()
    until_sent()
    assert not (scenario.folder / "stolen").exists()


def test_no_command_of_a_checkout_runs_with_no_components(scenario):
    scenario.write("launcher.toml", '[notify]\ncommand = ["touch", "ran"]\n')
    file = scenario.job("true")
    assert "Outcomes are sent to the command `touch ran`" in scenario.plan(file, "--no-components")
    done = scenario.apply(file, "--no-components", code=3)
    assert "touch ran" in done.err
    assert scenario.attempts() == []


@pytest.mark.slow
def test_a_sender_does_not_wait_for_an_attempt_whose_client_was_killed_before_its_start(scenario, sink):
    project(scenario, sink)
    file = scenario.job("true")
    killed = [sys.executable, "-m", "tests.kill_at", "step", "starting", "1", "--", "apply", file, "--yes"]
    assert scenario.spawn(list(map(str, killed))).wait() == -9
    [group] = outbox.groups()
    scenario.launcher("list")
    until(lambda: not outbox.is_due(group) and not senders())
    scenario.apply(file)
    assert len(sink.wait()) == 1
    until_sent()


def ended_unseen(scenario: Scenario, sink: Sink) -> None:
    """Leave an outcome that no command has seen yet."""
    project(scenario, sink)
    _, gate = scenario.running("exit 3")
    kill_senders()
    [supervisor] = scenario.supervisors().values()
    gate.open()
    processes.gone([supervisor], timeout_s=PATIENCE_S)


def kills(scenario: Scenario, sink: Sink, first: int, every: int) -> int:
    """Kill a sender at some of its steps, each followed by another one; return the number of kills."""
    ended_unseen(scenario, sink)
    copies = scenario.folder.parent / "copies"
    copies.mkdir()
    sink.__exit__(None, None, None)
    argv = [sys.executable, "-m", "tests.kill_sender", scenario.home, copies, str(first), str(every)]
    env = {**os.environ, "SINK_PORT": str(sink.port)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
def test_a_sender_killed_at_any_step_leaves_the_outcome_to_the_next_one(scenario, sink):
    assert kills(scenario, sink, 1, 1 if EVERY_ACT else 9) > 20
