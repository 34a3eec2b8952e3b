"""Roles in containers that wait for each other: commands from other homes, and SIGKILL at each step."""

import json
import os
import signal
import sys

import pytest

from tests import processes
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.lanes import thinned
from tests.scenarios.test_kill import killed

DEATHS = [
    ("spawn", 1), ("ready", 1), ("to start", 1), ("started", 1), ("spawn", 2), ("exit", 1), ("stopping", 1),
    ("halt", 1), ("to stop", 1), ("stopped", 1), ("renamed", 1), ("exit", 2), ("quiet", 1), ("ended", 1),
]  # fmt: skip


LATE_DEATHS = [("late", 1), ("halt", 1), ("to stop", 1), ("stopped", 1), ("exit", 1), ("stopping", 1)]
RESTART_DEATHS = [
    ("stopping", 1), ("halt", 1), ("to stop", 1), ("stopped", 1), ("quiet", 1), ("restart", 1),
    ("to start", 2), ("started", 2), ("ready", 2), ("to start", 3), ("started", 3),
]  # fmt: skip
SERVER = "touch {up}; exec sleep 1000"
CLIENT = "cat {up}; echo run >>{runs}"


def job_of(scenario, **roles):
    """Write a job file. `roles`: the fields of each role; {up} and {runs} stand for paths of files."""
    places = {"up": str(scenario.folder / "up"), "runs": str(scenario.folder / "runs")}
    common = f"image: {SHELL_IMAGE}, mounts: [{{type: bind, src: {scenario.folder}, dst: {scenario.folder}}}]"
    lines = ["version: 1", "name: job", "scheduler: local_docker", "roles:"]
    for name, fields in roles.items():
        made = {key: value.format(**places) if key == "run" else value for key, value in fields.items()}
        given = ", ".join(f"{key}: {json.dumps(value)}" for key, value in made.items())
        lines.append(f"  {name}: {{{common}, {given}}}")
    return scenario.write("job.launcher.yaml", "\n".join(lines) + "\n")


def ordered(scenario, *, server=SERVER, client=CLIENT, **more):
    """Write a job with a client that waits for a ready service; `runs` gets a line for each run."""
    up = str(scenario.folder / "up")
    return job_of(
        scenario,
        client={"run": client, "depends_on": ["server"]},
        server={"run": server, "service": True, "ready": {"file": up}},
        **more,
    )


def assert_done_once(scenario, file):
    scenario.run_to_end(file)
    attempt = scenario.attempts()[-1]
    assert attempt.state == "succeeded"
    assert (scenario.folder / "runs").read_text() == "run\n"
    assert scenario.actions(file) == {"job": "keep"}
    assert processes.gone(
        [pid for app in scenario.apps() for pid in scenario.processes_of(app)], timeout_s=20
    )


def marks(scenario, app):
    return [one.name.rpartition("-0")[2] for one in scenario.containers(app)]


def applied(scenario, file, *, watched):
    """Apply a file; return the app id. With `watched` false its watcher is dead then."""
    scenario.apply(file)
    [app] = scenario.apps()
    if not watched:
        scenario.kill_watcher(app)
    return app


def apply_under_a_watcher_that_dies(scenario, file, death):
    """Apply a file; its watcher is killed at an act, the n-th of its kind."""
    act, n = death
    process = scenario.spawn(
        [sys.executable, "-m", "tests.kill_at", "watch", act, str(n), "--", "apply", str(file), "--yes"]
    )
    process.communicate()
    assert processes.gone(scenario.watchers(), timeout_s=60)


def test_commands_of_another_home_do_not_disturb_a_waiting_role(scenario):
    """Without a live watcher, too, the plans of both homes are empty, and the app succeeds."""
    gate = scenario.gate()
    file = ordered(scenario, server=f"{gate.script}; touch {{up}}; exec sleep 1000")
    scenario.apply(file)
    gate.entered()
    [(app, _)] = scenario.supervisors().items()
    scenario.kill_watcher(app)
    assert scenario.actions_elsewhere(file) == {"job": "keep"}
    scenario.launcher("apply", file, "--yes", env=scenario.elsewhere)
    assert "for server (ready)" in scenario.launcher("status", "job", env=scenario.elsewhere, code=None).out
    assert scenario.actions(file) == {"job": "keep"}
    scenario.apply(file)
    gate.open()
    scenario.launcher("wait", "job", env=scenario.elsewhere)
    scenario.wait("job")
    assert_done_once(scenario, file)


@pytest.mark.parametrize("watched", [True, False])
def test_a_role_that_waits_can_be_cancelled_from_another_home(scenario, watched):
    file = ordered(scenario, server="exec sleep 1000")
    app = applied(scenario, file, watched=watched)
    scenario.launcher("cancel", "job", env=scenario.elsewhere)
    assert scenario.wait("job", code=None).code != 0
    assert [attempt.state for attempt in scenario.attempts()] == ["cancelled"]
    assert [one.name.rpartition(".")[2] for one in scenario.containers(app)] == ["cancelled"] * 2


def test_a_server_that_is_removed_before_it_is_ready_ends_the_app(scenario):
    """The containers that are left never ran, and look like those of an app that is being created."""
    file = ordered(scenario, server="exec sleep 1000")
    app = applied(scenario, file, watched=False)
    [server] = [one for one in scenario.containers(app) if "-server-" in one.name]
    Daemon().remove([server])
    scenario.wait("job", code=5)
    [attempt] = scenario.attempts()
    assert (attempt.state, attempt.message) == ("lost", "server/0 was removed by hand")
    assert marks(scenario, app) == [".stopped"]
    shown = scenario.launcher("status", "job", env=scenario.elsewhere, code=None).out
    assert "server/0 was removed by hand" in shown


@pytest.mark.parametrize("policy", ["replica", "application"])
def test_another_home_sees_no_end_before_a_restart_without_a_pause(scenario, policy):
    """A home keeps each end that it has seen, so it must not take the failure of a replica for an end."""
    gate = scenario.gate()
    up, tried = scenario.folder / "up", scenario.folder / "tried"
    fails = f"if ! test -e {tried}; then touch {tried}; {gate.script}; exit 3; fi; {SERVER}"
    retried = {"max_retries": 1, "retry_policy": policy}
    server = {"run": fails, "service": True, "ready": {"file": str(up)}, **retried}
    file = job_of(scenario, client={"run": CLIENT, "depends_on": ["server"]}, server=server)
    scenario.apply(file)
    gate.entered()
    [(app, watcher)] = scenario.supervisors().items()
    [made] = [one for one in scenario.containers(app) if "-server-" in one.name]
    os.kill(watcher, signal.SIGSTOP)
    try:
        gate.open()
        Daemon().ask("POST", f"/containers/{made.id}/wait")
        assert scenario.actions_elsewhere(file) == {"job": "keep"}
    finally:
        os.kill(watcher, signal.SIGCONT)
    scenario.launcher("wait", "job", env=scenario.elsewhere)
    assert_done_once(scenario, file)
    assert scenario.actions_elsewhere(file) == {"job": "keep"}


def test_the_next_apply_finishes_the_work_of_a_killed_client(scenario):
    file = ordered(scenario)
    assert killed(scenario, "step", "starting", "1", argv=["apply", file, "--yes"])
    assert_done_once(scenario, file)
    assert [attempt.number for attempt in scenario.attempts()] == [1]


@pytest.mark.parametrize("death", thinned(DEATHS, first=1, every=4), ids=str)
def test_the_next_watcher_continues_the_app_of_a_killed_watcher(scenario, death):
    file = ordered(scenario)
    apply_under_a_watcher_that_dies(scenario, file, death)
    assert scenario.actions(file) == {"job": "keep"}
    assert_done_once(scenario, file)
    assert [attempt.number for attempt in scenario.attempts()] == [1]


@pytest.mark.parametrize("death", thinned(RESTART_DEATHS, first=2, every=5), ids=str)
def test_roles_restart_in_order_when_the_watcher_is_killed_in_a_restart(scenario, death):
    steps, tried = scenario.folder / "steps", scenario.folder / "tried"
    server = f"rm -f {{up}}; echo server >>{steps}; sleep 0.2; {SERVER}"
    client = f"cat {{up}} && echo client >>{steps}; test -e {tried} || {{{{ touch {tried}; exit 3; }}}}"
    up = str(scenario.folder / "up")
    retried = {"max_retries": 1, "retry_policy": "application"}
    file = job_of(
        scenario,
        client={"run": client, "depends_on": ["server"], **retried},
        server={"run": server, "service": True, "ready": {"file": up}},
    )
    apply_under_a_watcher_that_dies(scenario, file, death)
    assert scenario.actions(file) == {"job": "keep"}
    scenario.run_to_end(file)
    assert [attempt.state for attempt in scenario.attempts()] == ["succeeded"]
    assert steps.read_text().split() == ["server", "client"] * 2


@pytest.mark.parametrize("death", thinned(LATE_DEATHS, every=4), ids=str)
def test_an_unready_service_fails_the_app_when_the_watcher_is_killed(scenario, death):
    never = {"file": str(scenario.folder / "never"), "timeout": "1s"}
    file = job_of(
        scenario,
        client={"run": CLIENT, "depends_on": ["server"]},
        server={"run": 'trap "exit 0" TERM; while :; do sleep 0.1; done', "service": True, "ready": never},
    )
    apply_under_a_watcher_that_dies(scenario, file, death)
    assert scenario.actions(file) == {"job": "keep"}
    scenario.wait("job", code=None)
    [attempt] = scenario.attempts()
    assert attempt.state == "failed"
    assert attempt.message == f"server/0 was not ready after 1 s: there is no file {never['file']}"
    assert not (scenario.folder / "runs").exists()


def test_a_cancel_after_all_clients_have_ended_does_not_change_the_success(scenario):
    file = ordered(scenario)
    apply_under_a_watcher_that_dies(scenario, file, ("exit", 1))
    scenario.cancel("job", code=None)
    assert [attempt.state for attempt in scenario.attempts()] == ["succeeded"]
    [app] = scenario.apps()
    assert marks(scenario, app) == ["", ".ended"]
    assert_done_once(scenario, file)


def test_a_program_that_another_role_makes_may_be_missing_at_first(scenario):
    tool = scenario.folder / "tool"
    make = f"printf '#!/bin/sh\\necho run >>{{runs}}\\n' >{tool}; chmod +x {tool}"
    after = {"entrypoint": str(tool), "depends_on": {"maker": "succeeded"}}
    assert_done_once(scenario, job_of(scenario, maker={"run": make}, user=after))


def test_a_program_that_no_role_makes_fails_the_app_at_the_start_of_its_role(scenario):
    after = {"entrypoint": "/nonexistent/tool", "depends_on": {"maker": "succeeded"}}
    scenario.run_to_end(job_of(scenario, maker={"run": "exit 0"}, user=after), code=5)
    [attempt] = scenario.attempts()
    assert attempt.state == "failed"
    assert attempt.message.startswith("user/0 exited with 127: ")  # and what the init of the container says
    assert "/nonexistent/tool" in scenario.launcher("logs", "job", code=None).out
