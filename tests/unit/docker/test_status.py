"""The state of an app, derived from its containers and its journal."""

import json
from typing import Any

import pytest

from launcher.dataclass import replace
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.facts import declaration
from launcher.schedulers.docker.journal import Journal, fold
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.status import DockerAppView, longest_pause_s, paused, view

EXPECTED = [("main", 0), ("main", 1)]


def container(k: int, state_text: str = "running", **facts: Any) -> Container:
    """Replica main/k: `state_text` is a state, or "exited N"; a mark may follow after a dot."""
    state_text, _, mark = state_text.partition(".")
    state, _, code = state_text.partition(" ")
    labels: dict[str, str] = {
        "launcher.app-id": "app",
        "launcher.scheduler": "local_docker",
        "launcher.replicas": "2",
        "launcher.retries": json.dumps({"main": facts.pop("retries", [0, "APPLICATION"])}),
        "launcher.role": facts.pop("labels_of", "main"),
        "launcher.replica": str(k),
        "launcher.part": facts.pop("part", "replica"),
    }
    times: dict[str, Any] = {} if state in ("created", "removing") else {"started_at": 10.0 + k}
    ended: dict[str, Any] = {"exit_code": int(code)} if code else {}
    ended |= {"ended_at": 20.0 + k} if state in ("exited", "dead") else {}
    name = f"app-main-{k}{'.' + mark if mark else ''}"
    return Container(
        id=f"id{k}", name=name, state=state, labels=labels, inspected=True, **times, **ended, **facts
    )


def journal(*lines: dict[str, object]) -> Journal:
    return fold(
        b"".join(json.dumps({"t": 1.0 + at, **line}).encode() + b"\n" for at, line in enumerate(lines))
    )


def viewed(
    containers: list[Container], record_events: Journal | None, expected: list[tuple[str, int]], **facts: Any
) -> DockerAppView | None:
    """Return the view of an app: the same whether its journal declares the app, or its labels alone do."""
    found = view(containers, record_events, expected_replicas=expected, **facts)
    if record_events is not None and containers:
        counts = {role: 1 + max(k for name, k in expected if name == role) for role, _ in expected}
        first = declaration(Labels(containers[0].labels), counts)
        declared = Journal([first, *record_events.events])
        assert view(containers, declared, **facts) == found
    return found


def seen(*state_text: str, record_events: Journal | None = None, **facts: Any) -> DockerAppView:
    found = viewed(
        [container(k, each, **facts) for k, each in enumerate(state_text)], record_events, EXPECTED
    )
    assert found is not None
    return found


RESTARTS: dict[str, Any] = {"retries": [1, "APPLICATION"]}
STOPPING = {"e": "stop", "of": ["id0", "id1"]}


@pytest.mark.parametrize(
    ("state_text", "state"),
    [
        (("created",), "reserved"),
        (("created", "created"), "created"),
        (("running", "created"), "running"),
        (("running", "running"), "running"),
        (("paused", "exited 0"), "running"),
        (("restarting 1", "exited 0"), "running"),
        (("exited 0", "created"), "running"),
        (("exited 0", "exited 0"), "succeeded"),
        (("exited 0", "exited 3"), "failed"),
        (("exited 3", "running"), "running"),  # until its peer has been stopped
        (("exited 143.cancelled", "exited 0"), "cancelled"),
        (("exited 0.cancelled", "exited 0.cancelled"), "cancelled"),
        (("exited 137.timed-out", "exited 0"), "failed"),
        (("exited 3", "exited 143.stopped"), "failed"),
        (("running",), "lost"),
        (("exited 0",), "lost"),
    ],
)
def test_the_state_is_derived_from_containers_without_a_journal(
    state_text: tuple[str, ...], state: str
) -> None:
    assert seen(*state_text).state == state


def test_an_id_without_containers_and_journal_has_no_app() -> None:
    assert view([], None) is None


def test_a_reservation_without_replicas_is_reserved() -> None:
    assert seen("created", part="reservation").state == "reserved"


def test_a_started_app_without_containers_is_lost() -> None:
    found = view([], journal({"e": "go"}))
    assert (found.state, found.message, found.drift) == ("lost", *["its containers were removed"] * 2)
    found = view([], journal({"e": "go"}), expected_replicas=EXPECTED[:1])
    assert found.drift == "main/0 was removed by hand"
    found = view([], journal({"e": "go"}), expected_replicas=EXPECTED)
    assert found.drift == "main/0, main/1 were removed by hand"
    assert [each.state for each in found.replicas] == ["lost", "lost"]


def test_a_removed_replica_is_named() -> None:
    found = seen("running")
    assert found.drift == found.message == "main/1 was removed by hand"


def test_a_replica_that_ended_on_record_may_be_pruned() -> None:
    ended: dict[str, Any] = {"e": "exit", "role": "main", "k": 1, "code": 0}
    found = seen("running", record_events=journal({"e": "go"}, ended))
    assert (found.state, found.drift) == ("running", "")


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "lost"])
def test_a_recorded_outcome_outlives_the_containers(state: str) -> None:
    found = view([], journal({"e": "go"}, {"e": "end", "state": state, "message": "so", "code": None}))
    assert (found.state, found.message, found.final) == (state, "so", True)


def test_an_out_of_memory_kill_is_reported() -> None:
    assert seen("exited 137", "exited 137", oom=True).message == "main/0 was killed: out of memory"


def test_a_failure_without_a_journal_is_the_end_of_the_app() -> None:
    assert seen("exited 3", "exited 0", **RESTARTS).state == "failed"
    assert seen("exited 3", "exited 0", record_events=journal({"e": "adopted"}), **RESTARTS).state == "failed"


def test_a_restart_goes_on_until_each_container_has_another_start_time() -> None:
    restart = {"e": "restart", "role": "main", "policy": "APPLICATION", "again": [["main", 0], ["main", 1]]}
    pending = journal({"e": "go"}, {**restart, "was": {"id0": 1.0, "id1": 11.0}})
    assert seen("exited 0", "exited 0", record_events=pending, **RESTARTS).state == "running"
    done = journal({"e": "go"}, {**restart, "was": {"id0": 1.0, "id1": 2.0}})
    assert seen("exited 3", "exited 0", record_events=done, **RESTARTS).state == "failed"
    assert seen("exited 3", "exited 0", record_events=done, **RESTARTS).num_restarts == 1


def test_replicas_that_were_never_started_are_counted() -> None:
    assert seen("running", "created").unstarted == 1
    assert seen("created", "created").unstarted == 0


def test_a_torn_line_of_the_journal_is_ignored() -> None:
    assert fold(b'{"e":"go","t":1.0}\n{"e":"end","t":2.0,"sta').outcome is None
    assert fold(b'garbage\n[1]\n{"e":"go","t":1.0}\n').app.started_at == 1.0


def test_a_container_that_is_being_removed_counts_as_removed() -> None:
    found = seen("exited 0", "removing")
    assert (found.state, found.drift) == ("lost", "main/1 was removed by hand")
    assert view([container(0, "removing"), container(1, "removing")], expected_replicas=EXPECTED) is None


def test_an_end_on_record_stays_while_the_containers_are_being_removed() -> None:
    record_events = journal({"e": "go"}, {"e": "end", "state": "succeeded"})
    assert seen("removing", "removing", record_events=record_events).state == "succeeded"


def test_a_replica_that_was_never_started_does_not_count_as_started_during_its_removal() -> None:
    assert seen("created", "removing").started is False


def test_a_failed_first_start_is_the_message_of_the_failed_app() -> None:
    stop = {"e": "stop", "of": ["id0", "id1"], "why": "start", "message": "main/0 could not be started"}
    found = seen("created.stopped", "created.stopped", record_events=journal({"e": "go"}, stop))
    assert (found.state, found.message, found.started) == ("failed", stop["message"], False)


def test_a_replica_that_the_engine_could_not_restart_is_reported_without_a_journal() -> None:
    error = "Bind for 0.0.0.0:80 failed: port is already allocated"
    found = seen("exited 128", "exited 0", error=error, restarts=1)
    assert found.message.startswith("main/0 could not be started again: Bind for")


@pytest.mark.parametrize(
    ("state", "waits"), [("paused", "paused"), ("restarting 1", "waits to be restarted")]
)
def test_the_state_of_a_container_says_what_its_replica_waits_for(state: str, waits: str) -> None:
    assert seen(state, "running").replicas[0].waits == waits


HAND = {"e": "hand", "id": "id0", "started_at": 10.0}


def test_a_run_after_the_run_that_was_stopped_by_hand_can_fail() -> None:
    found = seen("exited 3", "exited 0", record_events=journal({"e": "go"}, {**HAND, "started_at": 9.0}))
    assert (found.state, found.message) == ("failed", "main/0 exited with 3")
    stopped = seen("exited 3", "exited 0", record_events=journal({"e": "go"}, HAND))
    assert (stopped.state, stopped.drift) == ("cancelled", "main/0 was stopped by hand")


def test_a_replica_that_ended_before_the_stop_does_not_count_as_stopped() -> None:
    peers = {**STOPPING, "why": "peer"}
    spared = {"e": "spared", "of": ["id1"]}
    assert _failed(journal({"e": "go"}, peers, spared)) == ["main/1"]
    assert _failed(journal({"e": "go"}, peers, peers, spared)) == []  # the other one may have stopped it


def _failed(record_events: Journal) -> list[str]:
    return [
        each.label
        for each in seen("exited 143", "exited 4", record_events=record_events).replicas
        if each.state == "failed"
    ]


def test_an_end_on_record_does_not_count_for_removed_replicas() -> None:
    ended: dict[str, Any] = {"e": "exit", "role": "main", "k": 0, "code": 0}
    found = view([], journal({"e": "go"}, ended), expected_replicas=EXPECTED)
    assert (found.state, found.message) == ("lost", "main/1 was removed by hand")


SLOWLY: dict[str, Any] = {"retries": [1, "REPLICA", 9]}
PAUSE: dict[str, Any] = {"e": "restart", "role": "main", "policy": "REPLICA", "was": {"id0": 10.0}}
PAUSE |= {"again": [["main", 0]], "delay_s": 9}


@pytest.mark.parametrize("other", ["running", "exited 0"])
def test_a_replica_in_its_pause_waits_and_its_app_runs(other: str) -> None:
    found = seen("exited 3", other, record_events=journal({"e": "go"}, PAUSE), **SLOWLY)
    assert (found.state, found.final, found.unstarted, found.num_restarts) == ("running", False, 0, 1)
    first, second = found.replicas
    assert (first.state, first.waits, first.exit_code, first.ended_at) == (
        "running",
        "waits to be restarted",
        None,
        None,
    )
    assert (first.num_restarts, second.num_restarts) == (1, 0)


def test_without_a_record_a_failed_replica_may_be_in_its_pause() -> None:
    found = seen("exited 3", "exited 0", **SLOWLY)
    assert (found.state, longest_pause_s(found, {"main": (2, "REPLICA", 9)})) == ("failed", 18)
    assert longest_pause_s(found, {"main": (2, "REPLICA", 0)}) == 0
    assert longest_pause_s(found, {"main": (0, "REPLICA", 9)}) == 0
    assert longest_pause_s(seen("exited 0", "exited 0"), {"main": (2, "REPLICA", 9)}) == 0
    waiting = paused(found)
    assert (waiting.state, waiting.exit_code, waiting.final) == ("running", None, False)
    assert [each.waits for each in waiting.replicas] == ["waits to be restarted", ""]


@pytest.mark.parametrize(
    ("created_at", "inspected", "state"),
    [
        (9.0, True, "lost"),
        (11.0, True, "created"),  # after the restart
        (9.5, False, "created"),  # listed times are whole seconds
        (8.0, False, "lost"),
        (None, True, "created"),
    ],
)
def test_a_container_that_was_to_start_before_the_engine_was_restarted_is_lost(
    created_at: float | None, inspected: bool, state: str
) -> None:
    found = [replace(container(k, "created"), created_at=created_at, inspected=inspected) for k in range(2)]
    before = viewed(found, journal({"e": "go"}), EXPECTED)
    shown = viewed(found, journal({"e": "go"}), EXPECTED, engine_started_at=10.0)
    assert before is not None
    assert shown is not None
    assert (before.state, before.hangs_on_restart, shown.state) == ("created", True, state)


@pytest.mark.parametrize("engine_started_at", [None, 10.0])
def test_without_an_order_to_start_a_restart_of_the_engine_loses_no_container(
    engine_started_at: float | None,
) -> None:
    found = [replace(container(k, "created"), created_at=9.0) for k in range(2)]
    shown = viewed(found, None, EXPECTED, engine_started_at=engine_started_at)
    assert shown is not None
    assert (shown.state, shown.hangs_on_restart) == ("created", False)


def test_a_restart_of_the_engine_loses_no_replica_that_waited_for_another_role() -> None:
    """The order to start does not say when it was due."""
    order = [["first", 1, {}], ["main", 1, {"depends_on": {"first": "succeeded"}}]]
    ended = container(0, "exited 0", labels_of="first")
    due = replace(container(0, "created"), id="id1", created_at=9.0)
    labels = {**due.labels, "launcher.order": json.dumps(order)}
    found = [replace(ended, labels=labels | ended.labels), replace(due, labels=labels)]
    begun = [{"e": "go"}, {"e": "exit", "role": "first", "k": 0, "id": "id0", "started_at": 10.0, "code": 0}]
    shown = view(found, journal(*begun), engine_started_at=10.0)
    assert shown is not None
    assert [each.state for each in shown.replicas] == ["succeeded", "pending"]
    assert shown.state == "running"
