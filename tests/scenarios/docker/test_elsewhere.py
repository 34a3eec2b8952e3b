"""An app at one engine is neither lost nor stopped because a command asks another engine."""

import json

import pytest

from tests.engines.docker import Daemon
from tests.engines.own import OwnEngine, require_own
from tests.engines.proxy import Proxy, everything
from tests.waiting import until


@pytest.fixture(scope="module")
def other_engine():
    """A second engine, on which each test has only jobs of its own."""
    require_own()
    with OwnEngine() as made:
        yield made


@pytest.fixture
def other(scenario, other_engine, monkeypatch):
    """A function that switches all further commands to the second engine and back."""
    before = scenario.daemon
    with monkeypatch.context() as way:

        def switch(*, back: bool = False) -> None:
            if back:
                way.undo()
            else:
                way.setenv("DOCKER_HOST", other_engine.host)
            scenario.daemon = Daemon()

        yield switch
    scenario.daemon = before


def test_an_app_that_runs_at_one_engine_is_not_lost_at_another(scenario, other):
    file, second = scenario.job("exec sleep 1000"), scenario.job("true", name="second")
    scenario.apply(file)
    other()
    scenario.run_to_end(second)
    assert [attempt.state for attempt in scenario.attempts()] == ["running"]
    assert scenario.actions(file) == {"job": "keep"}
    changed = scenario.job("exec sleep 2000")
    refused = [
        scenario.launcher("plan", changed, code=1),
        scenario.launcher("apply", changed, "--yes", "--allow-destructive", code=1),
    ]
    for done in refused:  # before anything was begun
        assert "is at the engine" in done.err
        assert "hint: DOCKER_HOST=" in done.err
        assert "stopping" not in done.err
    assert [attempt.state for attempt in scenario.attempts()] == ["running"]
    for words in (["cancel", "job"], ["wait", "job"], ["status", "job"], ["logs", "job"]):
        assert "is at the engine" in scenario.launcher(*words, code=1).err
    scenario.kill_watchers()
    other(back=True)
    assert scenario.actions(file) == {"job": "replace"}
    scenario.cancel("job")


def test_the_logs_of_an_ended_app_are_at_its_engine_and_not_removed(scenario, other):
    scenario.run_to_end(scenario.job("echo done"))
    [app_id] = [attempt.app_id for attempt in scenario.attempts()]
    other()
    for command in ("status", "describe"):
        shown = json.loads(scenario.launcher(command, "job", "--json").out)
        assert (shown["attempt_state"], shown["logs_removed"]) == ("succeeded", False)
        assert f"{app_id} is at the engine" in shown["warnings"][0]
    refused = scenario.launcher("logs", "job", code=1).err
    assert "is at the engine" in refused
    assert "hint: DOCKER_HOST=" in refused
    assert "is at the engine" in scenario.launcher("grep", "done", "job", code=1).err
    report = json.loads(scenario.launcher("report", "--json").out)
    assert "removed" not in json.dumps(report)
    other(back=True)
    assert scenario.logs("job").strip().endswith("done")
    scenario.launcher("gc", "--logs", "--older-than", "0s")
    assert "removed" in scenario.launcher("status", "job").out
    other()
    assert "removed" in scenario.launcher("status", "job").out
    assert "were removed" in scenario.launcher("logs", "job", code=1).err
    other(back=True)
    scenario.launcher("gc", "--older-than", "0s")


def test_an_output_folder_at_another_engine_is_not_called_gone(scenario, other):
    make = scenario.job("echo 1 >$<output_dir>/n", name="make", top="output: true")
    read = scenario.job("cat $<needs.make.output_dir>/n", name="read", top="needs: [make]")
    scenario.run_to_end(make)
    other()
    shown = [scenario.plan(make, read), scenario.launcher("output", "make", code=1).err]
    for text in shown:
        assert "is at the engine" in text
        assert "gone" not in text
    assert scenario.actions(make, read) == {"make": "keep", "read": "hold"}
    other(back=True)
    assert scenario.actions(make, read) == {"make": "keep", "read": "create"}


def test_a_plan_at_another_engine_names_the_running_attempt_and_not_the_lost_one(scenario, other):
    scenario.apply(scenario.job("exec sleep 1000"))
    [first] = scenario.supervisors()
    scenario.kill_watcher(first)
    scenario.remove_by_hand(scenario.containers(first))
    again = scenario.job("exec sleep 2000")
    scenario.apply(again)
    assert [attempt.state for attempt in scenario.attempts()] == ["lost", "running"]
    other()
    [step] = scenario.plan_document(again)["jobs"]
    assert (step["action"], step["guard"]["attempt"]) == ("keep", 2)
    refused = scenario.launcher("plan", scenario.job("exec sleep 3000"), code=1)
    assert "job-2-" in refused.err
    assert first not in refused.err
    assert scenario.status("job@1")["attempt_state"] == "lost"
    scenario.kill_watchers()
    other(back=True)
    scenario.cancel("job")


def test_apps_go_on_after_another_engine_answered_at_their_address(
    scenario, other_engine, gate, tmp_path, monkeypatch
):
    """A port may be forwarded to one machine, then to another one, and back."""
    with Proxy(tmp_path / "p.sock", everything) as proxy, monkeypatch.context() as way:
        way.setenv("DOCKER_HOST", proxy.host)
        first = scenario.job(gate.script)
        second = scenario.job("true", name="second", top="needs: [job]")
        scenario.apply(first, second)
        ours = scenario.daemon.socket_path
        proxy.switch(other_engine.host.removeprefix("unix://"))
        asked = proxy.streams()
        until(lambda: proxy.streams() >= asked + 3)  # the watcher asks again and again
        proxy.switch(ours)
        gate.open()
        for name in ("job", "second"):
            assert "SUCCEEDED" in scenario.wait(name).out
