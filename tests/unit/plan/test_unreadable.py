"""An attempt whose record cannot be read may be live: its job is held, and others go on."""

from dataclasses import replace

import pytest

from launcher.plan.reconcile import Choices, Scope, reconcile
from launcher.specs.launch import Need
from tests.unit.plan.world import ORIGIN, attempt, job, lines, plan, world

WHY = "cannot read events.jsonl"


@pytest.mark.parametrize("state", ["created", "waiting", "queued", "running", "lost"])
@pytest.mark.parametrize("wanted", [job("train"), job("train", "--new"), job("train", enabled=False)])
def test_a_job_with_an_unreadable_record_is_held_without_any_effect(state: str, wanted) -> None:
    last = attempt(job("train"), state, 2, unreadable=WHY)
    [step, other] = reconcile([wanted, job("other")], world(last), Choices(retry_failed=True)).steps[::-1]
    assert (step.kind, step.stops, step.withdraws, step.leftovers) == ("hold", (), (), ())
    assert [str(reason) for reason in step.reasons] == [f"the record of attempt 2: {WHY}"]
    assert other.kind == "create"


def test_a_rerun_of_a_job_with_an_unreadable_record_is_held() -> None:
    last = attempt(job("train"), "running", 2, unreadable=WHY)
    made = reconcile([job("train")], world(last), Choices(rerun=("train",)))
    assert made.steps[0].kind == "hold"


def test_an_older_attempt_that_may_be_live_holds_the_job() -> None:
    older = attempt(job("train"), "running", 1, unreadable=WHY)
    made = plan(job("train", "--new"), older, attempt(job("train"), "succeeded", 2))
    assert lines(made)[0] == f"!   default/train: the record of attempt 1: {WHY}"


@pytest.mark.parametrize("given", [True, False])
def test_a_job_that_needs_a_job_with_an_unreadable_record_is_held(given: bool) -> None:
    last = attempt(job("prepare"), "running", 1, unreadable=WHY)
    user = job("train", needs=(Need("prepare"),))
    made = reconcile([*([job("prepare")] if given else []), user], world(last))
    [step] = [each for each in made.steps if each.key == user.key]
    assert (step.kind, step.reasons[0].code) == ("hold", "needs_failed")


def test_an_orphan_with_an_unreadable_record_is_not_stopped() -> None:
    orphan = attempt(job("gone"), "running", 1, unreadable=WHY)
    made = reconcile(
        [job("train")], world(orphan), Choices(prune=True, scopes=(Scope(origin=ORIGIN, target="default"),))
    )
    assert [(step.kind, step.reasons[0].code) for step in made.steps if step.key == orphan.key] == [
        ("hold", "record_unreadable")
    ]


def test_the_fault_of_an_unreadable_record_is_not_stored() -> None:
    made = attempt(job("train"), "running")
    assert replace(made, unreadable=WHY).to_json() == made.to_json()
