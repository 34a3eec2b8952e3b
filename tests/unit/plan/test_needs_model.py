"""Properties of every plan of jobs with needs, with any history, carried out in a small world."""

from typing import Any

import pytest
from hypothesis import given, note, settings, strategies as st

from launcher.plan.model import Plan
from launcher.plan.recheck import recheck
from launcher.specs.launch import Need
from tests.unit.plan.needs_model import Jobs
from tests.unit.plan.strategies import unhurried
from tests.unit.plan.world import world

NAMES = ("a", "b", "c", "d")
jobs = st.sampled_from(NAMES)
some = st.sets(jobs, max_size=2)
plus = st.sampled_from(["", "+"])
words = st.lists(st.tuples(plus, jobs, plus).map("".join), max_size=2).map(tuple)
asked = st.lists(st.tuples(jobs, plus).map("".join), max_size=2).map(tuple)
events = st.one_of(
    st.tuples(st.just("edit"), jobs),
    st.tuples(st.just("need"), jobs, jobs, st.booleans()),
    st.tuples(st.just("enable"), jobs),
    st.tuples(st.just("crowd"), jobs),
    st.tuples(st.just("every"), jobs),
    st.tuples(st.just("end"), jobs, st.sampled_from(["cancelled", "lost", "failed", "orphaned"])),
    st.tuples(st.just("settle"), some),
    st.tuples(st.just("leave"), asked),
    st.tuples(st.just("apply"), words, asked, st.booleans(), st.none() | st.integers(0, 3), some | st.none()),
)


def happens(world_: Jobs, event: tuple[Any, ...]) -> None:
    kind, *args = event
    if kind == "edit":
        world_.version[args[0]] += 1
    elif kind == "need":
        _toggle(world_, *args)
    elif kind == "enable":
        world_.disabled ^= {args[0]}
    elif kind == "crowd":
        world_.crowded ^= {args[0]}
    elif kind == "every":
        world_.every ^= {args[0]}
    elif kind == "end":
        world_.end_latest(*args)
    elif kind == "settle":
        world_.settle(args[0])
    elif kind == "leave":
        plan = world_.plan(rerun=args[0])
        if not plan.problems:
            world_.leave_behind(plan)
    else:
        words, rerun, retry, until, fails = args
        plan = world_.plan(words, rerun=rerun, retry_failed=retry)
        if not plan.problems:
            holds_good(plan)
            world_.apply(plan, until=until)
        if fails is not None:
            world_.settle(fails)


def _toggle(world_: Jobs, one: str, other: str, rerun: bool) -> None:
    """Add or remove a need: a job needs only jobs with names before its own in the alphabet."""
    low, high = sorted((one, other))
    if low == high:
        return
    needs = world_.needs.setdefault(high, {})
    if low in needs:
        del needs[low]
    else:
        needs[low] = Need(low, rerun)


def holds_good(plan: Plan) -> None:
    steps = {step.key.job: step for step in plan.steps if step.launch is not None}
    for step in steps.values():
        if not step.starts or step.launch is None:
            assert not step.after
            continue
        assert 1 <= step.edition <= step.number
        for need in step.launch.needs:
            if need.job in steps and not (step.kind == "resume" and not step.after):
                assert steps[need.job].kind not in ("hold", "destroy")
                assert steps[need.job].starts <= (need.job in step.after)


@pytest.mark.slow
@settings(unhurried, max_examples=150)
@given(st.lists(events, max_size=14))
def test_a_plan_after_everything_has_succeeded_as_planned_is_empty(history: list[tuple[Any, ...]]) -> None:
    here = Jobs(version=dict.fromkeys(NAMES, 1))
    for event in history:
        happens(here, event)
    here.every.clear()  # those would run at every apply
    here.settle()
    made = here.plan()
    note(str(made))
    if made.problems:
        return
    holds_good(made)
    here.apply(made)
    between = here.plan()
    note(f"at once: {between}")
    assert between.is_empty
    here.settle()
    after = here.plan()
    note(f"at the end: {after}")
    assert after.is_empty


@pytest.mark.slow
@settings(unhurried, max_examples=60)
@given(st.lists(events, max_size=14), asked, st.booleans())
def test_a_plan_stays_valid_while_nothing_has_happened(history, rerun, retry):
    here = Jobs(version=dict.fromkeys(NAMES, 1))
    for event in history:
        happens(here, event)
    made = here.plan(rerun=rerun, retry_failed=retry)
    note(str(made))
    if made.problems:
        return
    checked = recheck(made, world(*here.attempts.values()), now=0)
    assert checked.stale == ()
    assert checked.plan.steps == made.steps


@pytest.mark.slow
@settings(unhurried, max_examples=100)
@given(st.lists(events, max_size=14), st.sets(jobs), st.sets(jobs, min_size=1))
def test_a_job_that_every_apply_repeats_stops_no_running_job(history, edited, every):
    """Jobs that depend on the repeated job may run meanwhile."""
    here = Jobs(version=dict.fromkeys(NAMES, 1))
    for event in history:
        happens(here, event)
    here.disabled.clear()
    here.every.clear()
    for _ in range(2):
        here.settle()
        here.apply(here.plan(retry_failed=True, rerun=[f"{name}+" for name in NAMES]))
    here.settle()
    for name in edited:
        here.version[name] += 1
    here.apply(here.plan())
    here.every = every
    made = here.plan()
    note(str(made))
    holds_good(made)
    assert not any(step.stops for step in made.steps)
    assert {step.key.job for step in made.steps if step.has_effects and not step.withdraws} <= every
    here.apply(made)
    here.settle()
    here.every = set()
    assert here.plan().is_empty
