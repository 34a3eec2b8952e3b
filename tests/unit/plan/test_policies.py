"""What `lifecycle:` and the flags of the command line change about the action table."""

from typing import Any

import pytest

from launcher.errors import UsageError
from launcher.plan.reconcile import reconcile
from tests.unit.plan.world import attempt, job, lines, plan, world

BAD_ENDS = [("failed", "on_failed"), ("cancelled", "on_cancelled"), ("lost", "on_lost")]


def train(*args: str, **policies: Any):
    return job("train", *(args or ("--lr", "5")), **policies)


OLD = train("--lr", "3")


@pytest.mark.parametrize(("state", "policy"), BAD_ENDS)
def test_a_policy_reruns_a_job_that_did_not_succeed(state: str, policy: str) -> None:
    made = plan(train(**{policy: "rerun"}), attempt(train(), state, 2))
    verb = {"failed": "failed", "cancelled": "was cancelled", "lost": "was lost"}[state]
    assert lines(made) == [
        f'r   default/train: attempt 2 {verb}; lifecycle.{policy} = "rerun"',
        "Plan: 1 to re-run",
    ]
    assert made.steps[0].number == 3


@pytest.mark.parametrize(("seen", "kind"), [(1, "rerun"), (2, "rerun"), (3, "hold"), (4, "hold")])
def test_max_attempts_bounds_the_automatic_reruns_of_a_document(seen: int, kind: str) -> None:
    launch = train(on_failed="rerun", max_attempts=3)
    last = attempt(launch, "failed", 9)
    made = reconcile([launch], world(last, counts={(launch.key, last.digest): seen}))
    assert made.steps[0].kind == kind


def test_a_job_that_used_up_its_attempts_says_so() -> None:
    launch = train(on_failed="rerun", max_attempts=3)
    last = attempt(launch, "failed", 9)
    made = reconcile([launch], world(last, counts={(launch.key, last.digest): 3}))
    assert lines(made)[0] == (
        "!   default/train: attempt 9 failed; lifecycle.max_attempts = 3 and this document had 3 already"
    )


@pytest.mark.parametrize("state", ["running", "succeeded", "failed"])
def test_on_change_hold_holds_a_changed_document(state: str) -> None:
    made = plan(train(on_change="hold"), attempt(OLD, state))
    assert lines(made) == [
        '!   default/train: roles.trainer.args[1] "3" → "5"; lifecycle.on_change = "hold"',
        "Plan: no changes, 1 held",
    ]
    assert made.steps[0].blocked == "on_change_hold"
    assert made.steps[0].stops == ()


def test_on_change_hold_yields_to_an_explicit_rerun() -> None:
    made = plan(train(on_change="hold"), attempt(OLD, "running"), rerun=["train"])
    assert made.steps[0].kind == "replace"
    assert not made.steps[0].consented


def test_on_change_replace_is_consent_to_replacing() -> None:
    assert plan(train(on_change="replace"), attempt(OLD, "running")).steps[0].consented
    assert not plan(train(), attempt(OLD, "running")).steps[0].consented
    assert not plan(train(on_change="replace"), attempt(OLD, "succeeded")).steps[0].consented
    assert not plan(train(on_change="replace", enabled=False), attempt(OLD, "running")).steps[0].consented


def test_a_protected_attempt_is_never_stopped_by_a_change() -> None:
    made = plan(train(protect=True), attempt(OLD, "running"))
    app_id = made.steps[0].guard.app_id
    assert lines(made) == [
        f"!   default/train: lifecycle.protect = true and {app_id} would have to be stopped; "
        'roles.trainer.args[1] "3" → "5"',
        "Plan: no changes, 1 held",
    ]
    assert made.steps[0].blocked == "protected"


@pytest.mark.parametrize(
    ("launch", "choices"),
    [
        (train(protect=True, enabled=False), {}),
        (train(protect=True), {"rerun": ["train"]}),
        (train(protect=True, on_change="replace"), {"rerun": ["train"]}),
    ],
)
def test_a_protected_attempt_is_never_stopped_for_other_reasons(launch: Any, choices: Any) -> None:
    made = plan(launch, attempt(launch, "running"), **choices)
    assert (made.steps[0].kind, made.steps[0].blocked) == ("hold", "protected")
    assert made.is_empty


def test_a_protected_attempt_is_not_stopped_by_an_interrupted_replace_that_goes_on() -> None:
    launch = train(protect=True)
    made = plan(launch, attempt(OLD, "running", 1), attempt(launch, "created", 2))
    assert made.steps[0].blocked == "protected"


@pytest.mark.parametrize(
    "policies",
    [
        {"on_change": "hold"},
        {"on_failed": "rerun"},
        {"protect": True},
        {"max_attempts": 1},
        {"on_lost": "rerun"},
    ],
)
@pytest.mark.parametrize("state", ["running", "succeeded", "cancelled"])
def test_editing_a_policy_never_reruns_anything(state: str, policies: dict[str, Any]) -> None:
    assert plan(train(**policies), attempt(train(), state)).is_empty
    assert plan(train(), attempt(train(**policies), state)).is_empty


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "lost"])
@pytest.mark.parametrize("name", ["train", "default/train"])
def test_rerun_runs_an_ended_job_again(state: str, name: str) -> None:
    made = plan(train(), attempt(train(), state, 2), rerun=[name])
    assert (made.steps[0].kind, made.steps[0].number) == ("rerun", 3)
    assert lines(made)[0].endswith("asked for with --rerun")


def test_rerun_of_a_running_job_stops_its_attempt_and_needs_approval() -> None:
    made = plan(train(), attempt(train(), "running"), rerun=["train"])
    assert lines(made) == [
        "-/+ default/train: asked for with --rerun",
        f"      stops {made.steps[0].guard.app_id} (running)",
        "Plan: 1 to replace",
    ]
    assert made.steps[0].destructive
    assert not made.steps[0].consented


def test_rerun_of_an_unknown_job_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="--rerun trian: no such job") as caught:
        plan([train(), job("eval")], rerun=["trian"])
    assert caught.value.hint == "did you mean train?"


def test_rerun_of_a_name_that_two_projects_have_is_refused_with_both_jobs() -> None:
    with pytest.raises(UsageError, match="several jobs") as caught:
        plan([train(), job("train", project="vision")], rerun=["train"])
    assert caught.value.hint == "say which one: default/train, vision/train"


def test_rerun_of_a_disabled_job_is_refused() -> None:
    with pytest.raises(UsageError, match="disabled"):
        plan(train(enabled=False), rerun=["train"])


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("failed", "rerun"),
        ("lost", "rerun"),
        ("cancelled", "hold"),
        ("succeeded", "keep"),
        ("running", "keep"),
    ],
)
def test_retry_failed_reruns_jobs_that_failed_or_were_lost(state: str, kind: str) -> None:
    assert plan(train(), attempt(train(), state), retry_failed=True).steps[0].kind == kind


def test_a_job_of_another_repository_is_a_problem() -> None:
    made = plan(
        train(), attempt(train(), "running", origin="github.com/acme/audio", path="a/train.launcher.yaml")
    )
    assert lines(made) == [
        "error: default/train: `train` in project `default` was last applied from github.com/acme/audio "
        "(a/train.launcher.yaml) (hint: set `project:` in jobs/train.launcher.yaml, or pass --take-over "
        "to make the job this repository's)",
        "Plan: 1 cannot be planned",
    ]
    assert made.steps == ()


def test_two_launches_with_one_key_are_a_problem_that_names_both_files() -> None:
    made = plan([train(), job("train", file="b/t.launcher.yaml")])
    assert "declared by jobs/train.launcher.yaml and by b/t.launcher.yaml" in str(made)
    assert made.steps == ()


def test_problems_come_in_the_order_of_their_jobs() -> None:
    jobs = [job(name) for name in ("c", "a", "b")]
    made = plan(jobs, *(attempt(each, "failed", origin="elsewhere") for each in jobs))
    assert [problem.key.job for problem in made.problems] == ["a", "b", "c"]
