"""Roles that wait for each other: state and next step, derived from labels, containers and journal."""

import dataclasses
import json
from typing import Any

import pytest

from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.job import job_labels
from launcher.schedulers.docker.labels import Labels, app_labels
from launcher.schedulers.docker.request import build_request
from launcher.schedulers.docker.status import DockerAppView, view
from launcher.specs import AppDef, Probe, Role
from tests.unit.docker.next_step import NOW, next_step, opened
from tests.unit.docker.test_status import journal, viewed

SERVED: dict[str, dict[str, Any]] = {
    "client": {"depends_on": {"server": "ready"}},
    "server": {"service": True, "ready": {"file": "up"}},
}
CHAIN: dict[str, dict[str, Any]] = {"data": {}, "train": {"depends_on": {"data": "succeeded"}}}
GO: dict[str, Any] = {"e": "go"}
READY: dict[str, Any] = {"e": "ready", "role": "server", "k": 0, "id": "server", "started_at": 10.0}
LATE: dict[str, Any] = {**READY, "e": "late", "why": "not ready after 60 s: there is no file up"}


def found_of(state_text: str, rules: dict[str, dict[str, Any]], retries: list[Any]) -> list[Container]:
    """Return containers by the state of one replica of each role, such as "created|exited 0.ended"."""
    made = []
    for role, each in zip(rules, state_text.split("|"), strict=True):
        state, _, mark = each.partition(".")
        state, _, code = state.partition(" ")
        labels = {
            "launcher.app-id": "app",
            "launcher.scheduler": "local_docker",
            "launcher.replicas": str(len(rules)),
            "launcher.retries": json.dumps(dict.fromkeys(rules, retries)),
            "launcher.order": json.dumps([[name, 1, rule] for name, rule in rules.items()]),
            "launcher.role": role,
            "launcher.replica": "0",
            "launcher.part": "replica",
        }
        made.append(
            Container(
                id=role,
                name=f"app-{role}-0{'.' + mark if mark else ''}",
                state=state,
                labels=labels,
                inspected=True,
                started_at=None if state == "created" else 10.0,
                ended_at=20.0 if state == "exited" else None,
                exit_code=int(code) if code else None,
            )
        )
    return made


class Seen:
    """An app with ordered roles, as one read shows it. `elsewhere`: its journal is not on this machine."""

    def __init__(
        self,
        state_text: str,
        *events: dict[str, Any],
        rules: dict[str, dict[str, Any]] = SERVED,
        retries: list[Any] | None = None,
        elsewhere: bool = False,
    ) -> None:
        self.containers = found_of(state_text, rules, retries or [0, "APPLICATION"])
        self.expected = [(role, 0) for role in rules]
        self.journal = journal(GO, *events)
        seen = viewed(self.containers, None if elsewhere else self.journal, self.expected)
        assert seen is not None
        self.view: DockerAppView = seen

    def next(self, timeout_s: float | None = None, now: float = NOW) -> str:
        return next_step(self.containers, self.journal, expected=self.expected, timeout_s=timeout_s, now=now)

    def states(self) -> list[str]:
        return [
            f"{each.role} {each.state}{' ' + each.waits if each.waits else ''}" for each in self.view.replicas
        ]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_waiting_role_is_pending_and_does_not_count_as_unstarted(elsewhere: bool) -> None:
    seen = Seen("created|running", elsewhere=elsewhere)
    assert seen.states() == ["client pending waiting for server (ready)", "server running"]
    assert (seen.view.state, seen.view.unstarted) == ("running", 0)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_app_between_two_roles_of_a_chain_is_running(elsewhere: bool) -> None:
    seen = Seen("exited 0|created", rules=CHAIN, elsewhere=elsewhere)
    assert (seen.view.state, seen.view.unstarted) == ("running", 0)


def test_a_replica_that_the_client_left_unstarted_counts_as_unstarted_and_is_started() -> None:
    rules = {**SERVED, "other": {}}
    assert Seen("created|running|created", rules=rules).view.unstarted == 1
    assert Seen("created|running|created", rules=rules).next() == "start other"


@pytest.mark.parametrize(
    ("state_text", "state", "message"),
    [
        ("exited 0|running", "running", ""),
        ("exited 0|exited 143.ended", "succeeded", ""),
        ("exited 0|exited 0", "succeeded", ""),  # a service may end first
        ("exited 3|exited 143.stopped", "failed", "client/0 exited with 3"),
        ("exited 143.cancelled|exited 143.cancelled", "cancelled", "cancelled"),
        ("created.stopped|exited 4", "failed", "server/0 exited with 4"),
    ],
)
def test_the_end_of_an_app_is_derived_from_names_and_labels_without_a_journal(
    state_text: str, state: str, message: str
) -> None:
    seen = Seen(state_text, elsewhere=True).view
    assert (seen.state, seen.message) == (state, message)


def test_an_app_has_not_ended_before_its_waiting_roles_are_stopped() -> None:
    assert Seen("created|exited 4").view.state == "running"
    assert Seen("created|exited 4", elsewhere=True).view.state == "failed"
    assert (
        Seen("created.stopped|exited 4", {"e": "stop", "why": "peer", "of": ["client"]}).view.state
        == "failed"
    )


def test_a_service_that_was_stopped_at_the_end_is_cancelled() -> None:
    [_, server] = Seen("exited 0|exited 0.ended", elsewhere=True).view.replicas
    assert (server.state, server.message) == ("cancelled", "stopped at the end of the app")


@pytest.mark.parametrize(
    ("state_text", "events", "facts", "action"),
    [
        # the end: services are stopped, whatever else is asked for by then
        ("exited 0|running", (READY,), {}, "end, stop server"),
        ("exited 0|running", ({"e": "cancel", "by": "me"},), {}, "end, stop server"),
        ("exited 0|running", ({"e": "stop", "why": "end", "of": ["server"]},), {}, "stop server"),
        ("created|exited 4", (), {}, "peer server/0 exited with 4, stop client"),
        (
            "created|exited 0",
            (),
            {},
            "peer server/0 ended before it was ready, and client waits for it, stop client",
        ),
        ("created|exited 0.cancelled", (), {}, "stop client"),
        ("created.cancelled|running", (), {}, "stop server"),
    ],
)
def test_the_next_step_follows_from_containers_journal_and_order_of_roles(state_text, events, facts, action):
    assert Seen(state_text, *events).next(**facts) == action


@pytest.mark.parametrize("state", ["removing", ""])
def test_after_the_removal_of_a_replica_only_the_roles_that_wait_for_it_are_left_to_stop(state: str) -> None:
    """A read may still show the container while the engine removes it, or not."""
    found = found_of("created|running", SERVED, [0, "APPLICATION"])
    found = [found[0], dataclasses.replace(found[1], state=state)] if state else found[:1]
    expected = [("client", 0), ("server", 0)]
    seen = view(found, journal(GO), expected_replicas=expected)
    assert (seen.state, seen.message, seen.started) == ("lost", "server/0 was removed by hand", True)
    assert (
        next_step(found, journal(GO), expected=expected) == "lost server/0 was removed by hand, stop client"
    )
    lines = journal(GO, {"e": "stop", "why": "lost", "of": ["client"], "message": "gone"})
    marked = dataclasses.replace(found[0], name="app-client-0.stopped")
    assert next_step([marked], lines, expected=expected) == "end lost"


def test_an_app_that_is_being_made_is_not_lost() -> None:
    found = found_of("created|created", SERVED, [0, "APPLICATION"])
    seen = view(found[:1], journal(), expected_replicas=[("client", 0), ("server", 0)])
    assert (seen.state, seen.started) == ("reserved", False)


def test_the_readiness_of_an_earlier_run_does_not_count() -> None:
    for run in ({"started_at": 5.0}, {"id": "another"}):
        seen = Seen("created|running", {**READY, **run})
        app = opened(seen.containers, seen.journal, seen.expected)
        assert not app.roles["server"].replicas[0].is_ready


def test_a_replica_that_was_not_ready_in_time_is_stopped_and_has_failed() -> None:
    assert Seen("created|running", LATE).next() == "halt server"
    halt = {"e": "stop", "why": "restart", "of": ["server"]}
    seen = Seen("created|exited 137", LATE, halt)
    assert seen.next() == f"peer server/0 was {LATE['why']}, stop client"
    ended = {"e": "exit", "role": "server", "k": 0, "code": 0, "started_at": 10.0, "ended_at": 20.0}
    stop = {"e": "stop", "why": "peer", "of": ["client"]}
    seen = Seen("created.stopped|exited 0", LATE, halt, ended, stop)
    assert (seen.view.state, seen.view.message) == ("failed", f"server/0 was {LATE['why']}")


def test_a_restart_of_the_app_starts_its_roles_in_order_again() -> None:
    retries = [1, "APPLICATION"]
    assert Seen("exited 3|running", READY, retries=retries).next() == "restart client/0, halt server"
    restart = {
        "e": "restart",
        "role": "client",
        "policy": "APPLICATION",
        "was": {"client": 10.0, "server": 10.0},
        "again": [["client", 0], ["server", 0]],
    }
    # killed before the server was stopped: it is stopped first, then started alone
    assert Seen("exited 3|running", READY, restart, retries=retries).next() == "start server"
    again = Seen("exited 3|exited 143", READY, restart, retries=retries)
    assert again.next() == "start server"
    assert again.states()[0] == "client pending waiting for server (ready)"
    restart["was"] = {"client": 10.0, "server": 5.0}  # the server was started again, and is not ready yet
    old = {**READY, "started_at": 5.0}
    assert Seen("exited 3|running", old, restart, retries=retries).next() == "wait"
    assert Seen("exited 3|running", old, restart, READY, retries=retries).next() == "start client"


def test_the_order_label_holds_the_rules_of_roles_and_is_absent_without_rules() -> None:
    server = Role("server", "i:1", entrypoint="s", num_replicas=2, service=True, ready=Probe(port=80))
    client = Role("client", "i:1", entrypoint="c", depends_on={"server": "ready"})
    labels = app_labels(AppDef("a", [server, client]), {}, "a-1", "s", 0.0)
    assert labels["launcher.order"] == (
        '[["server",2,{"service":true,"ready":{"port":80}}],["client",1,{"depends_on":{"server":"ready"}}]]'
    )
    assert [list(each) for each in Labels(labels).order] == json.loads(labels["launcher.order"])
    plain = app_labels(AppDef("a", [Role("r", "i:1", entrypoint="c", retry_delay=2)]), {}, "a-1", "s", 0.0)
    assert "launcher.order" not in plain


def test_the_label_counts_the_containers_of_an_edited_request() -> None:
    server = Role("server", "i:1", entrypoint="s", num_replicas=2, service=True, ready=Probe(port=80))
    client = Role("client", "i:1", entrypoint="c", depends_on={"server": "ready", "data": "succeeded"})
    data = Role("data", "i:1", entrypoint="d")
    app = AppDef("a", [server, client, data])
    request = build_request(app, {}, "a-1", session="s")
    labels = Labels(app_labels(app, {}, "a-1", "s", 0.0))
    assert {role: rest for role, *rest in Labels(job_labels(request)).order} == {
        role: rest for role, *rest in labels.order
    }
    del request.containers[-1], request.containers[0]
    counts = {role: count for role, count, _ in Labels(job_labels(request)).order}
    assert counts == {"server": 1, "client": 1, "data": 0}


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[1]", '[["r", 1, {"depends_on": {"s": "ready"}}]]', "[[1]]"]
)
def test_a_damaged_label_reads_as_none(text: str) -> None:
    assert Labels({"launcher.order": text}).order == []
