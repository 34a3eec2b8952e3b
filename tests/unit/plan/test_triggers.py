"""`rerun_on`: finished work that runs again because files changed, or at every apply."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.plan.codec import dumps, loads
from launcher.plan.recheck import located, recheck
from launcher.specs.inputs import combine
from launcher.specs.launch import Launch, Trigger
from tests.unit.plan.world import ORIGIN, attempt, job, plan, world

CSV, LOG = Trigger("files", ("data/*.csv",)), Trigger("files", ("*.log",))
EVERY = Trigger("every_apply")


def train(content: str = "1", *, rerun_on: tuple[Trigger, ...] = (CSV,), **fields: Any) -> Launch:
    """Return a job that watches its data, which now holds `content`."""
    globs = {glob: content for trigger in rerun_on for glob in trigger.globs}
    return job("train", rerun_on=rerun_on, trigger_digest=combine(globs), **fields)


# Saved plans


def later(launch: Launch, then: Any, now: Any) -> Any:
    """Return a plan saved when `then` was the latest attempt, held against a world where it is `now`."""
    saved = plan(launch, then).stamped(plan_id="p1", created_at=1_000)
    made = located(loads(dumps(saved)), root="/src", origin=ORIGIN)
    return recheck(made, world(now), now=1_001)


@pytest.mark.parametrize("launch", [train("2"), train("2", rerun_on=(EVERY,))])
def test_a_saved_rerun_stays_valid_until_it_has_run(launch: Launch):
    last = attempt(train("1"), "succeeded")
    check = later(launch, last, last)
    assert (check.stale, check.plan.steps[0].kind) == ((), "rerun")


@pytest.mark.parametrize("launch", [train("2"), train("2", rerun_on=(EVERY,))])
def test_a_saved_rerun_runs_once(launch: Launch):
    made = attempt(launch, "succeeded", 2, plan_id="p1")
    [stale] = later(launch, attempt(train("1"), "succeeded"), made).stale
    assert stale.reason.code == "already_applied"


@pytest.mark.parametrize("launch", [train("2"), train("2", rerun_on=(EVERY,))])
def test_an_attempt_that_ran_when_the_plan_was_made_is_kept_when_it_has_succeeded(launch: Launch):
    running = attempt(train("1"), "running")
    check = later(launch, running, replace(running, state="succeeded"))
    assert (check.stale, check.plan.steps[0].kind) == ((), "keep")
