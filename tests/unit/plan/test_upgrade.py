"""Attempts that an older version recorded never plan as changed."""

from dataclasses import replace

import pytest

from tests.unit.plan.world import attempt, job, plan

TRAIN = job("train", "-v")


def recorded_before(state: str):
    """In a normal form that spelt a default out."""
    now = attempt(TRAIN, state)
    role = {**now.document["roles"][0], "num_replicas": 1}
    return replace(now, document={**now.document, "roles": [role]}, digest="lr0:sha256:" + "0" * 64)


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_an_older_normal_form_is_normalised_and_compared_again(state: str) -> None:
    assert plan(TRAIN, recorded_before(state)).is_empty


def test_a_real_change_shows_all_the_same() -> None:
    made = plan(job("train", "-q"), recorded_before("succeeded"))
    assert made.steps[0].kind == "create"
    assert 'roles.trainer.args[0]: "-v" → "-q"' in str(made)


def test_an_attempt_without_a_document_is_compared_by_digest() -> None:
    bare = replace(attempt(TRAIN, "succeeded"), document={})
    assert plan(TRAIN, bare).is_empty
    made = plan(job("train", "-q"), bare)
    assert "the document is not the one of attempt 1" in str(made)
