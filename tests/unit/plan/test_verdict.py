from typing import Any

import pytest

from launcher.plan.model import matches, plan_exit_code
from launcher.plan.reconcile import Scope
from launcher.plan.step import REASONS, Reason
from tests.unit.plan.world import ORIGIN, attempt, job, plan

TRAIN, EVAL, GONE = job("train"), job("eval"), job("gone")
SCOPES = [Scope(origin=ORIGIN, target="default")]
KEPT = plan(TRAIN, attempt(TRAIN, "succeeded"))
HELD = plan(TRAIN, attempt(TRAIN, "failed"))
CREATED = plan(TRAIN)
CHANGED = plan(TRAIN, attempt(job("train", "-v"), "succeeded"))
DRIFTED = plan(TRAIN, attempt(TRAIN, "running", drift="trainer/1 was stopped by hand"))
ORPHANED = plan(TRAIN, attempt(TRAIN, "succeeded"), attempt(GONE, "running"), scopes=SCOPES)
PRUNED = plan(TRAIN, attempt(TRAIN, "succeeded"), attempt(GONE, "running"), scopes=SCOPES, prune=True)
FAULTY = plan([TRAIN, EVAL], attempt(TRAIN, "failed", origin="elsewhere"), attempt(EVAL, "failed"))


CODES = [(KEPT, 0), (HELD, 0), (DRIFTED, 0), (ORPHANED, 0), (CREATED, 2), (CHANGED, 2), (PRUNED, 2)]


@pytest.mark.parametrize(("made", "code"), CODES)
def test_a_plan_exits_0_and_in_detail_by_its_pending_changes(made: Any, code: int) -> None:
    assert plan_exit_code(made) == 0
    assert plan_exit_code(made, detailed=True) == code


@pytest.mark.parametrize(
    ("word", "matching"), [("held", [HELD]), ("orphan", [ORPHANED, PRUNED]), ("drift", [DRIFTED])]
)
def test_fail_on_blocks_the_conditions_that_it_names_and_no_other(word: str, matching: list[Any]) -> None:
    for made, _ in CODES:
        assert plan_exit_code(made, fail_on=[word]) == (3 if made in matching else 0)


def test_fail_on_comes_before_pending_changes() -> None:
    both = plan([TRAIN, EVAL], attempt(TRAIN, "running", drift="trainer/1 was stopped by hand"))
    assert plan_exit_code(both, detailed=True) == 2
    assert plan_exit_code(both, detailed=True, fail_on=["drift"]) == 3


def test_problems_take_precedence_over_pending_changes_and_fail_on() -> None:
    assert plan_exit_code(FAULTY, detailed=True, fail_on=["held"]) == 1


def test_each_matched_condition_of_fail_on_names_its_jobs() -> None:
    assert matches(HELD, ["held", "drift"]) == {"held": [TRAIN.key]}


@pytest.mark.parametrize("code", REASONS)
def test_every_reason_has_one_line_of_text(code: Any) -> None:
    assert str(Reason(code)) == REASONS[code]
    assert REASONS[code].isprintable()
