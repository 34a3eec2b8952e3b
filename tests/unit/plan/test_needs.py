"""Jobs with needs: the order of steps, what a job stands on, and when it runs again or is held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.errors import UsageError
from launcher.plan.model import Plan
from launcher.plan.select import select
from launcher.plan.step import Guard, Step
from launcher.specs.attempt import Attempt
from launcher.specs.launch import Launch, Trigger, attempt_id
from launcher.specs.needs import Need, StoodOn
from launcher.specs.trigger import combine
from tests.unit.plan.world import OWNER, attempt, job, lines, plan, world

HOLDER = "pid 99 on node1"


def need(*names: str, rerun: bool = True) -> tuple[Need, ...]:
    return tuple(Need(name, rerun) for name in names)


PREPARE, CHANGED = job("prepare"), job("prepare", "-v")
TRAIN = job("train", needs=need("prepare"))
EVAL = job("evaluate", needs=need("train"))
CHAIN = [EVAL, PREPARE, TRAIN]


def on(launch: Launch, number: int = 1, edition: int = 0) -> StoodOn:
    app_id = attempt_id(launch.key, number)
    return StoodOn(launch.key.job, number, edition or number, app_id, launch.scheduler)


def done(
    launch: Launch, number: int = 1, *needs: StoodOn, state: str = "succeeded", **fields: Any
) -> Attempt:
    return attempt(launch, state, number, needs=needs, **fields)


def waiting(launch: Launch, number: int, *needs: StoodOn, **fields: Any) -> Attempt:
    return done(launch, number, *needs, **{"state": "waiting", "owner": HOLDER, **fields})


def step(made: Plan, name: str) -> Step:
    return next(each for each in made.steps if each.key.job == name)


def told(made: Plan) -> dict[str, str]:
    return {each.key.job: f"{each.kind}: {each.why()}" for each in made.steps}


HISTORY = (done(PREPARE), done(TRAIN, 1, on(PREPARE)), done(EVAL, 1, on(TRAIN)))
"""Everything has succeeded."""


def test_new_jobs_wait_for_each_other() -> None:
    made = plan(CHAIN)
    assert told(made) == dict.fromkeys(
        ("evaluate", "prepare", "train"), "create: no attempt of this job is on record"
    )
    assert [step(made, name).after for name in ("prepare", "train", "evaluate")] == [
        (),
        ("prepare",),
        ("train",),
    ]
    assert step(made, "train").needs == (on(PREPARE),)
    assert step(made, "evaluate").needs == (on(TRAIN),)


def test_after_everything_has_succeeded_nothing_is_to_be_done() -> None:
    assert plan(CHAIN, *HISTORY).is_empty


def test_a_change_runs_everything_behind_it_again() -> None:
    made = plan([EVAL, CHANGED, TRAIN], *HISTORY)
    assert told(made)["train"] == "rerun: needs_changed (prepare will run)"
    assert told(made)["evaluate"] == "rerun: needs_changed (train will run)"
    assert [step(made, name).edition for name in ("prepare", "train", "evaluate")] == [2, 2, 2]
    assert step(made, "evaluate").after == ("train",)


def test_a_change_runs_nothing_before_it() -> None:
    made = plan([job("evaluate", "-v", needs=need("train")), PREPARE, TRAIN], *HISTORY)
    assert [each.kind for each in made.steps] == ["create", "keep", "keep"]
    assert (step(made, "evaluate").needs, step(made, "evaluate").after) == ((on(TRAIN),), ())


def test_files_that_trigger_a_need_run_its_dependents_again() -> None:
    files = (Trigger("files", ("*.csv",)),)
    old, new = (job("prepare", rerun_on=files, trigger_digest=combine({"*.csv": n})) for n in "12")
    made = plan([EVAL, new, TRAIN], done(old), *HISTORY[1:])
    assert [each.kind for each in made.steps] == ["rerun"] * 3
    assert step(made, "prepare").edition == 2


def test_what_only_repeats_a_need_leaves_its_dependents() -> None:
    made = plan(CHAIN, *HISTORY, rerun=["prepare"])
    assert [(each.key.job, each.kind) for each in made.steps if each.has_effects] == [("prepare", "rerun")]
    assert (step(made, "prepare").number, step(made, "prepare").edition) == (2, 1)
    every = job("prepare", rerun_on=(Trigger("every_apply"),))
    assert told(plan([EVAL, every, TRAIN], *HISTORY))["train"] == "keep: attempt 1 succeeded"


def test_a_retry_repeats_the_edition_that_failed() -> None:
    failed = done(CHANGED, 2, state="failed")
    made = plan([EVAL, CHANGED, TRAIN], *HISTORY, failed, retry_failed=True)
    assert (step(made, "prepare").number, step(made, "prepare").edition) == (3, 2)
    assert told(made)["train"] == "rerun: needs_changed (prepare will run)"


def test_an_asked_for_run_after_a_change_is_an_edition_of_its_own() -> None:
    made = plan(
        [PREPARE, TRAIN], done(PREPARE), done(PREPARE, 2), done(TRAIN, 1, on(PREPARE)), rerun=["train"]
    )
    assert step(made, "train").edition == 2


def test_rerun_with_a_plus_runs_what_follows() -> None:
    made = plan(CHAIN, *HISTORY, rerun=["prepare+"])
    assert [each.kind for each in made.steps] == ["rerun"] * 3
    assert [each.edition for each in made.steps] == [1] * 3


def test_a_need_that_has_run_since_in_another_edition_runs_the_job_again() -> None:
    made = plan(CHAIN, *HISTORY, done(PREPARE, 2))
    assert told(made)["train"] == "rerun: needs_changed (prepare has run since: attempt 2)"
    assert (step(made, "train").needs, step(made, "train").after) == ((on(PREPARE, 2),), ())
    same = done(PREPARE, 2, edition=1)
    assert plan(CHAIN, *HISTORY, same).is_empty


def test_rerun_never_keeps_the_order_alone() -> None:
    train = job("train", needs=need("prepare", rerun=False))
    assert plan([PREPARE, train], *HISTORY[:2], done(PREPARE, 2)).is_empty
    made = plan([CHANGED, job("train", "-v", needs=need("prepare", rerun=False))], *HISTORY[:2])
    assert step(made, "train").after == ("prepare",)


def test_a_need_that_is_not_on_record_fires_nothing_and_is_adopted() -> None:
    made = plan([PREPARE, TRAIN], done(PREPARE, 3, edition=2), done(TRAIN))
    assert made.is_empty
    assert step(made, "train").adopts == (on(PREPARE, 3, 2),)
    assert step(plan([CHANGED, TRAIN], done(PREPARE, 3), done(TRAIN)), "train").adopts == ()


@pytest.mark.parametrize(
    ("state", "word"), [("failed", "failed"), ("cancelled", "cancelled"), ("lost", "lost")]
)
def test_a_job_that_would_start_is_held_while_a_need_is(state: str, word: str) -> None:
    made = plan(CHAIN, done(PREPARE, state=state))
    assert told(made)["train"].startswith(f"hold: needs_failed (prepare: {word})")
    assert told(made)["evaluate"].startswith("hold: needs_failed (train: held)")
    assert made.is_empty


def test_what_has_finished_or_runs_is_kept_whatever_became_of_its_need() -> None:
    failed = done(PREPARE, 2, state="failed", edition=1)
    assert told(plan([PREPARE, TRAIN], *HISTORY[:2], failed))["train"].startswith("keep")
    running = done(TRAIN, 1, on(PREPARE), state="running")
    assert told(plan([PREPARE, TRAIN], done(PREPARE), failed, running))["train"].startswith("keep")


def test_a_need_whose_change_is_held_back_holds_its_dependents() -> None:
    held = job("prepare", "-v", on_change="hold")
    assert told(plan([held, TRAIN], done(PREPARE)))["train"].startswith("hold: needs_failed (prepare: held)")


# Needs that are disabled, or outside of the plan


@pytest.mark.parametrize("files", [[TRAIN], [TRAIN, job("prepare", "-v", enabled=False)]])
def test_a_need_that_is_not_planned_is_judged_by_its_latest_attempt(files: list[Launch]) -> None:
    made = plan(files, done(PREPARE, 2))
    assert (step(made, "train").kind, step(made, "train").needs) == ("create", (on(PREPARE, 2),))
    made = plan(files, done(PREPARE), done(PREPARE, 2, state="failed"))
    assert told(made)["train"].startswith("hold: needs_failed (prepare: failed)")
    assert "its latest attempt decides" in step(made, "train").notes[0]


def test_a_need_that_runs_outside_of_the_plan_is_waited_for() -> None:
    made = plan(TRAIN, done(PREPARE, 2, state="running"))
    assert (step(made, "train").kind, step(made, "train").after) == ("create", ("prepare",))
    busy = plan(TRAIN, done(PREPARE, 2, state="created", owner=OWNER))
    assert step(busy, "train").waits_for == OWNER


def test_a_need_that_is_disabled_and_stopped_holds_its_dependents() -> None:
    made = plan([TRAIN, job("prepare", enabled=False)], done(PREPARE, state="running"))
    assert told(made)["train"].startswith("hold: needs_failed (prepare: disabled)")


def test_an_unknown_need_is_a_problem_with_the_nearest_name() -> None:
    [problem] = plan([PREPARE, job("train", needs=need("prepaer"))]).problems
    assert (problem.code, problem.key.job) == ("unknown_need", "train")
    assert problem.message == "it needs `prepaer`, which no file given here declares and which never ran"
    assert problem.hint == "did you mean prepare?"


def test_a_need_that_is_not_selected_is_named_with_its_file() -> None:
    [problem] = plan([TRAIN], others=[PREPARE]).problems
    assert problem.message.startswith(
        "it needs `prepare` (jobs/prepare.launcher.yaml), which is not selected"
    )
    assert problem.hint == "select it as well: --select +train"


def test_a_circle_is_a_problem() -> None:
    [problem] = plan([job("a", needs=need("b")), job("b", needs=need("a"))]).problems
    assert problem.code == "needs_cycle"


def test_a_dependent_that_is_not_selected_is_left_with_a_note() -> None:
    made = plan([CHANGED], *HISTORY, others=[TRAIN, EVAL])
    assert step(made, "prepare").notes == ("train needs it, and stays as it is: not selected",)


# Live dependents


def test_a_running_dependent_of_a_need_that_will_run_is_replaced() -> None:
    running = done(TRAIN, 1, on(PREPARE), state="running")
    made = plan([CHANGED, TRAIN], done(PREPARE), running)
    assert told(made)["train"] == "replace: needs_changed (prepare will run)"
    assert step(made, "train").destructive
    assert not step(made, "train").consented
    asked = plan([PREPARE, TRAIN], done(PREPARE), running, rerun=["prepare"])
    assert (step(asked, "train").kind, step(asked, "train").edition) == ("replace", 1)


EVERY = Trigger("every_apply")


def test_a_running_dependent_of_a_need_that_every_apply_repeats_is_kept() -> None:
    """The edition that it stands on stays the same, so it would find nothing new."""
    every = job("prepare", rerun_on=(EVERY,))
    running = done(TRAIN, 1, on(PREPARE), state="running")
    made = plan([every, TRAIN], done(PREPARE), running)
    assert told(made)["train"] == "keep: attempt 1 is running"
    assert (step(made, "prepare").kind, step(made, "prepare").edition) == ("rerun", 1)
    assert not step(made, "train").stops
    later = plan([every, TRAIN], done(PREPARE), done(PREPARE, 2, edition=1), running)
    assert told(later)["train"] == "keep: attempt 1 is running"


@pytest.mark.parametrize(
    ("need_now", "asked"),
    [
        (job("prepare", "-v", rerun_on=(EVERY,)), []),
        (job("prepare", rerun_on=(EVERY,)), ["prepare"]),
        (
            job("prepare", rerun_on=(EVERY, Trigger("files", ("*",))), trigger_digest=combine({"*": "2"})),
            [],
        ),
    ],
    ids=["changed", "asked for", "changed files"],
)
def test_a_running_dependent_of_a_need_that_runs_again_for_more_is_replaced(
    need_now: Launch, asked: list[str]
) -> None:
    before = done(PREPARE, trigger_digest=combine({"*": "1"}))
    running = done(TRAIN, 1, on(PREPARE), state="running")
    assert step(plan([need_now, TRAIN], before, running, rerun=asked), "train").kind == "replace"


def test_what_waits_for_a_need_that_every_apply_repeats_is_made_anew() -> None:
    """It is bound to an attempt that is the latest no more; nothing of it has run."""
    train = job("train", needs=need("fetch", "prepare"))
    every, fetch = job("prepare", rerun_on=(EVERY,)), job("fetch")
    live = (done(fetch, state="running"), waiting(train, 1, on(fetch), on(PREPARE)))
    made = step(plan([every, fetch, train], done(PREPARE), *live), "train")
    assert (made.kind, made.after, len(made.withdraws)) == ("rerun", ("fetch", "prepare"), 1)


@pytest.mark.parametrize(
    ("policy", "blocked"), [({"protect": True}, "protected"), ({"on_change": "hold"}, "on_change_hold")]
)
def test_policies_keep_a_running_dependent(policy: dict[str, Any], blocked: str) -> None:
    made = plan(
        [CHANGED, job("train", needs=need("prepare"), **policy)],
        done(PREPARE),
        done(TRAIN, 1, on(PREPARE), state="running"),
    )
    assert (step(made, "train").kind, step(made, "train").blocked) == ("hold", blocked)


def test_a_waiting_dependent_of_a_need_that_will_run_is_withdrawn_and_made_anew() -> None:
    live = (done(PREPARE, state="running"), waiting(TRAIN, 1, on(PREPARE)))
    made = plan([CHANGED, TRAIN], *live)
    new = step(made, "train")
    assert (new.kind, new.number, new.after) == ("rerun", 2, ("prepare",))
    assert [each.app_id for each in new.withdraws] == [live[1].app_id]
    assert new.stops == ()
    assert not new.destructive
    assert live[1].app_id not in made.plan_digest


def test_a_waiting_attempt_of_the_same_document_is_kept() -> None:
    made = plan([PREPARE, TRAIN], done(PREPARE, state="running"), waiting(TRAIN, 1, on(PREPARE)))
    assert told(made)["train"] == "keep: attempt 1 waits for prepare"
    assert made.is_empty
    assert step(made, "train").waits_for == ""


def test_a_waiting_attempt_of_another_document_is_withdrawn() -> None:
    new = job("train", "-v", needs=need("prepare"))
    made = plan([PREPARE, new], done(PREPARE, state="running"), waiting(TRAIN, 4, on(PREPARE)))
    assert (step(made, "train").kind, step(made, "train").number) == ("create", 5)
    assert [each.state for each in step(made, "train").withdraws] == ["waiting"]


def test_a_waiting_attempt_without_a_holder_is_resumed_under_its_number() -> None:
    left = waiting(TRAIN, 4, on(PREPARE), owner="", edition=2)
    made = plan([PREPARE, TRAIN], done(PREPARE, state="running"), left)
    resumed = step(made, "train")
    assert (resumed.kind, resumed.number, resumed.edition) == ("resume", 4, 2)
    assert (resumed.needs, resumed.after, resumed.withdraws) == ((on(PREPARE),), ("prepare",), ())
    over = step(plan([PREPARE, TRAIN], done(PREPARE), left), "train")
    assert (over.kind, over.after) == ("resume", ())


def test_a_waiting_attempt_without_a_holder_is_given_up_when_its_need_failed() -> None:
    left = waiting(TRAIN, 4, on(PREPARE), owner="")
    held = step(plan([PREPARE, TRAIN], done(PREPARE, state="failed"), left), "train")
    assert (held.kind, held.reasons[0].code) == ("hold", "needs_failed")
    assert held.withdraws == (Guard.of(left),)


def test_a_disabled_job_that_waits_is_withdrawn_without_approval() -> None:
    off = job("train", needs=need("prepare"), enabled=False)
    made = step(plan([PREPARE, off], done(PREPARE), waiting(TRAIN, 1, on(PREPARE))), "train")
    assert (made.kind, made.destructive, len(made.withdraws)) == ("destroy", False, 1)


def test_an_interrupted_submission_goes_on_only_with_the_attempts_it_was_bound_to() -> None:
    left = done(TRAIN, 2, on(PREPARE), state="created")
    assert step(plan([PREPARE, TRAIN], done(PREPARE), left), "train").kind == "resume"
    moved = step(plan([PREPARE, TRAIN], done(PREPARE, 2), left), "train")
    assert (moved.kind, moved.number, moved.needs) == ("create", 2, (on(PREPARE, 2),))
    assert moved.leftovers == (Guard.of(left),)


# Skipped attempts


def test_a_skipped_attempt_is_judged_as_the_one_before_it() -> None:
    skipped = done(TRAIN, 2, on(PREPARE, 2), state="skipped")
    failed = done(CHANGED, 2, state="failed")
    made = plan([CHANGED, TRAIN], *HISTORY[:2], failed, skipped)
    assert told(made)["train"] == "keep: attempt 1 succeeded"
    other = job("train", "-v", needs=need("prepare"))
    assert step(plan([PREPARE, other], *HISTORY[:2], skipped), "train").number == 3


def test_a_job_that_was_only_ever_skipped_is_created() -> None:
    skipped = done(TRAIN, 1, on(PREPARE), state="skipped")
    assert told(plan([PREPARE, TRAIN], done(PREPARE, 2), skipped))["train"] == "create: attempt 1 was skipped"
    held = plan([PREPARE, TRAIN], done(PREPARE, state="failed"), skipped)
    assert told(held)["train"] == "hold: needs_failed (prepare: failed); attempt 1 was skipped"


def test_what_was_skipped_follows_when_its_need_runs_again() -> None:
    history = (done(PREPARE), done(PREPARE, 2, edition=1, state="failed"))
    skipped = done(TRAIN, 2, on(PREPARE, 2, 1), state="skipped")
    made = plan(
        [PREPARE, TRAIN], *history, done(TRAIN, 1, on(PREPARE), state="failed"), skipped, rerun=["prepare"]
    )
    assert told(made)["train"] == "rerun: needs_changed (prepare will run); attempt 1 failed"
    assert step(made, "train").number == 3


def test_a_failed_job_runs_again_when_its_need_has_changed() -> None:
    made = plan([CHANGED, TRAIN], done(PREPARE), done(TRAIN, 1, on(PREPARE), state="failed"))
    assert told(made)["train"] == "rerun: needs_changed (prepare will run); attempt 1 failed"


# As text


def test_a_plan_of_all_prints_what_it_waits_for() -> None:
    assert lines(plan([PREPARE, TRAIN]))[1:3] == [
        "+   default/train: no attempt of this job is on record",
        "      after prepare",
    ]


def test_a_snapshot_leaves_out_what_never_ran() -> None:
    seen = world(
        done(TRAIN), done(TRAIN, 2, state="failed"), waiting(TRAIN, 3), done(TRAIN, 4, state="skipped")
    )
    numbers = [found[TRAIN.key].number for found in (seen.latest, seen.ran, seen.succeeded)]
    assert numbers == [4, 2, 1]
    assert [each.number for each in seen.live] == [3]


# Selections


def chosen(*words: str) -> list[str]:
    return sorted(launch.key.job for launch in select([*CHAIN, job("other")], words)[0])


def test_jobs_are_selected_by_name_and_with_what_they_need_or_what_needs_them() -> None:
    assert chosen() == ["evaluate", "other", "prepare", "train"]
    assert chosen("train") == ["train"]
    assert chosen("train+") == ["evaluate", "train"]
    assert chosen("+train") == ["prepare", "train"]
    assert chosen("+train+", "other") == ["evaluate", "other", "prepare", "train"]
    assert chosen("default/train") == ["train"]


def test_a_matrix_is_selected_by_its_name() -> None:
    cells = [replace(job(f"train-{n}", needs=need("prepare")), matrix="train") for n in "ab"]
    found, others = select([PREPARE, *cells], ["train"])
    assert (found, others) == (cells, [PREPARE])
    assert select([PREPARE, *cells], ["default/train"]) == (cells, [PREPARE])
    assert select([PREPARE, *cells], ["+train"])[1] == []


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="--select trian: no such job") as caught:
        select(CHAIN, ["+trian"])
    assert caught.value.hint == "did you mean train?"
