"""The state of an app and the next step of its watcher, derived from its containers and its journal.

The form of the rows is in `states.py`. The rules of restarts, \
stops and ends are in tests/holding/histories.py.
"""

import json

import pytest

from launcher.schedulers.docker.facts import ENGINE_STOPPED, UNSEEN, why_lost
from launcher.schedulers.docker.job import job_labels
from launcher.schedulers.docker.journal import fold
from launcher.schedulers.docker.labels import Labels, app_labels
from launcher.schedulers.docker.request import build_request
from launcher.schedulers.docker.status import longest_pause_s, paused, view
from launcher.specs import AppDef, Probe, Role
from tests.unit.docker.states import EXPECTED, App, container, journal, opened, rows, seen


@rows("""
the containers alone show the state
    created ; - => reserved
    reservation: created ; - => reserved
    created | created ; - => created ; unstarted 0
    running | created ; - => running ; unstarted 1
    running | running ; - => running
    paused | exited 0 ; - => running
    restarting 1 | exited 0 ; - => running
    exited 0 | created ; - => running
    exited 0 | exited 0 ; - => succeeded
    exited 0 | exited 3 ; - => failed
    exited 143.cancelled | exited 0 ; - => cancelled
    exited 0.cancelled | exited 0.cancelled ; - => cancelled
    exited 137.timed-out | exited 0 ; - => failed
    exited 3 | exited 143.stopped ; - => failed
an app goes on until the peers of a failed replica have been stopped
    exited 3 | running ; - => running
a failure without a journal is the end of the app
    exited 3 | exited 0 ; - ; retries 1 APPLICATION => failed
    exited 3 | exited 0 ; adopted ; retries 1 APPLICATION => failed
an out-of-memory kill is reported
    exited 137 oom | exited 137 oom ; - => failed: main/0 was killed: out of memory
the state of a container says what its replica waits for
    paused | running ; - => running ; replicas main/0 running (paused), main/1 running
    restarting 1 | running ; - => running ; replicas main/0 running (waits to be restarted), main/1 running
a removed replica is named
    running ; - => lost: main/1 was removed by hand ; drift main/1 was removed by hand
    exited 0 ; - => lost ; drift main/1 was removed by hand
    exited 0 | removing ; - => lost ; drift main/1 was removed by hand
a replica that was never started does not count as started during its removal
    created | removing ; - => reserved ; started False
a started app without containers is lost
    none ; go ; replicas 0 => lost: its containers were removed ; drift its containers were removed
    none ; go ; replicas 1 => lost ; drift main/0 was removed by hand
    none ; go => lost ; drift main/0, main/1 were removed by hand ; replicas main/0 lost, main/1 lost
    none ; go, exit 0=0 => lost: main/1 was removed by hand
a replica that ended on record may be pruned
    running | - ; go, exit 1=0 => running ; drift
a recorded outcome outlives the containers
    none ; go, end succeeded: so => succeeded: so ; final True
    none ; go, end failed: so => failed: so ; final True
    none ; go, end cancelled: so => cancelled: so ; final True
    none ; go, end lost: so => lost: so ; final True
    removing | removing ; go, end succeeded => succeeded
a failed first start is the message of the failed app
    created.stopped | created.stopped ; go, stop start 0 1: so => failed: so ; started False
an app began with its order to start or its first replica, and ended with its last one
    running | running ; go => running ; started_at 1.0
    running | running ; => running ; started_at 10.0
    running since 0.5 | running since 1.5 ; go => running ; started_at 0.5
    created | created ; => created ; started_at None
    exited 0 | exited 0 ; go => succeeded ; ended_at 21.0
an attempt waits until a replica was started or its end is on record
    waiting: created ; wait prepare => waiting: waits for prepare
    waiting: created ; wait prepare, met prepare, queued => queued: waits for its turn
    waiting: created ; wait prepare, end skipped: prepare failed => skipped: prepare failed
    created | created | waiting: created ; wait prepare => waiting: waits for prepare
    running | created | waiting: created ; wait prepare => running:
""")
def test_the_state_follows_from_containers_and_journal(row: str, wanted: str) -> None:
    assert seen(App(row), wanted) == wanted


@rows("""
the first to fail decides, not the first in order
    exited 3 @30 | exited 5 @20 ; go => failed: main/1 exited with 5
the first to fail was stopped by hand
    exited 143 | exited 5 ; go, hand 0 => cancelled: main/0 was stopped by hand
the first to fail restarts the app, though another was stopped by hand since
    exited 143 @30 | exited 5 @20 ; go, hand 0 ; retries 1 APPLICATION => running:
a run after the run that was stopped by hand can fail
    exited 3 | exited 0 ; go, hand 0@9 => failed: main/0 exited with 3
    exited 3 | exited 0 ; go, hand 0 => cancelled ; drift main/0 was stopped by hand
a run that a user started again before the app has ended goes on
    running since 30 | running ; starting, spawn 0@10, spawn 1@11 => running: ; num_restarts 1 ; drift
    running since 30 | running ; starting, spawn 0@10, spawn 1@11, exit 0=0 => running: ; num_restarts 1
    exited 3 since 30 @40 | running ; starting, spawn 0@10, spawn 1@11 ; retries 1 REPLICA 5 => running: \
; num_restarts 1 ; next restart replica main/0 in 5 s
a restart of the engine is not by hand
    running since 30 | running ; starting, spawn 0@10, spawn 1@11 ; retries 2 REPLICA => running: \
; num_restarts 0
an exit code counts on one run of the engine
    exited 143 | exited 0 ; go ; engine 5 => failed: main/0 exited with 143 (128 + signal 15)
an engine that does not show its start counts as never restarted
    exited 0 | exited 0 ; go => succeeded:
0 tells nothing when the engine was restarted
    exited 0 | exited 0 ; go ; engine 15 => lost: ended while nothing watched it
a kill on record names the engine
    exited 0 | exited 137 ; go, kill 0@19 ; engine 15 => lost: the Docker engine was stopped
a kill of an earlier run names nothing
    exited 0 | exited 0 ; go, kill 0@9 ; engine 15 => lost: ended while nothing watched it
ends on record count after a restart of the engine
    exited 0 | exited 0 ; go, exit 0=0, exit 1=0 ; engine 15 => succeeded:
one success on record does not speak for the other
    exited 0 | exited 0 ; go, exit 0=0 ; engine 15 => lost: ended while nothing watched it
a failure on record comes before the end of a lost one
    exited 3 | exited 0 ; go, exit 0=3 ; engine 15 => failed: main/0 exited with 3
a lost replica takes the running ones with it
    exited 0 | running ; go, exit 0=? the Docker engine was stopped ; engine 5 => \
lost: the Docker engine was stopped
an engine that stops uses up no retries
    exited 137 | exited 137 ; go, kill 0@19 ; engine 15 ; retries 3 APPLICATION => \
lost: the Docker engine was stopped
a cancellation comes before the engine
    exited 0 | exited 0 ; go, cancel ; engine 15 => cancelled: cancelled by me
what launcher stopped is not the engine's doing
    exited 0 | exited 137 ; go, cancel, stop cancel 0 1: cancelled by me ; engine 15 => \
cancelled: cancelled by me
the end of an app whose record was lost is its end
    exited 0 | exited 0 ; go, adopted ; engine 5 => succeeded:
a run that the engine started again goes on
    running | running ; go, kill 0@19 ; engine 15 => running:
a container that was to start before the engine was restarted is lost
    created made 9 | created made 9 ; go => created ; hangs_on_restart True
    created made 9 | created made 9 ; go ; engine 10 => lost
    created made 11 | created made 11 ; go ; engine 10 => created
    created made 9.5 listed | created made 9.5 listed ; go ; engine 10 => created
    created made 8 listed | created made 8 listed ; go ; engine 10 => lost
    created | created ; go ; engine 10 => created ; hangs_on_restart True
without an order to start a restart of the engine loses no container
    created made 9 | created made 9 ; - => created ; hangs_on_restart False
    created made 9 | created made 9 ; - ; engine 10 => created ; hangs_on_restart False
a restart of the engine loses no replica that waited for another role
    data: exited 0 | train: created made 9 ; go, exit data=0 ; engine 10 ; \
order data, train after data succeeded \
=> running ; replicas data/0 succeeded 0 @2, train/0 pending
""")
def test_an_end_counts_as_stop_by_hand_loss_or_by_its_exit_code(row: str, wanted: str) -> None:
    assert seen(App(row), wanted) == wanted


@rows("""
a replica has the state and exit code of its container
    created | running ; starting => running ; replicas main/0 pending, main/1 running
    created.cancelled | running ; starting => running ; replicas main/0 cancelled, main/1 running
    running | running ; starting, halt 0 => running ; replicas main/0 running, main/1 running
    restarting 1 | running ; starting => \
running ; replicas main/0 running (waits to be restarted), main/1 running
    exited 0 | running ; starting => running ; replicas main/0 succeeded 0 @20, main/1 running
    exited 3 | running ; starting => running ; replicas main/0 failed 3 @20, main/1 running
    exited 0 | running ; starting, halt 0 => running ; replicas main/0 cancelled 0 @20, main/1 running
    exited 143 | running ; starting, halt 0 => running ; replicas main/0 cancelled 143 @20, main/1 running
    exited 0.timed-out | running ; starting => running ; replicas main/0 cancelled 0 @20, main/1 running
    exited 137.timed-out | running ; starting => running ; replicas main/0 cancelled 137 @20, main/1 running
    exited 143.stopped | running ; starting => running ; replicas main/0 cancelled 143 @20, main/1 running
a stop of an earlier run does not count; the reported start of a run may move back when the run ends
    exited 143 | running ; starting, spawn 0@10, halt 0@9 => \
running ; replicas main/0 failed 143 @20, main/1 running
    exited 143 | running ; starting, spawn 0@10, halt 0@10 => \
running ; replicas main/0 cancelled 143 @20, main/1 running
    exited 143 | running ; starting, spawn 0@10, halt 0@11 => \
running ; replicas main/0 cancelled 143 @20, main/1 running
a pruned replica has the state of its recorded end
    - | running ; starting, spawn 0@1, exit 0=0 => running ; replicas main/0 succeeded 0 @2, main/1 running
    - | running ; starting, spawn 0@1, exit 0=3 => running ; replicas main/0 failed 3 @2, main/1 running
the exit code on record counts for its own run: a killed engine shows 255 when it is back
    exited 255 | running ; starting, spawn 0@10, exit 0=0 => \
running ; replicas main/0 succeeded 0 @2, main/1 running
    exited 255 | running ; starting, spawn 0@10.5, exit 0=0 => \
running ; replicas main/0 succeeded 0 @2, main/1 running
    exited 255 | running ; starting, spawn 0@5, exit 0=0 => \
running ; replicas main/0 failed 255 @20, main/1 running
a container that runs counts more than an end on record
    running | running ; starting, spawn 0@10, exit 0=3 => running ; replicas main/0 running, main/1 running
a replica that was spared has ended by itself whatever its end on record says
    exited 0 | running ; starting, spawn 0@10, halt 0@10, exit 0=0 stopped, spared 0 => \
running ; replicas main/0 succeeded 0 @20, main/1 running
    exited 143 | exited 4 ; go, stop peer 0 1, spared 1 => \
failed ; replicas main/0 cancelled 143 @20, main/1 failed 4 @21
a replica in two stops may have been ended by either
    exited 143 | exited 4 ; go, stop peer 0 1, stop peer 0 1, spared 1 => \
failed ; replicas main/0 cancelled 143 @20, main/1 cancelled 4 @21
a replica without a container is lost once the app was started
    running | - ; starting => lost ; replicas main/0 running, main/1 lost
    created | - ; starting => reserved ; replicas main/0 pending, main/1 pending
each restart of the engine counts once
    running restarts 3 | running restarts 3 ; starting, spawn 0@5, restarted 0 => \
running ; num_restarts 6 ; replicas main/0 running ~3, main/1 running ~3
a restart of a role counts once and each restart of a replica counts
    running | running ; go, restart ROLE 0@1 1@2 => running ; num_restarts 1
    running restarts 3 | running restarts 3 ; \
go, restart ROLE 0@1 1@2, restart REPLICA 0@1, restart REPLICA 0@1 => \
running ; num_restarts 9 ; replicas main/0 running ~5, main/1 running ~3
a replica in its pause waits and its app runs
    exited 3 | running ; go, restart REPLICA 0@10 +9 ; retries 1 REPLICA 9 => \
running ; final False ; unstarted 0 ; \
replicas main/0 running ~1 (waits to be restarted), main/1 running
    exited 3 | exited 0 ; go, restart REPLICA 0@10 +9 ; retries 1 REPLICA 9 => \
running ; final False ; unstarted 0 ; \
replicas main/0 running ~1 (waits to be restarted), main/1 succeeded 0 @21
""")
def test_each_replica_has_a_state_an_exit_code_and_restarts(row: str, wanted: str) -> None:
    assert seen(App(row), wanted) == wanted


@rows("""
a cancellation stops all
    running | created ; go, cancel ; retries 1 APPLICATION => \
running ; next cancel cancelled by me, stop id0 id1
a stop that was begun goes on for its first reason
    running | exited 143 ; go, stop timeout 0 1: so, cancel => running ; next stop id0
    exited 143 | exited 0 ; go, stop timeout 0 1: so => failed ; next end failed
a stop by hand restarts nothing
    exited 143 | running ; go, hand 0 ; retries 1 APPLICATION => \
running ; next hand main/0 was stopped by hand, stop id1
retries are used up
    exited 3 | running ; go, restart APPLICATION 0@1 1@2 ; retries 1 APPLICATION => \
running ; next peer main/0 exited with 3, stop id1
a restart goes on until each container has another start time
    exited 0 | exited 0 ; go, restart APPLICATION 0@1 1@11 ; retries 1 APPLICATION => running
    exited 3 | exited 0 ; go, restart APPLICATION 0@1 1@2 ; retries 1 APPLICATION => failed ; num_restarts 1
version 0.1 recorded a restart before it stopped the peers: they are stopped before they start
    exited 3 | running ; go, restart APPLICATION 0@10 1@11 ; retries 1 APPLICATION => \
running ; next start id0 id1
a restart resumes with the containers that it has not reached
    exited 3 | running ; go, restart APPLICATION 0@10 1@2 ; retries 1 APPLICATION => running ; next start id0
each replica has retries of its own, and its pause doubles
    exited 3 | running ; go ; retries 2 REPLICA 9 => running ; next restart replica main/0 in 9 s
    exited 3 | running ; go, restart REPLICA 1@2 +9 ; retries 2 REPLICA 9 => \
running ; next restart replica main/0 in 9 s
    exited 0 | exited 3 ; go, restart REPLICA 1@2 +9 ; retries 2 REPLICA 9 => \
running ; next restart replica main/1 in 18 s
a pause before a restart delays no other step
    exited 3 | running ; go, restart REPLICA 0@10 +150 ; retries 2 REPLICA 9 => running ; next wait until 152
    exited 3 | exited 0 ; go, restart REPLICA 0@10 +150 ; retries 2 REPLICA 9 => running ; next wait until 152
    exited 3 | running ; go, restart REPLICA 0@10 +150 ; retries 2 REPLICA 9 ; time 119 => \
running ; next wait until 120
    exited 3 | running ; go, restart REPLICA 0@10 +150 ; retries 2 REPLICA 9 ; time 199 => \
running ; next wait until 152
the mark of a client of another home is all that shows a cancellation
    exited 3.cancelled | exited 0 ; go, restart REPLICA 0@10 +150 ; retries 2 REPLICA 9 => \
cancelled ; next end cancelled
    exited 3.cancelled | running ; go, restart REPLICA 0@10 +150 ; retries 2 REPLICA 9 => \
running ; next stop id1
""")
def test_the_next_step_follows_from_containers_and_journal(row: str, wanted: str) -> None:
    assert seen(App(row), wanted) == wanted


@rows("""
a waiting role is pending and does not count as unstarted
    client: created | server: running ; go ; order served => \
running ; unstarted 0 ; replicas client/0 pending (waiting for server (ready)), server/0 running
    client: created | server: running ; - ; order served => \
running ; unstarted 0 ; replicas client/0 pending (waiting for server (ready)), server/0 running
an app between two roles of a chain is running
    data: exited 0 | train: created ; go ; order data, train after data succeeded => running ; unstarted 0
    data: exited 0 | train: created ; - ; order data, train after data succeeded => running ; unstarted 0
a replica that the client left unstarted counts as unstarted and is started
    data: running | train: created | other: created ; go ; order data, train after data succeeded, other => \
running ; unstarted 1 ; next start other
an app that is being made is not lost
    client: created | - ; ; order served => reserved ; started False
the end of an app is derived from names and labels without a journal
    client: exited 0 | server: running ; - ; order served => running:
    client: exited 0 | server: exited 143.ended ; - ; order served => succeeded:
    client: exited 0 | server: exited 0 ; - ; order served => succeeded:
    client: exited 3 | server: exited 143.stopped ; - ; order served => failed: client/0 exited with 3
    client: exited 143.cancelled | server: exited 143.cancelled ; - ; order served => cancelled: cancelled
    client: created.stopped | server: exited 4 ; - ; order served => failed: server/0 exited with 4
an app has not ended before its waiting roles are stopped
    client: created | server: exited 4 ; go ; order served => \
running ; next peer server/0 exited with 4, stop client
    client: created | server: exited 4 ; - ; order served => failed
    client: created.stopped | server: exited 4 ; go, stop peer client ; order served => failed
services are stopped at the end, whatever else is asked for by then
    client: exited 0 | server: running ; go, ready server ; order served => running ; next end, stop server
    client: exited 0 | server: running ; go, cancel ; order served => running ; next end, stop server
    client: exited 0 | server: running ; go, stop end server ; order served => running ; next stop server
    client: exited 0 | server: exited 0.ended ; - ; order served => \
succeeded ; replicas client/0 succeeded 0 @20, server/0 cancelled 0 @20
roles that wait for a role that has ended are stopped
    client: created | server: exited 0 ; go ; order served => \
running ; next peer server/0 ended before it was ready, and client waits for it, stop client
    client: created | server: exited 0.cancelled ; go ; order served => running ; next stop client
    client: created.cancelled | server: running ; go ; order served => running ; next stop server
after the removal of a replica only the roles that wait for it are left to stop
    client: created | server: removing since 10 ; go ; order served => \
lost: server/0 was removed by hand ; started True ; \
next lost server/0 was removed by hand, stop client
    client: created | - ; go ; order served => lost: server/0 was removed by hand ; started True ; \
next lost server/0 was removed by hand, stop client
    client: created.stopped | - ; go, stop lost client: gone ; order served => lost: gone ; next end lost
a replica that was not ready in time is stopped and has failed
    client: created | server: running ; go, late server: not ready in 60 s ; order served => \
running ; next halt server
    client: created | server: exited 137 ; go, late server: not ready in 60 s, stop restart server ; \
order served => \
running ; next peer server/0 was not ready in 60 s, stop client
    client: created.stopped | server: exited 0 ; go, late server: not ready in 60 s, stop restart server, \
exit server=0, stop peer client ; order served => failed: server/0 was not ready in 60 s
a restart of the app starts its roles in order again
    client: exited 3 | server: running ; go, ready server ; order served ; retries 1 APPLICATION => \
running ; next restart client/0, halt server
    client: exited 3 | server: running ; go, ready server, restart APPLICATION client@10 server@10 ; \
order served ; \
retries 1 APPLICATION => running ; next start server
    client: exited 3 | server: exited 143 ; go, ready server, restart APPLICATION client@10 server@10 ; \
order served ; \
retries 1 APPLICATION => \
running ; next start server ; replicas client/0 pending (waiting for server (ready)), \
server/0 running (waits to be restarted)
    client: exited 3 | server: running ; go, ready server@5, restart APPLICATION client@10 server@5 ; \
order served ; \
retries 1 APPLICATION => running ; next wait
    client: exited 3 | server: running ; \
go, ready server@5, restart APPLICATION client@10 server@5, ready server ; \
order served ; retries 1 APPLICATION => running ; next start client
""")
def test_roles_wait_for_each_other_in_their_order(row: str, wanted: str) -> None:
    assert seen(App(row), wanted) == wanted


@pytest.mark.parametrize(("engine", "by_itself", "watched", "lost"), [
    (5.0, False, False, ""), (5.0, False, True, ""), (None, False, True, ""), (15.0, True, True, ""),
    (15.0, True, False, ""), (15.0, False, True, ENGINE_STOPPED), (15.0, False, False, UNSEEN),
    (10.0, False, True, ""),  # the engine's network is made before its first container starts
])  # fmt: skip
def test_an_end_that_launcher_did_not_request_is_lost_as_the_table_says(engine, by_itself, watched, lost):
    app = journal({"e": "go"}).app
    assert why_lost(container(0, "exited 0"), app, engine, watched=watched, by_itself=by_itself) == lost


@pytest.mark.parametrize("states", [(), ("removing", "removing")])
def test_an_id_without_containers_and_journal_has_no_app(states: tuple[str, ...]) -> None:
    assert view([container(k, each) for k, each in enumerate(states)], expected_replicas=EXPECTED) is None


def test_a_torn_line_of_the_journal_is_ignored() -> None:
    assert fold(b'{"e":"go","t":1.0}\n{"e":"end","t":2.0,"sta').outcome is None
    assert fold(b'garbage\n[1]\n{"e":"go","t":1.0}\n').app.started_at == 1.0


def test_a_replica_that_the_engine_could_not_restart_is_reported_without_a_journal() -> None:
    error = "Bind for 0.0.0.0:80 failed: port is already allocated"
    found = view([container(0, "exited 128", error=error, restarts=1), container(1, "exited 0")])
    assert found.message.startswith("main/0 could not be started again: Bind for")


def test_without_a_record_a_failed_replica_may_be_in_its_pause() -> None:
    found = App("exited 3 | exited 0 ; - ; retries 1 REPLICA 9").view
    rules = [(2, "REPLICA", 9), (2, "REPLICA", 0), (0, "REPLICA", 9)]
    assert [longest_pause_s(found, {"main": rule}) for rule in rules] == [18, 0, 0]
    assert longest_pause_s(App("exited 0 | exited 0 ; -").view, {"main": rules[0]}) == 0
    waiting = paused(found)
    assert (found.state, waiting.state, waiting.exit_code, waiting.final) == (
        "failed",
        "running",
        None,
        False,
    )
    assert [each.waits for each in waiting.replicas] == ["waits to be restarted", ""]


def test_the_message_of_a_replica_says_why_it_is_gone_or_was_stopped() -> None:
    [_, gone] = App("running | - ; starting").view.replicas
    [_, server] = App("client: exited 0 | server: exited 0.ended ; - ; order served").view.replicas
    assert (gone.message, gone.id) == ("its container was removed", "")
    assert server.message == "stopped at the end of the app"


def test_roles_come_in_the_expected_order_and_replicas_by_number() -> None:
    known = [("z", 0), ("z", 1), ("a", 0)]
    found = view([container(1, role="z"), container(0, role="z")], expected_replicas=known)
    assert [each.label for each in found.replicas] == ["z/0", "z/1"]


@pytest.mark.parametrize("run", [{"started_at": 5.0}, {"id": "another"}])
def test_the_readiness_of_another_run_does_not_count(run: dict[str, object]) -> None:
    ready = {"e": "ready", "role": "server", "k": 0, "id": "server", "started_at": 10.0, **run}
    app = App("client: created | server: running ; - ; order served")
    made = opened(app.containers, journal({"e": "go"}, ready), app.expected)
    assert not made.roles["server"].replicas[0].is_ready


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
    app = AppDef("a", [server, client, Role("data", "i:1", entrypoint="d")])
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
