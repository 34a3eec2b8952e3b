"""Retries: what restarts, how often, and what is said about it."""

from __future__ import annotations

from launcher.specs import AppState


def test_a_replica_restarts_alone_up_to_max_retries(scenario):
    log = scenario.folder / "starts"
    script = f"echo $<replica_id> >>{log}; [ $<replica_id> = 1 ] || exit 0; exit 7"
    scenario.run_to_end(
        scenario.job(script, replicas=2, role="max_retries: 2\nretry_policy: replica"), code=5
    )
    assert sorted(log.read_text().split()) == ["0", "1", "1", "1"]
    assert scenario.state("job") is AppState.FAILED
    assert [replica["num_restarts"] for replica in scenario.status("job")["replicas"]] == [0, 2]
    assert scenario.attempts()[-1].exit_code == 7


def test_an_application_restarts_as_a_whole(scenario):
    log = scenario.folder / "starts"
    gate = scenario.gate()
    script = (
        f"echo $<replica_id>-$LAUNCHER_RESTART >>{log}; [ $LAUNCHER_RESTART = 1 ] && exit 0; "
        f"if [ $<replica_id> = 0 ]; then echo up >{gate.enter}; while :; do sleep 9; done; fi; "
        f"read x <{gate.enter}; exit 1"
    )
    scenario.run_to_end(scenario.job(script, replicas=2, role="max_retries: 1"))
    assert sorted(log.read_text().split()) == ["0-0", "0-1", "1-0", "1-1"]
    assert scenario.state("job") is AppState.SUCCEEDED


def test_a_restart_is_no_new_attempt(scenario):
    file = scenario.job("[ $LAUNCHER_RESTART = 1 ]", role="max_retries: 1\nretry_policy: replica")
    scenario.run_to_end(file)
    assert len(scenario.attempts()) == 1
    assert scenario.actions(file) == {"job": "keep"}
