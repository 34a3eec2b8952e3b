"""Replicas out of containers, journal and expected_replicas."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.schedulers.docker.journal import Journal, RecordedExit, RecordedStop
from launcher.schedulers.docker.replicas import replicas
from tests.unit.docker.test_status import container


def only(said: str, told: Journal | None = None, **facts: Any) -> Any:
    (found,) = replicas([container(0, said, **facts)], told or Journal(), [])
    return found


@pytest.mark.parametrize(
    ("said", "stopped", "state", "exit_code"),
    [
        ("created", False, "pending", None),
        ("created", True, "cancelled", None),
        ("created.cancelled", False, "cancelled", None),
        ("running", False, "running", None),
        ("running", True, "running", None),
        ("restarting 1", False, "running", None),
        ("exited 0", False, "succeeded", 0),
        ("exited 3", False, "failed", 3),
        ("exited 0", True, "cancelled", 0),
        ("exited 143", True, "cancelled", 143),
        ("exited 0.timed-out", False, "cancelled", 0),
        ("exited 137.timed-out", False, "cancelled", 137),
        ("exited 143.stopped", False, "cancelled", 143),
    ],
)
def test_the_state_of_a_replica(said: str, stopped: bool, state: str, exit_code: int | None) -> None:
    found = only(said, Journal(stopped={"id0"}) if stopped else None)
    assert (found.state, found.exit_code) == (state, exit_code)


def test_why_it_was_stopped_does_not_change_that_it_was() -> None:
    told = Journal(stopped={"id0"}, stop=RecordedStop(why="timeout"))
    assert only("exited 137", told).state == "cancelled"


def test_one_that_ended_by_itself_when_the_others_timed_out_ended_as_it_did() -> None:
    told = Journal(stopped={"id1"}, stop=RecordedStop(why="timeout"))
    assert only("exited 0", told).state == "succeeded"
    assert only("exited 3", told).state == "failed"


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed")])
def test_a_pruned_replica_is_as_its_end_on_record(code: int, state: str) -> None:
    end = RecordedExit(code=code, oom=code == 3, started_at=1.0, ended_at=2.0, restarts=4)
    (found,) = replicas([], Journal(exits={("main", 0): end}), [])
    assert (found.state, found.exit_code, found.id) == (state, code, "")
    assert (found.oom, found.started_at, found.ended_at, found.num_restarts) == (code == 3, 1.0, 2.0, 4)


@pytest.mark.parametrize(("started_at", "code"), [(10.0, 0), (5.0, 255), (None, 255)])
def test_the_exit_code_on_record_counts_for_its_own_run(started_at: float | None, code: int) -> None:
    """An engine that was killed as a container ended says 255 of it when it is back."""
    told = Journal(exits={("main", 0): RecordedExit(code=0, started_at=started_at)})
    assert only("exited 255", told).exit_code == code


def test_a_container_speaks_louder_than_an_end_on_record() -> None:
    assert only("running", Journal(exits={("main", 0): RecordedExit(code=3)})).state == "running"


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (Journal(), "pending"),
        (Journal(going_at=1.0), "lost"),
        (Journal(exits={("other", 0): RecordedExit(code=0)}), "lost"),
    ],
)
def test_one_without_a_container_is_lost_once_the_app_was_started(told: Journal, state: str) -> None:
    by_label = {each.label: each.state for each in replicas([], told, [("main", 0)])}
    assert by_label["main/0"] == state


def test_roles_come_in_the_expected_order_and_replicas_by_number() -> None:
    known = [("z", 0), ("z", 1), ("a", 0)]
    found = replicas([container(1, labels_of="z"), container(0, labels_of="z")], Journal(), known)
    assert [each.label for each in found] == ["z/0", "z/1", "a/0"]
