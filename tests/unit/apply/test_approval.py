"""Which plans may be carried out: problems, protection, and approval of stops of live attempts."""

import pytest

from launcher.apply.approval import check_approved
from launcher.errors import BlockedError, LauncherError
from tests.unit.plan.world import attempt, job, plan

OLD = job("train", "--lr", "3")
CHANGED = ("--lr", "5")


@pytest.mark.parametrize("allow_destructive", [False, True])
@pytest.mark.parametrize(("desired", "state", "when_refused"), [
    (OLD, None, None), (OLD, "running", None), (OLD, "failed", None),
    (job("train", *CHANGED), "succeeded", None), (job("train", *CHANGED), "running", "destructive"),
    (job("train", *CHANGED, on_change="replace"), "running", None),
    (job("train", *CHANGED, on_change="hold"), "running", None),
    (job("train", *CHANGED, protect=True), "running", "protected"),
    (job("train", *CHANGED, protect=True, on_change="replace"), "running", "protected"),
    (job("train", *CHANGED, protect=True), "succeeded", None),
    (job("train", enabled=False), "running", "destructive"),
    (job("train", enabled=False), "succeeded", None),
    (job("train", origin="elsewhere"), "running", "problem"),
])  # fmt: skip
def test_a_plan_with_a_problem_or_an_unapproved_stop_is_refused(
    desired, state, when_refused, allow_destructive
):
    made = plan(desired, *([attempt(OLD, state)] if state else []))
    if when_refused is None or (when_refused == "destructive" and allow_destructive):
        check_approved(made, allow_destructive=allow_destructive)
        return
    with pytest.raises(LauncherError) as caught:
        check_approved(made, allow_destructive=allow_destructive)
    output, hint = str(caught.value), str(caught.value.hint)
    if when_refused == "problem":
        assert caught.value.exit_code == 1
        assert (output.startswith("train: `train`"), "--take-over" in hint) == (True, True)
        return
    assert isinstance(caught.value, BlockedError)
    wanted = {
        "destructive": ("the plan stops running attempts: default/train", "--allow-destructive"),
        "protected": (
            "running attempts of protected jobs would have to be stopped: default/train",
            "`protect: false`",
        ),
    }
    assert output == wanted[when_refused][0]
    assert wanted[when_refused][1] in hint


def test_the_refusal_names_every_job_whose_attempt_would_be_stopped() -> None:
    names = ("b", "a")
    jobs = [job(name, *CHANGED, protect=True) for name in names]
    made = plan(jobs, *(attempt(job(name), "running") for name in names))
    with pytest.raises(BlockedError, match="to be stopped: default/a, default/b"):
        check_approved(made, allow_destructive=True)


def test_problems_are_reported_before_a_missing_approval_and_each_hint_once() -> None:
    jobs = [job("a", origin="elsewhere"), job("b", origin="elsewhere"), job("c", protect=True)]
    live = [attempt(job(name, "-x"), "running") for name in ("a", "b", "c")]
    with pytest.raises(LauncherError) as caught:
        check_approved(plan(jobs, *live), allow_destructive=False)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["a", "b"]


def test_the_problems_of_many_jobs_are_shown_for_the_first_ten_and_counted() -> None:
    jobs = [job(f"s-{number:02}", origin="elsewhere") for number in range(30)]
    with pytest.raises(LauncherError) as caught:
        check_approved(
            plan(jobs, *(attempt(job(each.key.job), "succeeded") for each in jobs)), allow_destructive=False
        )
    *shown, last = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in shown] == [f"s-{number:02}" for number in range(10)]
    assert last == "… and 20 more"


@pytest.mark.parametrize(("desired", "hint"), [
    (job("train", *CHANGED),
        "pass --allow-destructive, or set `on_change: replace` in the lifecycle of the job"),
    (job("train", enabled=False), "pass --allow-destructive"),
])  # fmt: skip
def test_the_hint_names_a_job_file_only_where_that_file_can_approve_the_stop(desired, hint):
    with pytest.raises(BlockedError) as raised:
        check_approved(plan(desired, attempt(OLD, "running")), allow_destructive=False)
    assert raised.value.hint == hint
