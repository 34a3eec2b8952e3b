"""What a watcher does next, out of what it sees: a table."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.status import view
from launcher.schedulers.docker.watching.decide import (
    Action,
    End,
    Halt,
    Leave,
    Restart,
    Start,
    Stop,
    Wait,
    aim,
    cancel_message,
    decide,
)
from tests.unit.docker.test_status import EXPECTED, container, journal

GO: dict[str, Any] = {"e": "go"}
CANCEL: dict[str, Any] = {"e": "cancel", "by": "me"}
OF_BOTH: dict[str, Any] = {"e": "stop", "of": ["id0", "id1"], "message": "so"}
RESTARTED: dict[str, Any] = {"e": "restart", "role": "main", "policy": "APPLICATION", "again": []}
PENDING = {**RESTARTED, "was": {"id0": 10.0, "id1": 11.0}}  # as the start times of these containers
DONE = {**RESTARTED, "was": {"id0": 1.0, "id1": 2.0}}
ENDED: dict[str, Any] = {"e": "end", "state": "failed"}
ALL = ("id0", "id1")


def next_of(
    *said: str,
    told: tuple[dict[str, Any], ...] = (GO,),
    retries: tuple[int | str, ...] = (0, "APPLICATION"),
    deadline: float | None = None,
) -> Action:
    found = [container(k, each, retries=list(retries)) for k, each in enumerate(said)]
    known = journal(*told)
    app = view(found, known, expected_replicas=EXPECTED)
    return decide(app, found, known, retries=Labels(found[0].labels).retries, deadline=deadline, now=100.0)


def both(*said: str, retries: tuple[int | str, ...] = (0, "APPLICATION")) -> tuple[Container, ...]:
    return tuple(container(k, each, retries=list(retries)) for k, each in enumerate(said))


ONCE = (1, "APPLICATION")


@pytest.mark.parametrize(
    ("said", "facts", "action"),
    [
        (("running", "running"), {}, Wait()),
        (("running", "exited 0"), {"deadline": 200.0}, Wait(200.0)),
        (("exited 0", "exited 0"), {}, End()),
        (("exited 0", "exited 0"), {"told": (GO, ENDED)}, Leave()),
        # what fails stops the rest; what ended by itself is not told to stop
        (("exited 3", "running"), {}, Stop(("id1",), "peer")),
        (("exited 3", "exited 0"), {}, End()),
        (("exited 3", "created"), {}, End()),
        # a limit, the second it is reached; none that has ended is told
        (("running", "running"), {"deadline": 100.0}, Stop(ALL, "timeout")),
        (("running", "exited 0"), {"deadline": 99.0}, Stop(("id0",), "timeout")),
        (("exited 0", "exited 0"), {"deadline": 99.0}, End()),
        # a cancellation, with its words; one that came too late
        (("running", "created"), {"told": (GO, CANCEL)}, Stop(ALL, "cancel", "cancelled by me")),
        (("exited 0", "exited 0"), {"told": (GO, CANCEL)}, End()),
        (
            ("exited 3", "running"),
            {"told": (GO, CANCEL), "retries": ONCE},
            Stop(("id1",), "cancel", "cancelled by me"),
        ),
        # a stop that was begun goes on for its first reason
        (
            ("running", "exited 143"),
            {"told": (GO, {**OF_BOTH, "why": "timeout"}, CANCEL)},
            Stop(("id0",), "timeout", "so"),
        ),
        (("exited 143", "exited 0"), {"told": (GO, {**OF_BOTH, "why": "timeout"})}, End()),
        # what was not started yet
        (("running", "created"), {}, Start((container(1, "created"),))),
        (("exited 0", "created"), {}, Start((container(1, "created"),))),
        # restarts, until they are used up
        (
            ("exited 3", "running"),
            {"retries": ONCE},
            Restart("main", "APPLICATION", both("exited 3", "running", retries=ONCE)),
        ),
        (("exited 3", "running"), {"retries": ONCE, "told": (GO, DONE)}, Stop(("id1",), "peer")),
        (("exited 3", "running"), {"retries": (1, "REPLICA")}, Stop(("id1",), "peer")),
        (("exited 3", "running"), {"retries": ONCE, "told": (GO, {"e": "adopted"})}, Stop(("id1",), "peer")),
        # by hand: no restart, and said so
        (
            ("exited 143", "running"),
            {"retries": ONCE, "told": (GO, {"e": "hand", "id": "id0"})},
            Stop(("id1",), "hand"),
        ),
    ],
)
def test_the_next_thing_to_do(said: tuple[str, ...], facts: dict[str, Any], action: Action) -> None:
    assert next_of(*said, **facts) == action


def test_nothing_is_left_to_do_for_what_is_gone() -> None:
    assert decide(None, [], Journal(), retries={}, deadline=None, now=0.0) == Leave()


def test_a_removed_replica_ends_the_others() -> None:
    assert next_of("running") == Stop(("id0",), "lost", "main/1 was removed by hand")


def test_a_restart_that_was_begun_is_resumed_and_not_counted_again() -> None:
    """`again`: the journal has it, so that the watcher does not write it a second time."""
    action = next_of("exited 3", "running", told=(GO, PENDING), retries=ONCE)
    assert isinstance(action, Restart)
    assert (action.again, [each.id for each in action.containers]) == (True, ["id0", "id1"])
    fresh = next_of("exited 3", "running", retries=ONCE)
    assert isinstance(fresh, Restart)
    assert not fresh.again


def test_a_restart_resumes_with_the_containers_that_it_has_not_reached() -> None:
    half = {**RESTARTED, "was": {"id0": 10.0, "id1": 2.0}}
    action = next_of("exited 3", "running", told=(GO, half), retries=ONCE)
    assert isinstance(action, Restart)
    assert [each.id for each in action.containers] == ["id0"]


def test_a_role_restarts_alone() -> None:
    found = [container(0, "exited 3", retries=[1, "ROLE"]), container(1, "running", labels_of="other")]
    app = view(found, journal(GO), expected_replicas=[("main", 0), ("other", 1)])
    action = decide(app, found, journal(GO), retries={"main": (1, "ROLE", 0)}, deadline=None, now=0.0)
    assert action == Restart("main", "ROLE", (found[0],))


def test_the_aim_changes_when_a_container_has() -> None:
    before, after = both("exited 3", "running"), both("running", "running")
    action = Restart("main", "APPLICATION", before)
    assert aim(action, before) == aim(action, before[::-1])
    assert aim(action, before) != aim(action, after)
    assert aim(action, before) != aim(Start(before), before)
    assert aim(Stop(("id0",), "peer"), before) != aim(Stop(("id1",), "peer"), before)
    assert aim(Wait(), before) is aim(End(), before) is aim(Leave(), before) is None


def test_the_words_of_a_cancellation() -> None:
    assert cancel_message("me") == "cancelled by me"
    assert cancel_message("me", interrupt=True) == "interrupted by me"
    assert cancel_message("") == "cancelled"


ALONE = {**RESTARTED, "policy": "REPLICA"}
PAUSED = {**ALONE, "was": {"id0": 10.0}, "delay_s": 150}  # at 2, so until 152
USED = {**ALONE, "was": {"id1": 2.0}, "delay_s": 9}
SLOWLY = (2, "REPLICA", 9)


def of_pause(k: int, *said: str, delay_s: int) -> Restart:
    return Restart("main", "REPLICA", (both(*said, retries=SLOWLY)[k],), delay_s=delay_s)


@pytest.mark.parametrize(
    ("said", "facts", "action"),
    [
        (("exited 3", "running"), {}, of_pause(0, "exited 3", "running", delay_s=9)),
        # each replica has retries of its own, and its pause doubles
        (("exited 3", "running"), {"told": (GO, USED)}, of_pause(0, "exited 3", "running", delay_s=9)),
        (("exited 0", "exited 3"), {"told": (GO, USED)}, of_pause(1, "exited 0", "exited 3", delay_s=18)),
        # in the pause, with another replica that runs and with none
        (("exited 3", "running"), {"told": (GO, PAUSED)}, Wait(152.0)),
        (("exited 3", "exited 0"), {"told": (GO, PAUSED)}, Wait(152.0)),
        (("exited 3", "running"), {"told": (GO, PAUSED), "deadline": 120.0}, Wait(120.0)),
        (("exited 3", "running"), {"told": (GO, PAUSED), "deadline": 200.0}, Wait(152.0)),
        # another failure: with retries left, and for good
        (("exited 3", "exited 4"), {"told": (GO, PAUSED)}, of_pause(1, "exited 3", "exited 4", delay_s=9)),
        (("exited 3", "exited 4"), {"told": (GO, PAUSED, USED, USED)}, Stop(("id0",), "peer")),
        # the end of the time, and a cancellation
        (("exited 3", "exited 0"), {"told": (GO, PAUSED), "deadline": 100.0}, Stop(("id0",), "timeout")),
        (
            ("exited 3", "exited 0"),
            {"told": (GO, PAUSED, CANCEL)},
            Stop(("id0",), "cancel", "cancelled by me"),
        ),
        (("exited 3", "exited 0"), {"told": (GO, PAUSED, CANCEL, {**OF_BOTH, "why": "cancel"})}, End()),
        # a client of another home cancels: its mark is all that shows it
        (("exited 3.cancelled", "exited 0"), {"told": (GO, PAUSED)}, End()),
        (
            ("exited 3.cancelled", "running"),
            {"told": (GO, PAUSED)},
            Stop(("id1",), "cancel", "cancelled"),
        ),
    ],
)
def test_a_pause_hides_nothing_else(said: tuple[str, ...], facts: dict[str, Any], action: Action) -> None:
    assert next_of(*said, **{"retries": SLOWLY, **facts}) == action


def test_after_its_pause_a_restart_is_resumed() -> None:
    over = ({**PAUSED, "delay_s": 98}, {**PAUSED, "was": {"id1": 11.0}, "delay_s": 98})
    said = ("exited 3", "exited 4")
    first = both(*said, retries=SLOWLY)[:1]
    assert next_of(*said, told=(GO, *over), retries=SLOWLY) == Restart("main", "REPLICA", first, again=True)


def test_what_runs_is_stopped_before_the_pause_and_what_never_ran_waits_for_its_end() -> None:
    retries = (1, "ROLE", 9)
    told = (GO, {**RESTARTED, "policy": "ROLE", "was": {"id0": 10.0, "id1": 11.0}, "delay_s": 150})
    found = both("exited 3", "running", retries=retries)
    assert next_of("exited 3", "running", told=told, retries=retries) == Halt(found[1:])
    told = (GO, {**RESTARTED, "policy": "ROLE", "was": {"id0": 10.0, "id1": None}, "delay_s": 150})
    assert next_of("exited 3", "created", told=told, retries=retries) == Wait(152.0)


def test_the_start_after_a_pause_has_another_aim_than_its_record() -> None:
    found = both("exited 3", "running")
    recorded = Restart("main", "REPLICA", found[:1], delay_s=9)
    assert aim(recorded, found) != aim(Restart("main", "REPLICA", found[:1], again=True), found)
