import os
import time
from dataclasses import replace

import pytest

from launcher import notify
from launcher.notify import DeliveryError, Sender
from launcher.specs.notify import Destination
from launcher.state import outbox
from launcher.state.store import Store
from tests.sink import KEY, Sink
from tests.unit.state.attempts import attempt

ATTEMPT = replace(attempt(), state="lost", ended_at=2000.0)
APP_ID = ATTEMPT.app_id


def note(*to: Destination) -> str:
    """Put the attempt into ledger and outbox; return its group."""
    with Store.open() as store:
        store.record(ATTEMPT)
    outbox.add(APP_ID, to, "/")
    [group] = outbox.groups()
    return group


def run(group: str) -> list[str]:
    """Run a sender; return the app ids that it leaves."""
    read, write = os.pipe()
    try:
        Sender(group, read).run()
    finally:
        os.close(read)
        os.close(write)
    return [app_id for app_id, _ in outbox.records(group)]


def receiver(sink: Sink, **more) -> Destination:
    return Destination(url=sink.url, secret="env:HOOK_KEY", **more)


def test_the_real_outcome_of_a_lost_attempt_is_sent_too(sink):
    group = note(receiver(sink))
    assert run(group) == [APP_ID]
    assert not outbox.is_due(group)
    with Store.open() as store:
        store.record(replace(ATTEMPT, state="succeeded"))
    assert run(group) == []
    assert [body["type"] for _, body in sink.got] == ["attempt.lost", "attempt.succeeded"]


def test_an_outcome_that_a_receiver_does_not_want_is_not_sent(sink):
    group = note(receiver(sink, on=("failed",)))
    run(group)
    assert sink.got == []


def test_a_receiver_that_has_answered_gets_nothing_again_while_another_one_is_away(sink, monkeypatch):
    monkeypatch.setattr(notify, "_FIRST_S", 0.0)
    marker = os.path.join(os.environ["HOME"], "here")
    away = Destination(command=("sh", "-c", f"test -e {marker} || {{ touch {marker}; exit 1; }}"))
    run(note(receiver(sink), away))
    assert len(sink.got) == 1
    assert os.path.exists(marker)


def test_an_outcome_is_given_up_after_its_time_and_stays_named(sink, monkeypatch):
    monkeypatch.setattr(notify, "GIVE_UP_S", 0.0)
    monkeypatch.setattr(notify, "_FIRST_S", 0.0)
    sink.answer = 500
    group = note(receiver(sink))
    assert run(group) == [APP_ID]
    assert "given up): HTTP status 500" in outbox.troubles(APP_ID)[0]
    assert not outbox.is_due(group)
    tries = len(sink.got)
    run(group)
    assert len(sink.got) == tries


def test_a_sender_without_the_key_leaves_the_outcome_to_the_next_one(sink, monkeypatch):
    monkeypatch.delenv("HOOK_KEY")
    group = note(receiver(sink))
    assert run(group) == [APP_ID]
    assert "HOOK_KEY is not set" in outbox.troubles(APP_ID)[0]
    monkeypatch.setenv("HOOK_KEY", KEY)
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + 60)
    assert outbox.is_due(group)
    monkeypatch.setattr(notify.time, "time", lambda: 4e9)
    assert run(group) == [APP_ID], "lost may be followed by the real outcome"
    assert "HOOK_KEY" not in "".join(outbox.troubles(APP_ID))


def test_a_record_of_an_attempt_that_was_taken_back_is_removed(sink):
    outbox.add(APP_ID, [receiver(sink)], "/")
    [group] = outbox.groups()
    assert run(group) == []
    assert sink.got == []


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"version": 2}', b"\xff"])
def test_a_damaged_record_harms_no_other_one(text, sink):
    group = note(receiver(sink))
    with open(os.path.join(group, "other-1-abcde"), "wb") as file:
        file.write(text)
    run(group)
    assert len(sink.got) == 1


def test_a_new_submission_replaces_the_receivers_of_the_one_before(sink):
    first = note(Destination(command=("false",)))
    outbox.add(APP_ID, [receiver(sink)], "/")
    assert os.listdir(first) == []
    outbox.add(APP_ID, [], "/")
    assert [name for group in outbox.groups() for name in os.listdir(group)] == []


def test_the_pause_between_tries_grows_to_an_hour():
    delivery = {"to": {"command": ["false"]}, "state": "failed", "tries": 0, "since": time.time()}
    pauses = []
    for _ in range(12):
        notify._judge(delivery, DeliveryError("no"))
        pauses.append(round(delivery["due_at"] - time.time()))
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (5, 3600)
