"""Approvals as sets of effects: which parts of a plan they cover, and why the rest is held."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from launcher.plan.approved import judged
from launcher.plan.effects import Approval, Start, Stop, start_of
from launcher.plan.model import Plan
from launcher.plan.reconcile import Scope
from launcher.plan.step import Step
from launcher.specs.attempt import Attempt
from launcher.specs.launch import Launch, Need, WorkspaceRef
from tests.unit.plan.world import ORIGIN, attempt, job, plan

TRAIN, EVAL = job("train"), job("eval")


def approval(made: Plan, name: str = "1") -> Approval:
    after = {step.key: step.guard.attempt for step in made.steps}
    return Approval(
        id=f"plan-{name}",
        starts={each: after[each.key] for each in made.effects if isinstance(each, Start)},
        stops=frozenset(each.app_id for each in made.effects if isinstance(each, Stop)),
        pull_request=name,
    )


def ran(launch: Launch, state: str, number: int, under: str = "", **fields: Any) -> Attempt:
    digest = start_of(launch).digest
    approved = {"approval": f"plan-{under}", "pull_request": under} if under else {}
    return attempt(launch, state, number, effect=digest, **approved, **fields)


def judge(now: Plan, approvals: Sequence[Approval], *past: Attempt) -> Plan:
    known = {(each.key, each.number): each for each in past}

    def found(step: Step, number: int) -> Attempt | None:
        return known.get((step.key, number))

    return judged(now, approvals, found)


def kinds(made: Plan) -> dict[str, str]:
    return {step.key.job: step.kind for step in made.steps}


def whys(made: Plan) -> list[str]:
    return [f"{each.effect}: {each.why}" for each in made.unapproved]


def test_a_plan_is_approved_by_itself() -> None:
    now = plan([TRAIN, EVAL])
    checked = judge(now, [approval(now)])
    assert kinds(checked) == {"train": "create", "eval": "create"}
    assert checked.unapproved == ()
    assert {(step.approval, step.pull_request) for step in checked.steps} == {("plan-1", "1")}


def test_two_approvals_together_cover_effects_that_neither_covers_alone() -> None:
    first, second = plan([TRAIN]), plan([EVAL])
    assert judge(plan([TRAIN, EVAL]), [approval(first), approval(second, "2")]).unapproved == ()


def test_a_part_of_an_approval_is_approved_when_the_rest_was_carried_out() -> None:
    approved = approval(plan([TRAIN, EVAL]))
    done = ran(TRAIN, "succeeded", 1, "1")
    checked = judge(plan([TRAIN, EVAL], done), [approved], done)
    assert kinds(checked) == {"train": "keep", "eval": "create"}
    assert checked.unapproved == ()


def test_a_commit_in_the_document_changes_no_approval() -> None:
    shown = replace(job("train", "0"), review_digest="lr1:sha256:" + "a" * 64)
    merged = replace(job("train", "1"), review_digest="lr1:sha256:" + "a" * 64)
    assert judge(plan([merged]), [approval(plan([shown]))]).unapproved == ()


def test_a_changed_file_is_held_and_named_with_both_digests() -> None:
    now = plan([job("train", "--lr", "5"), EVAL])
    checked = judge(now, [approval(plan([TRAIN, EVAL]))])
    assert kinds(checked) == {"train": "hold", "eval": "create"}
    assert whys(checked) == ["start default/train: the job file changed since"]
    (refusal,) = checked.unapproved
    assert refusal.approved == f"{start_of(TRAIN).digest} (#1)"
    assert refusal.effect.digest == start_of(job("train", "--lr", "5")).digest
    (held,) = (step for step in checked.steps if step.kind == "hold")
    assert (held.reasons[0].code, held.number, held.stops) == ("unapproved", 0, ())


@pytest.mark.parametrize(("fields", "why"), [
    ({"workspace": WorkspaceRef(".", "ws1:2")}, "the files of its workspace changed since"),
    ({"trigger_digest": "tr1:2"}, "files that its `rerun_on` names changed since"),
    ({"inputs_digest": "in1:2", "inputs": ("a",)}, "files that its `inputs` names changed since"),
    ({"needs": (Need("eval"),)}, "its `needs` changed since"),
    ({"needs": (Need("eval", False),)}, "its `needs` changed since"),
    ({"file": "moved.launcher.yaml"}, "the job file has another path since"),
    ({"origin": "github.com/acme/other"}, "the job file lives in another repository since"),
    ({"target": "prod"}, "it is approved for target default alone"),
    ({"project": "other"}, "it is approved for project default alone"),
])  # fmt: skip
def test_a_start_that_differs_in_any_part_is_refused_with_the_part_named(fields, why):
    shown = job("train", workspace=WorkspaceRef(".", "ws1:1"))
    now = job("train", **{"workspace": WorkspaceRef(".", "ws1:1"), **fields})
    done = attempt(EVAL, "succeeded")
    (refusal,) = judge(plan([now, EVAL], done), [approval(plan([shown]))]).unapproved
    assert refusal.why == why


def test_a_job_that_no_approval_names_is_held() -> None:
    assert whys(judge(plan([TRAIN]), [])) == ["start default/train: no approval starts it"]


def test_a_shared_tree_that_two_merges_changed_is_held_as_combined() -> None:
    trees = [job("train", workspace=WorkspaceRef(".", f"ws1:{each}")) for each in ("a", "b", "both")]
    approvals = [approval(plan([tree]), name) for tree, name in zip(trees, ("12", "13"), strict=False)]
    (refusal,) = judge(plan([trees[2]]), approvals).unapproved
    assert refusal.why == "combined: #12 and #13 change what it runs, and none shows the result of all"


def test_a_stop_that_was_not_approved_is_held() -> None:
    live = attempt(job("train", "old"), "running", 3)
    approved = approval(plan([TRAIN], attempt(job("train", "old"), "succeeded", 3)))
    checked = judge(plan([TRAIN], live), [approved], live)
    assert whys(checked) == [f"stop {live.app_id}: no approval stops attempt 3"]
    assert kinds(checked) == {"train": "hold"}


def test_an_approved_stop_that_is_no_longer_needed_causes_no_refusal() -> None:
    live = attempt(job("train", "old"), "running", 3)
    approved = approval(plan([TRAIN], live))
    ended = replace(live, state="failed")
    assert judge(plan([TRAIN], ended), [approved], ended).unapproved == ()


def test_a_start_stops_attempts_of_its_own_job_that_began_since_under_another_approval() -> None:
    second = job("train", "second")
    approved = approval(plan([second]), "2")
    live = ran(TRAIN, "running", 1, "1")
    checked = judge(plan([second], live), [approved], live)
    assert checked.unapproved == ()
    assert [stop.app_id for stop in checked.steps[0].stops] == [live.app_id]


def test_a_start_does_not_stop_an_attempt_that_began_without_approval() -> None:
    second = job("train", "second")
    approved = approval(plan([second]), "2")
    live = ran(TRAIN, "running", 1)
    refused = whys(judge(plan([second], live), [approved], live))
    assert refused == [f"stop {live.app_id}: no approval stops attempt 1"]


def test_an_approval_starts_a_job_once() -> None:
    approved = approval(plan([TRAIN]))
    between = ran(TRAIN, "succeeded", 1, "1")
    other = ran(job("train", "other"), "succeeded", 2, "2")
    checked = judge(plan([TRAIN], between, other), [approved], between, other)
    assert whys(checked) == ["start default/train: attempt 1 has used it up"]


def test_an_approval_outlives_attempts_under_other_approvals() -> None:
    approved = approval(plan([TRAIN]))
    other = ran(job("train", "other"), "succeeded", 1, "2")
    assert judge(plan([TRAIN], other), [approved], other).unapproved == ()


def test_an_attempt_missing_from_the_records_may_have_used_the_approval() -> None:
    approved = approval(plan([TRAIN]))
    other = ran(job("train", "other"), "succeeded", 2, "2")
    (refusal,) = judge(plan([TRAIN], other), [approved], other).unapproved
    assert refusal.why == "attempt 1 was made since, and nothing is known of it"


def test_an_approval_is_refused_where_the_ledger_has_no_attempt_that_it_had() -> None:
    approved = approval(plan([job("train", "new")], attempt(TRAIN, "succeeded", 7)))
    (refusal,) = judge(plan([job("train", "new")]), [approved]).unapproved
    assert refusal.why == (
        "no attempt is on record, and attempt 7 was when it was approved: the ledger is another one"
    )


@pytest.mark.parametrize("state", ["failed", "lost", "cancelled"])
def test_a_repeat_needs_no_approval_of_its_own(state: str) -> None:
    again = job("train", on_failed="rerun", on_lost="rerun", on_cancelled="rerun")
    last = ran(again, state, 4, "1")
    checked = judge(plan([again], last), [], last)
    assert checked.unapproved == ()
    assert [(s.kind, s.approval, s.pull_request) for s in checked.steps] == [("rerun", "plan-1", "1")]


def test_a_repeat_that_is_asked_for_on_the_command_line_needs_an_approval() -> None:
    last = ran(TRAIN, "succeeded", 1, "1")
    asked = plan([TRAIN], last, rerun=["train"])
    assert whys(judge(asked, [], last)) == ["start default/train: no approval starts it"]
    refused = whys(judge(asked, [approval(plan([TRAIN]))], last))
    assert refused == ["start default/train: attempt 1 has used it up"]


def test_a_repeat_of_an_attempt_that_ran_without_approval_is_held() -> None:
    again = job("train", on_failed="rerun")
    last = ran(again, "failed", 4)
    assert whys(judge(plan([again], last), [], last)) == ["start default/train: no approval starts it"]


def test_a_return_to_an_earlier_document_is_no_repeat() -> None:
    first, last = ran(TRAIN, "succeeded", 1, "1"), ran(job("train", "other"), "succeeded", 2, "2")
    refused = whys(judge(plan([TRAIN], first, last), [], first, last))
    assert refused == ["start default/train: no approval starts it"]


def test_an_interrupted_submission_is_resumed_under_its_approval() -> None:
    last = ran(TRAIN, "reserved", 1, "1")
    checked = judge(plan([TRAIN], last), [approval(plan([TRAIN]))], last)
    assert checked.unapproved == ()
    assert [(step.number, step.approval) for step in checked.steps] == [(1, "plan-1")]


def test_a_reservation_that_never_became_an_attempt_has_not_used_an_approval_up() -> None:
    """Its client was killed before it wrote the document, so the ledger does not know the attempt."""
    empty = attempt(TRAIN, "reserved", digest="", document={})
    checked = judge(plan([TRAIN], empty), [approval(plan([TRAIN]))])
    assert checked.unapproved == ()
    (step,) = checked.steps
    assert (step.kind, step.number, step.approval) == ("create", 1, "plan-1")
    assert step.why() == "attempt 1 was never started"


def test_jobs_behind_a_held_job_are_held() -> None:
    behind = job("report", needs=(Need("eval"),))
    alone = job("alone")
    now = plan([TRAIN, job("eval", "5", needs=(Need("train"),)), behind, alone])
    approved = approval(plan([TRAIN, job("eval", needs=(Need("train"),)), behind, alone]))
    checked = judge(now, [approved])
    assert kinds(checked) == {"train": "create", "eval": "hold", "report": "hold", "alone": "create"}
    assert whys(checked) == [
        "start default/eval: the job file changed since",
        "start default/report: it needs eval, which is held",
    ]


def test_an_orphan_that_no_approval_stops_stays_and_is_named() -> None:
    gone = attempt(job("gone"), "running")
    choices: dict[str, Any] = {"scopes": [Scope(origin=ORIGIN, target="default")], "prune": True}
    now = plan([TRAIN], gone, **choices)
    checked = judge(now, [approval(plan([TRAIN]))], gone)
    assert kinds(checked) == {"train": "create"}
    assert [orphan.key.job for orphan in checked.orphans] == ["gone"]
    assert whys(checked) == [f"stop {gone.app_id}: no approval stops attempt 1"]
    assert judge(now, [approval(now)], gone).unapproved == ()


def test_a_protected_job_is_held_alone() -> None:
    live = attempt(TRAIN, "running")
    now = plan([job("train", "new", protect=True), EVAL], live)
    checked = judge(now, [approval(plan([job("train", "new"), EVAL], live))], live)
    assert kinds(checked) == {"train": "hold", "eval": "create"}
    assert checked.unapproved == ()
