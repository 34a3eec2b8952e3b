"""Effects in check runs, and the check run of an apply."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.apply.events import Outcome
from launcher.ci.approvals import ApprovalScope, Merged, approval_in, effect_checks, withheld, without
from launcher.ci.forge import MOST_CHARACTERS, CheckRun, Pull
from launcher.ci.record import applied_check, applied_in, applied_words
from launcher.errors import LauncherError
from launcher.plan.approved import judged
from launcher.plan.effects import Approval, Refusal, Start, start_of
from launcher.plan.model import Plan
from launcher.specs.attempt import Attempt
from launcher.specs.launch import Need, WorkspaceRef
from launcher.state.records import of_attempt
from tests.unit.plan.world import attempt, job, plan

SCOPE = ApprovalScope("default", "default")
PULL = Pull(number=7, head_sha="a" * 40, base_ref="main", merged=True)


def stamped(*names: str, plan_id: str = "p1") -> Plan:
    return plan([job(name) for name in names]).stamped(plan_id=plan_id, created_at=0)


def runs(made: Plan, first: int = 1) -> list[CheckRun]:
    checks = effect_checks(made, SCOPE, "7")
    return [CheckRun(id=first + at, sha="a" * 40, **check._asdict()) for at, check in enumerate(checks)]


def test_an_approval_survives_its_check_runs() -> None:
    made = stamped("train", "eval")
    approval = approval_in(runs(made), SCOPE)
    assert approval is not None
    assert (approval.id, approval.pull_request) == ("p1", "7")
    assert approval.starts == {start_of(job("train")): 0, start_of(job("eval")): 0}


@pytest.mark.slow
def test_a_plan_of_thousands_of_effects_lies_in_several_check_runs() -> None:
    made = stamped(*(f"job-{number}" for number in range(3000)))
    found = runs(made)
    assert len(found) > 1
    assert all(len(each.text) < 65_535 and len(each.summary) < 65_535 for each in found)
    approval = approval_in(reversed(found), SCOPE)
    assert approval is not None
    assert len(approval.starts) == 3000
    assert approval_in(found[1:], SCOPE) is None


@pytest.mark.slow
def test_only_the_newest_list_counts_even_where_it_has_fewer_parts() -> None:
    old = runs(stamped(*(f"job-{number}" for number in range(3000))))
    new = runs(stamped("train", plan_id="p2"), first=100)
    approval = approval_in([*old, *new], SCOPE)
    assert approval is not None
    assert approval.id == "p2"


def test_the_list_of_another_target_does_not_count() -> None:
    assert approval_in(runs(stamped("train")), ApprovalScope("default", "prod")) is None
    assert approval_in([], SCOPE) is None


@pytest.mark.parametrize("text", ["", "```\n!\n```", "```\neJw=\n```", "```\nAAAA\n```"])
def test_a_damaged_check_run_is_named(text: str) -> None:
    (found,) = runs(stamped("train"))
    with pytest.raises(LauncherError, match=r"`launcher effects \(default, default\)` cannot be read"):
        approval_in([replace(found, text=text)], SCOPE)


def applied(now: Plan, *approvals: Approval, failed: bool = False, **merged: Any) -> str:
    checked = judged(now, approvals, lambda step, number: None)
    outcomes = [
        Outcome(
            key=step.key,
            kind=step.kind,
            app=of_attempt(_made(step.key.job)) if not failed else None,
            error="refused" if failed else "",
        )
        for step in checked.steps
        if step.starts
    ]
    history = Merged(approvals=approvals, pulls={"7": PULL}, **merged)
    return applied_check(SCOPE, checked, outcomes, history, run_url="").conclusion


def _made(name: str) -> Attempt:
    return attempt(job(name), "running")


def approving(made: Plan) -> Approval:
    starts = {each: 0 for each in made.effects if isinstance(each, Start)}
    return Approval(id="p1", starts=starts, pull_request="7")


def test_an_apply_that_carried_out_all_approved_effects_succeeds() -> None:
    now = plan([job("train")])
    assert applied(now, approving(now)) == "success"
    assert applied(now) == "success"  # an effect that nothing approves blocks no later apply


def test_an_apply_is_incomplete_while_an_approved_effect_is_left() -> None:
    shown = plan([job("train", needs=(Need("eval"),)), job("eval")])
    assert applied(plan([job("train", "changed")]), approving(shown)) == "failure"
    assert applied(shown, approving(shown), failed=True) == "failure"
    behind = plan([job("train", needs=(Need("eval"),)), job("eval", "pushed")])
    only_train = Approval(id="p1", starts={start_of(job("train", needs=(Need("eval"),))): 0})
    assert applied(behind, only_train) == "failure"


def test_the_title_of_an_apply_counts_what_it_started_and_stopped() -> None:
    made = {name: of_attempt(_made(name)) for name in ("train", "old")}
    outcomes = [
        Outcome(key=job("train").key, kind="create", app=made["train"]),
        Outcome(key=job("old").key, kind="destroy", app=made["old"]),
        Outcome(key=job("eval").key, kind="create", error="refused"),
    ]
    check = applied_check(SCOPE, plan([]), outcomes, Merged(approvals=(), pulls={}), run_url="")
    assert check.title == "1 started, 1 stopped, 1 failed to start"


def test_the_sentence_in_a_comment_says_what_of_the_pull_request_was_stopped_held_or_had_no_plan() -> None:
    trees = [job("train", workspace=WorkspaceRef(".", f"ws1:{each}")) for each in ("a", "b", "both")]
    both = [replace(approving(plan([t])), id=n, pull_request=n) for t, n in zip(trees, "45", strict=False)]
    live = attempt(job("serve"), "running")
    stops = Approval(id="2", stops=frozenset({live.app_id}), pull_request="2")
    checked = judged(plan([trees[2]]), both, lambda step, number: None)
    stopped = Outcome(key=live.key, kind="destroy", app=of_attempt(live))
    merged = Merged(approvals=(*both, stops), pulls=dict.fromkeys("2456", PULL), unreviewed=("6",))
    words = {number: applied_words(number, checked, [stopped], merged, "abc1234") for number in merged.pulls}
    assert words["2"] == "applied at abc1234: stopped serve"
    assert words["4"] == words["5"]
    assert words["4"].startswith("applied at abc1234: held train (combined: ")
    assert words["6"] == "applied at abc1234: nothing of it, since its last commit has no plan"


def test_the_sentence_in_a_comment_has_room_below_the_longest_plan() -> None:
    needing = [job(f"train-{each}", needs=(Need(f"eval-{each}"),)) for each in range(300)]
    evals = [job(f"eval-{each}") for each in range(300)]
    approval = Approval(id="p1", starts=dict.fromkeys(map(start_of, needing), 0), pull_request="7")
    checked = judged(plan([*needing, *evals]), [approval], lambda step, number: None)
    merged = Merged(approvals=[approval], pulls={"7": PULL})
    words = applied_words("7", checked, [], merged, "abc1234")
    assert "held train-0 (it needs eval-0, which is held)" in words
    assert words.endswith("and 296 more reasons")
    assert len(words) < 65_536 - MOST_CHARACTERS


def test_an_apply_of_ten_thousand_jobs_is_recorded_in_one_check_run() -> None:
    made = [job(f"train-lr0.{number}-seed{number % 7}") for number in range(10_000)]
    merged = Merged(approvals=(), pulls={"7": PULL})
    for some in (made, made[:2]):
        apps = {each.key.job: of_attempt(attempt(each, "running")) for each in some}
        outcomes = [Outcome(key=each.key, kind="create", app=apps[each.key.job]) for each in some]
        check = applied_check(SCOPE, plan([]), outcomes, merged, run_url="")
        assert len(check.text) <= MOST_CHARACTERS
        found, applied = applied_in(CheckRun(id=1, sha="", **check._asdict()))
        handles = {entry["job"]: (entry["handle"], entry["app_id"]) for entry in applied[""]}
        assert found == SCOPE
        assert handles == {name: (app.handle, app.app_id) for name, app in apps.items()}


def test_an_apply_is_incomplete_while_a_merge_has_no_plan_yet() -> None:
    now = plan([job("train")])
    assert applied(now, unreviewed=("7",)) == "failure"
    assert applied(now, approving(now), unreviewed=("8",)) == "success"


def test_a_refusal_names_the_approved_digest_and_the_present_one() -> None:
    start = start_of(job("train"))
    assert str(Refusal(start, "le1:00 (#7)", "the job file changed since")) == (
        f"start default/train: the job file changed since\n  approved le1:00 (#7), now {start.digest}"
    )


@pytest.mark.parametrize(
    "fields",
    [{"needs": (Need("eval"),)}, {"timeout_s": 60}, {}],
    ids=["needs", "time limit", "nothing to watch"],
)
def test_a_temporary_runner_withholds_jobs_that_need_a_watcher_for_a_remote_engine(fields, monkeypatch):
    made = job("train", scheduler="local_docker", **fields)
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    assert withheld([made]) == {}
    monkeypatch.setenv("DOCKER_HOST", "ssh://gpu1")
    found = withheld([made])
    assert list(found) == ([made.key] if fields else [])
    approval = Approval(id="p1", starts={start_of(made): 0})
    (left,) = without(Merged(approvals=(approval,), pulls={}), found)
    assert len(left.starts) == (0 if fields else 1)
