"""Jobs with needs: the order of steps, what a job stands on, and when it runs again or is held."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.apply.observe import merge
from launcher.errors import UsageError
from launcher.plan.grounds import Grounds
from launcher.plan.model import Plan
from launcher.plan.reconcile import reconcile, select
from launcher.plan.step import Guard, Step
from launcher.specs.attempt import Attempt, StoodOn
from launcher.specs.inputs import combine
from launcher.specs.launch import Launch, Need, Trigger, attempt_id
from tests.unit.plan.world import attempt, job, lines, plan, world

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


def shown(made: Plan) -> dict[str, str]:
    return {each.key.job: f"{each.kind}: {each.why()}" for each in made.steps}


HISTORY = (done(PREPARE), done(TRAIN, 1, on(PREPARE)), done(EVAL, 1, on(TRAIN)))
"""Everything has succeeded."""


def test_a_repeat_of_an_unchanged_need_reruns_no_dependent() -> None:
    made = plan(CHAIN, *HISTORY, rerun=["prepare"])
    assert [(each.key.job, each.kind) for each in made.steps if each.has_effects] == [("prepare", "rerun")]
    assert (step(made, "prepare").number, step(made, "prepare").edition) == (2, 1)
    every = job("prepare", rerun_on=(Trigger("every_apply"),))
    assert shown(plan([EVAL, every, TRAIN], *HISTORY))["train"] == "keep: attempt 1 succeeded"


def test_a_retry_repeats_the_edition_that_failed() -> None:
    failed = done(CHANGED, 2, state="failed")
    made = plan([EVAL, CHANGED, TRAIN], *HISTORY, failed, retry_failed=True)
    assert (step(made, "prepare").number, step(made, "prepare").edition) == (3, 2)
    assert shown(made)["train"] == "rerun: needs_changed (prepare will run)"


def test_a_requested_run_after_a_change_is_a_new_edition() -> None:
    made = plan(
        [PREPARE, TRAIN], done(PREPARE), done(PREPARE, 2), done(TRAIN, 1, on(PREPARE)), rerun=["train"]
    )
    assert step(made, "train").edition == 2


def test_rerun_with_a_plus_runs_the_dependents_too() -> None:
    made = plan(CHAIN, *HISTORY, rerun=["prepare+"])
    assert [each.kind for each in made.steps] == ["rerun"] * 3
    assert [each.edition for each in made.steps] == [1] * 3


def test_a_need_with_rerun_never_orders_jobs_and_causes_no_rerun() -> None:
    train = job("train", needs=need("prepare", rerun=False))
    assert plan([PREPARE, train], *HISTORY[:2], done(PREPARE, 2)).is_empty
    running = replace(HISTORY[1], state="running")
    assert plan([PREPARE, train], done(PREPARE), done(PREPARE, 2), running).is_empty
    made = plan([CHANGED, job("train", "-v", needs=need("prepare", rerun=False))], *HISTORY[:2])
    assert step(made, "train").after == ("prepare",)


def test_removing_rerun_never_lets_through_only_the_change_that_it_held_back() -> None:
    never = done(TRAIN, 1, on(PREPARE), order_only=("prepare",))
    assert plan([PREPARE, TRAIN], done(PREPARE), never).is_empty
    made = plan([PREPARE, TRAIN], done(PREPARE), done(PREPARE, 2), never)
    assert shown(made)["train"] == "rerun: needs_changed (prepare has run since: attempt 2)"


# The set of needs

CELLS = [job(f"a-{n}") for n in (0, 1, 2, 10)]
RAN = [done(cell) for cell in CELLS]
SUM = job("sum")


def needing(*cells: Launch, rerun: bool = True, **policies: Any) -> Launch:
    return job("sum", needs=need(*(cell.key.job for cell in cells), rerun=rerun), **policies)


def summed(*cells: Launch, number: int = 1, **fields: Any) -> Attempt:
    return done(SUM, number, *(on(cell) for cell in cells), **fields)


@pytest.mark.parametrize(
    ("before", "now", "output"),
    [
        ([0, 1], [0, 1, 2], "needs_changed (now also needs a-2)"),
        ([0, 1], [0, 1, 2, 3], "needs_changed (now also needs a-2, a-10)"),
        ([0, 1], [1], "needs_changed (no longer needs a-0)"),
        (
            [0, 1],
            [2, 3],
            "needs_changed (now also needs a-2, a-10); needs_changed (no longer needs a-0, a-1)",
        ),
        ([], [0], "needs_changed (now also needs a-0)"),
        ([0], [], "needs_changed (no longer needs a-0)"),
    ],
)
@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "lost"])
def test_a_job_runs_again_when_its_set_of_needs_has_changed(before, now, output, state):
    desired = needing(*(CELLS[n] for n in now))
    made = step(plan([*CELLS, desired], *RAN, summed(*(CELLS[n] for n in before), state=state)), "sum")
    assert (made.kind, made.edition) == ("rerun", 2)
    assert made.why().startswith(output)
    assert made.needs == tuple(sorted(on(CELLS[n]) for n in now))


def test_a_change_of_the_set_and_of_an_edition_are_both_reported() -> None:
    made = plan([*CELLS[:2], needing(*CELLS[:2])], *RAN[:2], done(CELLS[0], 2), summed(CELLS[0]))
    assert step(made, "sum").why() == (
        "needs_changed (now also needs a-1); needs_changed (a-0 has run since: attempt 2)"
    )


def test_reasons_name_a_few_changed_needs_and_count_the_others() -> None:
    for count, more in ((8, ""), (9, " and 1 more"), (20, " and 12 more")):
        many = [job(f"b-{n}") for n in range(count)]
        made = plan([*many, needing(*many)], *map(done, many), summed())
        assert step(made, "sum").why() == (
            f"needs_changed (now also needs b-0, b-1, b-2, b-3, b-4, b-5, b-6, b-7{more})"
        )


def test_a_need_that_was_added_and_has_no_success_holds_the_job() -> None:
    for failed in ([done(CELLS[1], state="failed")], []):
        off = replace(CELLS[1], enabled=bool(failed))
        made = plan([CELLS[0], off, needing(*CELLS[:2])], RAN[0], *failed, summed(CELLS[0]))
        held = step(made, "sum")
        assert held.kind == "hold"
        assert held.why().startswith("needs_failed (a-1: ")
        assert held.why().endswith("needs_changed (now also needs a-1)")


def test_a_need_on_record_that_has_no_success_here_runs_nothing_again() -> None:
    off = replace(CELLS[0], enabled=False)
    for history in ([], [done(CELLS[0], state="failed")]):
        assert (
            shown(plan([off, needing(off)], *history, summed(CELLS[0])))["sum"] == "keep: attempt 1 succeeded"
        )


def test_a_need_with_rerun_never_is_added_and_removed_without_a_run() -> None:
    assert plan([*CELLS[:2], needing(CELLS[0], rerun=False)], *RAN[:2], summed()).is_empty
    assert plan([CELLS[0], SUM], RAN[0], summed(CELLS[0], order_only=("a-0",))).is_empty
    other = summed(*CELLS[:2], order_only=("a-0",))
    assert step(plan([*CELLS, SUM], *RAN, other), "sum").why() == "needs_changed (no longer needs a-1)"


def test_a_running_job_is_judged_by_its_set_of_needs_when_it_has_ended() -> None:
    for cells, words in ((CELLS[:2], "now also needs a-1"), ([], "no longer needs a-0")):
        made = plan([*CELLS, needing(*cells)], *RAN, summed(CELLS[0], state="running"))
        assert shown(made)["sum"] == "keep: attempt 1 is running"
        assert step(made, "sum").notes == (f"out of date once it has ended: it {words}",)
        ended = plan([*CELLS, needing(*cells)], *RAN, summed(CELLS[0]))
        assert shown(ended)["sum"] == f"rerun: needs_changed ({words})"


@pytest.mark.parametrize("state", ["waiting", "queued"])
@pytest.mark.parametrize("rerun", [True, False])
@pytest.mark.parametrize("cells", [CELLS[:2], []])
def test_an_attempt_that_waits_is_made_anew_when_its_set_of_needs_has_changed(state, rerun, cells):
    """The attempt is bound to exact attempts and has not run. Its order counts, whatever `rerun` says."""
    live = summed(CELLS[0], state=state, owner=HOLDER, order_only=() if rerun else ("a-0",))
    made = step(plan([*CELLS, needing(*cells, rerun=rerun)], *RAN, live), "sum")
    assert (made.kind, made.number, made.withdraws) == ("rerun", 2, (Guard.of(live),))
    assert made.needs == tuple(on(cell) for cell in cells)
    assert plan([*CELLS, needing(CELLS[0], rerun=not rerun)], *RAN, live).is_empty


@pytest.mark.parametrize("fields", [{"state": "reserved"}, {"state": "waiting", "owner": ""}])
def test_an_interrupted_submission_is_resumed_only_with_the_same_set_of_needs(fields: dict[str, Any]) -> None:
    left = summed(CELLS[0], **fields)
    assert step(plan([*CELLS, needing(CELLS[0])], *RAN, left), "sum").kind == "resume"
    for cells in (CELLS[:2], []):
        made = step(plan([*CELLS, needing(*cells)], *RAN, left), "sum")
        assert made.kind in ("create", "rerun")
        assert made.needs == tuple(on(cell) for cell in cells)


def test_after_a_skipped_attempt_the_set_of_needs_of_the_previous_attempt_is_compared() -> None:
    skipped = summed(*CELLS[:2], number=2, state="skipped")
    assert plan([*CELLS, needing(CELLS[0])], *RAN, summed(CELLS[0]), skipped).is_empty
    made = plan([*CELLS, needing(*CELLS[:2])], *RAN, summed(CELLS[0]), skipped)
    assert shown(made)["sum"] == "rerun: needs_changed (now also needs a-1)"


def test_a_withdrawn_job_does_not_start_again_by_itself() -> None:
    """The needs of the job are the attempts that it was bound to, or earlier attempts."""
    withdrawn = done(TRAIN, 2, on(PREPARE, 2), state="skipped", message="withdrawn")
    history = (done(PREPARE), done(PREPARE, 2, edition=1), done(TRAIN, 1, on(PREPARE)))
    assert plan([PREPARE, TRAIN], *history, withdrawn).is_empty
    assert step(plan([PREPARE, TRAIN], *history, done(PREPARE, 3, edition=1), withdrawn), "train").starts
    gone = replace(withdrawn, needs=(*withdrawn.needs, on(job("gone"), 7)))
    assert plan([PREPARE, TRAIN], *history, gone).is_empty


def test_a_running_dependent_of_a_need_that_runs_again_for_two_reasons_is_replaced() -> None:
    """The reason `every_apply` alone would not replace the running dependent."""
    files = (Trigger("every_apply"), Trigger("files", ("*.csv",)))
    old, new = (job("prepare", rerun_on=files, trigger_digest=combine({"*.csv": n})) for n in "12")
    running = done(TRAIN, 1, on(PREPARE), state="running")
    made = plan([new, TRAIN], done(old), running)
    assert [reason.new for reason in step(made, "prepare").reasons] == ["every_apply", None]
    assert step(made, "train").kind == "replace"
    [ground] = Grounds(world(), {new.key: step(made, "prepare")}).of(TRAIN)
    assert not ground.is_routine


# Names that are not known

UNKNOWN = {"a": "a.launcher.yaml declares `a`, and the names of its jobs are not known here"}


def test_sets_of_needs_with_an_unresolved_name_are_not_compared() -> None:
    desired = replace(job("sum", needs=need("a", "prepare")), unresolved=UNKNOWN)
    last = done(SUM, 1, on(CELLS[0]), on(PREPARE))
    for history in ([last, done(job("a"))], [last]):
        made = step(plan([desired, PREPARE], done(PREPARE), *history), "sum")
        assert (made.kind, made.why()) == ("keep", "attempt 1 succeeded")
        assert made.notes == (f"its needs are not compared with those on record: {UNKNOWN['a']}",)
    held = step(plan([desired, PREPARE], done(PREPARE), done(PREPARE, 2), last), "sum")
    assert held.kind == "hold"
    assert held.why() == (
        "needs_failed (a: its jobs are not known here); needs_changed (prepare has run since: attempt 2)"
    )


def test_an_interrupted_submission_with_an_unresolved_name_is_resumed() -> None:
    desired = replace(job("sum", needs=need("a", "prepare")), unresolved=UNKNOWN)
    left = done(SUM, 1, on(CELLS[0]), on(PREPARE), state="reserved")
    resumed = step(plan([desired, PREPARE], done(PREPARE), left), "sum")
    assert (resumed.kind, resumed.needs) == ("resume", left.needs)
    assert step(plan([desired, PREPARE], done(PREPARE), done(PREPARE, 2), left), "sum").kind == "hold"


# Other state folders

SHARED = {"home": "mine", "shared": ["local_docker"]}


def between(desired: list[Launch], *attempts: Attempt) -> Plan:
    """Return the plan of a state folder that shares the engine of local_docker with others."""
    return reconcile(
        desired, merge(ledger=attempts, engines=attempts, fingerprints={"local_cwd": "l"}, **SHARED)
    )


def test_the_editions_of_another_state_folder_are_not_compared() -> None:
    train = job("train", needs=need("prepare"), scheduler="local_docker")
    for home, kind in (("theirs", "keep"), ("mine", "rerun"), ("", "rerun")):
        ran = done(train, 1, on(PREPARE, 9, 7), home=home)
        assert step(between([PREPARE, train], done(PREPARE, 3), ran), "train").kind == kind
        waits = replace(ran, state="waiting", owner=HOLDER)
        assert step(between([PREPARE, train], done(PREPARE, 3), waits), "train").kind == kind
        assert step(between([PREPARE, train], waits), "train").kind == kind  # prepare starts with this plan
        skipped = done(train, 2, on(PREPARE, 1, 7), state="skipped", home=home)
        same = done(PREPARE, 8, edition=7)
        again = between([PREPARE, train], same, replace(ran, needs=(on(PREPARE, 7, 7),)), skipped)
        assert step(again, "train").kind == kind


def test_an_edition_on_a_shared_engine_is_compared_for_any_client() -> None:
    prepare = job("prepare", scheduler="local_docker")
    train = job("train", needs=need("prepare"), scheduler="local_docker")
    ran = done(train, 1, on(prepare), home="theirs")
    assert step(between([prepare, train], done(prepare, 2), ran), "train").kind == "rerun"


def test_an_attempt_of_this_machine_is_of_this_state_folder_whatever_its_token() -> None:
    """The token may have been removed; no other folder could have made it."""
    ran = done(TRAIN, 1, on(PREPARE), home="former")
    assert step(between([PREPARE, TRAIN], done(PREPARE, 2), ran), "train").kind == "rerun"


def test_a_need_whose_change_is_held_back_holds_its_dependents() -> None:
    held = job("prepare", "-v", on_change="hold")
    assert shown(plan([held, TRAIN], done(PREPARE)))["train"].startswith("hold: needs_failed (prepare: held)")


# Needs that are disabled, or outside of the plan


@pytest.mark.parametrize("files", [[TRAIN], [TRAIN, job("prepare", "-v", enabled=False)]])
def test_a_need_that_is_not_planned_is_judged_by_its_latest_attempt(files: list[Launch]) -> None:
    made = plan(files, done(PREPARE, 2))
    assert (step(made, "train").kind, step(made, "train").needs) == ("create", (on(PREPARE, 2),))
    made = plan(files, done(PREPARE), done(PREPARE, 2, state="failed"))
    assert shown(made)["train"].startswith("hold: needs_failed (prepare: failed)")
    assert "its latest attempt decides" in step(made, "train").notes[0]


@pytest.mark.parametrize("left", [{"state": "created"}, {"state": "waiting"}, {"state": "skipped"}])
def test_a_need_whose_latest_attempt_never_ran_is_judged_by_the_attempt_before(left: dict[str, Any]) -> None:
    for state, after in (("succeeded", ()), ("running", ("prepare",))):
        made = step(plan(TRAIN, done(PREPARE, state=state), done(PREPARE, 2, **left)), "train")
        assert (made.kind, made.needs, made.after) == ("create", (on(PREPARE),), after)


def test_a_need_that_is_disabled_and_stopped_holds_its_dependents() -> None:
    made = plan([TRAIN, job("prepare", enabled=False)], done(PREPARE, state="running"))
    assert shown(made)["train"].startswith("hold: needs_failed (prepare: disabled)")


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


def test_a_circle_is_a_problem_of_the_job_that_its_message_names_first() -> None:
    around = [job("a", needs=need("b")), job("b", needs=need("c")), job("c", needs=need("a"))]
    [problem] = plan(around).problems
    assert (problem.code, problem.hint) == ("needs_cycle", "remove one of these `needs`")
    first, *_, last = problem.message.removeprefix("jobs need each other: ").split(" → ")
    assert (problem.key.job, last) == (first, first)


def test_a_dependent_that_is_not_selected_is_left_with_a_note() -> None:
    made = plan([CHANGED], *HISTORY, others=[TRAIN, EVAL])
    assert step(made, "prepare").notes == ("train needs it, and stays as it is: not selected",)


# Live dependents


def test_a_running_dependent_of_a_need_that_will_run_is_replaced() -> None:
    running = done(TRAIN, 1, on(PREPARE), state="running")
    made = plan([CHANGED, TRAIN], done(PREPARE), running)
    assert shown(made)["train"] == "replace: needs_changed (prepare will run)"
    assert step(made, "train").destructive
    assert not step(made, "train").consented
    asked = plan([PREPARE, TRAIN], done(PREPARE), running, rerun=["prepare"])
    assert (step(asked, "train").kind, step(asked, "train").edition) == ("replace", 1)


EVERY = Trigger("every_apply")


def test_a_running_dependent_of_a_need_that_every_apply_repeats_is_kept() -> None:
    """The edition of the need stays the same, so the dependent would find nothing new."""
    every = job("prepare", rerun_on=(EVERY,))
    running = done(TRAIN, 1, on(PREPARE), state="running")
    made = plan([every, TRAIN], done(PREPARE), running)
    assert shown(made)["train"] == "keep: attempt 1 is running"
    assert (step(made, "prepare").kind, step(made, "prepare").edition) == ("rerun", 1)
    assert not step(made, "train").stops
    later = plan([every, TRAIN], done(PREPARE), done(PREPARE, 2, edition=1), running)
    assert shown(later)["train"] == "keep: attempt 1 is running"


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
def test_a_running_dependent_of_a_need_with_a_further_reason_to_run_again_is_replaced(need_now, asked):
    before = done(PREPARE, trigger_digest=combine({"*": "1"}))
    running = done(TRAIN, 1, on(PREPARE), state="running")
    assert step(plan([need_now, TRAIN], before, running, rerun=asked), "train").kind == "replace"


def test_an_attempt_that_waits_for_a_need_that_every_apply_repeats_is_made_anew() -> None:
    """The attempt is bound to an attempt that is no longer the latest, and has not run."""
    train = job("train", needs=need("fetch", "prepare"))
    every, fetch = job("prepare", rerun_on=(EVERY,)), job("fetch")
    live = (done(fetch, state="running"), waiting(train, 1, on(fetch), on(PREPARE)))
    made = step(plan([every, fetch, train], done(PREPARE), *live), "train")
    assert (made.kind, made.after, len(made.withdraws)) == ("rerun", ("fetch", "prepare"), 1)


def test_a_waiting_attempt_of_the_same_document_is_kept() -> None:
    made = plan([PREPARE, TRAIN], done(PREPARE, state="running"), waiting(TRAIN, 1, on(PREPARE)))
    assert shown(made)["train"] == "keep: attempt 1 waits for prepare"
    assert made.is_empty
    assert step(made, "train").waits_for == ""


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


def test_an_interrupted_submission_goes_on_only_with_the_attempts_it_was_bound_to() -> None:
    left = done(TRAIN, 2, on(PREPARE), state="created")
    assert step(plan([PREPARE, TRAIN], done(PREPARE), left), "train").kind == "resume"
    moved = step(plan([PREPARE, TRAIN], done(PREPARE, 2), left), "train")
    assert (moved.kind, moved.number, moved.needs) == ("create", 2, (on(PREPARE, 2),))
    assert moved.leftovers == (Guard.of(left),)


# Skipped attempts


def test_a_job_with_a_skipped_attempt_is_judged_by_the_attempt_before() -> None:
    skipped = done(TRAIN, 2, on(PREPARE, 2), state="skipped")
    failed = done(CHANGED, 2, state="failed")
    made = plan([CHANGED, TRAIN], *HISTORY[:2], failed, skipped)
    assert shown(made)["train"] == "keep: attempt 1 succeeded"
    other = job("train", "-v", needs=need("prepare"))
    assert step(plan([PREPARE, other], *HISTORY[:2], skipped), "train").number == 3


def test_a_job_that_was_only_ever_skipped_is_created() -> None:
    skipped = done(TRAIN, 1, on(PREPARE), state="skipped")
    assert (
        shown(plan([PREPARE, TRAIN], done(PREPARE, 2), skipped))["train"] == "create: attempt 1 was skipped"
    )
    held = plan([PREPARE, TRAIN], done(PREPARE, state="failed"), skipped)
    assert shown(held)["train"] == "hold: needs_failed (prepare: failed); attempt 1 was skipped"


def test_a_skipped_job_runs_when_its_need_runs_again() -> None:
    history = (done(PREPARE), done(PREPARE, 2, edition=1, state="failed"))
    skipped = done(TRAIN, 2, on(PREPARE, 2, 1), state="skipped")
    made = plan(
        [PREPARE, TRAIN], *history, done(TRAIN, 1, on(PREPARE), state="failed"), skipped, rerun=["prepare"]
    )
    assert shown(made)["train"] == "rerun: needs_changed (prepare will run); attempt 1 failed"
    assert step(made, "train").number == 3


# As text


def test_a_plan_prints_the_needs_that_each_job_starts_after() -> None:
    assert lines(plan([PREPARE, TRAIN]))[1:3] == [
        "+   default/train: no attempt of this job is on record",
        "      after prepare",
    ]


def test_a_snapshot_leaves_out_attempts_that_never_ran() -> None:
    seen = world(
        done(TRAIN), done(TRAIN, 2, state="failed"), waiting(TRAIN, 3), done(TRAIN, 4, state="skipped")
    )
    numbers = [found[TRAIN.key].number for found in (seen.latest, seen.ran, seen.succeeded)]
    assert numbers == [4, 2, 1]
    assert [each.number for each in seen.live] == [3]


# Selections


def chosen(*words: str) -> list[str]:
    return sorted(launch.key.job for launch in select([*CHAIN, job("other")], words)[0])


def test_jobs_are_selected_by_name_with_their_needs_or_their_dependents() -> None:
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


GRID = [replace(job(f"grid-{n}"), matrix="grid") for n in (1, 2)]
AFTER_GRID = job("after", needs=need("grid-1", "grid-2"))


@pytest.mark.parametrize(
    ("word", "again"),
    [
        ("grid", {"grid-1", "grid-2"}),
        ("default/grid", {"grid-1", "grid-2"}),
        ("grid-2", {"grid-2"}),
        ("grid+", {"grid-1", "grid-2", "after"}),
    ],
)
def test_a_matrix_is_run_again_by_its_name(word: str, again: set[str]) -> None:
    history = [*map(done, GRID), done(AFTER_GRID, 1, *map(on, GRID))]
    made = plan([*GRID, AFTER_GRID], *history, rerun=[word])
    assert {each.key.job for each in made.steps if each.has_effects} == again


def test_the_jobs_of_a_matrix_that_are_disabled_stay_as_they_are() -> None:
    one_off = [GRID[0], replace(GRID[1], enabled=False)]
    made = plan(one_off, *map(done, GRID), rerun=["grid"])
    assert [each.kind for each in made.steps] == ["rerun", "keep"]
    with pytest.raises(UsageError, match="--rerun grid: its jobs are disabled"):
        plan([replace(cell, enabled=False) for cell in GRID], rerun=["grid"])


def test_a_name_of_matrices_of_two_projects_is_ambiguous() -> None:
    there = [replace(cell, key=cell.key._replace(project="other")) for cell in GRID]
    with pytest.raises(UsageError, match="--rerun grid: several jobs have this name") as caught:
        plan([*GRID, *there], rerun=["grid"])
    assert caught.value.hint == "say which one: default/grid, other/grid"
    made = plan([*GRID, *there], *map(done, [*GRID, *there]), rerun=["other/grid"])
    assert {str(each.key) for each in made.steps if each.starts} == {"other/grid-1", "other/grid-2"}


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="--select trian: no such job") as caught:
        select(CHAIN, ["+trian"])
    assert caught.value.hint == "did you mean train?"
    with pytest.raises(UsageError, match="--select other: no such job") as caught:
        select(CHAIN, ["other"])
    assert caught.value.hint == "the jobs here: evaluate, prepare, train"
    with pytest.raises(UsageError) as caught:
        select([*CHAIN, *GRID], ["girds"])
    assert caught.value.hint == "did you mean grid?"


def test_the_hint_on_an_unknown_name_names_a_matrix_once_and_few_jobs() -> None:
    with pytest.raises(UsageError) as caught:
        select([*CHAIN, *GRID], ["other"])
    assert caught.value.hint == "the jobs here: evaluate, grid, prepare, train"
    many = [replace(CHAIN[0], key=CHAIN[0].key._replace(job=f"job-{n}")) for n in range(1000)]
    with pytest.raises(UsageError) as caught:
        select(many, ["other"])
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("the jobs here: job-0, job-1, ")
    assert caught.value.hint.endswith(" … and 990 more")
