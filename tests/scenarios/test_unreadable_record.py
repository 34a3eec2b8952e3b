"""A record that cannot be read holds its own job: the others are planned, applied and listed."""

import json

import pytest


@pytest.fixture
def broken(scenario):
    """The name of a running job whose record cannot be read, as on a disk that fails."""
    scenario.apply(scenario.job("exec sleep 1000", name="broken"))
    [attempt] = scenario.attempts("broken")
    record = scenario.home / "local" / "apps" / attempt.app_id / "events.jsonl"
    saved = record.rename(record.with_name("saved"))
    record.mkdir()
    yield "broken"
    record.rmdir()
    saved.rename(record)
    scenario.cancel("broken")


def test_others_are_applied_and_the_job_is_named_and_held(scenario, broken):
    other = scenario.job("true", name="other")
    scenario.run_to_end(other)
    changed = scenario.job("exec sleep 2000", name="broken")
    another = scenario.job("true", name="another")
    done = scenario.launcher("apply", changed, other, another, "--yes", "--allow-destructive", code=1)
    assert "error: broken: the record of attempt 1: cannot read" in done.err
    [held] = scenario.plan_document(changed)["jobs"]
    assert (held["action"], held["reasons"][0]["code"]) == ("hold", "record_unreadable")
    scenario.wait("another")
    assert [attempt.state for attempt in scenario.attempts("another")] == ["succeeded"]
    assert [attempt.state for attempt in scenario.attempts(broken)] == ["running"]


def test_other_live_apps_are_listed_in_their_present_state(scenario, broken):
    gate = scenario.gate()
    scenario.apply(scenario.job(gate.script, name="z-other"))
    gate.entered()
    shown = json.loads(scenario.launcher("list", "--json").out)
    assert {each["name"]: each["attempt_state"] for each in shown} == {
        broken: "running",
        "z-other": "running",
    }
    gate.open()
    scenario.wait("z-other")
    done = scenario.launcher("list")
    assert "1 app of local_cwd is shown in the last known state: cannot read" in done.err
    assert "SUCCEEDED" in done.out


def test_the_job_goes_on_once_its_record_is_there_again(scenario):
    file = scenario.job("exec sleep 1000")
    scenario.apply(file)
    [attempt] = scenario.attempts("job")
    record = scenario.home / "local" / "apps" / attempt.app_id / "events.jsonl"
    saved = record.rename(record.with_name("saved"))
    record.mkdir()
    assert scenario.actions(file) == {"job": "hold"}
    record.rmdir()
    saved.rename(record)
    assert scenario.actions(file) == {"job": "keep"}
    scenario.cancel("job")


def test_a_file_of_the_record_that_cannot_be_read_is_named(scenario):
    scenario.apply(scenario.job("exec sleep 1000"))
    [attempt] = scenario.attempts("job")
    record = scenario.home / "local" / "apps" / attempt.app_id / "attempt.json"
    saved = record.rename(record.with_name("saved"))
    record.mkdir()
    for command in ("status", "describe"):
        assert f"cannot read {record}: Is a directory" in scenario.launcher(command, "job", code=1).err
    record.rmdir()
    saved.rename(record)
    assert scenario.launcher("status", "job").out
    scenario.cancel("job")
