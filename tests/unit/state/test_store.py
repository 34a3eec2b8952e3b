"""The records of the ledger: written, updated and read back."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import DamagedError, StateError
from launcher.holding.use import Use
from launcher.specs.attempt import StoodOn
from launcher.state.rows import used_text
from launcher.state.store import Store
from tests.unit.state.attempts import attempt, digest, end_of, key

# Recording


def test_an_attempt_comes_back_as_it_was_recorded(store: Store):
    full = attempt(
        state="failed",
        started_at=1.5,
        ended_at=2.5,
        owner="",
        message="main/0 exited with 3",
        exit_code=3,
        plan_id="x",
    )
    assert store.record(full) is True
    assert store.by_app_id(full.app_id) == full


def test_edition_and_needs_are_read_back_from_the_ledger(store: Store):
    needs = (StoodOn("prepare", 7, 4, "prepare-7-x", "local_cwd"), StoodOn("ä", 1, 1, "ä-1-x", "s"))
    full = attempt(number=3, edition=2, needs=needs)
    store.record(full)
    store.record(attempt(number=4))
    assert store.attempts(key()) == [attempt(number=4, edition=4), full]
    assert store.latest()[key()].needs == ()


def test_a_recorded_attempt_is_there_when_the_ledger_is_opened_next():
    with Store.open() as first:
        first.record(attempt())
    with Store.open(readonly=True) as second:
        assert second.latest() == {key(): attempt()}


def test_recording_again_keeps_the_newer_state_of_a_live_attempt(store: Store):
    store.record(attempt(owner="pid 7 on here"))
    assert store.record(attempt(state="running", started_at=2.0)) is True
    assert store.attempts(key()) == [attempt(state="running", started_at=2.0)]


def test_an_unfinished_attempt_is_replaced_by_another_of_its_number(store: Store):
    store.record(attempt(digest=digest("a")))
    other = attempt(digest=digest("b"), document={"roles": []})
    store.record(other)
    assert store.attempts(key()) == [other]


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
def test_an_outcome_is_never_overwritten(store: Store, end: str):
    ended = attempt(state=end, ended_at=5.0)
    store.record(ended)
    assert store.record(attempt(state="running")) is False, "an apply that is late with its news"
    assert store.record(attempt(state="failed", ended_at=9.0)) is False
    assert store.end(end_of(ended.app_id, "cancelled", 9.0, "late")) is False
    assert store.by_app_id(ended.app_id) == ended


def test_the_true_outcome_of_a_lost_attempt_replaces_the_loss(store: Store):
    store.record(attempt(state="lost", ended_at=5.0, message="its supervisor is gone"))
    assert store.record(attempt(state="running")) is False
    assert store.end(end_of(attempt().app_id, "lost", 6.0)) is False
    assert store.end(end_of(attempt().app_id, "succeeded", 7.0)) is True
    assert store.app(attempt().app_id).state == "succeeded"


def test_an_end_records_the_outcome_and_keeps_the_rest(store: Store):
    running = attempt(state="running", started_at=2.0, owner="pid 7 on here")
    store.record(running)
    assert store.end(end_of(running.app_id, "failed", 9.0, "main/0 exited with 3", 3)) is True
    want = replace(
        running, state="failed", ended_at=9.0, message="main/0 exited with 3", exit_code=3, owner=""
    )
    assert store.by_app_id(running.app_id) == want


def test_an_end_can_add_a_start_that_was_not_recorded(store: Store):
    store.record(attempt())
    store.end(end_of(attempt().app_id, "succeeded", 9.0, started_at=8.0))
    assert store.app(attempt().app_id).started_at == 8.0


def test_a_use_that_was_not_known_at_the_end_is_added_once(store: Store):
    def end(state: str, *measured: object):
        app = end_of(attempt().app_id, state, 9.0)
        app.used = {"main": Use(measured, 8.0)} if measured else {}
        return app

    store.record(attempt(state="running", started_at=1.0))
    assert store.end(end("succeeded")) is True
    assert store.end(end("failed", 9.0, 9.0, 9, "samples")) is False
    assert store.attempts(key())[0].used == {}
    for memory in (4096, 1):
        assert store.end(end("succeeded", 1.0, 0.5, memory, "samples")) is False
        assert store.attempts(key())[0].used["main"].memory == 4096


def test_ending_an_unknown_app_does_nothing(store: Store):
    assert store.end(end_of("never-1-heard", "failed", 9.0)) is False
    assert store.newest() == []


def test_an_attempt_that_was_taken_back_leaves_no_trace(store: Store):
    store.record(attempt())
    assert store.forget(attempt().app_id) is True
    assert store.forget(attempt().app_id) is False
    assert store.latest() == {}


def test_an_outcome_is_not_forgotten(store: Store):
    store.record(attempt(state="succeeded"))
    assert store.forget(attempt().app_id) is False
    assert store.attempts(key()) == [attempt(state="succeeded")]


def test_one_ledger_serves_many_threads(store: Store):
    def record(first: int) -> None:
        for number in range(first, first + 25):
            assert store.record(attempt(number=number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(record, range(1, 101, 25)))
    assert len(store.attempts(key())) == 100


# Reading for plans


def test_latest_is_the_attempt_with_the_highest_number_of_each_job(store: Store):
    for number in (2, 10, 9):
        store.record(attempt(number=number))
    store.record(attempt("eval"))
    store.record(attempt(key("train", target="prod")))
    latest = store.latest()
    assert {str(job): found.number for job, found in latest.items()} == {
        "vision/train": 10,
        "vision/eval": 1,
        "vision.prod/train": 1,
    }


@pytest.mark.parametrize("state", ["reserved", "created", "waiting", "queued", "skipped"])
def test_an_attempt_of_which_nothing_has_run_leaves_the_attempt_before_it_decisive(store: Store, state: str):
    store.record(attempt(number=1, state="failed"))
    store.record(attempt(number=2, state=state))
    assert sorted(each.number for each in store.decisive([key()])) == [1, 2]


def test_attempts_of_a_job_come_newest_first(store: Store):
    for number in (1, 3, 2):
        store.record(attempt(number=number))
    assert [found.number for found in store.attempts(key())] == [3, 2, 1]


COUNTED = {
    "per job and digest": ("a b a a b", {"a": 3, "b": 2}),
    "without skipped ones": ("a:failed a:skipped a:waiting", {"a": 2}),
    "since the last success": ("a:failed a:succeeded a:failed a:failed b:succeeded", {"a": 2}),
}


@pytest.mark.parametrize("how", COUNTED)
def test_attempts_of_a_document_are_counted(store: Store, how: str):
    attempts, counts = COUNTED[how]
    for number, text in enumerate(attempts.split(), start=1):
        word, _, state = text.partition(":")
        store.record(attempt(number=number, digest=digest(word), **({"state": state} if state else {})))
    store.record(attempt("eval", digest=digest("a")))
    pairs = [(key(), digest(word)) for word in "abc"]
    found = {(key(), digest(word)): number for word, number in counts.items()}
    assert store.counts([*pairs, (key("eval"), digest("a"))]) == {**found, (key("eval"), digest("a")): 1}


# Reading for lists and look-ups


def test_an_entry_has_the_handle_and_the_key_of_its_attempt(store: Store):
    store.record(attempt(key("train", target="prod"), number=3))
    (entry,) = store.newest()
    assert entry.handle == attempt(key("train", target="prod"), number=3).handle
    assert {entry.key: 1} == {key("train", target="prod"): 1}


def test_a_name_finds_the_latest_attempt_of_every_job_that_has_it(store: Store):
    store.record(attempt(number=1))
    store.record(attempt(number=2))
    store.record(attempt(key("train", project="audio"), number=9, created_at=1.0))
    store.record(attempt("train2"))
    assert [(entry.project, entry.number) for entry in store.find("train")] == [("vision", 2), ("audio", 9)]
    assert [entry.number for entry in store.find("train", target="default")] == [2, 9]
    assert store.find("train", target="prod") == []


def test_a_name_with_a_number_finds_that_attempt(store: Store):
    for number in (1, 2, 3):
        store.record(attempt(number=number))
    assert [entry.app_id for entry in store.find("train", number=2)] == [attempt(number=2).app_id]
    assert store.find("train", number=4) == []


def test_a_damaged_document_names_its_attempt(store: Store):
    store.record(attempt())
    store._connection.execute("UPDATE attempts SET document = x'78'")
    found = store.by_app_id(attempt().app_id)
    assert found is not None
    with pytest.raises(StateError, match="document of vision/train, attempt 1, is damaged"):
        found.document["roles"]


# The file


def test_every_write_waits_for_the_disk(store: Store):
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"


def test_a_folder_with_odd_characters_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "100% #1? ä"))
    with Store.open() as made:
        made.record(attempt())
    with Store.open(readonly=True) as read:
        assert read.latest() == {key(): attempt()}
    assert os.path.exists(tmp_path / "100% #1? ä" / "ledger.db")


def test_a_waiting_attempt_is_live_and_can_be_skipped(store: Store):
    waiting = attempt(state="waiting")
    store.record(waiting)
    assert [entry.app_id for entry in store.live_attempts()] == [waiting.app_id]
    assert store.end(end_of(waiting.app_id, "skipped", 9.0, "prepare failed"))
    assert store.live() == []
    assert store.record(attempt(state="running")) is False


# Successes, for estimates


def test_the_last_successes_of_each_job_come_newest_first_with_their_durations_and_use(store: Store):
    used = {"main": Use((1.5, 0.5, 0, ""), 2.0)}
    for number in range(1, 6):
        ends = {
            "state": "succeeded" if number != 4 else "failed",
            "started_at": 100.0,
            "ended_at": 100.0 + number,
        }
        store.record(attempt(number=number, digest=digest(str(number)), used=used, **ends))
    store.record(attempt("waits", state="waiting"))
    found = store.successes([key(), key("waits"), key("none")], 3)
    assert [*found] == [key()]
    assert [each[:2] for each in found[key()]] == [(digest(str(number)), number) for number in (5, 3, 2)]
    assert found[key()][0][2]["main"].cpu_s == 2.0


def test_successes_without_a_duration_are_left_out(store: Store):
    for number, times in enumerate([(None, 5.0), (5.0, None), (5.0, 5.0), (9.0, 5.0)], 1):
        store.record(attempt(number=number, state="succeeded", started_at=times[0], ended_at=times[1]))
    assert store.successes([key()], 10) == {}


def test_the_text_of_a_use_is_that_of_the_module_json():
    used = {"b": Use((1.25, 0.0, 2**30, "cgroup"), 2.0), "a": Use((0.1, 0.2, 0, ""), 1e-05, 3)}
    found = {role: each.to_json() for role, each in used.items()}
    assert used_text(used) == json.dumps(found, separators=(",", ":"), sort_keys=True)


@pytest.mark.parametrize("used", ["{", "[]", "[1]", '{"main": 3}', '{"main": {}}', "3"])
def test_a_damaged_record_of_use_is_an_error_of_its_attempt_and_no_use_for_estimates(store: Store, used: str):
    store.record(attempt(state="succeeded", started_at=1.0, ended_at=2.0))
    store._connection.execute("UPDATE attempts SET used = ?", (used,))
    assert store.successes([key()], 10)[key()][0][2] == {}
    with pytest.raises(DamagedError, match="is damaged") if used != "[]" else nullcontext():
        dict(store.latest()[key()].used)
