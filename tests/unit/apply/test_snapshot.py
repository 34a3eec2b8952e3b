"""Ledger and engines in one view: which of them is believed, and what the ledger has missed."""

from dataclasses import replace

import pytest

from launcher.apply.engines import catch_up
from launcher.apply.observe import merge
from launcher.state.store import Store
from tests.unit.plan.world import ENGINES, attempt, job
from tests.unit.state import attempts

TRAIN = job("train")
RUNNING = attempt(TRAIN, "running", 2)


def seen(ledger: list, engines: list, **rest):
    return merge(ledger=ledger, engines=engines, **{"fingerprints": ENGINES, **rest})


BELIEVED = {
    "the engine, of a live attempt": ("lost", ["running"], "running"),
    "the ledger, of an ended attempt": ("succeeded", ["lost"], "succeeded"),
    "the engine, of an outcome that the ledger lacks": ("running", ["failed"], "failed"),
    "the ledger, of an outcome that the engine has forgotten": ("succeeded", [], "succeeded"),
}


@pytest.mark.parametrize("which", BELIEVED)
def test_the_state_of_an_attempt_is_from_the_side_that_knows_it(which: str) -> None:
    recorded, engine, state = BELIEVED[which]
    found = seen([replace(RUNNING, state=recorded)], [replace(RUNNING, state=each) for each in engine])
    assert found.latest[TRAIN.key].state == state


def test_the_engine_decides_whether_the_containers_of_an_ended_attempt_have_drifted() -> None:
    done = replace(RUNNING, state="succeeded")
    by_hand = replace(done, drift="trainer/0 was started by hand")
    assert seen([done], [by_hand]).latest[TRAIN.key].drift == "trainer/0 was started by hand"
    assert seen([by_hand], [done]).latest[TRAIN.key].drift == ""


def test_an_attempt_that_the_ledger_calls_running_and_the_engine_does_not_know_is_lost() -> None:
    lost = seen([RUNNING], []).latest[TRAIN.key]
    assert (lost.state, lost.message) == ("lost", "nothing of it is left")
    assert seen([RUNNING], []).live == ()


def test_an_attempt_of_an_engine_that_was_not_asked_is_not_lost() -> None:
    assert seen([RUNNING], [], fingerprints={}).live == (RUNNING,)


def test_a_reservation_that_the_engine_does_not_know_was_taken_back() -> None:
    assert seen([replace(RUNNING, state="reserved")], []).latest == {}


def test_an_attempt_that_only_the_engine_knows_counts() -> None:
    view = seen([], [RUNNING])
    assert view.latest == view.ran == {TRAIN.key: RUNNING}
    assert view.live == (RUNNING,)


def test_the_latest_attempt_has_the_highest_number_on_record_or_at_an_engine() -> None:
    view = seen([attempt(TRAIN, "succeeded", 1)], [attempt(TRAIN, "reserved", 3), RUNNING])
    assert view.latest[TRAIN.key].number == 3
    assert view.ran[TRAIN.key].number == 2
    assert [a.number for a in view.live] == [2, 3]


def test_an_ended_attempt_missing_from_the_ledger_is_counted() -> None:
    failed = replace(RUNNING, state="failed")
    pair = (TRAIN.key, failed.digest)
    assert seen([], [failed], counts={pair: 2}).counts[pair] == 3
    assert seen([RUNNING], [failed], counts={pair: 2}).counts[pair] == 2
    assert seen([], [replace(RUNNING, state="reserved")], counts={pair: 2}).counts[pair] == 2


@pytest.mark.parametrize(("was", "seen", "then"), [
    ("", "running", "running"), ("", "failed", "failed"), ("created", "running", "running"),
    ("created", "succeeded", "succeeded"), ("running", "succeeded", "succeeded"),
    ("lost", "succeeded", "succeeded"), ("failed", "succeeded", "failed"),
    ("failed", "running", "failed"), ("running", "created", "running"), ("created", "waiting", "waiting"),
    ("waiting", "running", "running"), ("waiting", "skipped", "skipped"),
    ("waiting", "succeeded", "succeeded"), ("running", "waiting", "running"),
])  # fmt: skip
def test_a_start_and_an_end_that_were_missed_are_recorded(was: str, seen: str, then: str) -> None:
    made = attempts.attempt()
    with Store.open() as store:
        if was:
            store.record(replace(made, state=was))
        catch_up(store, replace(made, state=seen), store.app(made.app_id))
        entry = store.app(made.app_id)
        assert entry.state == then
