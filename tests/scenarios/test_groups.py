"""Commands take several apps by one word: the name of a matrix, or a pattern."""

import json
from dataclasses import replace

import pytest

from launcher.state.store import Store
from tests.scenarios.test_terminal import at_a_terminal
from tests.terminals import launcher
from tests.unit.cli.worlds import attempt, launch


@pytest.fixture
def family(scenario):
    """Three live jobs of a matrix, each behind a gate of its own, and one of another file."""

    def start(ending="exit $<matrix.n>", top="matrix: {n: [0, 2, 10]}"):
        gates = {n: scenario.gate(f"gate{n}") for n in (0, 2, 10)}
        script = f"echo begun $<matrix.n>; read x <gate$<matrix.n>.leave; {ending}"
        applied = scenario.apply(scenario.job(script, name="sweep", top=top))
        assert "to watch them: launcher status --watch" in applied.err
        scenario.apply(scenario.job("exec sleep 1000", name="other"))
        return gates

    yield start
    scenario.launcher("cancel", "*", "--yes", code=None)


@pytest.mark.slow
def test_status_wait_and_logs_take_a_matrix_by_its_name(scenario, family):
    gates = family()
    lines = scenario.launcher("status", "sweep").out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["sweep-0", "sweep-2", "sweep-10"]
    assert lines[-1] == "3 apps: 3 running"
    assert [app["job"] for app in json.loads(scenario.launcher("status", "sweep", "--json").out)] == [
        *("sweep-0", "sweep-2", "sweep-10")
    ]
    for gate in gates.values():
        gate.open()
    waited = scenario.launcher("wait", "sweep", code=5)
    shown = [line.split()[1].rstrip(":") for line in waited.out.splitlines()]
    assert shown == ["SUCCEEDED", "FAILED", "FAILED"]
    assert sorted(scenario.logs("sweep").splitlines()) == [
        "sweep-0/main/0  | begun 0",
        "sweep-10/main/0 | begun 10",
        "sweep-2/main/0  | begun 2",
    ]
    assert scenario.logs("sweep-2").splitlines() == ["begun 2"]
    states = {
        state: {app["job"] for app in json.loads(scenario.launcher("list", "--state", state, "--json").out)}
        for state in ("failed", "running", "succeeded,running")
    }
    assert states == {
        "failed": {"sweep-2", "sweep-10"},
        "running": {"other"},
        "succeeded,running": {"sweep-0", "other"},
    }


@pytest.mark.slow
def test_a_matrix_is_found_by_its_name_without_its_job_file(scenario):
    top = "matrix: {n: [0, 1], group: sweep}"
    file = scenario.job("exec sleep 1000", name="'$<matrix.n>-of-it'", top=top)
    scenario.apply(file)
    file.unlink()
    found = json.loads(scenario.launcher("status", "sweep", "--json").out)
    assert [app["job"] for app in found] == ["0-of-it", "1-of-it"]
    assert "2 cancelled" in scenario.cancel("sweep", "--yes").err + scenario.cancel("sweep").err


@pytest.mark.slow
def test_cancelling_several_apps_by_one_name_needs_approval(scenario, family):
    family()
    refused = scenario.cancel("sweep-*", code=3)
    assert refused.err.count(" RUNNING") == 3
    assert "--yes" in refused.err
    code, shown = at_a_terminal(scenario, "cancel", "sweep", answer=b"n\n")
    assert (code, "Stop these 3 apps?" in shown) == (3, True)
    assert len(scenario.supervisors()) == 4
    code, shown = at_a_terminal(scenario, "cancel", "sweep", answer=b"y\n")
    assert (code, shown.count("CANCELLED")) == (0, 3)
    assert {scenario.status(f"sweep-{n}")["state"] for n in (0, 2, 10)} == {"CANCELLED"}
    assert scenario.status("other")["state"] == "RUNNING"
    again = scenario.cancel("sweep")
    assert "3 apps had already ended: 3 cancelled" in again.err
    assert scenario.cancel("oth*").err.endswith("CANCELLED\n")  # one app: no question


@pytest.mark.slow
def test_logs_of_several_jobs_are_followed_to_their_ends(scenario, family):
    gates = family(ending="echo ended $<matrix.n>")
    reader = scenario.start("logs", "sweep-*/main", "--follow")
    for gate in gates.values():
        gate.open()
    out, _ = reader.communicate(timeout=60)
    assert reader.returncode == 0
    assert sorted(out.split("\n")[:-1]) == sorted(
        f"{f'sweep-{n}/main/0'.ljust(15)} | {word} {n}" for n in (0, 2, 10) for word in ("begun", "ended")
    )


@pytest.mark.slow
def test_a_watched_status_follows_apps_to_their_ends_and_returns_the_worst_exit_code(scenario, family):
    gates = family()
    watching = scenario.start("status", "sweep", "--watch")
    assert {watching.stderr.readline().split()[1] for _ in gates} == {"RUNNING"}
    for gate in gates.values():
        gate.open()
    err, out = watching.stderr.read(), watching.stdout.read()
    assert watching.wait(60) == 5
    states = [line.split()[1].rstrip(":") for line in err.splitlines()]
    assert sorted(states) == ["FAILED", "FAILED", "SUCCEEDED"]
    assert out.endswith("3 apps: 1 succeeded, 2 failed\n")
    watched = scenario.launcher("status", "sweep-0", "--watch")
    assert watched.err.endswith(" SUCCEEDED\n")
    assert watched.out.startswith("sweep-0  SUCCEEDED\n")
    [found] = json.loads(scenario.launcher("status", "sweep-0", "--watch", "--json").out)
    assert found["state"] == "SUCCEEDED"


@pytest.mark.slow
def test_at_a_terminal_a_watched_status_is_a_table_and_then_the_app(scenario, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    gate = scenario.gate()
    scenario.apply(scenario.job(f"read x <{gate.leave}"))
    watching = launcher(scenario, "status", "--watch")
    watching.until(rb"job\S*  \S*RUNNING\S*  main")
    gate.open()
    shown = watching.end()
    assert "job SUCCEEDED after " in shown
    assert "in project default, attempt 1" in shown
    assert "no apps are running" in scenario.launcher("status", "--watch").err
    assert json.loads(scenario.launcher("status", "--watch", "--json").out) == []


def test_the_target_option_chooses_among_the_apps_of_a_job(scenario):
    file = scenario.job("exit 3", top="targets: {good: {roles: {main: {args: [-c, 'true']}}}}")
    scenario.run_to_end(file, code=5)
    scenario.run_to_end(file, "--target", "good")
    assert scenario.launcher("wait", "job", "-t", "good").out.split()[1] == "SUCCEEDED"
    assert scenario.launcher("wait", "job", "-t", "default", code=5).out.split()[1] == "FAILED:"
    assert "target good" in scenario.launcher("status", "job", "-t", "good").out
    assert scenario.launcher("logs", "job", "--target", "good").out == ""
    assert "had already ended" in scenario.launcher("cancel", "job", "-t", "good").err
    assert "--target" in scenario.launcher("describe", "job", code=1).err
    assert "attempt 1" in scenario.launcher("describe", "job", "-t", "good").out


def test_an_app_that_cannot_be_stopped_or_waited_for_does_not_hold_up_the_others(scenario):
    elsewhere = replace(launch("sweep-1"), scheduler="gone")
    with Store.open() as store:
        store.record(attempt(elsewhere, "running"))
    scenario.apply(scenario.job("exec sleep 1000", name="sweep-2"))
    done = scenario.cancel("sweep-*", "--yes", code=1)
    assert "gone" in done.err
    assert scenario.status("sweep-2")["state"] == "CANCELLED"
    shown = scenario.launcher("status", "sweep-*", "--json")
    assert [app["state"] for app in json.loads(shown.out)] == ["RUNNING", "CANCELLED"]
    assert "sweep-1-1-ypfhh is shown in its last known state" in shown.err
    waited = scenario.launcher("wait", "sweep-*", code=1)
    assert waited.out.split()[1] == "CANCELLED"


@pytest.mark.slow
def test_an_app_that_cannot_be_asked_does_not_end_the_watch_over_the_others(scenario):
    gate = scenario.gate()
    with Store.open() as store:
        store.record(attempt(replace(launch("sweep-1"), scheduler="gone"), "running"))
    scenario.apply(scenario.job(gate.script, name="sweep-2"))
    for words in (["sweep-*"], []):
        if not words:
            scenario.apply(scenario.job(f"{gate.script}; true", name="sweep-2"))
        watching = scenario.start("status", *words, "--watch")
        begun = ""
        while not begun.endswith("RUNNING\n"):
            begun += watching.stderr.readline()
        gate.entered()
        gate.open()
        err = begun + watching.stderr.read()  # `communicate` would skip what `readline` has buffered
        out = watching.stdout.read()
        assert ("1 succeeded" in out, watching.wait(60)) == (True, 1)
        assert err.count("sweep-1-1-ypfhh is shown in its last known state") == err.count("warning:") == 1
    assert "gone" in scenario.launcher("status", "sweep-1", "--watch", code=64).err
