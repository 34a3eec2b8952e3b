"""The engine keeps the outcome of a job: a removed app runs again from no state folder (invariant 13)."""

import json

import pytest

from tests.engines import tidy
from tests.engines.proxy import Proxy, everything


def remove_by_hand(scenario):
    scenario.remove_by_hand(scenario.containers())


def collect(scenario):
    scenario.launcher("gc", "--older-than", "0", "-s", "local_docker")


@pytest.mark.parametrize(
    ("remove", "script", "action_now"), [(remove_by_hand, "exit 3", "hold"), (collect, "true", "keep")]
)
def test_a_removed_app_does_not_run_again_from_another_state_folder(
    scenario, another, remove, script, action_now
):
    file = scenario.job(script)
    scenario.run_to_end(file, code=None)
    remove(scenario)
    assert scenario.containers() == []
    assert scenario.actions_elsewhere(file) == {"job": action_now}
    another("apply", file, "--yes")
    assert scenario.containers() == []


def test_another_state_folder_reads_that_a_job_was_cancelled(scenario, another):
    file = scenario.job("exec sleep 1000")
    scenario.apply(file)
    scenario.cancel("job")
    remove_by_hand(scenario)
    assert "was cancelled" in another("plan", file).out


def test_the_record_of_a_later_attempt_replaces_the_record_of_a_removed_one(scenario, another):
    file = scenario.job("true")
    scenario.run_to_end(file)
    remove_by_hand(scenario)
    scenario.run_to_end(file, "--rerun", "job")
    remove_by_hand(scenario)
    [record] = [one for one in scenario.things() if tidy.is_tombstone(one)]
    assert record.labels["launcher.attempt"] == "2"
    assert "launcher.app-id" not in record.labels
    assert scenario.actions_elsewhere(file) == {"job": "keep"}
    another("apply", file, "--yes", "--wait", "--rerun", "job")
    assert {one.labels["launcher.attempt"] for one in scenario.containers()} == {"3"}


def test_every_attempt_ended_alike_for_a_state_folder_that_made_none_of_them(scenario, another):
    """The containers show the start of their last runs alone, and not what the watcher knew of their ends."""
    once = scenario.folder / "once"
    file = scenario.job(f"[ -e {once} ] || {{ touch {once}; exit 1; }}; echo why >&2; exit 3")
    file.write_text(f"{file.read_text()}    max_retries: 1\n    retry_delay: 1s\n")
    for more in ((), ("--rerun", "job")):
        scenario.run_to_end(file, *more, code=5)
    same = ("attempt", "state", "message", "started_at", "ended_at")

    def ends(run):
        return [[each[name] for name in same] for each in json.loads(run("history", "job", "--json").out)]

    assert ends(scenario.launcher) == ends(another) != []
    collect(scenario)
    assert [one.labels["launcher.attempt"] for one in scenario.things()] == ["2"]


def test_the_outcome_that_an_engine_refuses_once_is_written_again(scenario, tmp_path, monkeypatch):
    """An engine that stops refuses it, and may answer again at once."""
    gate = scenario.gate()
    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything, status=500) as proxy:
        way.setenv("DOCKER_HOST", proxy.host)
        file = scenario.job(gate.script)
        scenario.apply(file)
        gate.entered()
        proxy.allowed = lambda _, path: not path.endswith("/volumes/create") or bool(proxy.refused)
        gate.open()
        scenario.wait("job")
    assert len(proxy.refused) == 1
    assert len([one for one in scenario.things() if tidy.is_tombstone(one)]) == 1


def test_gc_of_another_client_keeps_the_outcome_of_a_removed_app(scenario, another):
    """The app has no record, like apps that an earlier version started."""
    file = scenario.job("true")
    scenario.run_to_end(file)
    scenario.daemon.remove(one for one in scenario.things() if tidy.is_tombstone(one))
    another("apply", file, "--yes")
    another("gc", "--older-than", "0", "-s", "local_docker")
    assert scenario.containers() == []
    scenario.forget()
    assert scenario.actions(file) == {"job": "keep"}


def test_gc_names_the_jobs_that_run_again_once_their_records_are_removed(scenario, another):
    file = scenario.job("true")
    scenario.run_to_end(file)
    scenario.run_to_end(file, "--rerun", "job")
    remove_by_hand(scenario)
    records = ("gc", "--tombstones", "--older-than", "0", "--project", scenario.token, "-s", "local_docker")
    shown = scenario.launcher(*records, "--dry-run")
    assert f"attempt 2 of {scenario.token}/job, succeeded" in shown.out
    assert "attempt 1" not in shown.out
    assert len([one for one in scenario.things() if tidy.is_tombstone(one)]) == 2
    shown = scenario.launcher(*records)
    assert "the job runs again when it is applied from another state folder" in shown.out
    assert not any(map(tidy.is_tombstone, scenario.things()))
    assert scenario.actions_elsewhere(file) == {"job": "create"}
    assert scenario.actions(file) == {"job": "keep"}
