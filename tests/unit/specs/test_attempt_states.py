"""The states of attempts, which modules that load nothing else name for themselves."""

from typing import get_args

import pytest

from launcher.holding import state as holding
from launcher.specs import attempt
from launcher.state import records


@pytest.mark.parametrize("group", ["PENDING", "WAITING", "UNSTARTED", "LIVE", "ENDED"])
def test_records_and_attempts_group_states_alike(group: str) -> None:
    of_records: tuple[str, ...] = getattr(records, group)
    assert len({*of_records}) == len(of_records)
    assert {*of_records} == getattr(attempt, f"{group}_STATES")


def test_an_attempt_is_live_or_has_ended_in_each_of_its_states() -> None:
    assert {*get_args(attempt.AttemptState)} == attempt.LIVE_STATES | attempt.ENDED_STATES
    assert not attempt.LIVE_STATES & attempt.ENDED_STATES


def test_the_holding_machine_ends_apps_in_the_states_of_ended_attempts() -> None:
    assert holding.ENDED_STATES == attempt.ENDED_STATES
