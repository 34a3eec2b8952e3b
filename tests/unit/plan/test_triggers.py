"""`rerun_on`: finished work that runs again because files changed, or because somebody applies."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.plan.codec import dumps, loads
from launcher.plan.recheck import located, recheck
from launcher.specs.launch import Launch, Trigger
from launcher.specs.trigger import combine
from tests.unit.plan.world import ORIGIN, attempt, job, lines, plan, world

CSV, LOG = Trigger("files", ("data/*.csv",)), Trigger("files", ("*.log",))
EVERY = Trigger("every_apply")


def train(content: str = "1", *, rerun_on: tuple[Trigger, ...] = (CSV,), **fields: Any) -> Launch:
    """A job that watches its data, which now holds `content`."""
    globs = {glob: content for trigger in rerun_on for glob in trigger.globs}
    return job("train", rerun_on=rerun_on, trigger_digest=combine(globs), **fields)


def kind(launch: Launch, *attempts: Any, **choices: Any) -> str:
    return plan(launch, *attempts, **choices).steps[0].kind


def test_files_that_changed_since_the_success_run_the_job_again():
    made = plan(train("2"), attempt(train("1"), "succeeded", 3))
    assert lines(made) == [
        "r   default/train: lifecycle.rerun_on[0] `data/*.csv` changed since attempt 3",
        "Plan: 1 to re-run",
    ]
    assert made.steps[0].reasons[0].code == "trigger_fired"
    assert made.steps[0].number == 4


def test_files_that_did_not_change_keep_it():
    assert kind(train("1"), attempt(train("1"), "succeeded")) == "keep"


def test_every_apply_runs_finished_work_again_and_says_so():
    made = plan(train(rerun_on=(EVERY,)), attempt(train(rerun_on=(EVERY,)), "succeeded"))
    assert lines(made)[0] == 'r   default/train: lifecycle.rerun_on[0] = "every_apply"'


@pytest.mark.parametrize(
    ("state", "want"), [("running", "keep"), ("failed", "hold"), ("cancelled", "hold"), ("lost", "hold")]
)
def test_triggers_speak_of_successes_only(state: str, want: str):
    both = (CSV, EVERY)
    assert kind(train("2", rerun_on=both), attempt(train("1", rerun_on=both), state)) == want


def test_a_failure_follows_its_policy_whatever_fired():
    launch = train("2", on_failed="rerun", max_attempts=1)
    assert kind(launch, attempt(train("1"), "failed")) == "hold"


def test_max_attempts_does_not_bound_triggers():
    launch = train("2", max_attempts=1)
    last = attempt(train("1"), "succeeded", 5)
    made = plan(launch, last)
    assert made.steps[0].kind == "rerun"


@pytest.mark.parametrize(
    ("before", "now"),
    [((), (CSV,)), ((CSV,), ()), ((CSV,), (LOG,)), ((CSV,), (CSV, LOG)), ((CSV, LOG), (LOG,))],
)
def test_editing_the_list_of_files_runs_nothing(before: tuple[Trigger, ...], now: tuple[Trigger, ...]):
    """Invariant 10: adding or removing a policy never re-runs."""
    assert plan(train(rerun_on=now), attempt(train(rerun_on=before), "succeeded")).is_empty


def test_a_watched_glob_fires_also_when_others_were_added_beside_it():
    before = train("1", rerun_on=(CSV,))
    assert kind(train("2", rerun_on=(LOG, CSV)), attempt(before, "succeeded")) == "rerun"


def test_a_disabled_job_stays_as_it_is():
    assert kind(train("2", enabled=False), attempt(train("1"), "succeeded")) == "keep"


# Saved plans


def later(launch: Launch, then: Any, now: Any) -> Any:
    """A plan saved when `then` was the latest attempt, held against a world where it is `now`."""
    saved = plan(launch, then).stamped(plan_id="p1", created_at=1_000)
    made = located(loads(dumps(saved)), root="/src", origin=ORIGIN)
    return recheck(made, world(now), now=1_001)


@pytest.mark.parametrize("launch", [train("2"), train("2", rerun_on=(EVERY,))])
def test_a_saved_rerun_stands(launch: Launch):
    last = attempt(train("1"), "succeeded")
    check = later(launch, last, last)
    assert (check.stale, check.plan.steps[0].kind) == ((), "rerun")


@pytest.mark.parametrize("launch", [train("2"), train("2", rerun_on=(EVERY,))])
def test_a_saved_rerun_runs_once(launch: Launch):
    made = attempt(launch, "succeeded", 2, plan_id="p1")
    [stale] = later(launch, attempt(train("1"), "succeeded"), made).stale
    assert stale.reason.code == "already_applied"


@pytest.mark.parametrize("launch", [train("2"), train("2", rerun_on=(EVERY,))])
def test_what_ran_when_the_plan_was_made_is_kept_when_it_has_succeeded(launch: Launch):
    running = attempt(train("1"), "running")
    check = later(launch, running, replace(running, state="succeeded"))
    assert (check.stale, check.plan.steps[0].kind) == ((), "keep")
