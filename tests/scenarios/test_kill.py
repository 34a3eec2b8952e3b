"""After SIGKILL at any point the same apply makes one attempt, runs each replica once, and leaves nothing."""

import os
import random
import signal
import sys

import pytest

from launcher.plan.step import REASONS
from tests import processes
from tests.lanes import sampled, seeds

STEPS = ["reserving", "reserved", "created", "starting", "started", "recorded"]
REPLACE_STEPS = ["reserving", "reserved", "created", "stopping", "stopped", "starting", "started", "recorded"]
BATCH = 3

pytestmark = pytest.mark.timeout(600)  # many applies in a row, beside other tests


@pytest.fixture
def runs(scenario):
    """A job of two replicas that writes a line whenever one starts, and its log."""
    log = scenario.folder / "runs"
    return scenario.job(f"echo $<app_id>/$<replica_id> >>{log}", replicas=2), log


def killed(scenario, *words, argv):
    """Run `launcher ARGV` under tests.kill_at; True when it was killed, False when it ended before."""
    process = scenario.spawn([sys.executable, "-m", "tests.kill_at", *words, "--", *map(str, argv)])
    _, err = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), err
    return process.returncode != 0


def assert_as_if_never_killed(scenario, file, log):
    scenario.run_to_end(file)
    [attempt] = scenario.attempts()
    assert (attempt.number, attempt.state) == (1, "succeeded")
    assert sorted(log.read_text().split()) == [f"{attempt.app_id}/{k}" for k in (0, 1)]
    assert scenario.apps() == [attempt.app_id]
    assert scenario.actions(file) == {"job": "keep"}


@pytest.mark.parametrize("step", sampled(STEPS, "reserved", "starting", every=2))
def test_the_next_apply_finishes_the_work_of_a_client_killed_at_a_named_step(scenario, runs, step):
    file, log = runs
    assert killed(scenario, "step", step, "1", argv=["apply", file, "--yes"])
    assert_as_if_never_killed(scenario, file, log)
    [attempt] = scenario.attempts()
    assert attempt.reason == REASONS["no_attempt"], "of the plan that began it"


@pytest.mark.parametrize("step", sampled(STEPS, "created", first=1, every=2))
def test_a_saved_plan_finishes_the_work_of_its_killed_client(scenario, runs, step):
    file, log = runs
    scenario.plan(file, "--out", "plan.json")
    assert killed(scenario, "step", step, "1", argv=["apply", "plan.json"])
    again = scenario.launcher("apply", "plan.json", "--wait", code=None)
    assert again.code == 0 or (step in ("started", "recorded") and again.code == 4), again
    assert_as_if_never_killed(scenario, file, log)


@pytest.mark.slow
@pytest.mark.parametrize("step", sampled(REPLACE_STEPS, "stopping", first=1, every=2))
def test_the_next_apply_finishes_the_replacement_of_a_killed_client(scenario, step):
    file, _ = scenario.running()
    [old] = scenario.supervisors()
    log = scenario.folder / "runs"
    scenario.job(f"echo run >>{log}")
    flags = ["--yes", "--allow-destructive"]
    assert killed(scenario, "step", step, "1", argv=["apply", file, *flags])

    scenario.launcher("apply", file, *flags, "--wait")
    assert log.read_text() == "run\n"
    assert [attempt.state for attempt in scenario.attempts()] == ["cancelled", "succeeded"]
    assert scenario.processes_of(old) == []


@pytest.mark.slow
def test_an_apply_takes_the_named_steps_in_their_order(scenario, runs):
    file, _ = runs
    steps = scenario.folder / "steps"
    assert not killed(scenario, "steps", str(steps), argv=["apply", file, "--yes", "--wait"])
    assert [step for step in steps.read_text().split() if step in STEPS] == STEPS


@pytest.fixture(scope="module")
def span():
    """(first, last) call of an apply, between which the state is written; measured once per worker."""
    return []


@pytest.mark.parametrize("batch", sampled(seeds(1)))
def test_the_next_apply_finishes_the_work_of_a_client_killed_at_a_random_moment(scenario, span, batch):
    """Each batch is three moments of its seed. By hand, for 500 kills: LAUNCHER_KILL_SEEDS=0-166."""
    if not span:
        count = scenario.folder / "count"
        assert not killed(scenario, "count", str(count), argv=["apply", scenario.job("true"), "--yes"])
        scenario.wait("job")
        first, last = map(int, count.read_text().split())
        span += [first - (last - first) // 2, last]  # opening the state comes before the first event
    chance = random.Random(batch)
    for moment in range(BATCH):
        log = scenario.folder / f"runs{moment}"
        name = f"job{moment}"
        file = scenario.job(f"echo $<app_id>/$<replica_id> >>{log}", replicas=2, name=name)
        at = chance.randrange(*span)
        killed(scenario, "call", str(at), argv=["apply", file, "--yes"])
        scenario.run_to_end(file)
        report = f"killed at call {at} of {span}"
        [attempt] = scenario.attempts(name)
        assert (attempt.number, attempt.state) == (1, "succeeded"), report
        assert sorted(log.read_text().split()) == [f"{attempt.app_id}/{k}" for k in (0, 1)], report
        assert processes.gone(scenario.supervisors().values(), timeout_s=60), report


@pytest.mark.slow
@pytest.mark.parametrize("reader", sampled(["status", "list", "wait", "apply"], "apply", every=3))
def test_finished_work_is_not_repeated_when_the_supervisor_died_before_it_recorded_the_end(scenario, reader):
    """Two ends with 0 are on record, and make a success for whichever command reads them first."""
    log = scenario.folder / "runs"
    mark = f"mark-of-{scenario.folder}"  # names alone repeat in other workers
    script = f"echo run >>{log}; setsid -f sh -c 'while :; do sleep 9; done' {mark}"
    file = scenario.job(script, replicas=2, top="lifecycle: {on_lost: rerun, on_failed: rerun}")
    assert not killed(scenario, "record", "exit", "2", argv=["apply", file, "--yes"])
    assert processes.gone(scenario.supervisors().values(), timeout_s=60)

    argv = {"apply": ["apply", file, "--yes", "--wait"], "list": ["list"]}.get(reader, [reader, "job"])
    assert "SUCCEEDED" in scenario.launcher(*argv).out
    assert scenario.actions(file) == {"job": "keep"}
    scenario.run_to_end(file)
    assert [attempt.state for attempt in scenario.attempts()] == ["succeeded"]
    assert log.read_text() == "run\n" * 2
    assert processes.with_argument(mark) == []


def test_a_wait_for_a_job_ends_when_the_supervisor_is_killed(scenario):
    scenario.running()
    waiting = scenario.start("wait", "job")
    [supervisor] = scenario.supervisors().values()
    os.kill(supervisor, signal.SIGKILL)
    assert waiting.wait() == 5
