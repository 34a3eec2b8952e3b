"""A saved plan at a later time: steps that are still valid, steps that are done, and refusals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.plan.codec import dumps, loads
from launcher.plan.model import Plan
from launcher.plan.recheck import Recheck, located, recheck
from launcher.plan.reconcile import Scope
from launcher.specs.attempt import Attempt, StoodOn
from launcher.specs.launch import Launch, Need, attempt_id
from tests.unit.plan.world import ORIGIN, OWNER, attempt, job, plan, world

NEW, OLD, EVAL, GONE = job("train", "--lr", "5"), job("train", "--lr", "3"), job("eval"), job("gone")
NOON, DAY = 1_000_000, 24 * 3600
SCOPES = [Scope(origin=ORIGIN, target="default")]


def saved(desired: Launch | list[Launch], *attempts: Attempt, **choices: Any) -> Plan:
    """Return a plan that went through a file."""
    made = plan(desired, *attempts, **choices).stamped(plan_id="p1", created_at=NOON)
    return located(loads(dumps(made)), root="/src", origin=ORIGIN)


def later(made: Plan, *attempts: Attempt, now: float = NOON + 60) -> Recheck:
    return recheck(made, world(*attempts), now=now)


def kinds(check: Recheck) -> list[str]:
    assert check.refusal() is None, check.refusal()
    return [step.kind for step in check.plan.steps]


def own(launch: Launch, state: str, number: int = 1, **fields: Any) -> Attempt:
    return attempt(launch, state, number, plan_id="p1", **fields)


STANDING = {
    "create": ([NEW], [], {}),
    "create behind a need": ([NEW, job("eval", needs=(Need("train"),))], [], {}),
    "create after another document": ([NEW], [attempt(OLD, "succeeded", 2)], {}),
    "create after a failure": ([NEW], [attempt(OLD, "failed", 2)], {}),
    "create behind a leftover": ([NEW], [attempt(OLD, "reserved", 2)], {}),
    "replace": ([NEW], [attempt(OLD, "running", 2)], {}),
    "replace that goes on": ([NEW], [attempt(OLD, "running", 2), attempt(NEW, "created", 3)], {}),
    "rerun asked for": ([NEW], [attempt(NEW, "succeeded", 2)], {"rerun": ["train"]}),
    "rerun of what runs": ([NEW], [attempt(NEW, "running", 2)], {"rerun": ["train"]}),
    "retry": ([NEW], [attempt(NEW, "failed", 2)], {"retry_failed": True}),
    "rerun by policy": ([job("train", on_lost="rerun")], [attempt(job("train"), "lost", 2)], {}),
    "resume": ([NEW], [attempt(NEW, "created", 2)], {}),
    "destroy of a disabled job": ([job("train", enabled=False)], [attempt(NEW, "running", 2)], {}),
    "destroy of an orphan": ([], [attempt(GONE, "running", 2)], {"scopes": SCOPES, "prune": True}),
    "take-over": ([NEW], [attempt(OLD, "succeeded", 2, origin="elsewhere")], {"take_over": True}),
    "keep": ([NEW], [attempt(NEW, "succeeded", 2)], {}),
    "hold": ([NEW], [attempt(NEW, "failed", 2)], {}),
}


@pytest.mark.parametrize("case", STANDING)
def test_a_plan_stays_valid_while_nothing_has_happened(case: str) -> None:
    desired, attempts, choices = STANDING[case]
    made = saved(desired, *attempts, **choices)
    check = later(made, *attempts)
    assert check.stale == ()
    assert check.plan == made
    assert check.plan.plan_digest == made.plan_digest


RAN2, FAILED2 = attempt(NEW, "running", 2), attempt(NEW, "failed", 2)
STALE = {
    "create, and somebody created it": (NEW, [], [attempt(NEW, "running")], {}),
    "create, and somebody is at it": (NEW, [], [attempt(NEW, "reserved", owner=OWNER)], {}),
    "create, and somebody ran another": (NEW, [], [attempt(OLD, "succeeded")], {}),
    "create, and somebody ran another after it": (
        NEW,
        [attempt(OLD, "succeeded", 2)],
        [attempt(OLD, "succeeded", 2), attempt(job("train", "-q"), "succeeded", 3)],
        {},
    ),
    "keep, and it failed": (NEW, [RAN2], [FAILED2], {}),
    "keep, and another document runs": (NEW, [RAN2], [attempt(OLD, "running", 3)], {}),
    "keep, and nothing of it is on record": (NEW, [attempt(NEW, "succeeded", 2)], [], {}),
    "hold, and somebody ran it": (NEW, [FAILED2], [FAILED2, attempt(NEW, "running", 3)], {}),
    "replace, and the old one ended": (NEW, [attempt(OLD, "running", 2)], [attempt(OLD, "failed", 2)], {}),
    "replace, and somebody did": (NEW, [attempt(OLD, "running", 2)], [attempt(NEW, "running", 3)], {}),
    "replace, and another is to be stopped": (
        NEW,
        [attempt(OLD, "running", 2)],
        [attempt(OLD, "running", 2), attempt(OLD, "running", 1)],
        {},
    ),
    "resume, and somebody did": (NEW, [attempt(NEW, "created", 2)], [RAN2], {}),
    "resume, and it was taken back": (NEW, [attempt(NEW, "created", 2)], [], {}),
    "rerun, and somebody did": (NEW, [FAILED2], [FAILED2, attempt(NEW, "running", 3)], {"rerun": ["train"]}),
    "the job went to another repository": (NEW, [], [attempt(NEW, "succeeded", origin="elsewhere")], {}),
}


@pytest.mark.parametrize("case", STALE)
def test_a_plan_is_stale_when_an_action_would_change(case: str) -> None:
    desired, before, after, choices = STALE[case]
    made = saved(desired, *before, **choices)
    [found] = later(made, *after).stale
    assert (found.key, found.reason.code) == (NEW.key, "attempt_changed")


def test_the_refusal_of_a_stale_plan_says_what_was_expected_what_was_found_and_who_did_it() -> None:
    made = saved([NEW, EVAL], attempt(OLD, "succeeded", 2))
    after = [
        attempt(OLD, "succeeded", 2),
        attempt(NEW, "running", 3),
        attempt(EVAL, "failed", actor="bob@node2"),
    ]
    assert str(later(made, *after).refusal()) == (
        "the plan cannot be applied any more:\n"
        "  default/eval: expected no attempt, found attempt 1 (failed) made by bob@node2; "
        "the saved plan says create, a new one would say hold\n"
        "  default/train: expected attempt 2 (succeeded), found attempt 3 (running) made by ann@node1; "
        "the saved plan says create, a new one would say keep"
    )


@pytest.mark.parametrize("state", ["failed", "cancelled", "lost"])
def test_an_attempt_of_this_plan_counts_as_done_whatever_became_of_it(state: str) -> None:
    launch = job("train", on_failed="rerun", on_cancelled="rerun", on_lost="rerun")
    made = saved([launch, EVAL], retry_failed=True)
    assert kinds(later(made, own(launch, state))) == ["create", "hold"]


def test_another_client_that_applies_this_plan_is_waited_for() -> None:
    check = later(saved([NEW]), own(NEW, "reserved", owner=OWNER))
    assert kinds(check) == ["keep"]
    assert check.plan.steps[0].waits_for == OWNER


@pytest.mark.parametrize("desired", [[NEW], [NEW, EVAL]])
def test_a_plan_that_was_applied_is_stale(desired: list[Launch]) -> None:
    check = later(saved(desired), *(own(launch, "running") for launch in desired))
    assert [(found.key, found.reason.code) for found in check.stale] == [(None, "already_applied")]
    assert "ann@node1 applied it already" in str(check.refusal())


def test_an_orphan_that_the_plan_has_destroyed_already_counts_as_done() -> None:
    """The client was killed between destroy and create: an ended orphan does not show its cause."""
    made = saved([NEW], attempt(GONE, "running", 2), scopes=SCOPES, prune=True)
    assert kinds(later(made, attempt(GONE, "cancelled", 2))) == ["keep", "create"]


def test_a_disabled_job_that_has_ended_meanwhile_counts_as_done() -> None:
    made = saved([job("train", enabled=False), EVAL], attempt(NEW, "running", 2))
    assert kinds(later(made, attempt(NEW, "succeeded", 2))) == ["create", "keep"]


def test_an_orphan_that_was_started_anew_makes_the_plan_stale() -> None:
    made = saved([NEW], attempt(GONE, "running", 2), scopes=SCOPES, prune=True)
    [found] = later(made, attempt(GONE, "succeeded", 2), attempt(GONE, "running", 3)).stale
    assert found.key == GONE.key


def test_an_older_attempt_beside_a_newer_one_is_still_to_be_stopped() -> None:
    both = attempt(OLD, "running", 1), attempt(NEW, "running", 2)
    made = saved([NEW], *both)
    assert kinds(later(made, *both)) == ["destroy", "keep"]
    assert later(made, replace(both[0], state="cancelled"), both[1]).stale[0].reason.code == "already_applied"


def test_a_plan_expires() -> None:
    made = saved([NEW])
    assert later(made, now=NOON + DAY).stale == ()
    check = later(made, now=NOON + DAY + 1)
    assert "the plan expired at 1970-01-13 13:46 UTC" in str(check.refusal())
    assert check.stale[0].reason.code == "expired"


def test_a_plan_from_the_future_is_refused_beyond_what_clocks_differ_by() -> None:
    made = saved([NEW])
    assert later(made, now=NOON - 300).stale == ()
    check = later(made, now=NOON - 301)
    refusal = (
        "the plan was made at 1970-01-12 13:46 UTC, and it is 1970-01-12 13:41 UTC here: look at the clocks"
    )
    assert refusal in str(check.refusal())
    assert check.stale[0].reason.code == "not_yet_valid"


def test_a_plan_for_another_engine_is_refused() -> None:
    made = saved([NEW])
    elsewhere = replace(world(), fingerprints={"local_cwd": "local:9999"})
    [found] = recheck(made, elsewhere, now=NOON).stale
    assert found.reason.code == "other_engine"
    assert str(found) == 'local_cwd "local:0123" → "local:9999"'


def test_refused_plans_exit_with_4() -> None:
    refusal = later(saved([NEW]), attempt(NEW, "running")).refusal()
    assert refusal.exit_code == 4


def test_a_saved_plan_is_bound_to_the_repository_at_hand() -> None:
    made = loads(dumps(plan(NEW).stamped(plan_id="p1", created_at=NOON)))
    bound = located(made, root="/elsewhere/vision", origin=ORIGIN).steps[0].launch
    assert bound == replace(NEW, root="/elsewhere/vision")


def test_a_saved_plan_of_another_repository_is_refused() -> None:
    with pytest.raises(
        Exception, match=r"for github.com/acme/vision, and this is github.com/acme/audio"
    ) as caught:
        located(plan(NEW), root="/src", origin="github.com/acme/audio")
    assert caught.value.exit_code == 4


def test_a_job_of_a_repository_without_a_remote_belongs_to_its_folder() -> None:
    saved = plan(job("train", origin="/home/ann/jobs"))
    bound = located(saved, root="/home/ann", origin="/home/ann")
    assert bound.steps[0].launch is not None
    assert bound.steps[0].launch.root == "/home/ann/jobs"


# Needs

PREPARE = job("prepare")
AFTER = job("after", needs=(Need("prepare"),))


def on_prepare(number: int = 1, edition: int = 1) -> tuple[StoodOn, ...]:
    return (StoodOn("prepare", number, edition, attempt_id(PREPARE.key, number), "local_cwd"),)


@pytest.mark.parametrize(
    "now", [attempt(PREPARE, "failed"), attempt(PREPARE, "succeeded", 2), attempt(PREPARE, "running", 2)]
)
def test_a_need_outside_of_the_plan_that_failed_or_changed_makes_it_stale(now: Attempt) -> None:
    check = later(saved(AFTER, attempt(PREPARE, "running")), now)
    assert [each.key for each in check.stale] == [AFTER.key]


def test_a_kept_job_whose_need_has_changed_meanwhile_makes_the_plan_stale() -> None:
    old = (attempt(PREPARE, "succeeded"), attempt(AFTER, "succeeded", needs=on_prepare()))
    made = saved([AFTER, EVAL], *old)
    assert kinds(later(made, *old)) == ["keep", "create"]
    assert later(made, *old, attempt(PREPARE, "succeeded", 2)).stale


def test_a_plan_whose_own_need_failed_holds_the_jobs_that_wait_for_it() -> None:
    made = saved([PREPARE, AFTER, EVAL])
    assert kinds(later(made, own(PREPARE, "failed"))) == ["hold", "create", "hold"]
    skipped = own(AFTER, "skipped", needs=on_prepare(), message="skipped: prepare failed")
    check = later(made, own(PREPARE, "failed"), skipped)
    assert kinds(check) == ["hold", "create", "hold"]
    assert check.plan.steps[0].why() == "needs_failed (skipped: prepare failed)"


def test_a_plan_is_stale_when_a_need_outside_of_it_has_failed_as_well() -> None:
    """A need that this plan has started may fail; a need outside of the plan may not."""
    other = job("other")
    both = job("after", needs=(Need("other"), Need("prepare")))
    made = saved([PREPARE, both, EVAL], attempt(other, "succeeded"))
    failed = later(made, attempt(other, "succeeded"), own(PREPARE, "failed"))
    assert kinds(failed) == ["hold", "create", "hold"]
    check = later(made, attempt(other, "failed"), own(PREPARE, "failed"))
    assert [each.key for each in check.stale] == [both.key]


def test_a_kept_job_whose_set_of_needs_has_changed_makes_an_older_plan_stale() -> None:
    """A plan of an older version took the added need for a need that had been there."""
    old = (attempt(PREPARE, "succeeded"), attempt(AFTER, "succeeded", needs=on_prepare()))
    made = saved([AFTER, EVAL], *old)
    without = replace(old[1], needs=())
    assert later(made, old[0], without).stale


def test_a_waiting_attempt_that_has_started_meanwhile_makes_the_plan_stale() -> None:
    changed = job("after", "-v", needs=(Need("prepare"),))
    wait = attempt(AFTER, "waiting", owner=OWNER, needs=on_prepare())
    made = saved(changed, attempt(PREPARE, "running"), wait)
    assert kinds(later(made, attempt(PREPARE, "running"), wait)) == ["create"]
    given_up = attempt(AFTER, "skipped", needs=on_prepare())
    assert kinds(later(made, attempt(PREPARE, "running"), given_up)) == ["create"]
    off = saved(job("after", enabled=False), attempt(PREPARE, "running"), wait)
    for state in ("running", "succeeded"):
        started = attempt(AFTER, state, needs=on_prepare())
        assert later(made, attempt(PREPARE, "succeeded"), started).stale
        assert later(off, attempt(PREPARE, "succeeded"), started).stale


def test_a_plan_of_v1_can_be_applied() -> None:
    made = located(loads((Path(__file__).parent / "plan-v1.json").read_text()), root="/src", origin=ORIGIN)
    running = attempt(OLD, "running", 2)
    check = later(made, running, attempt(job("kept"), "succeeded", 4), attempt(EVAL, "reserved", 1))
    assert kinds(check) == ["resume", "keep", "replace"]
    assert check.plan.plan_digest == made.plan_digest
    assert check.plan.steps[2].edition == 3
