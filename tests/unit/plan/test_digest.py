"""The plan digest: what an approval covers, and what it does not."""

from dataclasses import replace

import pytest

from launcher.plan.effects import is_superseded
from launcher.plan.model import approves
from launcher.plan.reconcile import Scope
from tests.unit.plan.world import ORIGIN, attempt, job, plan

NEW, OLD, EVAL = job("train", "--lr", "5"), job("train", "--lr", "3"), job("eval")


def test_the_digests_of_an_empty_plan_and_of_a_start_never_change() -> None:
    empty, start = plan([]).plan_digest, plan(NEW).plan_digest
    assert empty == "lp3:sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert start == "lp3:sha256:0393145aca2ac75f65410447e279278e7078607cabedd9849642f46b504059bd"


@pytest.mark.parametrize("rule", ["lp1", "lp2"])
def test_digests_of_older_rules_are_distinguished(rule: str) -> None:
    old = f"{rule}:sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    assert is_superseded(f" {old}\n")
    assert not approves(old, plan([]))
    assert not is_superseded(plan([]).plan_digest)


def test_a_digest_approves_a_plan_with_the_same_effects() -> None:
    made = plan([NEW, EVAL], attempt(OLD, "running"))
    assert approves(made.plan_digest, made)
    assert approves(f" {made.plan_digest}\n", made)


def test_stopping_fewer_attempts_than_approved_is_approved() -> None:
    approved = plan(NEW, attempt(OLD, "running"))
    assert approves(approved.plan_digest, plan(NEW, attempt(OLD, "succeeded")))


def test_an_orphan_that_has_ended_meanwhile_needs_no_stopping() -> None:
    choices = {"scopes": [Scope(origin=ORIGIN, target="default")], "prune": True}
    gone = attempt(job("gone"), "running")
    approved = plan(NEW, gone, **choices)
    assert approves(approved.plan_digest, plan(NEW, replace(gone, state="succeeded"), **choices))


@pytest.mark.parametrize("now", [
    plan(NEW, attempt(OLD, "running", 1)),
    plan(NEW, attempt(OLD, "running", 2), attempt(EVAL, "running")), plan([NEW, EVAL]), plan(OLD),
    plan([]),
], ids=["stops one", "stops another", "starts more", "starts another", "starts less"])  # fmt: skip
def test_a_digest_does_not_approve_other_effects(now: object) -> None:
    assert not approves(plan(NEW).plan_digest, now)


@pytest.mark.parametrize("text", ["", "+", "lp2:sha256:", "lp2:sha256:00+train-1-aaaaa", "nonsense"])
def test_text_that_is_no_digest_approves_nothing(text: str) -> None:
    assert not approves(text, plan(NEW))
