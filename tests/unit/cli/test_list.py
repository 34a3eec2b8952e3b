"""`launcher list`: which apps, how many of them."""

import dataclasses
import json
import re

import pytest

from launcher.specs.launch import JobKey
from tests.terminals import launcher
from tests.unit.cli.worlds import attempt, launch, record


def on_a_screen(scenario, *argv, rows, columns, code=0):
    """Return the screen that `launcher ARGV` shows on a terminal of that size."""
    return launcher(scenario, *argv, size=(rows, columns)).end(code).splitlines()


def test_the_newest_apps_stay_visible_on_a_small_screen(scenario, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    record(*(attempt(launch(f"job-{number:02}"), "succeeded") for number in range(30)))
    shown = on_a_screen(scenario, "list", rows=16, columns=80)
    assert len(shown) == 14
    assert shown[1].startswith("job-29")
    assert "the newest 12" in shown[-1]
    assert len(on_a_screen(scenario, "list", "-n", "20", rows=16, columns=80)) == 22
    assert len(scenario.launcher("list").out.splitlines()) == 31


def jobs(scenario, *argv):
    return [app["job"] for app in json.loads(scenario.launcher("list", "--json", *argv).out)]


def test_a_list_is_narrowed_by_state_and_project(scenario):
    record(
        attempt(launch("good", project="vision"), "succeeded"),
        attempt(launch("bad", project="vision"), "failed"),
        attempt(launch("other"), "failed"),
        attempt(launch("stopped"), "cancelled"),
    )
    assert set(jobs(scenario, "--state", "failed")) == {"bad", "other"}
    assert set(jobs(scenario, "--state", "FAILED,cancelled")) == {"bad", "other", "stopped"}
    assert jobs(scenario, "--state", "failed", "--project", "vision") == ["bad"]
    assert len(jobs(scenario, "--state", "failed", "-n", "1")) == 1
    assert jobs(scenario, "--project", "vision", "--state", "running") == []


def test_a_filter_that_no_app_matches_is_reported_with_the_nearest_project(scenario):
    record(attempt(launch("good", project="vision"), "succeeded"))
    assert (
        "project `visoin` has no apps; did you mean `vision`?"
        in scenario.launcher("list", "--project", "visoin").err
    )
    assert "no app has failed or was lost" in scenario.launcher("list", "--state", "failed,lost").err
    shown = scenario.launcher("list", "--project", "vision", "--state", "lost").err
    assert shown == "no app of project `vision` was lost\n"
    assert "did you mean `failed`?" in scenario.launcher("list", "--state", "faild", code=64).err


def test_the_json_of_a_list_has_the_job_the_attempt_and_the_actor_of_each_app(scenario):
    one = attempt(launch("good"), "succeeded", commit="a1b2c3d", actor="ann@node1")
    record(dataclasses.replace(one, key=JobKey("vision", "prod", "good")))
    (seen,) = json.loads(scenario.launcher("list", "--json").out)
    found = [seen[name] for name in ("project", "target", "job", "attempt", "commit", "actor")]
    assert found == ["vision", "prod", "good", 1, "a1b2c3d", "ann@node1"]


@pytest.mark.slow
def test_list_and_status_say_the_same_time(scenario):
    scenario.run_to_end(scenario.job("sleep 0.3", replicas=20))
    (listed,) = json.loads(scenario.launcher("list", "--json").out)
    status = scenario.status("job")
    assert (listed["started_at"], listed["ended_at"]) == (status["started_at"], status["ended_at"])
    assert all(each["started_at"] >= listed["started_at"] for each in status["replicas"])
    head, row = scenario.launcher("list").out.splitlines()
    took = row[head.index("TOOK") :].split()[0]
    assert re.search(rf"^  took +{took}$", scenario.launcher("status", "job").out, re.MULTILINE)


def test_a_terminal_that_moves_no_cursor_gets_a_line_for_each_state_and_no_full_screen(scenario, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    _, gate = scenario.running(name="train")
    watching = launcher(scenario, "status", "--watch", size=(24, 80))
    watching.until(b"RUNNING")
    gate.open()
    assert watching.end().splitlines()[0] == "local_cwd://default/train-1-ypfhh RUNNING"
    shown = on_a_screen(scenario, "top", rows=24, columns=80, code=1)
    assert "top needs a terminal: this one cannot move its cursor (TERM)" in shown[0]
