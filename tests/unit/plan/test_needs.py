"""Jobs with needs: the order of steps, what a job stands on, and when it runs again or is held."""

import json
from dataclasses import replace
from typing import Any

import pytest

from launcher.apply.observe import merge
from launcher.errors import UsageError
from launcher.plan.codec import dumps
from launcher.plan.model import Plan
from launcher.plan.reconcile import reconcile, select
from launcher.plan.step import Step
from launcher.specs.attempt import Attempt, StoodOn
from launcher.specs.launch import Launch, Need, attempt_id
from tests.unit.plan.histories import HOLDER, cases, given, shown
from tests.unit.plan.world import attempt, job, lines, plan, world

CASES = cases("""
# needs and their editions
jobs start behind the jobs that they need
  evaluate needs=train:
  train needs=prepare:
  prepare:
  + evaluate #1: no attempt of this job is on record · after train · on train.1
  + prepare #1: no attempt of this job is on record
  + train #1: no attempt of this job is on record · after prepare · on prepare.1
a repeat of an unchanged need reruns no dependent
  prepare{| every}: 1 succeeded
  train needs=prepare: 1 succeeded on=prepare.1
  evaluate needs=train: 1 succeeded on=train.1
  {--rerun prepare|}
  r prepare #2/1: {asked for with --rerun|lifecycle.rerun_on[0] = "every_apply"}
a retry repeats the edition that failed
  prepare v2: 1 succeeded; 2 failed v2
  train needs=prepare: 1 succeeded on=prepare.1
  --retry-failed
  r prepare #3/2: attempt 2 failed; asked for with --retry-failed
  r train #2: needs_changed (prepare will run) · after prepare · on prepare.3/2
a requested run after a change is a new edition
  prepare: 1 succeeded; 2 succeeded
  train needs=prepare: 1 succeeded on=prepare.1
  --rerun train
  r train #2: needs_changed (prepare has run since: attempt 2); asked for with --rerun · on prepare.2
--rerun with a plus runs the dependents too
  prepare: 1 succeeded
  train needs=prepare: 1 succeeded on=prepare.1
  evaluate needs=train: 1 succeeded on=train.1
  --rerun prepare+
  r evaluate #2/1: asked for with --rerun · after train · on train.2/1
  r prepare #2/1: asked for with --rerun
  r train #2/1: asked for with --rerun · after prepare · on prepare.2/1
a need with rerun: never causes no rerun
  prepare: 1 succeeded; 2 succeeded
  train order=prepare: 1 {succeeded|running} on=prepare.1
  {|= train: attempt 1 is running}
a need with rerun: never orders jobs
  prepare v2: 1 succeeded
  train v2 order=prepare: 1 succeeded on=prepare.1
  + prepare #2: roles.trainer.args[0] "v1" → "v2"
  + train #2: roles.trainer.args[0] "v1" → "v2" · after prepare · on prepare.2
removing rerun: never runs nothing by itself
  prepare: 1 succeeded
  train needs=prepare: 1 succeeded on=prepare.1 order=prepare
removing rerun: never lets the change through that it held back
  prepare: 1 succeeded; 2 succeeded
  train needs=prepare: 1 succeeded on=prepare.1 order=prepare
  r train #2: needs_changed (prepare has run since: attempt 2) · on prepare.2
a need whose change is held back holds its dependents
  prepare v2 on_change=hold: 1 succeeded
  train needs=prepare:
  ! prepare: roles.trainer.args[0] "v1" → "v2"; lifecycle.on_change = "hold" · blocked: on_change_hold
  ! train: needs_failed (prepare: held); no attempt of this job is on record
# the set of needs
a job runs again when its set of needs has changed
  a, b, c: 1 succeeded
   sum {needs=a,b|needs=a,b,c|needs=b|needs=c|needs=a|}: 1 succeeded{ on=a.1| on=a.1| on=a.1,b.1|
    on=a.1,b.1|| on=a.1}
  r sum #2: needs_changed {(now also needs b) · on a.1, b.1|(now also needs b, c) · on a.1, b.1, c.1|(no
    longer needs a) · on b.1|(now also needs c); needs_changed (no longer needs a, b) · on c.1|(now also
    needs a) · on a.1|(no longer needs a)}
a job runs again when its set of needs has changed, however it ended
  a: 1 succeeded
  sum needs=a: 1 {failed|cancelled|lost}
  r sum #2: needs_changed (now also needs a); attempt 1 {failed|was cancelled|was lost} · on a.1
a change of the set and of an edition are both reported
  a: 1 succeeded; 2 succeeded
  b: 1 succeeded
  sum needs=a,b: 1 succeeded on=a.1
  r sum #2: needs_changed (now also needs b); needs_changed (a has run since: attempt 2) · on a.2, b.1
a need that was added and has no success holds the job
  a: 1 succeeded
  b{| off}:{ 1 failed|}
  sum needs=a,b: 1 succeeded on=a.1
  {! b: attempt 1 failed|= b: enabled = false}
  ! sum: needs_failed (b: {failed); needs_changed (now also needs b)|never ran); needs_changed (now also
    needs b) · note: `b` is disabled: its latest attempt decides}
a need on record that has no success here runs nothing again
  a off:{| 1 failed}
  sum needs=a: 1 succeeded on=a.1
  = a: enabled = false
a need with rerun: never is added without a run
  a: 1 succeeded
  sum order=a: 1 succeeded
a need with rerun: never is removed without a run
  a: 1 succeeded
  sum: 1 succeeded on=a.1 order=a
the removal of another need is reported alone
  a, b: 1 succeeded
  sum: 1 succeeded on=a.1,b.1 order=a
  r sum #2: needs_changed (no longer needs b)
a running job is judged by its set of needs when it has ended
  a, b: 1 succeeded
  sum {needs=a,b|}: 1 running on=a.1
  = sum: attempt 1 is running · note: out of date once it has ended: it {now also needs b|no longer
    needs a}
an attempt that waits is made anew when its set of needs has changed
  a, b: 1 succeeded
  sum {needs=a,b||order=a,b|}: 1 {waiting|waiting|queued|queued} held on=a.1{|| order=a| order=a}
  r sum {#2: needs_changed (now also needs b) · on a.1, b.1|#2: needs_changed (no longer needs a)|#2/1:
    needs_changed (now also needs b) · on a.1, b.1|#2/1: needs_changed (no longer needs a)} · withdraws
    1
an attempt that waits is kept when only rerun: never has changed
  a: 1 succeeded
  sum {order|needs}=a: 1 {waiting|queued} held on=a.1{| order=a}
  = sum: attempt 1 {waits for a|is in line}
an interrupted submission is resumed with the same set of needs
  a: 1 succeeded
  sum needs=a: 1 {reserved|waiting} on=a.1
  > sum #1: {the submission of attempt 1 was interrupted|attempt 1 waits, and its holder has died} · on
    a.1
an interrupted submission is made anew with another set of needs
  a, b: 1 succeeded
  sum {needs=a,b|needs=a,b||}: 1 {reserved|waiting|reserved|waiting} on=a.1
  {+ sum #1: attempt 1 was never started · on a.1, b.1 · leaves 1|r sum #2: needs_changed (now also needs
    b) · on a.1, b.1 · withdraws 1|+ sum #1: attempt 1 was never started · leaves 1|r sum #2: needs_changed
    (no longer needs a) · withdraws 1}
after a skipped attempt the set of needs of the attempt before is compared
  a, b: 1 succeeded
  sum {needs=a|needs=a,b}: 1 succeeded on=a.1; 2 skipped on=a.1,b.1
  {|r sum #3: needs_changed (now also needs b) · on a.1, b.1}
a withdrawn job does not start again by itself
  prepare: 1 succeeded; 2 succeeded edition=1
  train needs=prepare: 1 succeeded on=prepare.1; 2 skipped on=prepare.2{|,gone.7} message=withdrawn
a withdrawn job starts when its need has run again
  prepare: 1 succeeded; 2 succeeded edition=1; 3 succeeded edition=1
  train needs=prepare: 1 succeeded on=prepare.1; 2 skipped on=prepare.2 message=withdrawn
  r train #3/1: needs_changed (prepare has run since: attempt 3) · on prepare.3/1
sets of needs with an unresolved name are not compared
  prepare: 1 succeeded
  sum needs=a,prepare unresolved=a: 1 succeeded on=a-0.1,prepare.1
  {(a): 1 succeeded|}
  = sum: attempt 1 succeeded · note: its needs are not compared with those on record: not known here
a changed need runs no job again that has an unresolved name
  prepare: 1 succeeded; 2 succeeded
  sum needs=a,prepare unresolved=a: 1 succeeded on=a-0.1,prepare.1
  ! sum: needs_failed (a: its jobs are not known here); needs_changed (prepare has run since: attempt 2)
    · note: its needs are not compared with those on record: not known here
an interrupted submission with an unresolved name is resumed
  prepare: 1 succeeded
  sum needs=a,prepare unresolved=a: 1 reserved on=a-0.1,prepare.1
  > sum #1: the submission of attempt 1 was interrupted · on a-0.1, prepare.1
an interrupted submission with an unresolved name is held when a need has changed
  prepare: 1 succeeded; 2 succeeded
  sum needs=a,prepare unresolved=a: 1 reserved on=a-0.1,prepare.1
  ! sum: needs_failed (a: its jobs are not known here); attempt 1 was never started · leaves 1 · note:
    its needs are not compared with those on record: not known here
# needs that are disabled, or outside of the plan
a need that is not planned is judged by its latest attempt
  {(prepare)|prepare v2 off}: 2 succeeded
  train needs=prepare:
  {|= prepare: enabled = false}
  + train #1: no attempt of this job is on record · on prepare.2
a need that is not planned and has failed holds its dependents
  {(prepare)|prepare v2 off}: 1 succeeded; 2 failed
  train needs=prepare:
  {|= prepare: enabled = false}
  ! train: needs_failed (prepare: failed); no attempt of this job is on record · note: {no file given here
    declares `prepare`|`prepare` is disabled}: its latest attempt decides
a need whose latest attempt never ran is judged by the attempt before
  (prepare): 1 succeeded; 2 {created|waiting|skipped}
  train needs=prepare:
  + train #1: no attempt of this job is on record · on prepare.1
a need whose latest attempt never ran is waited for while the attempt before runs
  (prepare): 1 running; 2 {created|waiting|skipped}
  train needs=prepare:
  + train #1: no attempt of this job is on record · after prepare · on prepare.1
a need that is disabled and stopped holds its dependents
  prepare off: 1 running
  train needs=prepare:
  - prepare: enabled = false · stops 1
  ! train: needs_failed (prepare: disabled); no attempt of this job is on record
an unknown need is a problem with the nearest name
  prepare:
  train needs=prepaer:
  + prepare #1: no attempt of this job is on record
  error: unknown_need default/train: it needs `prepaer`, which no file given here declares and which never ran
    (hint: did you mean prepare?)
a need that is not selected is named with its file
  [prepare]:
  train needs=prepare:
  error: unknown_need default/train: it needs `prepare` (jobs/prepare.launcher.yaml), which is not selected
    and never ran (hint: select it as well: --select +train)
a dependent that is not selected is left with a note
  prepare v2: 1 succeeded
  [train needs=prepare]: 1 succeeded on=prepare.1
  + prepare #2: roles.trainer.args[0] "v1" → "v2" · note: train needs it, and stays as it is: not
    selected
# live dependents
a running dependent of a need that will run is replaced
  prepare v2: 1 succeeded
  train needs=prepare: 1 running on=prepare.1
  + prepare #2: roles.trainer.args[0] "v1" → "v2"
  -/+ train #2: needs_changed (prepare will run) · after prepare · on prepare.2 · stops 1
a running dependent of a need that is asked for is replaced, and repeats its edition
  prepare: 1 succeeded
  train needs=prepare: 1 running on=prepare.1
  --rerun prepare
  r prepare #2/1: asked for with --rerun
  -/+ train #2/1: needs_changed (prepare will run) · after prepare · on prepare.2/1 · stops 1
a running dependent of a need that every apply repeats is kept
  prepare every: 1 succeeded{|; 2 succeeded edition=1}
  train needs=prepare: 1 running on=prepare.1
  r prepare #{2|3}/1: lifecycle.rerun_on[0] = "every_apply"
  = train: attempt 1 is running
a running dependent of a need that every apply repeats and that has changed is replaced
  prepare every {v2|csv=2}: 1 succeeded csv=1
  train needs=prepare: 1 running on=prepare.1
  {+ prepare #2: roles.trainer.args[0] "v1" → "v2"|r prepare #2: lifecycle.rerun_on[0] = "every_apply";
    lifecycle.rerun_on[1] `*.csv` changed since attempt 1}
  -/+ train #2: needs_changed (prepare will run) · after prepare · on prepare.2 · stops 1
a running dependent of a need that every apply repeats and that is asked for is replaced
  prepare every: 1 succeeded
  train needs=prepare: 1 running on=prepare.1
  --rerun prepare
  r prepare #2/1: asked for with --rerun
  -/+ train #2/1: needs_changed (prepare will run) · after prepare · on prepare.2/1 · stops 1
an attempt that waits for a need that every apply repeats is made anew
  fetch: 1 running
  prepare every: 1 succeeded
  train needs=fetch,prepare: 1 waiting held on=fetch.1,prepare.1
  = fetch: attempt 1 is running
  r prepare #2/1: lifecycle.rerun_on[0] = "every_apply"
  r train #2/1: needs_changed (prepare will run) · after fetch, prepare · on fetch.1, prepare.2/1 ·
    withdraws 1
a waiting attempt of the same document is kept
  prepare: 1 running
  train needs=prepare: 1 waiting held on=prepare.1
  = prepare: attempt 1 is running
  = train: attempt 1 waits for prepare
a waiting attempt without a holder is resumed under its number
  prepare: 1 {running|succeeded}
  train needs=prepare: 4 waiting edition=2 on=prepare.1
  {= prepare: attempt 1 is running|}
  > train #4/2: attempt 4 waits, and its holder has died{ · after prepare|} · on prepare.1
a waiting attempt without a holder is given up when its need failed
  prepare: 1 failed
  train needs=prepare: 4 waiting on=prepare.1
  ! prepare: attempt 1 failed
  ! train: needs_failed (prepare: failed); attempt 4 waits, and its holder has died · withdraws 4
an interrupted submission goes on with the attempts that it was bound to
  prepare: 1 succeeded
  train needs=prepare: 2 created on=prepare.1
  > train #2: the submission of attempt 2 was interrupted · on prepare.1
an interrupted submission gives way when its need has run again
  prepare: 1 succeeded; 2 succeeded
  train needs=prepare: 2 created on=prepare.1
  + train #2: attempt 2 was never started · on prepare.2 · leaves 2
# skipped attempts
a job with a skipped attempt is judged by the attempt before
  prepare v2: 1 succeeded; 2 failed v2
  train needs=prepare: 1 succeeded on=prepare.1; 2 skipped on=prepare.2
  ! prepare: attempt 2 failed
a changed job gets the number after a skipped attempt
  prepare: 1 succeeded
  train v2 needs=prepare: 1 succeeded on=prepare.1; 2 skipped on=prepare.2
  + train #3: roles.trainer.args[0] "v1" → "v2" · on prepare.1
a job that was only ever skipped is created
  prepare: 2 succeeded
  train needs=prepare: 1 skipped on=prepare.1
  + train #2: attempt 1 was skipped · on prepare.2
a job that was only ever skipped is held while its need has failed
  prepare: 1 failed
  train needs=prepare: 1 skipped on=prepare.1
  ! prepare: attempt 1 failed
  ! train: needs_failed (prepare: failed); attempt 1 was skipped
a skipped job runs when its need runs again
  prepare: 1 succeeded; 2 failed edition=1
  train needs=prepare: 1 failed on=prepare.1; 2 skipped on=prepare.2/1
  --rerun prepare
  r prepare #3/1: attempt 2 failed; asked for with --rerun
  r train #3/1: needs_changed (prepare will run); attempt 1 failed · after prepare · on prepare.3/1
""")


@pytest.mark.parametrize("case", CASES)
def test_the_plan_for_jobs_that_need_each_other(case: str) -> None:
    lines, steps = CASES[case]
    assert shown(given(lines).plan()) == steps


def need(*names: str) -> tuple[Need, ...]:
    return tuple(map(Need, names))


PREPARE = job("prepare")
TRAIN = job("train", needs=need("prepare"))
CHAIN = [job("evaluate", needs=need("train")), PREPARE, TRAIN]


def on(launch: Launch, number: int = 1, edition: int = 0) -> StoodOn:
    app_id = attempt_id(launch.key, number)
    return StoodOn(launch.key.job, number, edition or number, app_id, launch.scheduler)


def done(
    launch: Launch, number: int = 1, *needs: StoodOn, state: str = "succeeded", **fields: Any
) -> Attempt:
    return attempt(launch, state, number, needs=needs, **fields)


def step(made: Plan, name: str) -> Step:
    return next(each for each in made.steps if each.key.job == name)


def test_reasons_name_a_few_changed_needs_and_count_the_others() -> None:
    for count, more in ((8, ""), (9, " and 1 more"), (20, " and 12 more")):
        many = [job(f"b-{n}") for n in range(count)]
        total = job("sum", needs=need(*(each.key.job for each in many)))
        made = plan([*many, total], *map(done, many), done(total))
        assert step(made, "sum").why() == (
            f"needs_changed (now also needs b-0, b-1, b-2, b-3, b-4, b-5, b-6, b-7{more})"
        )


def test_needs_that_have_changed_in_the_same_way_share_a_reason() -> None:
    many = [job(f"b-{n}") for n in range(12)]
    changed = [job(f"b-{n}", "changed") for n in range(5)]
    total = job("sum", needs=need(*(each.key.job for each in many)))
    stood_on = done(total, 1, *(on(each) for each in many))
    made = step(plan([*changed, *many[5:], total], *map(done, many), stood_on), "sum")
    assert made.why() == "needs_changed (b-0, b-1, b-2 and 2 more will run)"
    again = [done(each, 2) for each in many]
    made = step(plan([*many, total], *map(done, many), *again, stood_on), "sum")
    assert made.why() == "needs_changed (b-0, b-1, b-2 and 9 more have run since: attempt 2)"
    assert len(made.reasons) == 12


def test_the_text_of_a_plan_names_a_few_needs_and_its_json_all() -> None:
    many = [job(f"b-{n}") for n in range(12)]
    total = job("sum", needs=need(*(each.key.job for each in many)))
    ended = [done(each, 1, state="failed") for each in many]
    made = plan([*many, total], *ended, done(total))
    shown = ", ".join(f"b-{n}: failed" for n in range(8))
    assert step(made, "sum").why().startswith(f"needs_failed ({shown} and 4 more); needs_changed (now also")
    document = json.loads(dumps(made.stamped(plan_id="p", created_at=1.0)))
    (saved,) = (each for each in document["jobs"] if each["key"]["job"] == "sum")
    assert [each["detail"] for each in saved["reasons"]] == [
        *(f"b-{n}: failed" for n in range(12)),
        *(f"now also needs b-{n}" for n in range(12)),
    ]
    failed = [done(each, state="failed") for each in many]
    assert "b-7: failed and 4 more)" in step(plan([*many, total], *failed), "sum").why()


# Other state folders

SHARED = {"home": "mine", "shared": ["local_docker"]}


def between(desired: list[Launch], *attempts: Attempt) -> Plan:
    """Return the plan of a state folder that shares the engine of local_docker with others."""
    seen = merge(ledger=attempts, engines=attempts, fingerprints={"local_cwd": "l"}, **SHARED)
    return reconcile(desired, seen)


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


def test_a_circle_is_a_problem_of_the_job_that_its_message_names_first() -> None:
    around = [job("a", needs=need("b")), job("b", needs=need("c")), job("c", needs=need("a"))]
    [problem] = plan(around).problems
    assert (problem.code, problem.hint) == ("needs_cycle", "remove one of these `needs`")
    first, *_, last = problem.message.removeprefix("jobs need each other: ").split(" → ")
    assert (problem.key.job, last) == (first, first)


def test_a_plan_prints_the_needs_that_each_job_starts_after() -> None:
    assert lines(plan([PREPARE, TRAIN]))[1:3] == [
        "+   default/train: no attempt of this job is on record",
        "      after prepare",
    ]


def test_a_snapshot_leaves_out_attempts_that_never_ran() -> None:
    waiting = done(TRAIN, 3, state="waiting", owner=HOLDER)
    seen = world(done(TRAIN), done(TRAIN, 2, state="failed"), waiting, done(TRAIN, 4, state="skipped"))
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


@pytest.mark.parametrize(("word", "again"), [
    ("grid", {"grid-1", "grid-2"}), ("default/grid", {"grid-1", "grid-2"}), ("grid-2", {"grid-2"}),
    ("grid+", {"grid-1", "grid-2", "after"}),
])  # fmt: skip
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
