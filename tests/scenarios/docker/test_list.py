"""`list` and `status` without an app read the records of live watchers, and else ask the engine."""

import json
import os

import pytest

from tests.engines.proxy import Proxy

NOWHERE = "unix:///nowhere/docker.sock"


def states(scenario, *words):
    return [item["attempt_state"] for item in json.loads(scenario.launcher(*words, "--json").out)]


@pytest.fixture
def running(scenario):
    """The app id of a running job."""
    scenario.apply(scenario.job("exec sleep 1000"))
    [app_id] = scenario.supervisors()
    return app_id


def test_list_asks_no_engine_about_an_app_whose_watcher_lives(scenario, running, monkeypatch):
    with monkeypatch.context() as away:
        away.setenv("DOCKER_HOST", NOWHERE)
        done = scenario.launcher("list", "--json")
        assert (json.loads(done.out)[0]["state"], done.err) == ("RUNNING", "")
    scenario.cancel("job")


def test_list_records_the_end_of_an_app_without_a_watcher(scenario, running):
    scenario.kill_watcher(running)
    scenario.remove_by_hand(scenario.containers(running))
    assert states(scenario, "list") == ["lost"]
    assert [attempt.state for attempt in scenario.attempts()] == ["lost"]
    assert states(scenario, "status") == []


def test_list_without_watcher_and_engine_reports_that_it_shows_the_last_known_state(
    scenario, running, monkeypatch
):
    scenario.kill_watcher(running)
    with monkeypatch.context() as away:
        away.setenv("DOCKER_HOST", NOWHERE)
        for words in (["list"], ["status"]):
            done = scenario.launcher(*words)
            assert "RUNNING" in done.out
            assert "shown in the last known state" in done.err
            assert NOWHERE in done.err
    assert states(scenario, "list") == ["running"]
    scenario.cancel("job")


def test_an_app_whose_record_was_removed_does_not_count_as_ended(scenario, running):
    scenario.kill_watcher(running)
    for file in (scenario.home / "docker" / "apps" / running).iterdir():
        file.unlink()
    (scenario.home / "docker" / "apps" / running).rmdir()
    assert states(scenario, "list") == ["running"]
    scenario.cancel("job")


def test_a_project_lists_the_apps_that_only_the_engine_knows(scenario, tmp_path, monkeypatch):
    name = f"{scenario.token}-p"
    scenario.apply(scenario.job("exec sleep 1000", top=f"project: {name}"))
    [app_id] = scenario.supervisors()

    def listed(*words):
        return json.loads(scenario.launcher("list", "--project", name, "--json", *words).out)

    (here,) = listed()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("LAUNCHER_HOME", str(tmp_path / "other home"))
        for words in ((), ("--state", "running"), ("-s", "local_docker"), ("--limit", "1")):
            (there,) = listed(*words)
            same = (
                "app_id",
                "project",
                "target",
                "job",
                "attempt",
                "commit",
                "actor",
                "created_at",
                "started_at",
            )
            assert [there[each] for each in same] == [here[each] for each in same]
        assert (there["app_id"], there["project"]) == (app_id, name)
        assert there["actor"]
        assert listed("--state", "failed") == []
        elsewhere.setenv("DOCKER_HOST", NOWHERE)
        done = scenario.launcher("list", "--project", name)
        assert "apps that only the Docker engine knows are left out" in done.err
    scenario.cancel("job")


def test_an_engine_that_does_not_answer_is_asked_about_one_of_many_waiting_apps(scenario, engine, tmp_path):
    gate = scenario.gate()
    scenario.job(gate.script, name="first")
    scenario.job("true", name="waits", top="needs: [first]\nmatrix: {n: [0, 1, 2, 3, 4, 5]}")
    scenario.apply(".")
    gate.entered()
    waiting = [attempt.app_id for n in range(6) for attempt in scenario.attempts(f"waits-{n}")]

    def lists_alone(method: str, path: str) -> bool:
        is_list = "/containers/json" in path or "/volumes?" in path
        return method == "HEAD" or is_list or path == "/_ping"

    with Proxy(tmp_path / "p.sock", lists_alone, status=0) as proxy:
        env = {**os.environ, "DOCKER_HOST": proxy.host, "LAUNCHER_HOME": str(tmp_path / "other")}
        out = scenario.launcher("list", "-s", "local_docker", env=env).out
    assert all(app_id in out for app_id in waiting)
    assert len(proxy.refused) <= 3, proxy.refused  # one request, made three times
    gate.open()
    scenario.wait("waits-5")
