"""The meaning of each state of a container that an engine reports."""

import pytest

from launcher.schedulers.docker.client.objects import Container, from_inspect, from_list

MEANING = [
    # state, live, ended, was started
    ("created", False, False, False),
    ("running", True, False, True),
    ("paused", True, False, True),
    ("restarting", True, False, True),
    ("removing", False, False, False),
    ("exited", False, True, True),
    ("dead", False, True, True),
    ("hibernating", True, False, True),
    ("", True, False, True),
]


def read_both_ways(state: str) -> list[Container]:
    entry = {"Id": "a", "Names": ["/a"], "State": state, "Status": "Exited (0) 1 second ago"}
    times = {"StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "2026-01-01T00:00:00Z"}
    looked = {"Id": "a", "Name": "/a", "State": {"Status": state, "ExitCode": 0, **times}}
    return [from_list(entry), from_inspect(looked)]


@pytest.mark.parametrize(("state", "live", "ended", "was_started"), MEANING)
def test_each_state_says_whether_a_container_is_live_has_ended_and_was_started(
    state: str, live: bool, ended: bool, was_started: bool
) -> None:
    for found in read_both_ways(state):
        assert (found.live, found.ended, found.was_started) == (live, ended, was_started)


@pytest.mark.parametrize("state", ["running", "hibernating", ""])
def test_a_live_container_has_no_end_and_no_exit_code(state: str) -> None:
    """The engine still reports the end and the exit code of the run before."""
    found = read_both_ways(state)[1]
    assert (found.ended_at, found.exit_code) == (None, None)


def test_the_list_of_containers_shows_the_exit_code_as_an_inspect_does() -> None:
    assert [found.exit_code for found in read_both_ways("exited")] == [0, 0]
