"""Users see and move jobs in line: list, status, queue, start --now, cancel, run --queue."""

import json
import signal

import pytest

from launcher.specs import AppState
from launcher.turns.machine import machine
from tests import processes
from tests.lanes import sampled
from tests.scenario import until_line
from tests.terminals import launcher

LIMIT_S = 150.0


def cores() -> int:
    return max(1, int(machine(with_gpus=False).cpu))


@pytest.fixture
def job(scenario):
    """A function that writes a job which takes the whole machine, and returns its file and its gate."""

    def make(name: str, *, top: str = "", script: str = ""):
        gate = scenario.gate(name)
        role = f"resource: {{cpu: {cores()}}}"
        return scenario.job(script or gate.script, name=name, role=role, top=top), gate

    return make


@pytest.fixture
def holder(scenario, job):
    """The gate of the job `holder`, which has the whole machine."""
    file, gate = job("holder")
    scenario.apply(file)
    gate.entered()
    return gate


@pytest.fixture
def line(scenario, job):
    """The gates by name of a job `a` that holds the whole machine, and of jobs in line behind it."""
    made = {name: job(name) for name in "abc"}
    scenario.apply(*(file for file, _ in made.values()))
    gates = {name: gate for name, (_, gate) in made.items()}
    gates["a"].entered()
    return gates


def app_id(scenario, name: str) -> str:
    return scenario.status(name)["app_id"]


def places(scenario) -> dict[str, list[str]]:
    """Return the names of the jobs that hold the machine, and of those in line."""
    shown = json.loads(scenario.launcher("queue", "--json").out)
    return {key: [each["app_id"].split("-")[0] for each in shown[key]] for key in ("holders", "line")}


@pytest.mark.slow
def test_every_table_shows_the_resources_that_an_app_in_line_waits_for(scenario, line):
    holder, amount = app_id(scenario, "a"), f"{cores()} core" + "s" * (cores() > 1)
    second = f"1st in line for {amount} held by {holder}"
    assert scenario.status("b")["message"] == second
    assert scenario.status("c")["message"] == f"2nd in line for {amount} held by {holder}"
    assert scenario.state("b") is AppState.PENDING
    for command in (["list"], ["status"], ["status", "b"], ["describe", "b"]):
        assert second in scenario.launcher(*command).out
    assert f"1     {app_id(scenario, 'b')}" in scenario.launcher("queue").out
    assert places(scenario) == {"holders": ["a"], "line": ["b", "c"]}
    scenario.cancel("*", "--yes")


@pytest.mark.slow
def test_an_app_is_started_out_of_turn_and_the_others_keep_their_order(scenario, line):
    done = scenario.launcher("start", "c", "--now")
    assert "RUNNING, was 2nd in line for" in done.out
    assert scenario.state("c") is AppState.RUNNING
    line["c"].entered()
    assert places(scenario) == {"holders": ["a", "c"], "line": ["b"]}
    line["a"].open()
    scenario.wait("a")
    assert places(scenario) == {"holders": ["c"], "line": ["b"]}
    line["c"].open()
    line["b"].entered()
    line["b"].open()
    scenario.wait("b")
    assert places(scenario) == {"holders": [], "line": []}


@pytest.mark.slow
def test_start_names_each_app_that_it_does_not_start(scenario, line):
    assert "--now" in scenario.launcher("start", "b", code=64).err
    assert "already started: RUNNING" in scenario.launcher("start", "a", "--now").err
    assert "`nothing`" in scenario.launcher("start", "nothing", "--now", code=1).err
    assert places(scenario) == {"holders": ["a"], "line": ["b", "c"]}
    scenario.cancel("*", "--yes")
    assert "has ended, CANCELLED" in scenario.launcher("start", "b", "--now", code=1).err


def test_start_now_does_not_start_a_job_whose_needs_are_unmet(scenario, job):
    first, gate = job("first")
    second, _ = job("second", top="needs: [first]", script="true")
    scenario.apply(first, second)
    gate.entered()
    done = scenario.launcher("start", "second", "--now", code=1)
    assert "waits for first (running)" in done.err
    assert scenario.attempts("second")[0].state == "waiting"
    gate.open()
    scenario.wait("second")


@pytest.mark.slow
def test_an_app_in_line_whose_supervisor_died_is_reported_and_frees_its_place(scenario, job):
    for name in "abc":  # one apply each, so that none of them shares the process of another
        scenario.apply(job(name)[0])
    dead = [scenario.supervisors()[app_id(scenario, "b")]]
    processes.kill(dead)
    assert processes.gone(dead, timeout_s=LIMIT_S)
    assert "has died" in scenario.status("b")["message"]
    assert places(scenario) == {"holders": ["a"], "line": ["c"]}
    assert "has died" in scenario.launcher("start", "b", "--now", code=1).err
    scenario.cancel("*", "--yes")


@pytest.mark.slow
def test_start_names_the_table_of_turns_that_an_app_is_in(scenario, line, monkeypatch, tmp_path):
    monkeypatch.setenv("LAUNCHER_SLOTS", str(tmp_path / "other slots"))
    assert scenario.status("b")["message"] == "waits for its turn"
    assert "LAUNCHER_SLOTS" in scenario.launcher("start", "b", "--now", code=1).err
    monkeypatch.delenv("LAUNCHER_SLOTS")
    scenario.cancel("*", "--yes")


@pytest.mark.slow
def test_run_takes_its_share_of_the_machine_at_once(scenario, job, holder):
    mine, _ = job("mine", script="echo mine")
    assert scenario.launcher("run", mine).out == "mine\n"
    scenario.cancel("holder")


def test_run_waits_in_line_with_the_queue_option(scenario, job, holder):
    mine, _ = job("mine", script="echo mine")
    process = scenario.start("run", mine, "--queue")
    assert "1st in line for" in until_line(process.stderr, "in line")
    assert places(scenario) == {"holders": ["holder"], "line": ["mine"]}
    holder.open()
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (0, "mine\n")
    assert "in line" not in err
    assert "SUCCEEDED" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], signal.SIGINT))
def test_an_interrupted_run_leaves_the_line_and_no_process(scenario, job, holder, number):
    mine, _ = job("mine", script="echo mine")
    process = scenario.start("run", mine, "--queue")
    name = until_line(process.stderr, "in line").split()[0]
    process.send_signal(number)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    scenario.launcher("wait", name, "--timeout", f"{LIMIT_S:g}", code=5)
    assert places(scenario) == {"holders": ["holder"], "line": []}
    assert scenario.processes_of(name) == []
    assert scenario.logs(name) == ""
    scenario.cancel("holder")


def test_a_detached_run_waits_in_line_on_its_own(scenario, job, holder):
    mine, _ = job("mine", script="echo mine")
    handle = scenario.launcher("run", mine, "--queue", "--detach").out.strip()
    assert places(scenario) == {"holders": ["holder"], "line": ["mine"]}
    holder.open()
    scenario.wait(handle)
    assert "mine" in scenario.logs(handle)


@pytest.mark.slow
def test_a_run_at_a_terminal_shows_its_place_in_a_single_line(scenario, line, job):
    """The run is third, then second; the line on the terminal is cleared when its output begins."""
    mine, _ = job("mine", script="echo mine")
    session = launcher(scenario, "run", mine, "--queue", is_controlling=True)
    session.until(b"3rd in line")
    scenario.cancel("b")
    session.until(b"2nd in line")
    scenario.cancel("c")
    scenario.cancel("a")
    shown = session.end()
    first, _, rest = shown.partition("3rd in line")
    assert "\n" not in first + rest.partition("\r\x1b[Klocal")[0]
    assert "\r\x1b[K" in rest
    assert "mine" in rest
