"""The engine stops, is killed or cut off: running apps are lost, waiting apps and log followers go on."""

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from contextlib import nullcontext

import pytest

from launcher.schedulers.docker import record
from tests import processes
from tests.engines.proxy import Proxy, everything
from tests.waiting import until

LOST = "the Docker engine was stopped"
SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


def _ends(scenario, *jobs: str) -> dict[str, tuple[str, str]]:
    """Wait for the jobs; return the state and message of the last attempt of each."""
    scenario.launcher("wait", *jobs, code=None)
    found = {job: scenario.attempts(job)[-1] for job in jobs}
    return {job: (each.state, each.message) for job, each in found.items()}


def test_a_graceful_stop_of_the_engine_gives_all_running_jobs_the_same_outcome(scenario, engine):
    """The exit code does not matter: one job ends with 0 at SIGTERM, one with 143, one needs SIGKILL.

    Of the job `pair` one replica has ended before. The job `unwatched` has no watcher during the stop.
    """
    kinds = {
        "zero": SLEEP,
        "plain": "exec sleep 1000",
        "stubborn": "trap '' TERM; while :; do sleep 0.1; done",
        "pair": f"[ $<replica_id> = 0 ] || {{ {SLEEP}; }}",
        "unwatched": SLEEP,
    }
    gates = {name: scenario.gate(name) for name in kinds}
    for name, script in kinds.items():
        replicas = 2 if name == "pair" else 1
        file = scenario.job(f"echo > {gates[name].enter}; {script}", name=name, replicas=replicas)
        with scenario.other_watcher() if name == "unwatched" else nullcontext():
            scenario.apply(file)
        gates[name].entered()
    done = scenario.job("true", name="done")
    scenario.run_to_end(done)
    apps = {name: scenario.attempts(name)[-1].app_id for name in kinds}
    scenario.kill_watcher(apps["unwatched"])
    until(lambda: scenario.container(apps["pair"], 0).state == "exited")
    engine.stop()
    engine.up()
    lost = dict.fromkeys(kinds, ("lost", LOST))
    assert _ends(scenario, *kinds) == lost | {"unwatched": ("lost", "ended while nothing watched it")}
    assert [each.get("message", "") for each in scenario.status("pair")["replicas"]] == ["", LOST]
    assert scenario.attempts("done")[-1].state == "succeeded"


def _kill_once(path, pids) -> None:
    """SIGKILL the processes as soon as there is a file."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
    processes.kill(pids)


def _log_until_killed(scenario) -> str:
    """Shell text that logs a run, which in the first run ends only when the engine is dead."""
    return f"echo $<app_id> >>{scenario.folder}/ran; until [ -e {scenario.folder}/dead ]; do sleep 0.02; done"


def _apply_and_kill(scenario, engine, file) -> None:
    """Apply a job file, kill the engine as soon as the job has logged its run, and wait for the job's end."""
    ran = scenario.folder / "ran"
    killer = threading.Thread(target=_kill_once, args=(ran, engine.pids))
    killer.start()
    scenario.launcher("apply", file, "--yes", code=None)
    killer.join()
    engine.kill()
    (scenario.folder / "dead").touch()
    assert processes.gone(processes.mentioning(str(ran)), timeout_s=60)


@pytest.mark.parametrize("watched", [True, False])
def test_an_engine_that_is_killed_as_it_starts_a_job_runs_no_attempt_twice(scenario, engine, watched):
    """The engine has started the container, and knows nothing of that when it is back."""
    ran = scenario.folder / "ran"
    file = scenario.job(_log_until_killed(scenario))
    _apply_and_kill(scenario, engine, file)
    if not watched:
        pids = scenario.watchers()
        processes.kill(pids)
        assert processes.gone(pids, timeout_s=60)
    engine.up()
    assert _ends(scenario, "job")["job"][0] == "lost"
    scenario.launcher("apply", file, "--yes", "--wait", "--rerun", "job")
    assert _lines(ran) == [each.app_id for each in scenario.attempts()]


def test_an_engine_that_is_killed_as_its_watcher_restarts_a_replica_starts_it_once(scenario, engine):
    ran, once = scenario.folder / "ran", scenario.folder / "once"
    script = f"test -e {once} || {{ touch {once}; exit 3; }}; {_log_until_killed(scenario)}"
    file = scenario.job(script, role="max_retries: 1")
    _apply_and_kill(scenario, engine, file)
    engine.up()
    [(state, message)] = _ends(scenario, "job").values()
    assert (len(_lines(ran)), state) == (1, "lost"), message


def test_a_wait_notices_an_end_that_no_engine_event_reports(scenario):
    """A watcher records such an end when a killed engine may have started the next run."""
    scenario.apply(scenario.job("exit 3", role="max_retries: 1\nretry_delay: 5m"))
    app = scenario.attempts()[-1].app_id
    until(lambda: scenario.status("job")["num_restarts"] == 1)
    waits = scenario.start("wait", "job")
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(timeout=2)
    scenario.kill_watcher(app)
    folder = str(scenario.home / "docker" / "apps" / app)
    record.append(folder, "ended", state="lost", message=LOST, code=None, drift="")
    waits.communicate(timeout=60)
    assert scenario.attempts()[-1].state == "lost"


def _lines(path) -> list[str]:
    return path.read_text().split()


def test_an_unwatched_app_whose_end_the_engine_recorded_has_the_outcome_of_its_exit_code(scenario):
    _, gate = scenario.running()
    app = scenario.attempts()[-1].app_id
    scenario.kill_watcher(app)
    gate.open()
    until(lambda: scenario.container(app).state == "exited")
    assert _ends(scenario, "job") == {"job": ("succeeded", "")}


def first_and_second(scenario):
    """Return the files of `first`, which waits at a gate, and of `second`, which needs it; and the gate."""
    gate = scenario.gate()
    first = scenario.job(gate.script, name="first")
    return [first, scenario.job("true", name="second", top="needs: [first]")], gate


def test_a_log_follower_continues_after_a_cut_stream(scenario, monkeypatch, tmp_path):
    """Every open connection is cut twice while a job runs: `--wait`, `wait` and `logs --follow` go on."""
    gate = scenario.gate()
    file = scenario.job(f"echo one; {gate.script}; echo two")
    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything) as made:
        scenario.apply(file)
        gate.entered()
        way.setenv("DOCKER_HOST", made.host)
        followers = {
            "wait": scenario.start("wait", "job"),
            "logs": scenario.start("logs", "job", "--follow"),
            "apply": scenario.start("apply", file, "--yes", "--wait"),
        }
        for cuts in range(3):
            for each in followers.values():
                until(lambda pid=each.pid, least=cuts + 1: made.streams(pid) >= least)
            if cuts < 2:
                made.cut()
        gate.open()
        for name, each in followers.items():
            out, err = each.communicate(timeout=60)
            assert each.returncode == 0, (name, out, err)
            assert 1 <= err.count("waiting for it to answer") <= 2, (name, err)
            if name == "logs":
                assert out.split() == ["one", "two"]


def test_a_run_whose_stream_is_cut_is_not_cancelled(scenario, monkeypatch, tmp_path):
    gate = scenario.gate()
    file = scenario.job(f"echo one; {gate.script}; echo two")
    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything) as made:
        way.setenv("DOCKER_HOST", made.host)
        ran = scenario.start("run", file)
        gate.entered()
        until(lambda: made.streams(ran.pid) == 1 and made.streams() > 1)  # the command and the watcher
        made.cut()
        until(lambda: made.streams(ran.pid) == 2)
        gate.open()
        out, err = ran.communicate(timeout=60)
    assert (ran.returncode, out.split()) == (0, ["one", "two"]), err
    assert err.count("waiting for it to answer") == 1, err


def test_an_engine_that_refuses_for_a_while_fails_no_queued_job(scenario, monkeypatch, tmp_path):
    """The engine answers each creating request with 500, as one that stops or has a full disk does."""
    files, gate = first_and_second(scenario)
    refused = itertools.count()
    is_open = threading.Event()

    def allowed(method: str, path: str) -> bool:
        return is_open.is_set() or "/containers/create" not in path or next(refused) > 3

    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything, status=500) as made:
        way.setenv("DOCKER_HOST", made.host)
        scenario.apply(*files)
        gate.entered()
        made.allowed = allowed
        gate.open()
        until(lambda: len(made.refused) >= 3)
        is_open.set()
        scenario.launcher("wait", "second", code=None)
        assert scenario.attempts("second")[-1].state == "succeeded"


def test_a_job_whose_start_the_engine_refuses_again_and_again_can_be_cancelled(
    scenario, monkeypatch, tmp_path
):
    files, gate = first_and_second(scenario)
    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything, status=500) as made:
        way.setenv("DOCKER_HOST", made.host)
        scenario.apply(*files)
        gate.entered()
        made.allowed = lambda _method, path: "/containers/create" not in path
        gate.open()
        until(lambda: len(made.refused) >= 3)
        scenario.cancel("second")
        [attempt] = scenario.attempts("second")
        assert (attempt.state, attempt.message[:12]) == ("cancelled", "cancelled by")
        assert scenario.containers(attempt.app_id) == []


@pytest.mark.parametrize("request_", ["/containers/create", "/start"])
def test_a_refusal_by_an_engine_that_stops_fails_no_queued_job(scenario, monkeypatch, tmp_path, request_):
    """The reason of the refusal is final at other times; the engine takes no new connection by then."""
    files, gate = first_and_second(scenario)
    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything) as made:
        way.setenv("DOCKER_HOST", made.host)

        def allowed(_method: str, path: str) -> bool:
            if made.is_closed:
                raise ConnectionAbortedError  # ends the connections that were open already
            made.is_closed = request_ in path and not made.refused
            return not made.is_closed

        scenario.apply(*files)
        gate.entered()
        made.allowed = allowed
        gate.open()
        until(lambda: made.turned_away > 5)  # more often than one request is tried
        made.is_closed = False
        scenario.launcher("wait", "second", code=None)
    assert len(made.refused) == 1
    assert [(each.state, each.message) for each in scenario.attempts("second")] == [("succeeded", "")]


def _rename(scenario, container) -> None:
    name = f"{scenario.token}-{container.id[:6]}-mine"
    scenario.daemon.ask("POST", f"/containers/{container.id}/rename", name=name)


def test_the_list_of_another_home_shows_no_end_that_a_stopped_engine_made(scenario, engine):
    """The watcher has not judged it yet: `list` reads what `status` reads."""
    file = scenario.job(f"echo >{(gate := scenario.gate()).enter}; exec sleep 1000")
    scenario.apply(file)
    gate.entered()
    [watcher] = scenario.supervisors().values()
    os.kill(watcher, signal.SIGSTOP)
    engine.stop()
    engine.up()
    for words in (["list", "-s", "local_docker", "--json"], ["status", "job", "--json"]):
        found = json.loads(scenario.launcher(*words, env=scenario.elsewhere).out)
        assert [each["state"] for each in (found if isinstance(found, list) else [found])] == ["RUNNING"]
    os.kill(watcher, signal.SIGCONT)
    assert _ends(scenario, "job") == {"job": ("lost", LOST)}


def test_a_renamed_replica_is_still_known(scenario):
    """Also without the watcher that knew its name before."""
    gates = [scenario.gate(f"gate{k}") for k in range(2)]
    script = "; ".join(f"[ $<replica_id> = {k} ] && {{ {each.script}; }}" for k, each in enumerate(gates))
    file = scenario.job(f"{script}; true", replicas=2)
    scenario.apply(file)
    for each in gates:
        each.entered()
    app = scenario.attempts()[-1].app_id
    scenario.kill_watcher(app)
    _rename(scenario, scenario.container(app))
    assert scenario.actions(file) == {"job": "keep"}
    assert "no changes" in scenario.launcher("plan", file, env=scenario.elsewhere).out
    scenario.apply(file)
    for each in gates:
        each.open()
    scenario.wait("job")
    assert [(each.state, each.app_id) for each in scenario.attempts()] == [("succeeded", app)]
    assert len(scenario.containers(app)) == 2


@pytest.mark.parametrize("watched", [True, False])
def test_a_renamed_container_of_a_waiting_attempt_is_still_known(scenario, watched):
    files, gate = first_and_second(scenario)
    scenario.apply(*files)
    gate.entered()
    app = scenario.attempts("second")[-1].app_id
    if not watched:
        scenario.kill_watcher(app)
    [waiting] = scenario.containers(app)
    _rename(scenario, waiting)
    assert scenario.actions(*files) == {"first": "keep", "second": "keep" if watched else "resume"}
    shown = json.loads(scenario.launcher("list", "-s", "local_docker", "--json", env=scenario.elsewhere).out)
    assert [each["state"] for each in shown if each["app_id"] == app] == ["PENDING"]
    scenario.apply(*files)
    gate.open()
    scenario.wait("second")
    assert [(each.state, each.app_id) for each in scenario.attempts("second")] == [("succeeded", app)]
    assert len(scenario.containers(app)) == 1


def test_a_renamed_replica_and_a_renamed_container_of_a_waiting_attempt_can_be_cancelled(scenario):
    files, gate = first_and_second(scenario)
    scenario.apply(*files)
    gate.entered()
    apps = {job: scenario.attempts(job)[-1].app_id for job in ("first", "second")}
    for app in apps.values():
        [container] = scenario.containers(app)
        _rename(scenario, container)
    for job in ("second", "first"):
        scenario.cancel(job, "--grace", "0")
        assert scenario.attempts(job)[-1].state == "cancelled"
    assert not scenario.containers(apps["second"])
