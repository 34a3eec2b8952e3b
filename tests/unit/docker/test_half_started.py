"""A start that an engine cut short as it was stopped or killed, and can neither undo nor complete."""

import pytest

from launcher.schedulers.docker.client.errors import is_half_started, may_pass, refusal


@pytest.mark.parametrize("text", [f"task {'a' * 64}: already exists: unknown", "id already in use"])
def test_a_start_that_the_engine_cut_short_is_not_asked_for_again(text: str) -> None:
    error = refusal(500, text, "start c")
    assert is_half_started(error)
    assert not may_pass(error)
