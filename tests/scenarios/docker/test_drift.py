"""A user stops or removes containers by hand: the plan names the drift, and no replica runs twice."""

import json
import os
import signal

import pytest

from launcher.jobfile.diagnostic import explanations
from tests.engines.images import SHELL_IMAGE
from tests.scenario import until_line
from tests.scenarios.docker_engine.test_pull import commit
from tests.waiting import until


@pytest.fixture
def running(scenario):
    """A running job of two replicas: its file and its app id."""
    file, _ = scenario.running(replicas=2)
    [app] = scenario.apps()
    return file, app


def test_a_plan_names_a_container_that_was_removed_by_hand_and_fails_on_drift(scenario, running):
    file, app = running
    scenario.plan(file, "--fail-on", "drift", code=0)
    scenario.remove_by_hand([scenario.container(app, 1)])
    assert "main/1 was removed by hand" in scenario.plan(file, "--fail-on", "drift", code=3)
    assert scenario.actions(file) == {"job": "hold"}
    scenario.cancel("job")


def test_a_container_that_was_stopped_by_hand_is_named_in_the_plan(scenario, running):
    file, app = running
    scenario.daemon.stop(scenario.container(app, 0).id)
    scenario.wait("job", code=None)
    shown = scenario.plan(file)
    assert "main/0 was stopped by hand" in shown
    assert scenario.actions(file) == {"job": "hold"}
    assert [one.state for one in scenario.containers(app)] == ["exited", "exited"]


@pytest.mark.parametrize(("name", "code"), [("TERM", 0), ("USR1", 0), ("USR1", 5)])
def test_a_job_that_ends_gracefully_at_a_stop_by_hand_was_stopped_by_hand(scenario, name, code):
    """Whatever signal its image asks for, and whatever exit code the program makes of it."""
    image, daemon = f"launcher-test/stop:{name.lower()}", scenario.daemon
    body = {"Image": SHELL_IMAGE, "Cmd": ["true"], "StopSignal": f"SIG{name}"}
    made = daemon.ask("POST", "/containers/create", body)["Id"]
    commit(made, image, {})
    daemon.ask("DELETE", f"/containers/{made}")
    gate = scenario.gate()
    wait = "while :; do sleep 0.02; done"
    file = scenario.job(f"trap 'exit {code}' {name}; echo >{gate.enter}; {wait}", image=image)
    scenario.apply(file)
    gate.entered()
    [app] = scenario.apps()
    daemon.stop(scenario.container(app).id, grace_s=60)
    scenario.wait("job", code=None)
    [attempt] = scenario.attempts()
    assert (attempt.state, attempt.message) == ("cancelled", "main/0 was stopped by hand")
    assert scenario.actions(file) == {"job": "hold"}


def test_a_replica_that_a_user_restarts_goes_on_in_its_attempt(scenario, running):
    """`docker restart` stops the container and starts it: for the engine two acts, for the user one."""
    file, app = running
    engine, first = scenario.daemon, scenario.container(app, 0)
    for _ in range(3):
        engine.ask("POST", f"/containers/{first.id}/restart", t=0)
    until(lambda: scenario.status("job")["num_restarts"] == 3)
    assert [each.state for each in scenario.containers(app)] == ["running", "running"]
    assert scenario.actions(file) == {"job": "keep"}
    engine.stop(first.id)
    scenario.wait("job", code=None)
    [attempt] = scenario.attempts()
    assert (attempt.state, attempt.message) == ("cancelled", "main/0 was stopped by hand")
    assert [each.state for each in scenario.containers(app)] == ["exited", "exited"]


def test_an_app_ends_when_a_user_starts_a_replica_whose_role_waits(scenario):
    run = f"image: {SHELL_IMAGE}, entrypoint: sleep, args: [1000]"
    roles = f"roles: {{main: {{{run}}}, late: {{{run}, depends_on: {{main: succeeded}}}}}}"
    file = scenario.write("job.launcher.yaml", f"version: 1\nname: job\nscheduler: local_docker\n{roles}\n")
    scenario.apply(file)
    [app] = scenario.apps()
    late = scenario.container(app, role="late")
    scenario.daemon.ask("POST", f"/containers/{late.id}/start")
    scenario.wait("job", code=None)
    [attempt] = scenario.attempts()
    why = "late/0 was started by hand while waiting for main (succeeded)"
    assert (attempt.state, attempt.message) == ("cancelled", why)
    assert why in scenario.plan(file, "--fail-on", "drift", code=3)
    assert [each.state for each in scenario.containers(app)] == ["exited", "exited"]


def test_the_container_of_a_waiting_attempt_runs_nothing_when_a_user_starts_it(scenario):
    image, daemon = "launcher-test/entry:1", scenario.daemon
    body = {"Image": SHELL_IMAGE, "Entrypoint": ["sh", "-c", "sleep 1000"]}
    made = daemon.ask("POST", "/containers/create", body)["Id"]
    commit(made, image, {})
    daemon.ask("DELETE", f"/containers/{made}")
    _, gate = scenario.running(name="first")
    top = "needs: [first]\ncfg: {override_entrypoint: true}"
    scenario.apply(scenario.job("true", name="second", image=image, top=top))
    [marker] = [each for each in scenario.containers() if each.name.endswith(".waiting")]
    daemon.ask("POST", f"/containers/{marker.id}/start")
    until(lambda: daemon.inspect(marker.id)["State"]["Status"] == "exited")
    gate.open()
    scenario.wait("second")


def test_drift_is_reported_until_a_job_without_containers_runs_again_on_request(scenario, running):
    file, app = running
    scenario.remove_by_hand(scenario.containers(app))
    scenario.plan(file, "--fail-on", "drift", code=3)
    for _ in range(3):  # the end is recorded, then the record of the app is removed
        scenario.apply(file)
    scenario.plan(file, "--fail-on", "drift", code=3)
    assert scenario.actions(file, "--rerun", "job") == {"job": "rerun"}
    scenario.job("true")
    scenario.run_to_end(file)
    assert [attempt.state for attempt in scenario.attempts()] == ["lost", "succeeded"]


@pytest.mark.parametrize(("code", "end"), [(0, ("succeeded", "")), (3, ("failed", "main/0 exited with 3"))])
def test_an_end_counts_though_its_container_is_removed_before_the_watcher_looks_at_it(scenario, code, end):
    """As `docker container prune` may do at any moment: the event of the end has the exit code."""
    file, gate = scenario.running(f"exit {code}")
    [app] = scenario.apps()
    watcher = scenario.supervisors()[app]
    os.kill(watcher, signal.SIGSTOP)
    gate.open()
    until(lambda: scenario.container(app).state == "exited")
    scenario.prune(app)
    os.kill(watcher, signal.SIGCONT)
    scenario.wait("job", code=None)
    assert [(each.state, each.message) for each in scenario.attempts()] == [end]
    assert scenario.actions(file) == {"job": "hold" if code else "keep"}


def test_the_explained_example_of_drift_shows_drift_and_its_remedy_removes_it(scenario):
    explained = explanations()["drift"]
    for name, content in explained["Example"].files.items():
        scenario.write(name, content.replace("busybox:1.37", SHELL_IMAGE))
    *before, last = explained["Example"].commands
    for line in before:
        if line == "docker rm -f ID":
            scenario.remove_by_hand(scenario.containers())
        elif line.startswith("launcher"):
            scenario.launcher(*line.split()[1:])
    shown = last.split()[2:]
    assert "drift" in {reason["code"] for reason in scenario.plan_document(*shown)["jobs"][0]["reasons"]}
    for line in explained["What to do"].commands:
        scenario.launcher(*line.split()[1:])
    assert scenario.actions(*shown) == {"train": "keep"}
    scenario.cancel("train")


def test_an_apply_that_follows_a_removed_container_ends_with_the_outcome_and_names_the_lost_log(scenario):
    file = scenario.job("echo begun; sleep 1000", replicas=2)
    applying = scenario.start("apply", file, "--yes", "--wait", "--logs")
    until_line(applying.stdout, "main/1 | begun")
    [app] = scenario.apps()
    scenario.remove_by_hand([scenario.container(app, 1)])
    out, err = applying.communicate(timeout=60)
    assert applying.returncode == 5
    assert f"warning: job: the log of main/1 of {app} was removed with its container" in err
    assert "LOST" in out


@pytest.mark.parametrize("stop", ["cancel job", "apply job.launcher.yaml --rerun job --yes"])
def test_a_container_that_was_started_by_hand_is_stopped_by_a_cancellation_and_before_another_attempt(
    scenario, stop
):
    scenario.run_to_end(scenario.job('test ! -e "$0.ran" || exec sleep 1000; touch "$0.ran"'))
    [app] = scenario.apps()
    scenario.daemon.ask("POST", f"/containers/{scenario.container(app).id}/start")
    scenario.launcher(*stop.split())
    assert scenario.container(app).state == "exited"
    assert [each.state for each in scenario.attempts()][:1] == ["succeeded"]
    assert scenario.status(app)["state"] == "SUCCEEDED"
    scenario.wait("job")


def test_a_container_that_was_started_by_hand_after_a_success_is_named_by_every_reader(scenario, monkeypatch):
    """`status`, `plan` and `list` agree, in the state folder that ran the job and in another one."""
    file = scenario.job('test ! -e "$0.ran" || exec sleep 1000; touch "$0.ran"')
    scenario.run_to_end(file)
    [app] = scenario.apps()
    scenario.daemon.ask("POST", f"/containers/{scenario.container(app).id}/start")
    for home in (scenario.home, f"{scenario.home}-other"):
        monkeypatch.setenv("LAUNCHER_HOME", str(home))
        status = scenario.status("job")
        assert (status["state"], status["message"]) == ("SUCCEEDED", "main/0 was started by hand")
        assert "main/0 was started by hand" in scenario.plan(file, "--fail-on", "drift", code=3)
        every = json.loads(scenario.launcher("list", "-s", "local_docker", "--json").out)
        [listed] = [each for each in every if each["app_id"] == app]
        assert (listed["state"], listed["ended_at"]) == ("SUCCEEDED", status["ended_at"])
    assert [each.state for each in scenario.containers()] == ["running"]
    scenario.remove_by_hand(scenario.containers())
