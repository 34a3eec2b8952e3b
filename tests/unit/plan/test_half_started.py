"""Attempts with some replicas that were never started, and changes to an attempt by hand."""

import pytest

from launcher.plan.reconcile import Scope
from launcher.specs.launch import attempt_id
from tests.unit.plan.world import ORIGIN, OWNER, attempt, job, lines, plan

NEW, OLD = job("train", "--lr", "5"), job("train", "--lr", "3")
HALF = attempt(NEW, "running", 4, unstarted=2)


def test_the_rest_of_a_half_started_attempt_is_started() -> None:
    made = plan(NEW, HALF)
    assert lines(made) == [
        ">   default/train: the start of attempt 4 was interrupted: 2 replicas were never started",
        "Plan: 1 to resume",
    ]
    step = made.steps[0]
    assert (step.number, step.app_id, step.stops, step.leftovers) == (4, attempt_id(NEW.key, 4), (), ())
    assert not step.destructive


def test_one_missing_replica_is_reported_in_the_singular() -> None:
    assert "1 replica was never started" in lines(plan(NEW, attempt(NEW, "running", unstarted=1)))[0]


def test_a_half_started_attempt_is_waited_for_while_its_owner_lives() -> None:
    step = plan(NEW, attempt(NEW, "running", unstarted=2, owner=OWNER)).steps[0]
    assert (step.kind, step.waits_for, step.guard.state) == ("keep", OWNER, "submitting")


def test_a_protected_job_may_be_started_to_its_end() -> None:
    protected = job("train", "--lr", "5", protect=True)
    assert plan(protected, attempt(protected, "running", unstarted=1)).steps[0].kind == "resume"


def test_a_half_started_attempt_without_a_job_file_is_an_orphan() -> None:
    scope = Scope(origin=ORIGIN, target="default")
    gone = attempt(job("gone"), "running", unstarted=1)
    assert [orphan.key for orphan in plan([], gone, scopes=[scope]).orphans] == [gone.key]


@pytest.mark.parametrize(
    ("state", "drift", "verdict"),
    [
        ("lost", "trainer/1 was removed by hand", "attempt 1 was lost; trainer/1 was removed by hand"),
        (
            "cancelled",
            "trainer/0 was stopped by hand",
            "attempt 1 was cancelled; trainer/0 was stopped by hand",
        ),
    ],
)
def test_drift_is_named_beside_how_the_attempt_ended(state: str, drift: str, verdict: str) -> None:
    made = plan(NEW, attempt(NEW, state, drift=drift))
    assert lines(made)[0] == f"!   default/train: {verdict}"
    assert [reason.code for reason in made.steps[0].reasons] == [f"last_{state}", "drift"]


def test_drift_of_a_job_that_is_kept_is_shown() -> None:
    made = plan(NEW, attempt(NEW, "running", drift="trainer/1 was stopped by hand"))
    assert lines(made) == [
        "=   default/train: attempt 1 is running; trainer/1 was stopped by hand",
        "Plan: no changes, 1 unchanged",
    ]
    assert made.is_empty


def test_drift_is_named_where_the_document_changed_too() -> None:
    made = plan(NEW, attempt(OLD, "running", drift="trainer/1 was stopped by hand"))
    assert [reason.code for reason in made.steps[0].reasons] == ["spec_changed", "drift"]
