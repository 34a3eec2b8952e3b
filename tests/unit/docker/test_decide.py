"""What a watcher does next, out of what it sees: a table."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.journal import Journal
from tests.unit.docker.next_step import next_step
from tests.unit.docker.test_status import EXPECTED, container, journal

GO: dict[str, Any] = {"e": "go"}
CANCEL: dict[str, Any] = {"e": "cancel", "by": "me"}
OF_BOTH: dict[str, Any] = {"e": "stop", "of": ["id0", "id1"], "message": "so"}
RESTARTED: dict[str, Any] = {"e": "restart", "role": "main", "policy": "APPLICATION"}
RESTARTED |= {"again": [["main", 0], ["main", 1]]}
PENDING = {**RESTARTED, "was": {"id0": 10.0, "id1": 11.0}}  # as the start times of these containers
DONE = {**RESTARTED, "was": {"id0": 1.0, "id1": 2.0}}
ENDED: dict[str, Any] = {"e": "end", "state": "failed"}


def next_of(
    *said: str,
    told: tuple[dict[str, Any], ...] = (GO,),
    retries: tuple[int | str, ...] = (0, "APPLICATION"),
    timeout_s: float | None = None,
) -> str:
    found = both(*said, retries=retries)
    return next_step(found, journal(*told), expected=EXPECTED, timeout_s=timeout_s)


def both(*said: str, retries: tuple[int | str, ...] = (0, "APPLICATION")) -> tuple[Container, ...]:
    return tuple(container(k, each, retries=list(retries)) for k, each in enumerate(said))


ONCE = (1, "APPLICATION")


@pytest.mark.parametrize(
    ("said", "facts", "action"),
    [
        (("running", "running"), {}, "wait"),
        (("running", "exited 0"), {"timeout_s": 199}, "wait until 200"),
        (("exited 0", "exited 0"), {}, "end succeeded"),
        (("exited 0", "exited 0"), {"told": (GO, ENDED)}, "leave"),
        # a failure stops the others, and not the replicas that have ended by themselves
        (("exited 3", "running"), {}, "peer main/0 exited with 3, stop id1"),
        (("exited 3", "exited 0"), {}, "peer main/0 exited with 3, end failed"),
        (("exited 3", "created"), {}, "peer main/0 exited with 3, stop id1"),
        # a limit, the second it is reached; a replica that has ended is not stopped
        (("running", "running"), {"timeout_s": 99}, "timeout timed out after 99 s, stop id0 id1"),
        (("running", "exited 0"), {"timeout_s": 98}, "timeout timed out after 98 s, stop id0"),
        (("exited 0", "exited 0"), {"timeout_s": 98}, "end succeeded"),
        # a cancellation, with its words; one that came too late
        (("running", "created"), {"told": (GO, CANCEL)}, "cancel cancelled by me, stop id0 id1"),
        (("exited 0", "exited 0"), {"told": (GO, CANCEL)}, "end succeeded"),
        (
            ("exited 3", "running"),
            {"told": (GO, CANCEL), "retries": ONCE},
            "cancel cancelled by me, stop id1",
        ),
        # a stop that was begun goes on for its first reason
        (("running", "exited 143"), {"told": (GO, {**OF_BOTH, "why": "timeout"}, CANCEL)}, "stop id0"),
        (("exited 143", "exited 0"), {"told": (GO, {**OF_BOTH, "why": "timeout"})}, "end failed"),
        # replicas that were not started yet
        (("running", "created"), {}, "start id1"),
        (("exited 0", "created"), {}, "start id1"),
        # restarts, until they are used up
        (("exited 3", "running"), {"retries": ONCE}, "restart main/0, halt id1"),
        (("exited 3", "exited 0"), {"retries": ONCE}, "restart app, start id0 id1"),
        (
            ("exited 3", "running"),
            {"retries": ONCE, "told": (GO, DONE)},
            "peer main/0 exited with 3, stop id1",
        ),
        (("exited 3", "running"), {"retries": (1, "REPLICA")}, "peer main/0 exited with 3, stop id1"),
        (
            ("exited 3", "running"),
            {"retries": ONCE, "told": (GO, {"e": "adopted"})},
            "peer main/0 exited with 3, stop id1",
        ),
        # by hand: no restart, and a reason that says so
        (
            ("exited 143", "running"),
            {"retries": ONCE, "told": (GO, {"e": "hand", "id": "id0"})},
            "hand main/0 was stopped by hand, stop id1",
        ),
    ],
)
def test_the_next_thing_to_do(said: tuple[str, ...], facts: dict[str, Any], action: str) -> None:
    assert next_of(*said, **facts) == action


def test_a_removed_replica_ends_the_others() -> None:
    assert next_of("running") == "lost main/1 was removed by hand, stop id0"


def test_a_restart_of_version_0_1_that_was_begun_is_resumed_and_not_counted_again() -> None:
    """Its watcher recorded a restart before it stopped the peers: they are stopped before they start."""
    assert next_of("exited 3", "running", told=(GO, PENDING), retries=ONCE) == "start id0 id1"


def test_a_restart_resumes_with_the_containers_that_it_has_not_reached() -> None:
    half = {**RESTARTED, "was": {"id0": 10.0, "id1": 2.0}}
    assert next_of("exited 3", "running", told=(GO, half), retries=ONCE) == "start id0"


def test_a_role_restarts_alone() -> None:
    found = [container(0, "exited 3", retries=[1, "ROLE"]), container(0, "running", labels_of="other")]
    expected = [("main", 0), ("other", 0)]
    assert next_step(found, journal(GO), expected=expected) == "restart role main, start id0"


ALONE = {**RESTARTED, "policy": "REPLICA", "again": [["main", 0]]}
PAUSED = {**ALONE, "was": {"id0": 10.0}, "delay_s": 150}  # at 2, so until 152
USED = {**ALONE, "again": [["main", 1]], "was": {"id1": 2.0}, "delay_s": 9}
SLOWLY = (2, "REPLICA", 9)


@pytest.mark.parametrize(
    ("said", "facts", "action"),
    [
        (("exited 3", "running"), {}, "restart replica main/0 in 9 s"),
        # each replica has retries of its own, and its pause doubles
        (("exited 3", "running"), {"told": (GO, USED)}, "restart replica main/0 in 9 s"),
        (("exited 0", "exited 3"), {"told": (GO, USED)}, "restart replica main/1 in 18 s"),
        # in the pause, with another replica that runs and with none
        (("exited 3", "running"), {"told": (GO, PAUSED)}, "wait until 152"),
        (("exited 3", "exited 0"), {"told": (GO, PAUSED)}, "wait until 152"),
        (("exited 3", "running"), {"told": (GO, PAUSED), "timeout_s": 119}, "wait until 120"),
        (("exited 3", "running"), {"told": (GO, PAUSED), "timeout_s": 199}, "wait until 152"),
        # another failure: with retries left, and for good
        (("exited 3", "exited 4"), {"told": (GO, PAUSED)}, "restart replica main/1 in 9 s"),
        (
            ("exited 3", "exited 4"),
            {"told": (GO, PAUSED, USED, USED)},
            "peer main/1 exited with 4, stop id0",
        ),
        # the end of the time, and a cancellation
        (
            ("exited 3", "exited 0"),
            {"told": (GO, PAUSED), "timeout_s": 99},
            "timeout timed out after 99 s, stop id0",
        ),
        (("exited 3", "exited 0"), {"told": (GO, PAUSED, CANCEL)}, "cancel cancelled by me, stop id0"),
        # a client of another home cancels: its mark is all that shows it
        (("exited 3.cancelled", "exited 0"), {"told": (GO, PAUSED)}, "end cancelled"),
        (("exited 3.cancelled", "running"), {"told": (GO, PAUSED)}, "stop id1"),
    ],
)
def test_a_pause_hides_nothing_else(said: tuple[str, ...], facts: dict[str, Any], action: str) -> None:
    assert next_of(*said, **{"retries": SLOWLY, **facts}) == action


def test_after_its_pause_a_restart_is_resumed() -> None:
    over = (
        {**PAUSED, "delay_s": 98},
        {**PAUSED, "again": [["main", 1]], "was": {"id1": 11.0}, "delay_s": 98},
    )
    assert next_of("exited 3", "exited 4", told=(GO, *over), retries=SLOWLY) == "start id0"


def test_a_role_in_its_pause_waits() -> None:
    retries = (1, "ROLE", 9)
    restart = {**RESTARTED, "policy": "ROLE", "was": {"id0": 10.0, "id1": None}, "delay_s": 150}
    assert next_of("exited 3", "created", told=(GO, restart), retries=retries) == "wait until 152"


def test_a_stop_that_an_earlier_run_was_given_is_not_of_this_one() -> None:
    """As a watcher reads the record of one before it, which has restarted a role."""
    events = [
        {"e": "starting", "t": 10**9},
        *({"e": "spawn", "role": "main", "k": k, "id": f"id{k}", "start": 1.0, "t": 10**9} for k in (0, 1)),
        {"e": "exit", "role": "main", "k": 0, "code": 3, "t": 2 * 10**9},
        {"e": "stopping", "why": "restart", "by": "main/0", "t": 2 * 10**9},
        {"e": "exit", "role": "main", "k": 1, "code": 143, "stopped": True, "t": 3 * 10**9},
        {"e": "quiet", "t": 3 * 10**9},
        {"e": "restart", "scope": "app", "role": "main", "k": 0, "n": 1, "t": 3 * 10**9},
    ]
    found = both("running", "running", retries=ONCE)
    assert next_step(found, Journal(events), expected=EXPECTED) == "wait"
