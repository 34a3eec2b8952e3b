"""The action table: what happens to a job, by the state of its latest attempt."""

import pytest

from tests.unit.plan.world import OWNER, attempt, job, lines, plan

NEW, OLD = job("train", "--lr", "5"), job("train", "--lr", "3")


def test_the_digest_is_shown_below_a_plan_with_effects() -> None:
    made = plan(NEW)
    assert str(made).endswith(f"Plan: 1 to create\nDigest: {made.plan_digest}\n")


@pytest.mark.parametrize("state", ["reserved", "created"])
def test_an_interrupted_submission_of_the_same_document_is_resumed(state: str) -> None:
    made = plan(NEW, attempt(NEW, state, 4))
    assert lines(made) == [
        ">   default/train: the submission of attempt 4 was interrupted",
        "Plan: 1 to resume",
    ]
    assert made.steps[0].number == 4
    assert made.steps[0].leftovers == ()


@pytest.mark.parametrize("state", ["reserved", "created"])
def test_an_interrupted_submission_of_another_document_gives_way_to_a_new_one(state: str) -> None:
    made = plan(NEW, attempt(OLD, state, 4))
    assert lines(made) == [
        "+   default/train: attempt 4, of another document, was never started",
        "Plan: 1 to create",
    ]
    assert made.steps[0].number == 4
    assert [left.app_id for left in made.steps[0].leftovers] == [made.steps[0].app_id]


def test_a_submission_in_progress_is_waited_for() -> None:
    made = plan(NEW, attempt(NEW, "created", owner=OWNER))
    assert lines(made) == [
        "=   default/train: attempt 1 is being submitted by pid 17 on node1",
        "Plan: no changes, 1 unchanged",
    ]
    assert made.steps[0].waits_for == OWNER


def test_a_submission_in_progress_of_another_document_is_waited_for_and_then_replaced() -> None:
    made = plan(NEW, attempt(OLD, "reserved", owner=OWNER))
    assert lines(made)[0] == (
        '-/+ default/train: attempt 1 is being submitted by pid 17 on node1; roles.trainer.args[1] "3" → "5"'
    )
    assert made.steps[0].waits_for == OWNER


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("failed", "attempt 2 failed: trainer/1 exited with 17"),
        ("cancelled", "attempt 2 was cancelled: trainer/1 exited with 17"),
        ("lost", "attempt 2 was lost: trainer/1 exited with 17"),
    ],
)
def test_a_job_that_did_not_succeed_is_held(state: str, verdict: str) -> None:
    made = plan(NEW, attempt(NEW, state, 2, message="trainer/1 exited\nwith 17"))
    assert lines(made) == [f"!   default/train: {verdict}", "Plan: no changes, 1 held"]


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("cancelled by ann@node1", "attempt 1 was cancelled by ann@node1"),
        ("cancelled", "attempt 1 was cancelled"),
        ("", "attempt 1 was cancelled"),
    ],
)
def test_the_cancellation_of_an_attempt_is_reported_once(message: str, verdict: str) -> None:
    made = plan(NEW, attempt(NEW, "cancelled", message=message))
    assert lines(made)[0] == f"!   default/train: {verdict}"


def test_a_failure_without_a_message_is_reported_with_its_exit_code() -> None:
    made = plan(NEW, attempt(NEW, "failed", exit_code=17))
    assert lines(made)[0] == "!   default/train: attempt 1 failed: exit code 17"


def test_a_disabled_job_that_has_ended_is_kept() -> None:
    for state in ("succeeded", "failed"):
        made = plan(job("train", enabled=False), attempt(NEW, state))
        assert made.is_empty
        assert str(made.steps[0]) == "=   default/train: enabled = false\n"


def test_a_disabled_job_that_is_live_is_destroyed() -> None:
    made = plan(job("train", enabled=False), attempt(NEW, "running"))
    assert lines(made) == [
        "-   default/train: enabled = false",
        f"      stops {made.steps[0].guard.app_id} (running)",
        "Plan: 1 to destroy",
    ]


def test_an_attempt_that_an_interrupted_replace_had_not_stopped_is_stopped_when_it_resumes() -> None:
    made = plan(NEW, attempt(OLD, "running", 1), attempt(NEW, "created", 2))
    assert lines(made) == [
        "-/+ default/train: the submission of attempt 2 was interrupted",
        f"      stops {made.steps[0].stops[0].app_id} (running)",
        "Plan: 1 to replace",
    ]
    assert made.steps[0].number == 2
    assert made.steps[0].stops[0].attempt == 1


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_a_submission_that_never_started_does_not_hide_the_run_before_it(state: str) -> None:
    """A was applied; an apply of B was killed early; A is wanted again: B has overwritten nothing."""
    made = plan(NEW, attempt(NEW, state, 1), attempt(OLD, "reserved", 2))
    assert made.steps[0].kind == "keep"
    assert [left.attempt for left in made.steps[0].leftovers] == [2]


def test_a_changed_job_takes_the_number_of_a_leftover_and_replaces_the_running_attempt() -> None:
    other = job("train", "--lr", "7")
    made = plan(NEW, attempt(OLD, "running", 1), attempt(other, "reserved", 2))
    assert (made.steps[0].kind, made.steps[0].number) == ("replace", 2)
    assert lines(made)[0] == '-/+ default/train: roles.trainer.args[1] "3" → "5"'


def test_an_older_attempt_beside_a_newer_one_is_stopped() -> None:
    made = plan(NEW, attempt(OLD, "running", 1), attempt(NEW, "running", 2))
    assert lines(made) == [
        "-   default/train: attempt 1 is live beside attempt 2",
        f"      stops {made.steps[0].guard.app_id} (running)",
        "Plan: 1 to destroy, 1 unchanged",
    ]


def test_several_changes_are_listed_below_the_line_and_kept_jobs_are_counted() -> None:
    new = job("train", "-v", "--lr", "5", env={"LR": "0.1"})
    kept = job("eval")
    made = plan([new, kept], attempt(OLD, "succeeded"), attempt(kept, "succeeded"))
    assert lines(made) == [
        "+   default/train: 3 changes",
        '      + roles.trainer.args[0] = "-v"',
        '      ~ roles.trainer.args[1]: "3" → "5"',
        '      + roles.trainer.env.LR = "0.1"',
        "Plan: 1 to create, 1 unchanged",
    ]


def test_notes_are_shown_below_the_step_that_they_belong_to() -> None:
    made = plan(NEW).with_notes({NEW.key: ["resource.gpu is not enforced"]})
    assert lines(made)[1] == "      note: resource.gpu is not enforced"


def test_jobs_are_listed_by_name_with_numbers_by_their_values() -> None:
    names = ["eval", "train-0p5", "train-2", "train-10", "train-fp32"]
    made = plan([job(name) for name in reversed(names)])
    assert [step.key.job for step in made.steps] == names
