"""The engine is missing or breaks off during a command: one clear error, and no replica runs twice."""

import pytest

from tests.engines.proxy import Proxy, everything


def test_a_command_without_an_engine_names_the_socket_that_it_asked(scenario, monkeypatch, tmp_path):
    file, _ = scenario.running()
    nowhere = f"unix://{tmp_path}/nowhere.sock"
    with monkeypatch.context() as without:
        without.setenv("DOCKER_HOST", nowhere)
        for command in ("plan", "apply", "wait", "cancel", "status", "logs"):
            words = {"plan": [file], "apply": [file, "--yes"]}.get(command, ["job"])
            failed = scenario.launcher(command, *words, code=None)
            assert failed.code not in (0, 2), command
            assert nowhere in failed.err, command
    scenario.cancel("job")


def test_list_shows_recorded_apps_without_an_engine(scenario, monkeypatch):
    scenario.run_to_end(scenario.job("true"))
    with monkeypatch.context() as without:
        without.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        assert "job" in scenario.launcher("list").out


REQUESTS = ["/start", "/volumes/create"]


@pytest.mark.parametrize("path", REQUESTS)
def test_no_replica_runs_twice_after_the_engine_breaks_off_during_an_apply(
    scenario, monkeypatch, tmp_path, path
):
    log = scenario.folder / "runs"
    file = scenario.job(f"echo $<replica_id> >>{log}", replicas=2)
    seen = []

    def until(method: str, asked: str) -> bool:
        if method == "POST" and path in asked:
            seen.append(asked)
            made.break_off()
        return True

    with monkeypatch.context() as broken, Proxy(tmp_path / "p.sock", everything) as made:
        made.allowed = until
        broken.setenv("DOCKER_HOST", made.host)
        failed = scenario.launcher("apply", file, "--yes", code=None)
    assert seen != []
    assert failed.code not in (0, 2)
    assert ("was being started" in failed.err) == (path == "/start")
    assert "stopped or restarted" in failed.err
    scenario.kill_watchers()  # a watcher still asks the engine that is gone
    scenario.run_to_end(file)
    assert sorted(log.read_text().split()) == ["0", "1"]
    assert scenario.actions(file) == {"job": "keep"}


def test_the_launcher_network_is_made_again_when_it_is_removed_before_the_start(
    scenario, engine, monkeypatch, tmp_path
):
    """`launcher gc` or `docker network prune` of another user may remove it: no container uses it yet."""
    file = scenario.job("true")
    gone = []

    def until(method: str, asked: str) -> bool:
        if asked.partition("?")[0].endswith("/start") and not gone:
            gone.extend(net for net in scenario.daemon.networks() if net.name == "launcher")
            scenario.daemon.remove(gone)
        return True

    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything) as made:
        made.allowed = until
        way.setenv("DOCKER_HOST", made.host)
        scenario.run_to_end(file)
    assert len(gone) == 1
    assert [one.state for one in scenario.containers()] == ["exited"]
