"""Commands on apps read the records of live watchers, and else ask the engine once for all."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.engines.proxy import Proxy, everything

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
                "app_id", "project", "target", "job", "attempt", "commit", "actor", "created_at",
                "started_at",
            )  # fmt: skip
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


NAMES = [f"part-{number}" for number in range(6)]


ABOUT = re.compile(r"/(?:containers|volumes)/(?!json)([^/?]+)|launcher\.app-id%3D([^%]+)")
"""A request about one container, volume or app."""


def requests(scenario: Any, tmp_path: Path, *argv: str, code: int = 0) -> list[str]:
    """Run a command; return its requests, without those about watchers and single apps of other tests."""
    own = tuple(one.id for one in scenario.containers())
    with Proxy(tmp_path / "p.sock", everything) as proxy:  # the watcher of the apps does not send through it
        scenario.launcher(*argv, env={**os.environ, "DOCKER_HOST": proxy.host}, code=code)
        seen = list(proxy.seen)
    about = [next(filter(None, found.groups()), "") if (found := ABOUT.search(each)) else "" for each in seen]
    return [
        each for each, name in zip(seen, about, strict=True) if not name or name.startswith(("part-", *own))
    ]


def observations(seen: list[str]) -> int:
    """Return how often all jobs of the engine were listed."""
    return sum("/containers/json" in each and "launcher.job" in each for each in seen)


def test_a_wait_and_a_cancel_of_six_names_observe_the_engine_once(scenario: Any, tmp_path: Path):
    def wait(count: int) -> list[str]:
        return requests(scenario, tmp_path, "wait", *NAMES[:count], "--timeout", "0", code=5)

    scenario.apply(scenario.job("exec sleep 1000", name="part", top="matrix: {n: {range: [0, 6]}}"))
    six = wait(6)
    assert len(six) == len(wait(2))
    assert observations(six) == 1
    assert observations(requests(scenario, tmp_path, "cancel", *NAMES, "--grace", "0")) == 1
    assert [scenario.attempts(name)[-1].state for name in NAMES] == ["cancelled"] * 6
