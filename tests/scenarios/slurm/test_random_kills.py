"""Clients, conductors and the controller are killed at random moments, while an array and single jobs run.

By hand, for 400 kills each: LAUNCHER_KILL_SEEDS=0-99 and `-m ""`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests import processes
from tests.lanes import seeds
from tests.slurm_scenario import SlurmScenario

KILLS = 4
TASKS = 6
JOBS = [f"each-{number}" for number in range(TASKS)] + ["alone", "last"]
ENDS_OF_KILLED = {"lost", "failed", "skipped"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Pipeline:
    """A matrix, which is one array, a job beside it, and a job that needs both."""

    def __init__(self, scenario: SlurmScenario) -> None:
        self.scenario = scenario
        log = f"echo $<app_id> >>{scenario.folder}"
        script = f"{log}/ran; sleep 0.3; {log}/done"
        scenario.job(script, name="each", top=f"matrix: {{n: {[*range(TASKS)]}}}")
        scenario.job(script, name="alone")
        scenario.job(script, name="last", top="needs: [each, alone]")

    def lines(self, name: str) -> list[str]:
        path = self.scenario.folder / name
        return sorted(path.read_text().split()) if path.exists() else []

    def conductors(self) -> list[int]:
        folders = (f"{self.scenario.job_dir}/apps/{app_id}" for app_id in self.scenario.apps())
        found = (pid for folder in folders for pid in processes.with_argument(folder))
        return [pid for pid in found if b"conduct" in _command(pid)]

    def interrupted(self, chance: random.Random, kill: Callable[[], None]) -> None:
        self.scenario.interrupted(chance, kill, ".", "--retry-failed", within=(0.2, 5.0))

    def finish(self, tries: int, *, reruns_cancelled: bool = False) -> None:
        """Apply until every job is current."""
        for left in reversed(range(tries)):
            ends = self.ends().items() if reruns_cancelled else ()
            cancelled = [job for job, states in ends if states[-1:] == ["cancelled"]]
            again = [word for job in cancelled for word in ("--rerun", job)]
            done = self.scenario.run_to_end(".", "--retry-failed", *again, code=None)
            if set(self.scenario.actions(".").values()) == {"keep"}:
                return
            assert left, done.out + done.err

    def ends(self) -> dict[str, list[str]]:
        return {job: [each.state for each in self.scenario.attempts(job)] for job in JOBS}

    def pass_an_hour(self) -> None:
        """Age the hidden folders: `gc` takes a young one for that of a client on another machine."""
        for folder in ("apps", "arrays"):
            for each in (self.scenario.job_dir / folder).glob(".*"):
                os.utime(each, (0, 0))

    def assert_nothing_is_left(self) -> None:
        scenario = self.scenario
        scenario.launcher("gc")  # cancels the jobs of ended apps, which a restarted controller queues again
        assert scenario.left_in_queue() == []
        app_ids = scenario.apps()
        left = [pid for app_id in app_ids for pid in scenario.processes_of(app_id)]
        assert processes.gone([*left, *self.conductors()], timeout_s=60)
        self.pass_an_hour()
        scenario.launcher("gc", "--older-than", "0")
        latest = {scenario.attempts(job)[-1].app_id for job in JOBS}
        assert {*scenario.apps()} == latest
        assert os.listdir(scenario.job_dir / "arrays") == []


def _command(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


@pytest.mark.parametrize("seed", seeds(1))
def test_kills_of_clients_lose_no_job_and_run_none_twice(scenario: SlurmScenario, seed: int) -> None:
    chance, pipeline = random.Random(seed), Pipeline(scenario)
    for _ in range(KILLS):
        pipeline.interrupted(chance, lambda: None)
    pipeline.finish(1)
    assert pipeline.ends() == {job: ["succeeded"] for job in JOBS}
    app_ids = sorted(each.app_id for job in JOBS for each in scenario.attempts(job))
    assert pipeline.lines("ran") == pipeline.lines("done") == app_ids
    pipeline.assert_nothing_is_left()


@pytest.mark.parametrize("seed", seeds(1))
def test_kills_of_conductors_end_their_attempts_alone(scenario: SlurmScenario, seed: int) -> None:
    chance, pipeline = random.Random(seed), Pipeline(scenario)

    def kill() -> None:
        found = pipeline.conductors()
        processes.kill(chance.sample(found, chance.randint(0, len(found))))

    for _ in range(KILLS):
        pipeline.interrupted(chance, kill)
    pipeline.finish(KILLS + 1)
    assert_each_attempt_ran_once_at_most(pipeline)
    pipeline.assert_nothing_is_left()


@pytest.mark.parametrize("seed", seeds(1))
def test_kills_of_the_controller_run_no_attempt_twice(broken, seed):
    scenario = broken("--set", "MessageTimeout=2")
    chance, pipeline, ids = random.Random(seed), Pipeline(scenario), count(1000, 1000)

    def kill() -> None:
        scenario.cluster.kill("slurmctld") if chance.random() < 0.5 else scenario.cluster.stop_controller()
        scenario.cluster.number_jobs_from(next(ids))
        scenario.cluster.start("slurmctld")

    for _ in range(KILLS):
        pipeline.interrupted(chance, kill)
    pipeline.finish(KILLS + 1, reruns_cancelled=True)
    # A controller that returns without knowing that a job runs cancels the job. One that does not know that a
    # job has ended shows it as running until the nodes say otherwise: the queue is not checked.
    assert_each_attempt_ran_once_at_most(pipeline, "cancelled")


def assert_each_attempt_ran_once_at_most(pipeline: Pipeline, *more: str) -> None:
    ends = pipeline.ends()
    assert {states[-1] for states in ends.values()} == {"succeeded"}, ends
    assert {state for states in ends.values() for state in states[:-1]} <= {*ENDS_OF_KILLED, *more}, ends
    ran = pipeline.lines("ran")
    assert len(ran) == len(set(ran)), ran
    latest = {pipeline.scenario.attempts(job)[-1].app_id for job in JOBS}
    assert latest <= {*pipeline.lines("done")}
