"""Old output: `grep` over all attempts, `logs --attempt`, and `gc --logs`, which keeps the records."""

import json
import subprocess
import sys

import pytest

from launcher.specs import AppState

SCRIPT = "echo start; echo loss is nan >&2; echo end"


@pytest.fixture
def two(scenario):
    """The file of a job with two attempts."""
    file = scenario.job(SCRIPT, replicas=2)
    scenario.run_to_end(file)
    scenario.run_to_end(file, "--rerun", "job")
    return file


def ends(scenario):
    return [(each.app_id, each.state, each.message, each.ended_at) for each in scenario.attempts()]


def names_of(text):
    """Return the names before the lines that `grep` prints."""
    return [line.partition(" | ")[0] for line in text.splitlines()]


def test_grep_finds_the_lines_of_all_attempts_the_newest_first(scenario, two):
    found = scenario.launcher("grep", "loss .* nan", "job").out
    assert names_of(found) == ["job@2/main/0", "job@2/main/1", "job@1/main/0", "job@1/main/1"]
    [first, *_] = found.splitlines()
    assert first.endswith(" loss is nan")
    lines = scenario.launcher("grep", "-F", "loss", "job/main/1", "--attempt", "1", "--json").out.splitlines()
    [line] = map(json.loads, lines)
    wanted = {"job": "job", "attempt": 1, "role": "main", "replica": 1, "stream": "stderr"}
    assert {name: line[name] for name in wanted} == wanted
    assert (line["text"], line["match"]) == ("loss is nan", True)
    assert line["time"].startswith("20")


def test_gc_can_remove_logs_and_keep_records(scenario, two):
    before = ends(scenario)
    report = scenario.launcher("gc", "--logs", "--older-than", "0", "--keep", "1", "--dry-run", "--json").out
    assert [each["handle"].rpartition("/")[2] for each in json.loads(report)["removed"]] == [before[0][0]]
    scenario.launcher("gc", "--logs", "--older-than", "0", "--keep", "1")
    done = scenario.launcher("grep", "loss", "job")
    assert names_of(done.out) == ["job@2/main/0", "job@2/main/1"]
    assert "not searched: job@1: their logs were removed" in done.err
    assert "were removed" in scenario.launcher("logs", "job@1", code=1).err
    status = json.loads(scenario.launcher("status", "job@1", "--json").out)
    assert status["logs_removed"]
    assert [each["exit_code"] for each in status["replicas"]] == [0, 0]
    assert scenario.state("job@1") is AppState.SUCCEEDED
    assert ends(scenario) == before
    assert scenario.actions(two) == {"job": "keep"}
    assert "no logs to remove" in scenario.launcher("gc", "--logs", "--older-than", "0", "--keep", "1").err
    scenario.launcher("gc", "--older-than", "0")
    assert ends(scenario) == before
    assert "not searched: job@2, job@1: their" in scenario.launcher("grep", "loss", "job", code=1).err


@pytest.mark.slow
def test_logs_shows_several_attempts_below_headings(scenario, two):
    shown = scenario.launcher("logs", "job/main/0", "--attempt", "1..2", "--stream", "stdout").out
    lines = shown.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("==> ")] == ["job@1", "job@2"]
    assert lines[1:3] == ["start", "end"]
    plain = scenario.logs("job/main/0", "--attempt", "1,2", "--stream", "stdout", "--no-prefix")
    assert plain == "start\nend\n" * 2
    assert "no attempt 3..9" in scenario.launcher("logs", "job", "--attempt", "2,3..9").err
    assert "launcher history job" in scenario.launcher("logs", "job", "--attempt", "7", code=1).err


def test_grep_searches_one_stream_and_shows_lines_of_context(scenario):
    scenario.run_to_end(scenario.job("seq 1 9; echo 5 >&2"))
    assert names_of(scenario.launcher("grep", "5", "--stream", "stderr").out) == ["job@1/main/0"]
    found = scenario.launcher("grep", "[38]", "job", "-C", "1", "--stream", "stdout").out
    shown = [line.split(" ", 1)[1].split(" ")[::2] if " " in line else line for line in found.splitlines()]
    assert shown == [["-", "2"], ["|", "3"], ["-", "4"], "--", ["-", "7"], ["|", "8"], ["-", "9"]]


def test_grep_names_an_engine_that_does_not_answer_and_searches_the_others(scenario, monkeypatch):
    scenario.run_to_end(scenario.job("echo found"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    record(scenario, ["gone-1-aaaaa", "gone-2-aaaaa"])
    done = scenario.launcher("grep", "found")
    assert names_of(done.out) == ["job@1/main/0"]
    [line] = done.err.splitlines()
    assert line.startswith("not searched: gone-2-aaaaa, gone-1-aaaaa: ")
    assert "/nowhere/docker.sock" in line


def record(scenario, app_ids):
    """Record apps of an engine that is now away, as a client that could reach it has done."""
    from launcher.schedulers.registry import open_store
    from launcher.state.records import AppRecord

    with open_store() as store:
        for number, app_id in enumerate(app_ids):
            store.add(AppRecord("local_docker", "default", app_id, name="gone", created_at=1.0 + number))
            store.end_all([ended(app_id)])


def ended(app_id):
    from launcher.state.records import AppRecord

    made = AppRecord("local_docker", "default", app_id, state="failed", ended_at=5e9)
    made.started_at = 4e9
    return made


@pytest.mark.slow
def test_a_search_ends_when_its_reader_closes_the_pipe(scenario):
    scenario.run_to_end(scenario.job("seq 1 300000"))
    command = [sys.executable, "-m", "launcher", "grep", "1", "job"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=scenario.folder
    ) as process:
        assert process.stdout
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr
        assert process.stderr.read() == ""
