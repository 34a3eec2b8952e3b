"""The daemon is killed and restarted: no replica runs twice, and the outcome is reported."""

import pytest

from tests.engines.proxy import Proxy, everything


def test_a_job_that_ran_when_the_daemon_was_killed_has_ended_and_is_not_run_again(scenario, engine):
    log, gate = scenario.folder / "runs", scenario.gate()
    file = scenario.job(f"echo $<replica_id> >>{log}; {gate.script}", replicas=2)
    scenario.apply(file)
    gate.entered()
    engine.kill()
    assert scenario.launcher("plan", file, code=None).code not in (0, 2)
    engine.up()
    scenario.wait("job", code=None)
    assert scenario.actions(file) == {"job": "hold"}
    assert sorted(log.read_text().split()) == ["0", "1"]
    assert [one.state for one in scenario.containers()] == ["exited", "exited"]
    scenario.kill_watchers()


@pytest.mark.parametrize("path", ["/networks/create", "/start"])
def test_no_replica_runs_twice_after_the_daemon_is_killed_during_an_apply(
    scenario, engine, monkeypatch, tmp_path, path
):
    log = scenario.folder / "runs"
    file = scenario.job(f"echo $<replica_id> >>{log}", replicas=2)
    killed = []

    def until(method: str, asked: str) -> bool:
        if method == "POST" and asked.partition("?")[0].endswith(path) and not killed:
            killed.append(asked)
            engine.kill()
        return True

    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything) as made:
        made.allowed = until
        way.setenv("DOCKER_HOST", made.host)
        applied = scenario.launcher("apply", file, "--yes", code=None)
        assert applied.code != 0
        assert "stopped or restarted" in applied.err
    engine.up()
    scenario.kill_watchers()
    scenario.launcher("apply", file, "--yes", "--wait", code=None)
    runs = sorted(log.read_text().split()) if log.exists() else []
    assert len(runs) == len(set(runs))
    assert killed != []
    if path != "/start":
        assert runs == ["0", "1"]
    scenario.kill_watchers()


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
