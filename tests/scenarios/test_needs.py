"""Jobs that need jobs: in order, skipped with their reason, and after SIGKILL at any point as if without."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import suppress

import pytest

from tests import processes
from tests.lanes import sampled
from tests.scenarios.test_kill import killed

JOBS = ("prepare", "train", "evaluate")
STEPS = ["reserving", "reserved", "created", "starting", "started", "attempt_waiting", "recorded"]
MOMENTS = 8

pytestmark = pytest.mark.timeout(600)  # many applies in a row, beside other tests


class Pipeline:
    """prepare → train → evaluate: each appends its name to a log, and the first waits for a gate."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.log = scenario.folder / "log"
        self.gate = scenario.folder / "gate"
        self.write("prepare", f"until [ -e {self.gate} ]; do sleep 0.05; done")
        self.write("train", top="needs: [prepare]")
        self.write("evaluate", top="needs: [train]")

    def write(self, job, script="true", top=""):
        self.scenario.job(f"{script} && echo {job} >>{self.log}", name=job, top=top)

    def open(self):
        self.gate.touch()

    def ran(self):
        return self.log.read_text().split() if self.log.exists() else []

    def states(self):
        """The state of the latest attempt of each job."""
        return {job: self.scenario.attempts(job)[-1].state for job in JOBS}

    def finish(self):
        """Apply until everything has succeeded; every job has run once, and nothing is left."""
        self.open()
        self.scenario.run_to_end(".")
        assert self.states() == dict.fromkeys(JOBS, "succeeded")
        assert self.ran() == list(JOBS)
        assert [len(self.scenario.attempts(job)) for job in JOBS] == [1, 1, 1]
        assert self.scenario.actions(".") == dict.fromkeys(JOBS, "keep")
        assert self.scenario.supervisors() == {}
        assert sorted(self.scenario.apps()) == sorted(self.scenario.attempts(job)[0].app_id for job in JOBS)


@pytest.fixture
def pipeline(scenario):
    return Pipeline(scenario)


def test_one_apply_starts_all_three_in_order(scenario, pipeline):
    done = scenario.apply(".")
    assert pipeline.states() == {"prepare": "running", "train": "waiting", "evaluate": "waiting"}
    assert "train waits for prepare" in done.err
    assert scenario.actions(".") == dict.fromkeys(JOBS, "keep")
    found = json.loads(scenario.launcher("status", "train", "--json").out)
    assert (found["state"], found["attempt_state"]) == ("PENDING", "waiting")
    assert found["message"] == "waits for prepare (running)"
    pipeline.open()
    scenario.wait("evaluate")
    assert pipeline.ran() == list(JOBS)
    pipeline.finish()


def test_a_failure_skips_what_needs_it_until_it_is_mended(scenario, pipeline):
    pipeline.write("train", "false", top="needs: [prepare]")
    pipeline.open()
    scenario.run_to_end(".", code=5)
    assert pipeline.states() == {"prepare": "succeeded", "train": "failed", "evaluate": "skipped"}
    waited = scenario.wait("evaluate", code=5)
    assert "SKIPPED: train failed" in waited.out
    text = scenario.launcher("status", "evaluate").out
    assert "train failed" in text
    assert "when train succeeds: launcher apply evaluate.launcher.yaml" in text
    assert scenario.actions(".") == {"prepare": "keep", "train": "hold", "evaluate": "hold"}
    pipeline.write("train", top="needs: [prepare]")
    scenario.run_to_end(".")
    assert pipeline.ran() == list(JOBS)
    assert pipeline.states() == dict.fromkeys(JOBS, "succeeded")
    assert [attempt.number for attempt in scenario.attempts("evaluate")] == [1, 2]


def test_a_waiting_job_that_changes_is_withdrawn_and_made_again(scenario, pipeline):
    scenario.apply(".")
    pipeline.write("train", "true; true", top="needs: [prepare]")
    scenario.apply(".")
    states = {job: [each.state for each in scenario.attempts(job)] for job in JOBS}
    assert states == {
        "prepare": ["running"],
        "train": ["skipped", "waiting"],
        "evaluate": ["skipped", "waiting"],
    }
    pipeline.open()
    scenario.run_to_end(".")
    assert pipeline.ran() == list(JOBS)


def test_a_cancelled_waiting_job_is_held(scenario, pipeline):
    scenario.apply(".")
    scenario.cancel("train")
    scenario.wait("evaluate", code=5)
    assert pipeline.states() == {"prepare": "running", "train": "cancelled", "evaluate": "skipped"}
    assert scenario.actions(".")["train"] == "hold"
    scenario.cancel("prepare")


@pytest.mark.slow
@pytest.mark.parametrize("step", sampled(STEPS, "attempt_waiting"))
@pytest.mark.parametrize("number", ["1", "2"])
def test_killed_at_a_named_step_the_next_apply_finishes_the_work(scenario, pipeline, step, number):
    if step == "started" and number == "2":
        pytest.skip("only the first job starts at once")
    assert killed(scenario, "step", step, number, argv=["apply", ".", "--yes"])
    pipeline.finish()


@pytest.mark.slow
@pytest.mark.parametrize("victim", sampled(JOBS[1:], "train"))
def test_a_killed_waiting_supervisor_is_resumed_under_its_number(scenario, pipeline, victim):
    scenario.apply(".")
    [attempt] = scenario.attempts(victim)
    pid = scenario.supervisors()[attempt.app_id]
    processes.kill([pid])
    assert processes.gone([pid], timeout_s=20)
    why = f"the process that would start it has died: launcher apply {victim}.launcher.yaml"
    assert json.loads(scenario.launcher("status", victim, "--json").out)["message"] == why
    listed = json.loads(scenario.launcher("list", "--json").out)
    assert why in [each["message"] for each in listed]
    assert scenario.actions(".")[victim] == "resume"
    scenario.apply(".")
    assert pipeline.states() == {"prepare": "running", "train": "waiting", "evaluate": "waiting"}
    pipeline.finish()


def test_a_killed_supervisor_of_a_need_skips_what_waits_for_it(scenario, pipeline):
    scenario.apply(".")
    [attempt] = scenario.attempts("prepare")
    processes.kill([scenario.supervisors()[attempt.app_id]])
    scenario.wait("evaluate", code=5)
    scenario.launcher("list")  # records the ends
    assert pipeline.states() == {"prepare": "lost", "train": "skipped", "evaluate": "skipped"}
    assert scenario.attempts("train")[-1].message == "prepare was lost"
    pipeline.open()
    scenario.run_to_end(".", "--retry-failed")
    assert pipeline.ran() == list(JOBS)


@pytest.mark.slow
@pytest.mark.parametrize("event", sampled(["created", "waiting", "met", "starting"], "waiting", "met"))
def test_what_supervisors_leave_that_die_at_an_event_is_finished_by_the_next_applies(
    scenario, pipeline, event
):
    """What died behind `starting` is lost, since its processes may have begun."""
    pipeline.open()
    trap = [sys.executable, "-m", "tests.kill_at", "record", event, "1"]
    scenario.spawn([*trap, "--", "apply", ".", "--yes", "--wait"]).communicate()
    for _ in range(4):  # a job, its leftover, and those behind it
        if scenario.launcher("apply", ".", "--yes", "--wait", "--retry-failed", code=None).code == 0:
            break
    assert pipeline.states() == dict.fromkeys(JOBS, "succeeded")
    assert sorted(set(pipeline.ran())) == sorted(JOBS)
    assert scenario.supervisors() == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(MOMENTS))
def test_random_kills_of_clients_and_supervisors(scenario, pipeline, seed):
    """Whatever is killed: it converges, nothing runs twice at once, and nothing is left."""
    chance = random.Random(seed)
    folder = scenario.folder
    for job, needed in zip(JOBS, ("", "needs: [prepare]", "needs: [train]"), strict=True):
        alone = f"flock -n 9 || echo {job} >>{folder}/twice; sleep 0.1"
        pipeline.write(job, f"exec 9>{folder}/{job}.lock; {alone}", top=needed)
    for _ in range(4):
        process = scenario.start("apply", ".", "--yes", "--wait", "--retry-failed")
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.2, 2.5))
        holders = list(scenario.supervisors().values())
        if holders and chance.random() < 0.7:
            processes.kill([chance.choice(holders)])
        process.kill()
        process.communicate()
    for _ in range(6):
        if scenario.launcher("apply", ".", "--yes", "--wait", "--retry-failed", code=None).code == 0:
            break
    assert pipeline.states() == dict.fromkeys(JOBS, "succeeded")
    assert not (folder / "twice").exists()
    assert scenario.supervisors() == {}
    assert scenario.actions(".") == dict.fromkeys(JOBS, "keep")
