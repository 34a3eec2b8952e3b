"""The action table: the plan for one job, by its latest attempt, its policies and the options of a plan."""

from dataclasses import replace

import pytest

from launcher.errors import UsageError
from launcher.plan.reconcile import reconcile
from tests.unit.plan.histories import cases, given, shown
from tests.unit.plan.world import attempt, job, lines, plan, world

CASES = cases(r"""
# the latest attempt
a job without an attempt is created
  train:
  + train #1: no attempt of this job is on record
an interrupted submission of the same document is resumed
  train: 4 {reserved|created}
  > train #4: the submission of attempt 4 was interrupted
an interrupted submission of another document gives way to a new one
  train v2: 4 {reserved|created}
  + train #4: attempt 4, of another document, was never started · leaves 4
a submission in progress is waited for
  train: 1 created busy
  = train: attempt 1 is being submitted by pid 17 on node1 · busy: pid 17 on node1
a submission in progress of another document is waited for and then replaced
  train v2: 1 reserved busy
  -/+ train #2: attempt 1 is being submitted by pid 17 on node1; roles.trainer.args[0] "v1" → "v2" ·
    stops 1 · busy: pid 17 on node1
a job that did not succeed is held
  train: 2 {failed|cancelled|lost} message="trainer/1 exited\nwith 17"
  ! train: attempt 2 {failed|was cancelled|was lost}: trainer/1 exited with 17
the cancellation of an attempt is reported once
  train: 1 cancelled {message="cancelled by ann@node1"|message=cancelled|}
  ! train: attempt 1 was cancelled {by ann@node1||}
a failure without a message is reported with its exit code
  train: 1 failed exit_code=17
  ! train: attempt 1 failed: exit code 17
a success is kept
  train: 1 succeeded; 2 succeeded
a job with another document is created
  train v2: 1 {succeeded|failed|lost}
  + train #2: roles.trainer.args[0] "v1" → "v2"
a running attempt of another document is replaced
  train v2: 1 running
  -/+ train #2: roles.trainer.args[0] "v1" → "v2" · stops 1
a disabled job that has ended is kept
  train off: 1 {succeeded|failed}
  = train: enabled = false
a disabled job that is live is destroyed
  train off: 1 running
  - train: enabled = false · stops 1
an attempt that an interrupted replace had not stopped is stopped when it resumes
  train v2: 1 running; 2 created v2
  -/+ train #2: the submission of attempt 2 was interrupted · stops 1
a submission that never started does not hide the run before it
  train: 1 {running|succeeded}; 2 reserved v2
  = train: attempt 1 {is running|succeeded} · leaves 2
a changed job takes the number of a leftover and replaces the running attempt
  train v2: 1 running; 2 reserved v3
  -/+ train #2: roles.trainer.args[0] "v1" → "v2" · stops 1 · leaves 2
an older attempt beside a newer one is stopped
  train: 1 running v2; 2 running
  - train: attempt 1 is live beside attempt 2 · stops 1
  = train: attempt 2 is running
# half-started attempts, and changes by hand
the rest of a half-started attempt is started
  train: 4 running unstarted=2
  > train #4: the start of attempt 4 was interrupted: 2 replicas were never started
one missing replica is reported in the singular
  train protect: 1 running unstarted=1
  > train #1: the start of attempt 1 was interrupted: 1 replica was never started
a half-started attempt is waited for while its owner lives
  train: 1 running unstarted=2 busy
  = train: attempt 1 is being submitted by pid 17 on node1 · busy: pid 17 on node1
a change by hand is named beside the end of the attempt
  train: 1 {lost|cancelled} drift="trainer/1 was removed by hand"
  ! train: attempt 1 was {lost|cancelled}; trainer/1 was removed by hand
a change by hand to a job that is kept is shown
  train: 1 running drift="trainer/1 was stopped by hand"
  = train: attempt 1 is running; trainer/1 was stopped by hand
a change by hand is named where the document changed too
  train v2: 1 running drift="trainer/1 was stopped by hand"
  -/+ train #2: roles.trainer.args[0] "v1" → "v2"; trainer/1 was stopped by hand · stops 1
# records that cannot be read
a job with an unreadable record is held without any effect
  train {|v2|off||v2}: 2 {created|waiting|running|queued|lost} unreadable=torn
  other:
  --retry-failed
  + other #1: no attempt of this job is on record
  ! train: the record of attempt 2: torn
a rerun of a job with an unreadable record is held
  train: 2 running unreadable=torn
  --rerun train
  ! train: the record of attempt 2: torn
an older attempt that may be live holds the job
  train v2: 1 running unreadable=torn; 2 succeeded
  ! train: the record of attempt 1: torn
a job that needs a job with an unreadable record is held
  {prepare|(prepare)}: 1 running unreadable=torn
  train needs=prepare:
  {! prepare: the record of attempt 1: torn|}
  ! train: needs_failed (prepare: {held|torn}); no attempt of this job is on record{| · note: no file given
    here declares `prepare`: its latest attempt decides}
# policies
a policy reruns a job that did not succeed
  train on_{failed|cancelled|lost}=rerun: 2 {failed|cancelled|lost}
  r train #3/2: attempt 2 {failed; lifecycle.on_failed|was cancelled; lifecycle.on_cancelled|was lost;
    lifecycle.on_lost} = "rerun"
on_change: hold holds a changed document
  train v2 on_change=hold: 1 {running|succeeded|failed}
  ! train: roles.trainer.args[0] "v1" → "v2"; lifecycle.on_change = "hold" · blocked: on_change_hold
on_change: hold yields to an explicit rerun, which is no consent
  train v2 on_change=hold: 1 running
  --rerun train
  -/+ train #2: roles.trainer.args[0] "v1" → "v2"; asked for with --rerun · stops 1
on_change: replace is consent to replacing
  train v2 on_change=replace: 1 running
  -/+ train #2: roles.trainer.args[0] "v1" → "v2" · stops 1 · consented
on_change: replace is no consent to anything else
  train {v2|off} on_change=replace: 1 {succeeded|running}
  {+ train #2: roles.trainer.args[0] "v1" → "v2"|- train: enabled = false · stops 1}
a protected attempt is never stopped by a change
  train v2 protect: 1 running
  ! train: lifecycle.protect = true and train-1-ypfhh would have to be stopped; roles.trainer.args[0]
    "v1" → "v2" · blocked: protected
a protected attempt is never stopped for other reasons
  train protect {off||on_change=replace}: 1 running
  {|--rerun train|--rerun train}
  ! train: lifecycle.protect = true and train-1-ypfhh would have to be stopped; {enabled = false|asked
    for with --rerun|asked for with --rerun} · blocked: protected
a protected attempt is not stopped by an interrupted replace that goes on
  train v2 protect: 1 running; 2 created v2
  ! train: lifecycle.protect = true and train-1-ypfhh would have to be stopped; the submission of
    attempt 2 was interrupted · leaves 2 · blocked: protected
editing a policy never reruns anything
  train {on_change=hold|on_failed=rerun|protect|max_attempts=1|on_lost=rerun}: 1
    {running|succeeded|cancelled|running|failed}
  {= train: attempt 1 is running||! train: attempt 1 was cancelled|= train: attempt 1 is running|! train:
    attempt 1 failed}
--rerun runs an ended job again
  train: 2 {succeeded|failed|cancelled|lost}
  --rerun {train|default/train|train|train}
  r train #3/2: {|attempt 2 failed;|attempt 2 was cancelled;|attempt 2 was lost;} asked for with --rerun
--rerun of a running job stops its attempt
  train: 1 running
  --rerun train
  -/+ train #2/1: asked for with --rerun · stops 1
--retry-failed reruns jobs that failed or were lost
  train: 1 {failed|lost}
  --retry-failed
  r train #2/1: attempt 1 {failed|was lost}; asked for with --retry-failed
--retry-failed leaves all other jobs as they are
  train: 1 {cancelled|succeeded|running}
  --retry-failed
  {! train: attempt 1 was cancelled||= train: attempt 1 is running}
a job of another repository is a problem
  train: 1 running origin=github.com/acme/audio path=a/train.launcher.yaml
  error: origin_conflict default/train: `train` in project `default` was last applied from
    github.com/acme/audio (a/train.launcher.yaml) (hint: set another `project` in jobs/train.launcher.yaml,
    or pass --take-over to make the job this repository's)
# triggers and input files
files that changed since the success run the job again
  train csv=2 max_attempts=1: 3 succeeded csv=1
  r train #4: lifecycle.rerun_on[0] `*.csv` changed since attempt 3
every_apply runs a finished job again
  train every: 1 succeeded
  r train #2/1: lifecycle.rerun_on[0] = "every_apply"
a disabled job is not run again by its triggers
  train csv=2 off: 3 succeeded csv=1
  = train: enabled = false
a running attempt with other input files goes on
  train inputs=2: 2 running inputs=1
  = train: attempt 2 is running · note: out of date once it has ended: the files are not those of
    attempt 2
an attempt that waits with other input files is withdrawn and made anew
  train inputs=2: 2 {waiting|queued} held inputs=1
  r train #3: the files are not those of attempt 2 · withdraws 2
an attempt that waits with the same input files is kept
  train inputs=1: 2 {waiting|queued} held
  = train: attempt 2 {waits|is in line}
a success whose files changed under it is not current
  train inputs=1: 3 succeeded inputs_changed="a.py changed while it waited or ran"
  r train #4: a.py changed while it waited or ran (attempt 3) · note: a job that writes to its own
    `inputs` never comes to rest: leave out what it writes
on_change: hold holds a job with changed inputs
  train inputs=2 on_change=hold: 1 succeeded inputs=1
  ! train: the files are not those of attempt 1; lifecycle.on_change = "hold" · blocked: on_change_hold
edited files of a kept job are reported
  train edited=a.py,b.py: 1 succeeded
  = train: attempt 1 succeeded; a.py, b.py differ from what ran
on_edit: rerun runs an edited job again, and on_change: hold holds it
  train on_edit=rerun on_change={replace|hold} edited=a.py: 1 succeeded
  {r train #2|! train}: a.py differs from what ran{|; lifecycle.on_change = "hold" · blocked: on_change_hold}
--rerun starts a job with changed inputs that on_change holds
  train inputs=2 on_change=hold: 1 succeeded inputs=1
  --rerun train
  r train #2: the files are not those of attempt 1; asked for with --rerun
# in line
a queued attempt of the same document is kept
  train: 3 queued held
  = train: attempt 3 is in line
a queued attempt of another document is withdrawn
  train v2: 3 queued held
  + train #4: roles.trainer.args[0] "v1" → "v2" · withdraws 3
a queued attempt of a disabled job is withdrawn
  train off: 1 queued held
  - train: enabled = false · withdraws 1
a queued attempt without a holder is resumed under its number
  train: 3 queued
  > train #3: attempt 3 is in line, and its holder has died
a job in line keeps its place when its need has succeeded
  prepare: 1 succeeded
  train needs=prepare: 1 queued held on=prepare.1
  = train: attempt 1 is in line
a job in line is made anew when its need runs again
  prepare: 1 succeeded
  train needs=prepare: 1 queued held on=prepare.1
  --rerun prepare+
  r prepare #2/1: asked for with --rerun
  r train #2/1: needs_changed (prepare will run); asked for with --rerun · after prepare · on
    prepare.2/1 · withdraws 1
""")


@pytest.mark.parametrize("case", CASES)
def test_the_plan_for_a_job(case: str) -> None:
    lines, steps = CASES[case]
    assert shown(given(lines).plan()) == steps


@pytest.mark.parametrize(("seen", "mark"), [(1, "r"), (2, "r"), (3, "!"), (4, "!")])
def test_max_attempts_bounds_the_automatic_reruns_of_a_document(seen: int, mark: str) -> None:
    launch = job("train", on_failed="rerun", max_attempts=3)
    last = attempt(launch, "failed", 9)
    made = reconcile([launch], world(last, counts={(launch.key, last.digest): seen}))
    spent = f"lifecycle.max_attempts = 3 and this document had {seen} already"
    why = spent if mark == "!" else 'lifecycle.on_failed = "rerun"'
    assert lines(made)[0] == f"{mark:<3} default/train: attempt 9 failed; {why}"


def test_rerun_of_an_unknown_or_disabled_job_is_refused() -> None:
    with pytest.raises(UsageError, match="--rerun trian: no such job") as caught:
        plan([job("train"), job("eval")], rerun=["trian"])
    assert caught.value.hint == "did you mean train?"
    with pytest.raises(UsageError, match="--rerun train: the job is disabled"):
        plan(job("train", enabled=False), rerun=["train"])


def test_two_launches_with_one_key_are_a_problem_that_names_both_files() -> None:
    made = plan([job("train"), job("train", file="b/t.launcher.yaml")])
    assert "declared by jobs/train.launcher.yaml and by b/t.launcher.yaml" in str(made)
    assert made.steps == ()


def test_problems_come_in_the_order_of_their_jobs() -> None:
    jobs = [job(name) for name in ("c", "a", "b")]
    made = plan(jobs, *(attempt(each, "failed", origin="elsewhere") for each in jobs))
    assert [problem.key.job for problem in made.problems] == ["a", "b", "c"]


# The plan as text

NEW, OLD = job("train", "--lr", "5"), job("train", "--lr", "3")


def test_the_digest_is_shown_below_a_plan_with_effects() -> None:
    made = plan(NEW)
    assert str(made).endswith(f"Plan: 1 to create\nDigest: {made.plan_digest}\n")


def test_several_changes_are_listed_below_the_line_and_kept_jobs_are_counted() -> None:
    new = job("train", "-v", "--lr", "5", env={"LR": "0.1"})
    kept = job("eval")
    made = plan([new, kept], attempt(OLD, "succeeded"), attempt(kept, "succeeded"))
    assert lines(made) == [
        "+   default/train: 3 changes", '      + roles.trainer.args[0] = "-v"',
        '      ~ roles.trainer.args[1]: "3" → "5"', '      + roles.trainer.env.LR = "0.1"',
        "Plan: 1 to create, 1 unchanged",
    ]  # fmt: skip


def test_notes_are_shown_below_the_step_that_they_belong_to() -> None:
    made = plan(NEW).with_notes({NEW.key: ["resource.gpu is not enforced"]})
    assert lines(made)[1] == "      note: resource.gpu is not enforced"


def test_jobs_are_listed_by_name_with_numbers_by_their_values() -> None:
    names = ["eval", "train-0p5", "train-2", "train-10", "train-fp32"]
    made = plan([job(name) for name in reversed(names)])
    assert [step.key.job for step in made.steps] == names


def test_rerun_of_a_running_job_stops_its_attempt_and_needs_approval() -> None:
    made = plan(NEW, attempt(NEW, "running"), rerun=["train"])
    assert lines(made) == [
        "-/+ default/train: asked for with --rerun",
        f"      stops {made.steps[0].guard.app_id} (running)",
        "Plan: 1 to replace",
    ]
    assert made.steps[0].destructive
    assert not made.steps[0].consented


TRAIN = job("train", "-v")


def test_an_attempt_without_a_document_is_compared_by_digest() -> None:
    bare = replace(attempt(TRAIN, "succeeded"), document={})
    assert plan(TRAIN, bare).is_empty
    made = plan(job("train", "-q"), bare)
    assert "the document is not the one of attempt 1" in str(made)
