"""A saved plan at a later time: steps that are still valid, steps that are done, and refusals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.plan.codec import dumps, loads
from launcher.plan.model import Plan
from launcher.plan.recheck import Recheck, located, recheck
from launcher.plan.reconcile import Scope
from launcher.specs.attempt import Attempt
from launcher.specs.launch import Launch
from tests.unit.plan import test_needs, test_table
from tests.unit.plan.histories import Given, cases, given, shown
from tests.unit.plan.world import ORIGIN, attempt, job, plan, world

NEW, OLD, EVAL, GONE = job("train", "--lr", "5"), job("train", "--lr", "3"), job("eval"), job("gone")
NOON, DAY = 1_000_000, 24 * 3600
SCOPES = [Scope(origin=ORIGIN, target="default")]


def restored(made: Plan) -> Plan:
    """Return a plan that went through a file."""
    text = dumps(made.stamped(plan_id="p1", created_at=NOON))
    return located(loads(text), root="/src", origin=ORIGIN)


def saved(desired: Launch | list[Launch], *attempts: Attempt, **choices: Any) -> Plan:
    return restored(plan(desired, *attempts, **choices))


def later(made: Plan, *attempts: Attempt, now: float = NOON + 60) -> Recheck:
    return recheck(made, world(*attempts), now=now)


def kinds(check: Recheck) -> list[str]:
    assert check.refusal() is None, check.refusal()
    return [step.kind for step in check.plan.steps]


EVERY = {
    **{name: given(lines) for name, (lines, _) in {**test_table.CASES, **test_needs.CASES}.items()},
    "an orphan is destroyed": Given([], [], [attempt(GONE, "running", 2)], {"scopes": SCOPES, "prune": True}),
    "a job is taken over": Given([NEW], [], [attempt(OLD, "failed", origin="b")], {"take_over": True}),
}


@pytest.mark.parametrize("case", [name for name, world_ in EVERY.items() if not world_.plan().problems])
def test_a_plan_stays_valid_while_nothing_has_happened(case: str) -> None:
    made = restored(EVERY[case].plan())
    check = later(made, *EVERY[case].attempts)
    assert check.stale == ()
    assert check.plan == made
    assert check.plan.plan_digest == made.plan_digest


LATER = cases("""
create, and another client has created it
  train:
  later train: 1 running
  stale train: attempt_changed
create, and another client is submitting it
  train:
  later train: 1 reserved busy
  stale train: attempt_changed
create, and another document has run
  train:
  later train: 1 succeeded v2
  stale train: attempt_changed
create, and a further document has run
  train: 2 succeeded v2
  later train: 2 succeeded v2; 3 succeeded v3
  stale train: attempt_changed
keep, and it has failed
  train: 2 running
  later train: 2 failed
  stale train: attempt_changed
keep, and another document runs
  train: 2 running
  later train: 3 running v2
  stale train: attempt_changed
keep, and nothing of it is on record
  train: 2 succeeded
  later train:
  stale train: attempt_changed
hold, and another client has run it
  train: 2 failed
  later train: 2 failed; 3 running
  stale train: attempt_changed
replace, and the old attempt has ended
  train: 2 running v2
  later train: 2 failed v2
  stale train: attempt_changed
replace, and another client has replaced it
  train: 2 running v2
  later train: 3 running
  stale train: attempt_changed
replace, and a further attempt would have to be stopped
  train: 2 running v2
  later train: 1 running v2; 2 running v2
  stale train: attempt_changed
resume, and another client has resumed it
  train: 2 created
  later train: 2 running
  stale train: attempt_changed
resume, and it was taken back
  train: 2 created
  later train:
  stale train: attempt_changed
rerun, and another client has run it
  train: 2 failed
  --rerun train
  later train: 2 failed; 3 running
  stale train: attempt_changed
create, and the job went to another repository
  train:
  later train: 1 succeeded origin=elsewhere
  stale train: attempt_changed
# the attempts of the plan itself
an attempt of this plan counts as done whatever became of it
  train on_failed=rerun on_cancelled=rerun on_lost=rerun:
  other:
  --retry-failed
  later train: 1 {failed|cancelled|lost} plan_id=p1
  + other #1: no attempt of this job is on record
  ! train: attempt 1 {failed|was cancelled|was lost}
another client that applies this plan is waited for
  train:
  later train: 1 reserved busy plan_id=p1
  = train: attempt 1 is being submitted by pid 17 on node1 · busy: pid 17 on node1
a plan that was applied is stale
  train{|, other}:
  later train{|, other}: 1 running plan_id=p1
  stale plan: already_applied
a rerun by a trigger is carried out once
  train {csv=2|every}: 1 succeeded csv=1
  later train: 1 succeeded csv=1; 2 succeeded csv=2 plan_id=p1
  stale plan: already_applied
a job that was kept while it ran is kept when it has succeeded, whatever its triggers
  train {csv=2|every}: 1 running csv=1
  later train: 1 succeeded csv=1
a job that was kept while it ran is kept when it has succeeded, whatever its input files
  train inputs=2: 1 running inputs=1
  other:
  later train: 1 succeeded inputs=1 inputs_changed="a.py changed while it waited or ran"
  + other #1: no attempt of this job is on record
  = train: attempt 1 succeeded · note: out of date once it has ended: the files are not those of attempt 1
a disabled job that has ended meanwhile counts as done
  train off: 2 running
  other:
  later train: 2 succeeded
  + other #1: no attempt of this job is on record
  = train: enabled = false
an older attempt that was stopped meanwhile counts as done
  train: 1 running v2; 2 running
  later train: 1 cancelled v2; 2 running
  stale plan: already_applied
# needs
a need outside of the plan that failed or changed makes it stale
  (prepare): 1 running
  after needs=prepare:
  later prepare: {1 failed|2 succeeded|2 running}
  stale after: attempt_changed
a kept job whose need has changed meanwhile makes the plan stale
  (prepare): 1 succeeded
  after needs=prepare: 1 succeeded on=prepare.1
  other:
  later prepare: 1 succeeded; 2 succeeded
  stale after: attempt_changed
a kept job whose set of needs has changed makes an older plan stale
  (prepare): 1 succeeded
  after needs=prepare: 1 succeeded on=prepare.1
  other:
  later after: 1 succeeded
  stale after: attempt_changed
a plan whose own need failed holds the jobs that wait for it
  prepare, other:
  after needs=prepare:
  later prepare: 1 failed plan_id=p1
  ! after: needs_failed (prepare: failed); no attempt of this job is on record
  + other #1: no attempt of this job is on record
  ! prepare: attempt 1 failed
a plan whose own need failed holds the jobs that were skipped
  prepare, other:
  after needs=prepare:
  later prepare: 1 failed plan_id=p1
  later after: 1 skipped on=prepare.1 plan_id=p1 message="skipped: prepare failed"
  ! after: needs_failed (skipped: prepare failed)
  + other #1: no attempt of this job is on record
  ! prepare: attempt 1 failed
a need outside of the plan may not fail beside one that the plan has started
  (data): 1 succeeded
  prepare, other:
  after needs=data,prepare:
  later data: 1 {succeeded|failed}
  later prepare: 1 failed plan_id=p1
  {! after: needs_failed (prepare: failed); no attempt of this job is on record|stale after: attempt_changed}
  {+ other #1: no attempt of this job is on record|}
  {! prepare: attempt 1 failed|}
a waiting attempt that still waits, or was given up, is replaced
  (prepare): 1 running
  after v2 needs=prepare: 1 waiting held on=prepare.1
  later after: 1 {waiting held|skipped} on=prepare.1
  + after #2: {roles.trainer.args[0] "v1" → "v2"|attempt 1 was skipped} · after prepare · on prepare.1{ ·
    withdraws 1|}
a waiting attempt that has started meanwhile makes the plan stale
  (prepare): 1 running
  after {v2 needs=prepare|off|v2 needs=prepare|off}: 1 waiting held on=prepare.1
  later prepare: 1 succeeded
  later after: 1 {running|running|succeeded|succeeded} on=prepare.1
  stale after: attempt_changed
""")
"""The lines of `later` have all attempts of a job at that time; other jobs have those of the plan."""


@pytest.mark.parametrize("case", LATER)
def test_a_saved_plan_is_checked_against_the_present_attempts(case: str) -> None:
    lines, steps = LATER[case]
    then = given([line for line in lines if not line.startswith("later ")])
    now = given([line.removeprefix("later ") for line in lines if line.startswith("later ")])
    seen = [each for each in then.attempts if each.key not in {launch.key for launch in now.desired}]
    check = later(restored(then.plan()), *seen, *now.attempts)
    stale = [f"stale {each.key.job if each.key else 'plan'}: {each.reason.code}" for each in check.stale]
    assert (stale or shown(check.plan)) == steps
    assert (check.refusal() is None) == (not stale)


def test_the_refusal_of_a_stale_plan_says_what_was_expected_what_was_found_and_who_did_it() -> None:
    made = saved([NEW, EVAL], attempt(OLD, "succeeded", 2))
    after = [
        attempt(OLD, "succeeded", 2),
        attempt(NEW, "running", 3),
        attempt(EVAL, "failed", actor="bob@node2"),
    ]
    refusal = later(made, *after).refusal()
    assert refusal.exit_code == 4
    assert str(refusal) == (
        "the plan cannot be applied any more:\n"
        "  default/eval: expected no attempt, found attempt 1 (failed) made by bob@node2; "
        "the saved plan says create, a new one would say hold\n"
        "  default/train: expected attempt 2 (succeeded), found attempt 3 (running) made by ann@node1; "
        "the saved plan says create, a new one would say keep"
    )


def test_an_orphan_that_the_plan_has_destroyed_already_counts_as_done() -> None:
    """The client was killed between destroy and create: an ended orphan does not show its cause."""
    made = saved([NEW], attempt(GONE, "running", 2), scopes=SCOPES, prune=True)
    assert kinds(later(made, attempt(GONE, "cancelled", 2))) == ["keep", "create"]


def test_an_orphan_that_was_started_anew_makes_the_plan_stale() -> None:
    made = saved([NEW], attempt(GONE, "running", 2), scopes=SCOPES, prune=True)
    [found] = later(made, attempt(GONE, "succeeded", 2), attempt(GONE, "running", 3)).stale
    assert found.key == GONE.key


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


def test_a_plan_of_v1_can_be_applied() -> None:
    made = located(loads((Path(__file__).parent / "plan-v1.json").read_text()), root="/src", origin=ORIGIN)
    running = attempt(OLD, "running", 2)
    check = later(made, running, attempt(job("kept"), "succeeded", 4), attempt(EVAL, "reserved", 1))
    assert kinds(check) == ["resume", "keep", "replace"]
    assert check.plan.plan_digest == made.plan_digest
    assert check.plan.steps[2].edition == 3
