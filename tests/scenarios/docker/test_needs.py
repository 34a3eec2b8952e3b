"""Jobs that need jobs, in containers: what other homes see of them, and what their container stands for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.contract.test_holding import Gate

JOBS = ("prepare", "train", "evaluate")


@pytest.fixture
def gate(scenario):
    """prepare → train → evaluate: each appends its name to a log, and the first waits for this gate."""
    made = Gate(scenario.folder / "gate")
    log = scenario.folder / "log"
    scenario.job(f"{made.script}; echo prepare >>{log}", name="prepare")
    scenario.job(f"echo train >>{log}", name="train", top="needs: [prepare]")
    scenario.job(f"echo evaluate >>{log}", name="evaluate", top="needs: [train]")
    return made


def ran(scenario) -> list[str]:
    log: Path = scenario.folder / "log"
    return log.read_text().split() if log.exists() else []


def test_from_another_home_there_is_nothing_to_do_while_they_wait(scenario, gate, tmp_path):
    scenario.apply(".")
    there = {**os.environ, "LAUNCHER_HOME": str(tmp_path / "other")}
    assert "no changes, 3 unchanged" in scenario.launcher("plan", ".", env=there).out
    done = scenario.launcher("apply", ".", "--yes", env=there)
    assert "no changes" in done.out + done.err
    gate.open()
    scenario.wait("evaluate")
    assert ran(scenario) == list(JOBS)
    assert "no changes, 3 unchanged" in scenario.launcher("plan", ".", env=there).out


def test_a_prune_cancels_what_waits(scenario, gate):
    scenario.apply(".")
    scenario.prune()
    gate.open()
    scenario.wait("prepare")
    scenario.wait("train", code=5)
    scenario.wait("evaluate", code=5)
    train, evaluate = (scenario.attempts(job)[-1] for job in ("train", "evaluate"))
    assert (train.state, train.message) == ("cancelled", "its reservation was removed")
    assert evaluate.state in ("cancelled", "skipped")  # whatever its watcher has seen first
    assert ran(scenario) == ["prepare"]


def test_the_next_apply_goes_on_where_the_watchers_of_waiting_jobs_have_died(scenario, gate):
    scenario.apply(".")
    waiting = {scenario.attempts(job)[-1].app_id for job in ("train", "evaluate")}
    for app_id in waiting:
        scenario.kill_watcher(app_id)
    assert "has died: launcher apply" in scenario.launcher("status", "train").out
    assert scenario.launcher("list", "--json").out.count("has died: launcher apply") == len(waiting)
    assert scenario.actions(".") == {"prepare": "keep", "train": "resume", "evaluate": "resume"}
    scenario.apply(".")
    assert {scenario.attempts(job)[-1].app_id for job in ("train", "evaluate")} == waiting
    gate.open()
    scenario.wait("evaluate")
    assert ran(scenario) == list(JOBS)


def test_changing_what_waits_withdraws_it(scenario, gate):
    scenario.apply(".")
    log = scenario.folder / "log"
    scenario.job(f"echo retrain >>{log}", name="train", top="needs: [prepare]")
    scenario.apply(".")
    assert [each.state for each in scenario.attempts("train")] == ["skipped", "waiting"]
    gate.open()
    scenario.wait("evaluate")
    assert ran(scenario) == ["prepare", "retrain", "evaluate"]
