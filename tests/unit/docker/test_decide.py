"""The next step of a watcher, from containers and the journal of any version.

The rules are those of tests/holding/histories.py; steps of apps with ordered roles are in test_progress.py.
"""

from typing import Any

import pytest

from launcher.schedulers.docker.client.objects import Container
from tests.unit.docker.next_step import next_step
from tests.unit.docker.test_status import EXPECTED, container, journal

GO: dict[str, Any] = {"e": "go"}
CANCEL: dict[str, Any] = {"e": "cancel", "by": "me"}
OF_BOTH: dict[str, Any] = {"e": "stop", "of": ["id0", "id1"], "message": "so"}
RESTARTED: dict[str, Any] = {"e": "restart", "role": "main", "policy": "APPLICATION"}
RESTARTED |= {"again": [["main", 0], ["main", 1]]}
PENDING = {**RESTARTED, "was": {"id0": 10.0, "id1": 11.0}}  # as the start times of these containers
DONE = {**RESTARTED, "was": {"id0": 1.0, "id1": 2.0}}
BY_HAND: dict[str, Any] = {"e": "hand", "id": "id0"}


def next_of(
    *state_text: str,
    events: tuple[dict[str, Any], ...] = (GO,),
    retries: tuple[int | str, ...] = (0, "APPLICATION"),
    timeout_s: float | None = None,
) -> str:
    found = both(*state_text, retries=retries)
    return next_step(found, journal(*events), expected=EXPECTED, timeout_s=timeout_s)


def both(*state_text: str, retries: tuple[int | str, ...] = (0, "APPLICATION")) -> tuple[Container, ...]:
    return tuple(container(k, each, retries=list(retries)) for k, each in enumerate(state_text))


ONCE = (1, "APPLICATION")


@pytest.mark.parametrize(
    ("state_text", "events", "action"),
    [
        (("running", "created"), (CANCEL,), "cancel cancelled by me, stop id0 id1"),
        # a stop that was begun goes on for its first reason
        (("running", "exited 143"), ({**OF_BOTH, "why": "timeout"}, CANCEL), "stop id0"),
        (("exited 143", "exited 0"), ({**OF_BOTH, "why": "timeout"},), "end failed"),
        # by hand: no restart, and a reason that says so
        (("exited 143", "running"), (BY_HAND,), "hand main/0 was stopped by hand, stop id1"),
        (("exited 3", "running"), (DONE,), "peer main/0 exited with 3, stop id1"),
    ],
    ids=["cancel", "stop goes on", "stop has ended", "by hand", "retries used up"],
)
def test_the_next_step_follows_from_containers_and_journal(
    state_text: tuple[str, ...], events: tuple[dict[str, Any], ...], action: str
) -> None:
    assert next_of(*state_text, events=(GO, *events), retries=ONCE) == action


def test_a_restart_of_version_0_1_that_was_begun_is_resumed_and_not_counted_again() -> None:
    """Version 0.1 recorded a restart before it stopped the peers: they are stopped before they start."""
    assert next_of("exited 3", "running", events=(GO, PENDING), retries=ONCE) == "start id0 id1"


def test_a_restart_resumes_with_the_containers_that_it_has_not_reached() -> None:
    half = {**RESTARTED, "was": {"id0": 10.0, "id1": 2.0}}
    assert next_of("exited 3", "running", events=(GO, half), retries=ONCE) == "start id0"


ALONE = {**RESTARTED, "policy": "REPLICA", "again": [["main", 0]]}
PAUSED = {**ALONE, "was": {"id0": 10.0}, "delay_s": 150}  # at 2, so until 152
USED = {**ALONE, "again": [["main", 1]], "was": {"id1": 2.0}, "delay_s": 9}
SLOWLY = (2, "REPLICA", 9)


@pytest.mark.parametrize(
    ("state_text", "facts", "action"),
    [
        (("exited 3", "running"), {}, "restart replica main/0 in 9 s"),
        # each replica has retries of its own, and its pause doubles
        (("exited 3", "running"), {"events": (GO, USED)}, "restart replica main/0 in 9 s"),
        (("exited 0", "exited 3"), {"events": (GO, USED)}, "restart replica main/1 in 18 s"),
        # in the pause, with another replica that runs and with none
        (("exited 3", "running"), {"events": (GO, PAUSED)}, "wait until 152"),
        (("exited 3", "exited 0"), {"events": (GO, PAUSED)}, "wait until 152"),
        (("exited 3", "running"), {"events": (GO, PAUSED), "timeout_s": 119}, "wait until 120"),
        (("exited 3", "running"), {"events": (GO, PAUSED), "timeout_s": 199}, "wait until 152"),
        # a client of another home cancels: its mark is all that shows it
        (("exited 3.cancelled", "exited 0"), {"events": (GO, PAUSED)}, "end cancelled"),
        (("exited 3.cancelled", "running"), {"events": (GO, PAUSED)}, "stop id1"),
    ],
)
def test_a_pause_before_a_restart_delays_no_other_step(
    state_text: tuple[str, ...], facts: dict[str, Any], action: str
) -> None:
    assert next_of(*state_text, **{"retries": SLOWLY, **facts}) == action
