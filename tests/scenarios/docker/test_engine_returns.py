"""The engine returns after an absence: jobs of two state folders, and containers that ran on meanwhile."""

import contextlib

import pytest

from launcher.turns.machine import machine, slots_table
from launcher.turns.table import tickets
from tests import processes
from tests.engines import tidy
from tests.lanes import thinned
from tests.scenarios.docker.test_engine_stops import LOST, SLEEP
from tests.waiting import until

HOMES = ("a", "b")
HALF = f"resource: {{cpu: {machine(with_gpus=False).cpu / 2}}}"


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """A context in which every command uses the state folder of this name."""
    monkeypatch.setenv("LAUNCHER_SLOTS", str(tmp_path / "slots"))

    @contextlib.contextmanager
    def of(home):
        with monkeypatch.context() as there:
            there.setenv("LAUNCHER_HOME", str(tmp_path / home))
            yield str(tmp_path / home)

    return of


def _job(scenario, name, script="", top=""):
    """Return a job that notes its name as it runs, and takes half of the cores."""
    return scenario.job(f"echo {name} >>{scenario.folder}/log; {script}", name=name, role=HALF, top=top)


def _left_of(scenario):
    """Return everything that is left of ended jobs: shares, and objects on the engine."""
    return [*tickets(slots_table()), *tidy.unfinished(scenario.things())]


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_jobs_of_both_homes_survive_an_absence_of_the_engine(scenario, engine, at_home, way):
    """In each home one job has ended, one runs, one is in line, and one waits for a job of the first home."""
    files = {}
    for home in HOMES:
        gate = scenario.gate(home)
        files[home] = [
            _job(scenario, f"done-{home}"),
            _job(scenario, f"runs-{home}", f"echo >{gate.enter}; {SLEEP}"),
            _job(scenario, f"next-{home}"),
            _job(scenario, f"after-{home}", top="needs: [runs-a]"),
        ]
        with at_home(home):
            scenario.run_to_end(files[home][0])
            scenario.apply(files[home][1])
        gate.entered()
    for home in HOMES:
        with at_home(home):
            scenario.apply(files["a"][1], *files[home][2:])
    assert [each.state for each in tickets(slots_table())] == ["holds", "holds", "queued", "queued"]
    getattr(engine, way)()
    engine.up()
    for home in HOMES:
        ends = {
            f"done-{home}": [("succeeded", "")],
            f"runs-{home}": [("lost", LOST)],
            f"next-{home}": [("succeeded", "")],
            f"after-{home}": [("skipped", "runs-a was lost")],
        }
        with at_home(home) as folder:
            scenario.launcher("wait", *ends, code=None)
            found = {job: [(each.state, each.message) for each in scenario.attempts(job)] for job in ends}
            assert found == ends
            assert processes.gone(processes.supervisors(folder).values(), timeout_s=60)
    ran = (scenario.folder / "log").read_text().split()
    assert sorted(ran) == sorted(f"{kind}-{home}" for kind in ("done", "runs", "next") for home in HOMES)
    assert _left_of(scenario) == []
    kept = {"done": "keep", "runs": "hold", "next": "keep", "after": "hold"}
    for home in HOMES:
        with at_home(home):
            plan = scenario.actions(*files["a"], *files["b"])
        assert plan == {f"{kind}-{each}": action for each in HOMES for kind, action in kept.items()}


LIVE_RESTORE = pytest.mark.parametrize("engine", [("--live-restore",)], indirect=True)


@LIVE_RESTORE
@pytest.mark.parametrize("way", thinned(["kill", "stop"], every=2))
def test_containers_run_on_while_an_engine_with_live_restore_is_away(scenario, engine, way):
    gates = {name: scenario.gate(name) for name in ("plain", "pair")}
    files = [
        _job(scenario, "plain", gates["plain"].script),
        scenario.job(f"[ $<replica_id> = 1 ] || {{ {gates['pair'].script}; }}", name="pair", replicas=2),
    ]
    scenario.apply(*files)
    for gate in gates.values():
        gate.entered()
    apps = scenario.apps()
    pair = scenario.attempts("pair")[-1].app_id
    # An engine that is killed just as a container ends may lose its exit code.
    until(lambda: scenario.container(pair, 1).state == "exited")
    getattr(engine, way)()
    engine.up()
    assert scenario.actions(*files) == dict.fromkeys(gates, "keep")
    for name, gate in gates.items():
        assert scenario.attempts(name)[-1].is_live
        gate.open()
    scenario.launcher("wait", *gates)
    assert [scenario.attempts(name)[-1].state for name in gates] == ["succeeded"] * len(gates)
    assert scenario.apps() == apps


@LIVE_RESTORE
@pytest.mark.parametrize(("watched", "message"), [(True, LOST), (False, "ended while nothing watched it")])
def test_a_replica_whose_exit_code_an_engine_with_live_restore_has_lost_is_lost(
    scenario, engine, watched, message
):
    """An engine loses the code of a container that ends just before the engine is killed.

    Here the process that keeps the code dies with its container, which leaves the same.
    """
    gate = scenario.gate("pair")
    file = scenario.job(f"[ $<replica_id> = 1 ] && sleep 1d; {gate.script}", name="pair", replicas=2)
    scenario.apply(file)
    gate.entered()
    app_id = scenario.attempts("pair")[-1].app_id
    pid = scenario.daemon.inspect(scenario.container(app_id, 1).id)["State"]["Pid"]
    if not watched:
        scenario.kill_watcher(app_id)
    engine.kill()
    processes.kill([processes.parent(pid), pid])
    engine.up()
    scenario.launcher("wait", "pair", code=None)
    assert [(each.state, each.message) for each in scenario.attempts("pair")] == [("lost", message)]


@LIVE_RESTORE
@pytest.mark.parametrize("others", thinned([False, True], every=2))
def test_apps_that_end_while_an_engine_with_live_restore_is_away_have_the_outcome_of_their_exit_codes(
    scenario, engine, others
):
    """The engine may return when no container runs any more."""
    codes = {"good": 0, "bad": 3, **({"other": 0} if others else {})}
    gates = {name: scenario.gate(name) for name in codes}
    for name, code in codes.items():
        scenario.apply(scenario.job(f"{gates[name].script}; exit {code}", name=name))
        gates[name].entered()
    pids = {name: scenario.processes_of(scenario.attempts(name)[-1].app_id)[-1] for name in codes}
    engine.stop()
    for name in ("good", "bad"):
        gates[name].open()
        assert processes.gone([pids[name]], timeout_s=60)
    engine.up()
    if others:
        gates["other"].open()
    scenario.launcher("wait", *codes, code=None)
    found = {name: [(each.state, each.message) for each in scenario.attempts(name)] for name in codes}
    ends = {"good": ("succeeded", ""), "bad": ("failed", "main/0 exited with 3"), "other": ("succeeded", "")}
    assert found == {name: [ends[name]] for name in codes}
