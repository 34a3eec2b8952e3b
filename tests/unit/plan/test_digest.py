"""The plan digest: what an approval covers, and what it does not."""

from dataclasses import replace

import pytest

from launcher.plan.effects import is_superseded
from launcher.plan.model import approves
from launcher.plan.orphans import Scope
from launcher.specs.launch import attempt_id
from tests.unit.plan.world import ORIGIN, attempt, job, plan

NEW, OLD, EVAL = job("train", "--lr", "5"), job("train", "--lr", "3"), job("eval")


def test_it_names_the_attempts_that_would_be_stopped() -> None:
    starts, *stops = plan([NEW, EVAL], attempt(OLD, "running", 3)).plan_digest.split("+")
    assert starts.startswith("lp2:sha256:")
    assert stops == [attempt_id(NEW.key, 3)]


def test_it_is_golden() -> None:
    assert (
        plan([]).plan_digest == "lp2:sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    )


def test_it_is_golden_for_what_starts() -> None:
    digest = "lp2:sha256:704e123e811e340e0fac25af57d2da221272466f0d0bf79e0a90f86dba11f6f9"
    assert plan(NEW).plan_digest == digest


def test_time_commit_policy_and_order_are_no_part_of_it() -> None:
    made = plan([NEW, EVAL])
    sealed = made.stamped(plan_id="p1", created_at=1.0, commits={ORIGIN: "abc"})
    moved = plan([EVAL, job("train", "--lr", "5", on_failed="rerun", max_attempts=2)])
    assert made.plan_digest == sealed.plan_digest == moved.plan_digest


def test_kept_and_held_jobs_are_no_part_of_it() -> None:
    assert plan(EVAL).plan_digest == plan([NEW, EVAL], attempt(NEW, "failed")).plan_digest
    assert plan(EVAL).plan_digest == plan([NEW, EVAL], attempt(NEW, "running")).plan_digest


def test_the_document_and_the_key_are_part_of_it() -> None:
    digests = {
        plan(launch).plan_digest for launch in (NEW, OLD, EVAL, job("train", "--lr", "5", project="x"))
    }
    assert len(digests) == 4


def test_the_job_file_and_its_repository_are_part_of_it() -> None:
    """The folder of the job file is where its scripts and relative paths are found."""
    moved, elsewhere = job("train", "--lr", "5", file="x"), job("train", "--lr", "5", origin="/src")
    assert len({plan(launch).plan_digest for launch in (NEW, moved, elsewhere)}) == 3


def test_digests_of_the_older_rule_are_distinguished() -> None:
    old = "lp1:sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    assert is_superseded(f" {old}\n")
    assert not approves(old, plan([]))
    assert not is_superseded(plan([]).plan_digest)


def test_what_an_attempt_is_called_is_no_part_of_it() -> None:
    """Approved as a first attempt, then interrupted: resuming it is the same effect."""
    assert plan(NEW).plan_digest == plan(NEW, attempt(NEW, "created")).plan_digest
    assert plan(NEW).plan_digest == plan(NEW, attempt(NEW, "failed"), rerun=["train"]).plan_digest


def test_the_same_effects_are_approved() -> None:
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


@pytest.mark.parametrize(
    "now",
    [
        plan(NEW, attempt(OLD, "running", 1)),
        plan(NEW, attempt(OLD, "running", 2), attempt(EVAL, "running")),
        plan([NEW, EVAL]),
        plan(OLD),
        plan([]),
    ],
    ids=["stops one", "stops another", "starts more", "starts another", "starts less"],
)
def test_other_effects_are_not_approved(now: object) -> None:
    assert not approves(plan(NEW).plan_digest, now)


@pytest.mark.parametrize("text", ["", "+", "lp2:sha256:", "lp2:sha256:00+train-1-aaaaa", "nonsense"])
def test_nonsense_approves_nothing(text: str) -> None:
    assert not approves(text, plan(NEW))
