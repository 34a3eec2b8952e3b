"""Clients, watchers and the engine are killed at random moments, while containers wait, take turns and run.

By hand, for 500 kills each: LAUNCHER_KILL_SEEDS=0-124 and `-m ""`.
"""

import random

import pytest

from launcher.turns.machine import machine
from tests import processes
from tests.lanes import seeds

KILLS = 4
JOBS = 8
WITHIN_S = (0.3, 4.0)
PATIENCE_S = 30.0
HALF = f"resource: {{cpu: {machine(with_gpus=False).cpu / 2}}}"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def pipeline(scenario):
    """Write a matrix whose jobs take turns, and a job that needs all of them; return both files."""
    log = f"echo $<app_id> >>{scenario.folder}"
    script = f"{log}/ran; sleep 0.2; {log}/done"
    each = scenario.job(script, name="each", role=HALF, top=f"matrix: {{n: {[*range(JOBS)]}}}")
    last = scenario.job(script, name="last", top="needs: [each]")
    return each, last


def lines(scenario, name):
    path = scenario.folder / name
    return sorted(path.read_text().split()) if path.exists() else []


def finish(scenario, files, tries):
    """Apply until every job is current."""
    for left in reversed(range(tries)):
        done = scenario.run_to_end(*files, "--retry-failed", code=None)
        if set(scenario.actions(*files).values()) == {"keep"}:
            return
        assert left, done.out + done.err


@pytest.mark.parametrize("seed", seeds(1))
def test_kills_of_watchers_and_clients_lose_no_container_and_run_none_twice(scenario, seed):
    chance = random.Random(seed)
    files = pipeline(scenario)
    for _ in range(KILLS):
        scenario.interrupted(chance, lambda: processes.kill(scenario.watchers()), *files, within=WITHIN_S)
    finish(scenario, files, 1)
    jobs = [f"each-{number}" for number in range(JOBS)] + ["last"]
    attempts = {job: scenario.attempts(job) for job in jobs}
    assert {job: [each.state for each in found] for job, found in attempts.items()} == {
        job: ["succeeded"] for job in jobs
    }
    assert (
        lines(scenario, "ran")
        == lines(scenario, "done")
        == sorted(found[0].app_id for found in attempts.values())
    )
    assert processes.gone(scenario.watchers(), timeout_s=PATIENCE_S)


@pytest.mark.parametrize("seed", seeds(1))
def test_kills_of_the_engine_lose_only_what_ran_and_run_no_attempt_twice(scenario, engine, seed):
    chance = random.Random(seed)
    files = pipeline(scenario)

    def kill() -> None:
        engine.kill() if chance.random() < 0.5 else engine.stop()
        engine.up()

    for _ in range(KILLS):
        scenario.interrupted(chance, kill, *files, within=WITHIN_S)
    finish(scenario, files, KILLS + 1)
    scenario.launcher("list")  # records ends
    jobs = [f"each-{number}" for number in range(JOBS)] + ["last"]
    ends = {job: [each.state for each in scenario.attempts(job)] for job in jobs}
    assert {states[-1] for states in ends.values()} == {"succeeded"}, ends
    before = {state for states in ends.values() for state in states[:-1]}
    assert before <= {"lost", "skipped", "failed"}, (ends, scenario.containers())
    ran = lines(scenario, "ran")
    assert len(ran) == len(set(ran)), ran
    assert {scenario.attempts(job)[-1].app_id for job in jobs} <= {*lines(scenario, "done")}
    assert processes.gone(scenario.watchers(), timeout_s=PATIENCE_S)
