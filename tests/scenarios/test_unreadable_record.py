"""A record that cannot be read holds its own job: the others are planned, applied and listed."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from launcher.schedulers.local.appview import read_state
from launcher.state.reader import Reader
from launcher.turns.machine import machine
from tests import processes


def folder_of(scenario, job="job"):
    """Return the folder of the only attempt of a job."""
    [attempt] = scenario.attempts(job)
    return scenario.home / "local" / "apps" / attempt.app_id


@contextmanager
def unreadable(file: Path) -> Iterator[None]:
    """Keep a file from being read, as a disk that fails does."""
    saved = file.rename(file.with_name("saved"))
    file.mkdir()
    yield
    file.rmdir()
    saved.rename(file)


@pytest.fixture
def broken(scenario):
    """The name of a running job whose record cannot be read."""
    scenario.apply(scenario.job("exec sleep 1000", name="broken"))
    with unreadable(folder_of(scenario, "broken") / "events.jsonl"):
        yield "broken"
    scenario.cancel("broken")


def test_other_jobs_are_applied_and_the_job_with_the_unreadable_record_is_held(scenario, broken):
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


def test_live_apps_beside_an_unreadable_record_are_listed_in_their_present_state(scenario, broken):
    gate = scenario.gate()
    scenario.apply(scenario.job(gate.script, name="z-other"))
    gate.entered()
    shown = json.loads(scenario.launcher("list", "--json").out)
    states = {each["name"]: each["attempt_state"] for each in shown}
    assert states == {broken: "running", "z-other": "running"}
    gate.open()
    scenario.wait("z-other")
    done = scenario.launcher("list")
    assert "1 app of local_cwd is shown in the last known state: cannot read" in done.err
    assert "SUCCEEDED" in done.out


def test_a_held_job_goes_on_when_its_record_can_be_read_again(scenario):
    file = scenario.job("exec sleep 1000")
    scenario.apply(file)
    with unreadable(folder_of(scenario) / "events.jsonl"):
        assert scenario.actions(file) == {"job": "hold"}
    assert scenario.actions(file) == {"job": "keep"}
    scenario.cancel("job")


def test_a_file_of_the_record_that_cannot_be_read_is_named(scenario):
    scenario.apply(scenario.job("exec sleep 1000"))
    record = folder_of(scenario) / "attempt.json"
    with unreadable(record):
        for command in ("status", "describe"):
            assert f"cannot read {record}: Is a directory" in scenario.launcher(command, "job", code=1).err
    assert scenario.launcher("status", "job").out
    scenario.cancel("job")


def test_gc_keeps_the_app_alone_and_names_its_record(scenario, broken):
    for name in ("first", "second"):
        scenario.run_to_end(scenario.job("true", name=name))
    dry = json.loads(scenario.launcher("gc", "--older-than", "0", "--dry-run", "--json", code=1).out)
    assert {each["name"] for each in dry["removed"]} == {"first", "second"}
    done = scenario.launcher("gc", "--older-than", "0", code=1)
    [left] = scenario.apps()
    assert left.startswith(broken)
    assert f"not removed: cannot read {scenario.home}/local/apps/{left}/events.jsonl" in done.err
    assert [attempt.state for attempt in scenario.attempts(broken)] == ["running"]


def test_gc_keeps_what_a_waiting_app_needs_whose_record_cannot_be_read(scenario):
    gate = scenario.gate()
    first = scenario.job("true", name="first")
    slow = scenario.job(gate.script, name="slow")
    after = scenario.job("true", name="after", top="needs: [first, slow]")
    scenario.run_to_end(first)
    scenario.run_to_end(scenario.job("true", name="other"))
    scenario.apply(first, slow, after)
    gate.entered()
    with unreadable(folder_of(scenario, "after") / "events.jsonl"):
        scenario.launcher("gc", "--older-than", "0", code=1)
        assert {app.partition("-")[0] for app in scenario.apps()} == {"first", "slow", "after"}
    gate.open()
    scenario.wait("after")


def test_cancel_says_which_file_cannot_be_read_and_how_to_find_the_process(scenario, broken):
    folder = folder_of(scenario, broken)
    done = scenario.launcher("cancel", broken, code=1)
    assert f"error: cannot read {folder}/events.jsonl: Is a directory" in done.err
    assert f"`fuser -v {folder}/lock`" in done.err


def test_a_record_whose_first_event_comes_while_the_ledger_is_read_is_not_damaged(scenario, monkeypatch):
    """A slow reader: the client starts the app between its looks at the record and at the ledger."""
    scenario.apply(scenario.job("exec sleep 1000"))
    folder = folder_of(scenario)
    events, opened = folder / "events.jsonl", Reader.open
    started = events.read_bytes()
    events.write_bytes(b"")

    def open_after_the_start(*args, **options):
        events.write_bytes(started)
        return opened(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "open", open_after_the_start)
        assert read_state(str(folder)).state == "running"
    scenario.launcher("cancel", "job")


def test_a_running_app_whose_record_was_emptied_holds_its_job_until_it_ends(scenario):
    file = scenario.job("exec sleep 1000")
    scenario.apply(file)
    folder = folder_of(scenario)
    (folder / "events.jsonl").write_text("")
    why = f"the record of {folder.name} was emptied or damaged, and a process holds the app: {folder}/events"
    assert scenario.actions(file) == {"job": "hold"}
    for argv in (["apply", file, "--yes"], ["cancel", "job"], ["wait", "job"]):
        done = scenario.launcher(*argv, code=1, timeout_s=30)
        assert why in done.err
    [supervisor] = scenario.supervisors().values()
    assert f"`fuser -v {folder}/lock` names the process" in done.err
    os.kill(supervisor, signal.SIGTERM)
    assert processes.gone([supervisor], timeout_s=20)
    scenario.launcher("list")
    assert [(each.number, each.state) for each in scenario.attempts("job")] == [(1, "cancelled")]


def test_a_job_in_line_whose_record_was_emptied_is_held_until_its_turn(scenario):
    gate = scenario.gate()
    whole = f"resource: {{cpu: {machine(with_gpus=False).cpu:g}}}"
    scenario.apply(scenario.job(gate.script, name="first", role=whole))
    gate.entered()
    file = scenario.job("true", role=whole)
    scenario.apply(file)
    folder = folder_of(scenario)
    (folder / "events.jsonl").write_text("")
    os.utime(folder / "lock", (1, 1))
    assert scenario.actions(file) == {"job": "hold"}
    gate.open()
    scenario.wait("first")
    scenario.wait("job")
    assert [(each.number, each.state) for each in scenario.attempts("job")] == [(1, "succeeded")]


def test_a_job_whose_record_was_lost_with_its_supervisor_is_not_run_again_unasked(scenario):
    file = scenario.job("exec sleep 1000")
    scenario.apply(file)
    folder = folder_of(scenario)
    processes.kill(processes.of_app(str(scenario.home), folder.name))
    (folder / "events.jsonl").write_text("")
    scenario.apply(file)
    assert [(each.number, each.state) for each in scenario.attempts("job")] == [(1, "lost")]
    assert scenario.actions(file) == {"job": "hold"}


@pytest.mark.parametrize(
    "name", ["attempt.json", "request.json", "events.jsonl", "lock", "cancel", "../../../token"]
)
def test_a_pipe_in_the_place_of_a_file_makes_no_command_wait(scenario, name):
    file = scenario.job("exec sleep 1000")
    scenario.apply(file)
    path = folder_of(scenario) / name
    saved = path.rename(path.with_name("saved")) if path.exists() else None
    os.mkfifo(path)
    for argv in (["list"], ["plan", file], ["status", "job"], ["describe", "job"], ["queue"]):
        scenario.launcher(*argv, code=None, timeout_s=30)
    path.unlink()
    if saved:
        saved.rename(path)
    assert scenario.actions(file) == {"job": "keep"}
    scenario.cancel("job")


@pytest.mark.parametrize("state", ["running", "waiting"])
def test_an_app_goes_on_whose_lock_file_was_removed(scenario, state):
    gate = scenario.gate()
    files = [scenario.job(gate.script), scenario.job("true", name="after", top="needs: [job]")]
    scenario.apply(*files)
    gate.entered()
    (folder_of(scenario, "job" if state == "running" else "after") / "lock").unlink()
    for _ in range(2):
        assert set(scenario.actions(*files).values()) == {"keep"}
        shown = json.loads(scenario.launcher("list", "--json").out)
        states = {each["name"]: each["attempt_state"] for each in shown}
        assert states == {"job": "running", "after": "waiting"}
        scenario.launcher("apply", *files, "--yes")
    gate.open()
    scenario.wait("after")
    scenario.launcher("list")
    for name in ("job", "after"):
        assert [(each.number, each.state) for each in scenario.attempts(name)] == [(1, "succeeded")]


def test_an_app_whose_folder_was_moved_is_no_lost_app_while_its_processes_run(scenario):
    file = scenario.job("exec sleep 1000", top="lifecycle: {on_lost: rerun}")
    scenario.apply(file)
    folder = folder_of(scenario)
    before = processes.of_app(str(scenario.home), folder.name)
    away = folder.rename(scenario.folder / "away")
    gone = f"the folder of {folder.name} is gone, and its processes run on: {folder}"
    assert gone in scenario.launcher("list").err
    assert gone in scenario.launcher("apply", file, "--yes", code=1).err
    assert gone in scenario.launcher("gc", "--older-than", "0", code=1).err
    err = scenario.launcher("cancel", "job", code=1).err
    assert gone in err
    assert all(os.path.exists(f"/proc/{pid}") for pid in before)
    assert scenario.apps() == []
    away.rename(folder)
    assert scenario.actions(file) == {"job": "keep"}
    folder.rename(away)
    end = err.partition("or end the app: ")[2].strip()
    subprocess.run(["sh", "-c", end], check=True)
    scenario.launcher("list")
    assert [each.state for each in scenario.attempts("job")] == ["lost"]


def test_an_app_whose_folder_was_removed_is_lost_once_its_killed_processes_have_ended(scenario):
    """A child that a killed replica leaves behind, as a shell its `sleep`, may outlive it by a moment."""
    scenario.apply(scenario.job("exec sleep 1000"))
    folder = folder_of(scenario)
    of_app = processes.of_app(str(scenario.home), folder.name)
    shutil.rmtree(folder)
    processes.kill(of_app)
    scratch = {**os.environ, "LAUNCHER_SCRATCH": f"{folder}/scratch"}
    with subprocess.Popen(["sleep", "0.3"], env=scratch):
        assert "run on" not in scenario.launcher("list").err
    assert [each.state for each in scenario.attempts("job")] == ["lost"]


def test_gc_removes_an_app_whose_record_was_lost_and_whose_end_is_in_the_ledger(scenario):
    file = scenario.job("true")
    scenario.run_to_end(file)
    (folder_of(scenario) / "events.jsonl").write_text("")
    assert "1 app removed" in scenario.launcher("gc", "--older-than", "0").err
    assert scenario.apps() == []
    assert scenario.actions(file) == {"job": "keep"}


def damage_row(scenario, job):
    """Damage the row of the job's attempt in the ledger, but not the file of the ledger."""
    with closing(sqlite3.connect(scenario.home / "ledger.db")) as ledger, ledger:
        assert ledger.execute("UPDATE attempts SET metadata = '{' WHERE job = ?", (job,)).rowcount == 1


def test_a_damaged_row_of_the_ledger_is_read_from_the_folder_of_the_app(scenario):
    files = [scenario.job("true", name="one"), scenario.job("true", name="two", top="needs: [one]")]
    scenario.run_to_end(*files)
    damage_row(scenario, "one")
    assert scenario.actions(*files) == {"one": "keep", "two": "keep"}


def test_a_damaged_row_holds_its_job_alone_until_it_is_asked_to_run_again(scenario):
    one = scenario.job("true", name="one")
    files = [one, scenario.job("true", name="two", top="needs: [one]"), scenario.job("true", name="other")]
    scenario.run_to_end(*files)
    scenario.launcher("gc", "--older-than", "0")
    damage_row(scenario, "one")
    changed = scenario.job("true; true", name="two", top="needs: [one]")
    plan = {each["key"]["job"]: each for each in scenario.plan_document(*files)["jobs"]}
    assert {job: each["action"] for job, each in plan.items()} == {
        "one": "hold",
        "two": "hold",
        "other": "keep",
    }
    assert "default/one, attempt 1, is damaged" in plan["one"]["reasons"][0]["detail"]
    shown = scenario.launcher("plan", one).out
    assert "to run it again: --rerun one" in shown
    scenario.launcher("apply", one, changed, "--rerun", "one", "--yes", "--wait")
    assert scenario.actions(*files) == {"one": "keep", "two": "keep", "other": "keep"}
