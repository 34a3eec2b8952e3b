"""Replicas, derived from containers, journal and the replicas that are expected."""

from typing import Any

import pytest

from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.status import DockerAppView, DockerReplica, view
from tests.unit.docker.test_status import container

STARTING: dict[str, Any] = {"e": "starting", "t": 10**9}


def spawn(k: int, start: float | None = None) -> dict[str, Any]:
    return {"e": "spawn", "role": "main", "k": k, "id": f"id{k}", "start": start, "t": 10**9}


def exit_(k: int, code: int | None, **facts: Any) -> dict[str, Any]:
    return {"e": "exit", "role": "main", "k": k, "id": f"id{k}", "code": code, "t": 2 * 10**9, **facts}


def halt(k: int, start: float | None = None) -> dict[str, Any]:
    return {"e": "halt", "of": {f"id{k}": start}}


def seen(*state_text: str, events: list[dict[str, Any]] | None = None, **facts: Any) -> DockerAppView:
    """Return an app of replicas that were started, as far as containers and events show."""
    found = [container(k, each, **facts) for k, each in enumerate(state_text) if each]
    app = view(found, Journal([STARTING, *(events or [])]), expected_replicas=[("main", k) for k in (0, 1)])
    assert app is not None
    return app


def only(state_text: str, *events: dict[str, Any], **facts: Any) -> DockerReplica:
    return seen(state_text, "running", events=list(events), **facts).replicas[0]


@pytest.mark.parametrize(
    ("state_text", "halted", "state", "exit_code"),
    [
        ("created", False, "pending", None),
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
def test_a_replica_has_the_state_and_exit_code_of_its_container(
    state_text: str, halted: bool, state: str, exit_code: int | None
) -> None:
    found = only(state_text, *([halt(0)] if halted else []))
    assert (found.state, found.exit_code) == (state, exit_code)


@pytest.mark.parametrize(("start", "state"), [(9.0, "failed"), (10.0, "cancelled"), (11.0, "cancelled")])
def test_a_stop_of_an_earlier_run_does_not_count_for_the_current_run(start: float, state: str) -> None:
    """The start that the engine reports of a run may move back a little when the run ends."""
    assert only("exited 143", spawn(0, 10.0), halt(0, start)).state == state


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed")])
def test_a_pruned_replica_has_the_state_of_its_recorded_end(code: int, state: str) -> None:
    found = seen("", "running", events=[spawn(0, 1.0), exit_(0, code)]).replicas[0]
    assert (found.state, found.exit_code, found.id) == (state, code, "")
    assert (found.started_at, found.ended_at) == (1.0, 2.0)


@pytest.mark.parametrize(("start", "code"), [(10.0, 0), (10.5, 0), (5.0, 255)])
def test_the_exit_code_on_record_counts_for_its_own_run(start: float, code: int) -> None:
    """An engine that was killed as a container ended shows 255 for it when it is back."""
    assert only("exited 255", spawn(0, start), exit_(0, 0)).exit_code == code


def test_a_container_that_runs_counts_more_than_an_end_on_record() -> None:
    assert only("running", spawn(0, 10.0), exit_(0, 3)).state == "running"


def test_a_replica_that_was_spared_has_ended_by_itself_whatever_its_end_on_record_says() -> None:
    events = [spawn(0, 10.0), halt(0, 10.0), exit_(0, 0, stopped=True), {"e": "spared", "of": ["id0"]}]
    assert only("exited 0", *events).state == "succeeded"


def test_a_replica_without_a_container_is_lost_once_the_app_was_started() -> None:
    found = seen("running", "")
    assert [each.state for each in found.replicas] == ["running", "lost"]
    assert found.replicas[1].message == "its container was removed"
    assert [each.state for each in seen("created", "").replicas] == ["pending", "pending"]


def test_roles_come_in_the_expected_order_and_replicas_by_number() -> None:
    known = [("z", 0), ("z", 1), ("a", 0)]
    found = view([container(1, labels_of="z"), container(0, labels_of="z")], expected_replicas=known)
    assert [each.label for each in found.replicas] == ["z/0", "z/1"]


def test_each_restart_of_the_engine_counts_once() -> None:
    events = [
        spawn(0, 5.0),
        {"e": "restart", "scope": "replica", "role": "main", "k": 0, "n": 1, "by": "engine"},
    ]
    found = seen("running", "running", events=events, restarts=3)
    assert [each.num_restarts for each in found.replicas] == [3, 3]
    assert found.num_restarts == 6
