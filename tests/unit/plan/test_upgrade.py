"""Attempts that an older version recorded never plan as changed."""

from dataclasses import replace

from tests.unit.plan.world import attempt, job, plan

TRAIN = job("train", "-v")


def test_an_attempt_without_a_document_is_compared_by_digest() -> None:
    bare = replace(attempt(TRAIN, "succeeded"), document={})
    assert plan(TRAIN, bare).is_empty
    made = plan(job("train", "-q"), bare)
    assert "the document is not the one of attempt 1" in str(made)
