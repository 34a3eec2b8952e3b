"""The state and message that readers see of an app and of its replicas after each history."""

from collections.abc import Iterable
from typing import Any

import pytest

from launcher.holding import events
from launcher.holding.app import App
from launcher.holding.replica import Replica, Role
from tests.holding.histories import START_S, created, fact, play

VIEWS = [
    # Before the start
    ("a", "waiting x y", "waiting: waits for x, y", ["pending: "]),
    ("a", "waiting x y; met x", "waiting: waits for y", ["pending: "]),
    ("a", "waiting x; met x", "waiting: is about to start", ["pending: "]),
    ("a", "queued", "queued: waits for its turn", ["pending: "]),
    ("a", "waiting x; withdrawn", "skipped: withdrawn", ["cancelled: withdrawn"]),
    # While it runs
    ("a*2", "go; a/0", "running: ", ["running: ", "pending: "]),
    ("a b<a:ready", "go; a/0", "running: ", ["running: ", "pending: waiting for a (ready)"]),
    ("a b<a:ready", "go; a/0; a/0 ready; b/0", "running: ", ["running: ", "running: "]),
    ("a~1+5", "go; a/0; a/0=3", "running: ", ["pending: "]),
    ("a*2", "go; a/0; a/1; a/0=0", "running: ", ["succeeded: ", "running: "]),
    ("a b<a:ready", "waiting x", "waiting: waits for x", ["pending: ", "pending: "]),
    ("s.s~1 a~1+5<s:ready", "go; s/0; s/0 ready; a/0; s/0=3; a/0=3", "running: ", ["pending: ", "pending: "]),
    ("a*2", "go; a/0; a/1; a/0=0; a/0 late", "running: ", ["succeeded: ", "running: "]),
    # Ends of replicas
    ("a*2", "go; a/0; a/1; a/0=3; a/1=-143", "running: ", ["failed: ", "cancelled: a/0 failed"]),
    ("a", "go; a/0; a/0 late; a/0=143", "running: ", ["failed: not ready after 60 s"]),
    ("a", "go; a/0!no such file", "running: ", ["failed: no such file"]),
    ("a", "go; a/0; a/0=?", "running: ", ["lost: "]),
    ("a", "go; a/0; a/0=?its node failed; quiet", "lost: its node failed", ["lost: its node failed"]),
    ("a", "go; a/0; a/0=4?its step ended; quiet", "failed: a/0 was lost: its step ended", ["failed: its step ended"]),
    ("a", "go; a/0; a/0=0hand; quiet", "cancelled: a/0 was stopped by hand", ["cancelled: "]),
    ("a", "go; a/0; a/0=hand; quiet", "cancelled: a/0 was stopped by hand", ["failed: "]),
    ("a~1A b", "go; a/0; b/0; a/0=3; b/0=-143", "running: ", ["failed: ", "cancelled: a/0 failed"]),
    ("a", "go; a/0; cancel me; a/0=-143", "running: ", ["cancelled: cancelled by me"]),
    ("a %60", "go; a/0; @60; a/0=-143", "running: ", ["cancelled: timed out after 60 s"]),
    ("s.s a<s:ready b", "go; s/0; b/0; s/0=0; b/0=-143", "running: ",
     ["succeeded: ", "pending: waiting for s (ready)", "cancelled: s/0 ended before it was ready"]),
    # At the end of the app
    ("s.s a", "go; s/0; a/0; a/0=0; s/0=-143; quiet", "succeeded: ", ["cancelled: stopped at the end of the app", "succeeded: "]),
    ("a*2", "go; a/0; a/0=3; a/1=-143; quiet", "failed: a/0 exited with 3", ["failed: ", "cancelled: a/0 failed"]),
    ("a b<a:ready", "go; a/0; cancel me; a/0=-143; quiet", "cancelled: cancelled by me",
     ["cancelled: cancelled by me"] * 2),
    ("a*2", "go; a/0; a/1; a/0=?; a/1=-0; quiet", "lost: a/0 was lost", ["lost: ", "cancelled: a/0 was lost"]),
    ("a", "go; a/0; a/0=3; quiet; a/0", "failed: a/0 exited with 3", ["cancelled: a/0 failed"]),
]  # fmt: skip


@pytest.mark.parametrize(("roles", "facts", "app", "replicas"), VIEWS)
def test_a_view_shows_state_and_message_of_the_app_and_its_replicas(roles, facts, app, replicas):
    seen = play(roles, facts)[0]
    assert f"{seen.state}: {seen.message}" == app
    assert ["{}: {}".format(*seen.shown(each)) for each in seen.replicas] == replicas


UNASKED = [
    ("a", "go; a/0", "restart"),
    ("a b", "go; a/0; b/0; a/0=0", "restart"),
    ("d<a:succeeded a", "go; a/0", "early"),
    ("d<a:started a", "go; a/0", ""),  # it may start
    ("d", "go", ""),
    ("d~1+5 a", "go; d/0; d/0=3", ""),  # its restart is due after a pause
    ("d~1<a:ready a", "go; a/0; a/0 ready; d/0", "restart"),
    ("d~1<a:ready a", "go; a/0; a/0 ready; d/0; d/0=3", ""),
    ("d~1R<a:ready a~1R", "go; a/0; a/0 ready; d/0; d/0=3; a/0=3", ""),
    ("a", "waiting x", ""),
    ("a", "go; a/0; cancel me", ""),
    ("a~1A b", "go; a/0; b/0; a/0=3", ""),
    ("a", "go; a/0; a/0=0; quiet", ""),
    ("a*2~1R", "go; a/0; a/1; a/1=3", ""),
]  # fmt: skip


@pytest.mark.parametrize(("roles", "facts", "found"), UNASKED)
def test_a_run_that_no_event_asks_for_restarts_its_replica_or_starts_it_early(roles, facts, found):
    """A run of the first replica, such as one that a user starts."""
    app = play(roles, facts)[0]
    assert app.unasked(app.replicas[0]) == found


def test_a_pause_before_a_restart_moves_with_the_clock_and_ends_with_a_requeue():
    """No time has passed when the clock was set; an app that is run again begins anew."""
    paused = "go; a/0; a/0=3"
    [pause] = play("a~1+5 b", paused)[0].order.paused
    [moved] = play("a~1+5 b", f"{paused}; clock 60")[0].order.paused
    assert moved.due_at == pause.due_at + 60
    assert play("a~1+5 b", f"{paused}; requeued")[0].order.paused == []


WORK = [
    # Running replicas are to be stopped until their end or their next run
    ("a*3", "go; a/0; a/1; a/2; cancel me 2", "-a/0~2 -a/1~2 -a/2~2"),
    ("a*3", "go; a/0; a/1; a/2; cancel me 2; a/1=-143", "-a/0~2 -a/2~2"),
    ("a*3", "go; a/0; a/1; a/2; cancel me 2; a/1=-143; cancel you 0", "-a/0~0 -a/2~0"),
    ("a*2", "go; a/0; a/1; a/0 late", "-a/0"),
    ("a*2", "go; a/0; a/1; a/0=0; a/0 late", ""),  # a probe that gives up after the exit of its replica
    ("a*2~1R", "go; a/0; a/1; a/0=3", "-a/1"),
    ("a*2~1R", "go; a/0; a/1; a/0=3; a/1", ""),
    # Replicas of roles whose conditions hold are to be started, and none while the app stops
    ("a.s b<a:ready", "go; a/0; cancel me; a/0 ready", "-a/0"),
    ("a*2~1 b<a:started", "go; a/0; restart a/0; a/0", "+a/1"),  # one that starts again counts once
    ("a*2~1 b<a:started", "go; a/0; restart a/0; a/0; a/1", "+b/0"),
    ("a*2~1 b<a:ready", "go; a/0; a/1; a/0 ready; a/0=3; a/0; a/1 ready", ""),
    ("a*2~1 b<a:ready", "go; a/0; a/1; a/0 ready; a/0=3; a/0; a/1 ready; a/0 ready", "+b/0"),
    ("a*2", "go; a/0", "+a/1"),
    ("a*2", "go; a/0; requeued", ""),
    # The deadline is the next pause or the time limit; there is none before the start or while the app stops
    ("a", "go; a/0", ""),
    ("a %60", "waiting x", ""),
    ("a %60", "go; a/0", "@60"),
    ("a~1+5 %60", "go; a/0; a/0=3", "@5"),
    ("a~1+5 %60", "go; a/0; a/0=3; a/0", "@60"),
    ("a~1+90 %60", "go; a/0; a/0=3", "@60"),
    ("a~1+5 %60", "go; a/0; a/0=3; cancel me", ""),
    ("a %60", "go; a/0; a/0=0; quiet", ""),
]
"""(roles, facts, the work that is left: `+` a replica to start, `-` one to stop, `~` its grace period, `@` the
deadline)"""


@pytest.mark.parametrize(("roles", "facts", "work"), WORK)
def test_a_record_shows_what_is_to_be_started_and_stopped_and_when(roles, facts, work):
    app = folded(play(roles, facts)[1].events)
    starts = [f"+{each.name}" for each in app.to_start]
    stops = [f"-{each.name}" + ("" if s is None else f"~{s:g}") for each, s in app.to_stop.items()]
    deadline = app.deadline()
    assert " ".join([*starts, *stops, *([] if deadline is None else [f"@{deadline - START_S:g}"])]) == work


def folded(events: Iterable[dict[str, Any]]) -> App:
    app = App()
    for event in events:
        app.take({"t": int(START_S * 1e9), **event})
    return app


def taken(roles: str, facts: str) -> App:
    """Return the app after these facts, without a holder that decides."""
    return folded([created(roles), *(fact(each) for each in facts.split("; "))])


def test_a_lost_app_has_lost_its_running_replicas_and_keeps_the_ended_ones():
    seen = play("a*3", "go; a/0; a/1; a/0=0")[0]
    seen.state = "lost"
    assert [seen.shown(each) for each in seen.replicas] == [("succeeded", ""), ("lost", ""), ("lost", "")]


def test_a_service_that_never_started_was_stopped_at_the_end():
    app = taken("s.s a", "go; a/0; a/0=0; quiet")
    ended = app.decide(0.0)
    assert ended is not None
    app.take(ended)
    assert app.shown(app.replicas[0]) == ("cancelled", "stopped at the end of the app")


def test_a_replica_that_was_killed_for_its_memory_names_that_and_not_the_end_of_its_step():
    app = play("a", "go; a/0")[0]
    app.take({"e": "exit", "role": "a", "k": 0, "code": 137, "lost": "its step ended", "oom": True})
    assert app.shown(app.replicas[0]) == ("failed", "killed: out of memory")


def test_a_replica_keeps_the_facts_of_its_last_run():
    app = play("a~2", "go")[0]
    for event in (
        {"e": "spawn", "role": "a", "k": 0, "t": 5 * 10**9, "pid": 7, "start": 70, "restart": 0},
        {"e": "exit", "role": "a", "k": 0, "t": 6 * 10**9, "code": 137, "signal": 9, "oom": True},
        {"e": "restart", "scope": "replica", "role": "a", "k": 0, "n": 1, "t": 6 * 10**9},
        {"e": "spawn", "role": "a", "k": 0, "t": 7 * 10**9, "id": "c1", "start": 71, "restart": 4},
    ):
        app.take(event)
        (seen,) = app.replicas
        if event["e"] == "exit":
            assert (seen.run, seen.started_at, seen.ended_at) == ((7, 70), 5.0, 6.0)
            assert (seen.code, seen.signal, seen.oom) == (137, 9, True)
    assert (seen.run, seen.restarts, seen.started_at) == (("c1", 71), 4, 7.0)
    assert (seen.code, seen.signal, seen.oom, seen.ended_at) == (None, 0, False, None)


def test_an_app_takes_its_times_from_its_events():
    app = App()
    for kind, at_s in (("created", 1), ("starting", 2), ("started", 3)):
        app.take({**(created("a") if kind == "created" else {"e": kind}), "t": at_s * 10**9})
    assert (app.created_at, app.started_at, app.last_at) == (1.0, 2.0, 3.0)
    app.take({"e": "ended", "state": "succeeded", "message": "", "code": 0, "t": 9 * 10**9})
    assert (app.ended_at, app.code, app.has_ended) == (9.0, 0, True)


def test_warnings_and_the_first_change_of_input_files_are_kept():
    app = play("a", "go")[0]
    for each in ("one", "two"):
        app.take({"e": "warning", "message": each})
        app.take({"e": "inputs", "changed": each})
    assert (app.warnings, app.inputs_changed) == (["one", "two"], "one")


def test_a_view_has_the_digest_of_the_output_folder():
    app = play("a", "go")[0]
    app.take({"e": "output", "digest": "sha256:1"})
    assert app.output_digest == "sha256:1"


@pytest.mark.parametrize(("facts", "succeeds"), [
    ("go; a/0; s/0", False), ("go; a/0; s/0; a/0=0", True), ("go; a/0; s/0; a/0=0; s/0=-143; quiet", True),
    ("go; a/0; s/0; a/0=3", False), ("go; a/0; s/0; cancel me; a/0=0", False),
])  # fmt: skip
def test_an_app_succeeds_with_its_roles_unless_it_stops_for_another_reason(facts, succeeds):
    assert play("a s.s", facts)[0].succeeds is succeeds


def test_a_view_counts_all_restarts_together():
    app = play("a~1 b~1R c~1A", "go; a/0; b/0; c/0; a/0=1; a/0; b/0=1; b/0; c/0=1; a/0=-1; b/0=-1; quiet")[0]
    assert (app.num_restarts, [each.restarts for each in app.replicas]) == (3, [2, 2, 1])
    app = play("a", "go; a/0; requeued; go; a/0; requeued; go; a/0; a/0=0; quiet")[0]
    assert (app.num_restarts, [each.restarts for each in app.replicas]) == (2, [2])


def failure(restarts: int = 0, **end: Any) -> str:
    """Return the sentence about the failure of a replica with this end."""
    replica = Replica(Role("a", 0), 0)
    replica.restarts = restarts
    replica.end(end, 0.0, "")
    return replica.cause


SENTENCES = [
    # An exit code that may be a signal
    (events.exited, (1,), "exited with 1"),
    (events.exited, (128,), "exited with 128"),
    (events.exited, (129,), "exited with 129 (128 + signal 1)"),
    (events.exited, (192, "no file"), "exited with 192 (128 + signal 64): no file"),
    (events.exited, (193,), "exited with 193"),
    (events.exited, (255,), "exited with 255"),
    (events.exited, (None, "no file"), "exited with None: no file"),
    # The failure of a replica
    (failure, {"code": 2, "said": "no file"}, "exited with 2: no file"),
    (failure, {"code": 137, "signal": 9}, "was killed by signal 9"),
    (failure, {"code": 137, "signal": 9, "oom": True}, "was killed: out of memory"),
    (failure, {"code": 143, "signal": 15, "late": "not ready after 1 s"}, "was not ready after 1 s"),
    (failure, {"code": 127, "why": "no such file"}, "could not be started: no such file"),
    (failure, {"code": 127, "why": "no file", "restarts": 1}, "could not be started again: no file"),
    (failure, {"code": 1, "lost": "its step ended"}, "was lost: its step ended"),
    # The needs and roles that an app waits for
    (events.skipped, ([("a", "failed"), ("b", ""), ("c", "lost")],), "a failed, c was lost"),
    (events.skipped, ([("a", "succeeded"), ("b", "")],), ""),
    (events.waits_for_jobs, (["a", "b"],), "waits for a, b"),
    (events.waits_for_jobs, ([],), "is about to start"),
    (events.waits_for_roles, ([("a", "ready"), ("b", "started")],), "waiting for a (ready), b (started)"),
    (events.waits_for_roles, ([],), ""),
    # The client or the signal that cancels it
    (events.cancelled, ({},), "cancelled"),
    (events.cancelled, ({"by": ""},), "cancelled"),
    (events.cancelled, ({"by": "me"},), "cancelled by me"),
    (events.cancelled, ({"by": "me", "interrupt": True},), "interrupted by me"),
    (events.cancelled, ({"by": "", "signal": 15},), "stopped by signal 15"),
    # The reason why a replica was stopped
    (events.stop_reason, ({"why": "end", "by": "", "message": ""},), "stopped at the end of the app"),
    (events.stop_reason, ({"why": "cancel", "by": "me", "message": "cancelled by me"},), "cancelled by me"),
    (events.stop_reason, ({"why": "cancel", "by": "me"},), ""),  # before the start, up to version 0.1
    (events.stop_reason, ({"why": "peer", "by": "a/0", "message": "a/0 exited", "code": 3},), "a/0 failed"),
    (events.stop_reason, ({"why": "peer", "by": "a/0", "message": "a/0 ended, b", "code": 0},), "a/0 ended"),
    (events.stop_reason, ({"why": "peer", "by": "", "message": "nothing runs"},), "nothing runs"),
    (events.stop_reason, ({"why": "restart", "by": "a/0"},), "a/0 failed"),
    (events.stop_reason, ({"why": "lost", "by": "a/0", "message": "a/0 was lost"},), "a/0 was lost"),
    # A duration, without rounding
    (events.seconds, (60,), "60 s"), (events.seconds, (60.0,), "60 s"), (events.seconds, (0.5,), "0.5 s"),
    (events.seconds, (1000000,), "1000000 s"),
]  # fmt: skip


@pytest.mark.parametrize(("say", "facts", "sentence"), SENTENCES)
def test_every_fact_has_one_sentence(say, facts, sentence):
    assert (say(**facts) if isinstance(facts, dict) else say(*facts)) == sentence


def test_the_event_of_a_restart_without_a_pause_has_no_delay():
    _, record = play("a~1 b~1+5", "go; a/0; b/0; a/0=3; b/0=3")
    assert [event.get("delay_s") for event in record.events if event["e"] == "restart"] == [None, 5]


def test_a_stop_that_was_recorded_before_the_start_stops_nothing():
    """Version 0.1 recorded a stop before the end of an app that had not started."""
    app = play("a", "waiting x")[0]
    app.take({"e": "stopping", "why": "cancel", "by": "me"})
    assert app.stop is None
    assert not app.to_stop


def test_an_app_without_events_has_no_times_and_is_reserved():
    app = App()
    assert (app.created_at, app.started_at, app.ended_at, app.state) == (None, None, None, "reserved")


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "skipped", "lost"])
def test_an_app_has_ended_with_every_outcome(state):
    app = taken("a", "go; a/0")
    app.take({"e": "ended", "state": state, "message": "", "code": None})
    assert app.has_ended
    assert app.decide(0.0) is None


def test_an_app_without_a_recorded_start_takes_its_start_from_the_first_event():
    """Version 0.1 recorded no start of the app."""
    app = taken("a*2<b:ready b", "a/0")
    app.take({"e": "started", "t": 7 * 10**9})
    assert (app.state, app.started_at) == ("running", 7.0)
    assert [app.shown(each) for each in app.replicas] == [("running", ""), ("pending", ""), ("pending", "")]


def test_a_cancellation_stops_nothing_before_its_decision_is_on_record():
    app = taken("a", "go; a/0; cancel me 2; cancel you 1")
    assert not app.to_stop
    stopping = app.decide(START_S)
    assert (stopping["message"], stopping["grace_s"]) == ("cancelled by me", 1)


@pytest.mark.parametrize("code", [None, 0, 127])
def test_a_replica_that_could_not_be_started_has_failed_whatever_its_code(code):
    app = taken("a", "go; a/0")
    app.take({"e": "exit", "role": "a", "k": 0, "code": code, "why": "no such file"})
    assert app.shown(app.replicas[0]) == ("failed", "no such file")
    assert not app.is_done
    stopping = app.decide(START_S)
    assert (stopping["why"], stopping["message"]) == ("peer", "a/0 could not be started: no such file")


def test_after_its_pause_an_app_starts_in_the_order_of_its_roles():
    app, _ = play("a~1A+2 b<a:ready", "go; a/0; a/0=3; quiet; @2")
    assert [each.name for each in app.to_start] == ["a/0"]


def test_a_restart_clears_the_reason_of_the_stop_before_it():
    app, _ = play("a~1A b", "go; a/0; b/0; a/0=3; b/0=-143; quiet")
    assert (app.num_restarts, app.stop_reason) == (1, "")


def test_an_event_without_a_time_keeps_the_time_of_the_event_before():
    app = taken("a", "go; a/0")
    before = app.last_at
    app.take({"e": "warning", "message": "the disk is full"})
    assert app.last_at == before > 0


def test_no_replica_is_to_be_started_after_the_end_of_the_app():
    app = taken("a*2", "go; a/0")
    app.take(events.ended("failed", "the disk is gone"))
    assert not app.to_start


def test_an_app_is_quiet_after_its_sweep_until_a_replica_is_about_to_start():
    app, _ = play("a~1A", "go; a/0; a/0=3; quiet")
    assert (app.take_to_start(0), app.is_quiet) == ([], True)
    assert [each.name for each in app.take_to_start(1)] == ["a/0"]
    assert not app.is_quiet


def test_a_report_of_readiness_that_comes_after_the_end_of_a_replica_does_not_count() -> None:
    assert not taken("a", "go; a/0; a/0=0; a/0 ready").replicas[0].is_ready


def test_the_declaration_of_an_app_names_only_the_rules_that_are_set():
    roles = [("a", 2, 0, "REPLICA"), ("s", 1, 3, "ROLE")]
    assert events.created(roles, {}) == {
        "e": "created",
        "roles": [["a", 2], ["s", 1]],
        "retries": [[0, "REPLICA"], [3, "ROLE"]],
        "delays": [0, 0],
    }
    rules = {"s": {"service": True, "retry_delay": 5}, "a": {"depends_on": {"s": "ready"}}}
    made = events.created(roles, rules, 90.0)
    assert made["order"] == [["s", True, []], ["a", False, [["s", "ready"]]]]
    assert (made["delays"], made["timeout"]) == ([0, 5], 90.0)


def test_a_replica_that_was_asked_to_stop_is_not_lost_when_its_code_is_unknown():
    app = taken("a*2", "go; a/0; a/1")
    app.take({"e": "exit", "role": "a", "k": 0, "t": 0, "code": None, "stopped": True})
    assert app.decide(START_S) is None


def test_a_record_without_its_first_line_has_no_deadline_and_is_never_done():
    app = App()
    for event in ({"e": "started"}, fact("a/0")):
        app.take({"t": int(START_S * 1e9), **event})
    (replica,) = app.replicas
    assert (app.deadline(), app.timeout_s, app.is_done) == (None, None, False)
    app.take(fact("a/0=0"))
    assert replica.has_succeeded
    assert not app.is_done


def test_a_replica_has_the_start_and_the_host_of_its_last_run_alone():
    app = taken("a~1", "go")
    (replica,) = app.replicas
    assert (replica.started_at, replica.host) == (None, "")
    for host, seen in (({"host": "gpu01"}, "gpu01"), ({}, "")):
        app.take({"e": "spawn", "role": "a", "k": 0, "t": 0, **host})
        assert replica.host == seen
