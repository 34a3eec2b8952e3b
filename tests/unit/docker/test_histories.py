"""Histories of one app, containers and journal in, state out. The rows hold for every implementation."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.facts import ENGINE_STOPPED, UNSEEN, why_lost
from launcher.schedulers.docker.status import DockerAppView, view
from tests.unit.docker.test_status import EXPECTED, container, journal, viewed

GO: dict[str, Any] = {"e": "go"}  # at 1.0
BEFORE, AFTER = 5.0, 15.0
"""Starts of the engine: before the runs of the containers began (10.0, 11.0), and after."""


class Row(NamedTuple):
    """A history, and the state and the message of the app.

    Attributes:
        ends: when each replica ended, where not at 20.0 and 21.0.
    """

    state_text: tuple[str, str]
    events: tuple[dict[str, Any], ...]
    state: str
    message: str
    engine: float | None = BEFORE
    ends: tuple[float, float] | None = None
    retries: tuple[int, str] = (0, "APPLICATION")


def exit_(k: int, code: int, lost: str = "") -> dict[str, Any]:
    return {"e": "exit", "role": "main", "k": k, "code": code, "started_at": 10.0 + k, "lost": lost}


HAND = {"e": "hand", "id": "id0", "started_at": 10.0}
KILL = {"e": "kill", "id": "id0", "at": 19.0}
OLD_KILL = {"e": "kill", "id": "id0", "at": 9.0}
CANCEL = {"e": "cancel", "by": "me"}
STOPPED = {"e": "stop", "why": "cancel", "of": ["id0", "id1"], "message": "cancelled by me"}
ONE_LEFT = ("exited 0", "running")
BOTH = ("exited 0", "exited 0")

ROWS = {
    "the first to fail decides, not the first in order": Row(
        ("exited 3", "exited 5"), (GO,), "failed", "main/1 exited with 5", ends=(30.0, 20.0)
    ),
    "the first to fail was stopped by hand": Row(
        ("exited 143", "exited 5"), (GO, HAND), "cancelled", "main/0 was stopped by hand"
    ),
    "the first to fail restarts the app, though another was stopped by hand since": Row(
        ("exited 143", "exited 5"),
        (GO, HAND),
        "running",
        "",
        ends=(30.0, 20.0),
        retries=(1, "APPLICATION"),
    ),
    "an exit code counts on one run of the engine": Row(
        ("exited 143", "exited 0"), (GO,), "failed", "main/0 exited with 143 (128 + signal 15)"
    ),
    "an engine that does not show its start counts as never restarted": Row(
        BOTH, (GO,), "succeeded", "", engine=None
    ),
    "0 tells nothing when the engine was restarted": Row(BOTH, (GO,), "lost", UNSEEN, engine=AFTER),
    "a kill on record names the engine": Row(
        ("exited 0", "exited 137"), (GO, KILL), "lost", ENGINE_STOPPED, engine=AFTER
    ),
    "a kill of an earlier run names nothing": Row(BOTH, (GO, OLD_KILL), "lost", UNSEEN, engine=AFTER),
    "ends on record count after a restart of the engine": Row(
        BOTH, (GO, exit_(0, 0), exit_(1, 0)), "succeeded", "", engine=AFTER
    ),
    "one success on record does not speak for the other": Row(
        BOTH, (GO, exit_(0, 0)), "lost", UNSEEN, engine=AFTER
    ),
    "a failure on record comes before the end of a lost one": Row(
        ("exited 3", "exited 0"), (GO, exit_(0, 3)), "failed", "main/0 exited with 3", engine=AFTER
    ),
    "a lost replica takes the running ones with it": Row(
        ONE_LEFT, (GO, exit_(0, 0, ENGINE_STOPPED)), "lost", ENGINE_STOPPED
    ),
    "an engine that stops uses up no retries": Row(
        ("exited 137", "exited 137"),
        (GO, KILL),
        "lost",
        ENGINE_STOPPED,
        engine=AFTER,
        retries=(3, "APPLICATION"),
    ),
    "a cancellation comes before the engine": Row(
        BOTH, (GO, CANCEL), "cancelled", "cancelled by me", engine=AFTER
    ),
    "what launcher stopped is not the engine's doing": Row(
        ("exited 0", "exited 137"), (GO, CANCEL, STOPPED), "cancelled", "cancelled by me", engine=AFTER
    ),
    "the end of an app whose record was lost is its end": Row(BOTH, (GO, {"e": "adopted"}), "succeeded", ""),
    "a run that the engine started again goes on": Row(
        ("running", "running"), (GO, KILL), "running", "", engine=AFTER
    ),
}


def _found(row: Row) -> list[Container]:
    made = [container(k, each, retries=list(row.retries)) for k, each in enumerate(row.state_text)]
    return [replace(each, ended_at=at) for each, at in zip(made, row.ends, strict=True)] if row.ends else made


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_each_history_leads_to_its_expected_state_and_message(row: Row) -> None:
    found = _found(row)
    events = journal(*row.events)
    app = viewed(found, events, EXPECTED, engine_started_at=row.engine)
    assert (app.state, app.message) == (row.state, row.message)


WAIT = {"e": "wait", "for": ["prepare"]}
SKIPPED = {"e": "end", "state": "skipped", "message": "prepare failed"}


@pytest.mark.parametrize(
    ("others", "events", "state", "message"),
    [
        ((), (WAIT,), "waiting", "waits for prepare"),
        ((), (WAIT, {"e": "met", "job": "prepare"}, {"e": "queued"}), "queued", "waits for its turn"),
        ((), (WAIT, SKIPPED), "skipped", "prepare failed"),  # until its container is removed
        (("created", "created"), (WAIT,), "waiting", "waits for prepare"),  # its watcher creates them
        (("running", "created"), (WAIT,), "running", ""),
    ],
)
def test_an_attempt_waits_until_a_replica_was_started_or_its_end_is_on_record(others, events, state, message):
    found = [container(7, "created", part="waiting"), *(container(k, each) for k, each in enumerate(others))]
    app = view(found, journal(*events), expected_replicas=EXPECTED)
    assert (app.state, app.message) == (state, message)


@pytest.mark.parametrize(
    ("engine", "by_itself", "watched", "lost"),
    [
        (BEFORE, False, False, ""),
        (BEFORE, False, True, ""),
        (None, False, True, ""),
        (AFTER, True, True, ""),
        (AFTER, True, False, ""),
        (AFTER, False, True, ENGINE_STOPPED),
        (AFTER, False, False, UNSEEN),
        (10.0, False, True, ""),  # the engine's network is made before its first container starts
    ],
)
def test_an_end_that_launcher_did_not_request_is_lost_as_the_table_says(engine, by_itself, watched, lost):
    ended = container(0, "exited 0")
    assert why_lost(ended, journal(GO).app, engine, watched=watched, by_itself=by_itself) == lost


def _view(*state_text: str, events: tuple[dict[str, Any], ...] = (GO,), **facts: Any) -> DockerAppView:
    found = [container(k, each, **facts) for k, each in enumerate(state_text)]
    app = view(found, journal(*events), expected_replicas=EXPECTED)
    assert app is not None
    return app


def test_an_app_began_with_its_order_to_start_or_its_first_replica() -> None:
    assert _view("running", "running").started_at == 1.0
    assert _view("running", "running", events=()).started_at == 10.0
    late = [replace(container(k, "running"), started_at=0.5 + k) for k in (0, 1)]
    app = view(late, journal(GO), expected_replicas=EXPECTED)
    assert app.started_at == 0.5
    assert _view("created", "created", events=()).started_at is None


def test_an_app_ended_with_its_last_replica() -> None:
    assert _view("exited 0", "exited 0").ended_at == 21.0


def test_a_restart_of_a_role_counts_once_and_each_restart_of_a_replica_counts() -> None:
    whole = {"e": "restart", "role": "main", "policy": "ROLE", "was": {"id0": 1.0, "id1": 2.0}}
    whole["again"] = [["main", 0], ["main", 1]]
    alone = {**whole, "policy": "REPLICA", "was": {"id0": 1.0}, "again": [["main", 0]]}
    assert _view("running", "running", events=(GO, whole)).num_restarts == 1
    app = _view("running", "running", events=(GO, whole, alone, alone), restarts=3)
    assert app.num_restarts == 1 + 2 + 3 + 3
    assert [each.num_restarts for each in app.replicas] == [5, 3]
