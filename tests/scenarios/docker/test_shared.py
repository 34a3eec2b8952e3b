"""Several homes share an engine: a job's name means its latest attempt, whichever home made it."""

import json
import os

import pytest

from tests.races import SLOW, Race


@pytest.fixture
def replaced(scenario, another):
    """Replace a running job from another home; return the app ids of both attempts."""
    scenario.apply(scenario.job("echo first; exec sleep 1000"))
    another("apply", scenario.job("echo second; exec sleep 2000"), "--yes", "--allow-destructive")
    return scenario.apps()


def test_the_name_of_a_job_means_the_latest_attempt_of_any_client(scenario, another, replaced):
    first, second = replaced
    status = scenario.status("job")
    assert (status["app_id"], status["attempt"], status["state"]) == (second, 2, "RUNNING")
    assert scenario.status("job@2")["app_id"] == second
    assert scenario.status("job@1")["app_id"] == first
    assert "no attempt 3" in scenario.launcher("status", "job@3", code=1).err
    scenario.cancel("job")
    assert [one.state for one in scenario.containers(second)] == ["exited"]
    assert json.loads(another("status", "job", "--json").out)["state"] == "CANCELLED"


def test_a_running_app_is_kept_and_found_by_name_after_the_home_was_removed(scenario):
    gate = scenario.gate()
    file = scenario.job(f"echo hello; {gate.script}")
    scenario.apply(file)
    gate.entered()
    [app_id] = scenario.apps()
    scenario.forget()
    assert "list -s local_docker" in scenario.launcher("list").err
    assert scenario.actions(file) == {"job": "keep"}
    assert scenario.status("job")["state"] == "RUNNING"
    assert "echo hello" in scenario.launcher("describe", "job").out
    assert scenario.logs("job@1") == "hello\n"
    scenario.cancel("job")
    assert [one.state for one in scenario.containers(app_id)] == ["exited"]
    assert scenario.status("job")["state"] == "CANCELLED"


def test_running_apps_of_a_matrix_are_found_by_its_name_after_the_home_was_removed(scenario):
    ups = {n: scenario.folder / f"up{n}" for n in (2, 10)}
    script = f"echo $<matrix.n>; echo >{scenario.folder}/up$<matrix.n>; exec sleep 1000"
    for up in ups.values():
        os.mkfifo(up)
    scenario.apply(scenario.job(script, name="sweep", top=f"matrix: {{n: {[*ups]}}}"))
    for up in ups.values():
        up.read_text()  # returns when the replica has written there
    scenario.forget()
    for word in ("sweep", "swe*"):
        lines = scenario.launcher("status", word).out.splitlines()
        assert [line.split()[0] for line in lines[1:-1]] == ["sweep-2", "sweep-10"]
    assert sorted(scenario.logs("sweep").splitlines()) == ["sweep-10/main/0 | 10", "sweep-2/main/0  | 2"]
    scenario.cancel("sweep", "--yes", "--grace", "0")
    assert {one.state for one in scenario.containers()} == {"exited"}
    assert "2 apps had already ended: 2 cancelled" in scenario.cancel("sweep").err


def test_a_job_is_found_in_the_project_of_its_file_after_the_home_was_removed(scenario):
    file = scenario.job("echo hello", top=f"project: {scenario.token}")
    scenario.write("launcher.toml", "")
    scenario.run_to_end(file)
    [app_id] = scenario.apps()
    scenario.forget()
    for word in ("job", "job@1"):
        assert scenario.status(word)["app_id"] == app_id
    assert scenario.logs("job") == "hello\n"


def test_an_ended_app_took_equally_long_in_a_home_that_waited_for_it(scenario, another):
    """Its container shows the start of its last run alone."""
    once = scenario.folder / "once"
    script = f"[ -e {once} ] || {{ touch {once}; exit 1; }}; sleep 2"
    file = scenario.job(script, role="max_retries: 1\nretry_delay: 2s")
    scenario.apply(file)
    another("apply", file, "--yes", "--wait")
    here, there = scenario.status("job"), json.loads(another("status", "job", "--json").out)
    assert here["num_restarts"] == 1
    assert [there[name] for name in ("started_at", "ended_at")] == [here["started_at"], here["ended_at"]]


def test_applies_of_one_job_from_six_state_folders_make_one_attempt(scenario):
    """The test takes half a minute: only real clients and a slow engine show the races."""
    assert Race(scenario.folder / "race", scenario.token, SLOW).run() == []
