"""The rows of apps: what the store holds of an app whether or not a job file made it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.errors import StateError
from launcher.specs.launch import JobKey
from launcher.state.records import AppRecord
from launcher.state.store import Store
from tests.unit.state.attempts import attempt, digest, end_of, key

LOCAL = ("local_cwd", "local_dir")


def app(app_id: str, created_at: float = 1.0, scheduler: str = "local_cwd", **fields) -> AppRecord:
    fields = {"name": "n", "state": "reserved", **fields}
    return AppRecord(scheduler, "s", app_id, created_at=created_at, **fields)


def of(made, **fields) -> AppRecord:
    """Return the row of an attempt's app."""
    return app(made.app_id, made.created_at, made.scheduler, key=made.key, number=made.number, **fields)


def ids(apps: list[AppRecord]) -> list[str]:
    return [each.app_id for each in apps]


# Adding


def test_a_row_comes_back_as_it_was_added(store: Store):
    store.add(app("a", 7.0, name="train"))
    (found,) = store.newest()
    assert (found.handle, found.name, found.job, found.number) == ("local_cwd://s/a", "train", None, None)
    assert (found.state, found.created_at, found.message) == ("reserved", 7.0, "")


def test_adding_a_row_twice_keeps_one_row(store: Store):
    store.add(app("a", created_at=1.0))
    store.add(app("a", created_at=2.0))
    assert [each.created_at for each in store.newest()] == [1.0]


def test_a_row_without_a_job_takes_the_job_that_its_client_adds(store: Store):
    store.add_all([(app("train-1"), True)])
    store.add(app("train-1", key=key(), number=1))
    assert [(each.job, each.number) for each in store.of_jobs([key()], LOCAL)] == [("train", 1)]


def test_adding_missing_rows_leaves_existing_rows(store: Store):
    store.add(app("a"))
    store.end(end_of("a", "failed", 2.0))
    store.add_all([(app("a"), True), (app("b"), False)])
    assert {each.app_id: each.state for each in store.newest()} == {"a": "failed", "b": "reserved"}
    assert ids(store.to_tidy(LOCAL)) == ["a"]


# Ends


def test_the_first_end_of_an_app_is_kept(store: Store):
    store.add(app("a"))
    assert store.end(end_of("a", "failed", 2.0, "why", 3, started_at=1.5)) is True
    assert store.end(end_of("a", "succeeded", 3.0)) is False
    found = store.app("a")
    assert (found.state, found.started_at, found.ended_at) == ("failed", 1.5, 2.0)
    assert (found.message, found.exit_code) == ("why", 3)


def test_the_true_outcome_of_a_lost_app_replaces_the_loss(store: Store):
    store.add(app("a"))
    assert store.end(end_of("a", "lost", 2.0)) is True
    assert store.end(end_of("a", "lost", 3.0)) is False
    assert store.end(end_of("a", "cancelled", 4.0)) is True
    assert (store.app("a").state, store.app("a").ended_at) == ("cancelled", 4.0)


@pytest.mark.parametrize("by", ["end", "record", "record_all"])
def test_an_end_is_written_to_both_tables(store: Store, by: str):
    made = attempt(state="running", started_at=2.0)
    store.record(made)
    store.add(of(made))
    if by == "end":
        assert store.end(end_of(made.app_id, "failed", 9.0, "why", 3)) is True
    else:
        ended = attempt(state="failed", started_at=2.0, ended_at=9.0, message="why", exit_code=3)
        store.record(ended) if by == "record" else store.record_all([ended])
    (row,) = store.of_jobs([key()], [made.scheduler])
    assert (row.state, row.started_at, row.ended_at, row.message, row.exit_code) == (
        "failed", 2.0, 9.0, "why", 3,
    )  # fmt: skip
    assert store.live() == []


def test_the_outcome_of_an_attempt_wins_over_the_report_of_its_app(store: Store):
    made = attempt(state="succeeded", ended_at=5.0)
    store.record(made)
    store.add(of(made))
    assert store.end(end_of(made.app_id, "failed", 9.0)) is False
    assert [each.state for each in store.of_jobs([key()], [made.scheduler])] == ["succeeded"]


def test_an_app_is_marked_as_tidied_up_once(store: Store):
    store.add(app("a"))
    store.end(end_of("a", "failed", 2.0))
    assert ids(store.to_tidy(LOCAL)) == ["a"], "its end is known, and its processes may be there"
    assert store.to_tidy(["local_docker"]) == []
    assert not store.is_tidied("a")
    assert [store.end_and_tidy(end_of("a", "succeeded", 3.0)) for _ in range(2)] == [True, False]
    assert (store.is_tidied("a"), store.app("a").state) == (True, "failed")
    assert store.to_tidy(LOCAL) == []


# Lists


def test_newest_lists_each_app_of_both_tables_once_and_the_newest_first(store: Store):
    for number in range(1, 6):
        made = attempt(number=number, created_at=float(number))
        store.record(made)
        store.add(of(made))
    store.add(app("loose", 3.5))
    store.add(app("old", 0.5, scheduler="local_docker"))
    wanted = [attempt(number=5).app_id, attempt(number=4).app_id, "loose", attempt(number=3).app_id]
    assert ids(store.newest(4)) == wanted
    assert len(store.newest(None)) == 7
    assert ids(store.newest(4, "local_docker")) == ["old"]


def test_the_record_of_the_attempt_counts_for_an_app_in_both_tables(store: Store):
    made = attempt(state="running")
    store.record(made)
    store.add(of(made))
    assert [each.state for each in store.newest()] == ["running"]
    assert [each.state for each in store.live()] == ["running"]
    assert store.app(made.app_id).state == "running"
    assert [each.state for each in store.find("train")] == ["running"]


def test_live_returns_the_apps_without_an_end(store: Store):
    for app_id, state in {"a": "reserved", "b": "running", "c": "failed"}.items():
        store.add(app(app_id, ord(app_id), state=state))
    states = ("reserved", "created", "waiting", "running", "succeeded", "failed", "cancelled", "lost")
    made = [attempt(number=n, state=state, created_at=float(-n)) for n, state in enumerate(states)]
    for each in made:
        store.record(each)
    live = [each.app_id for each in made[:4]]
    assert ids(store.live()) == ["b", "a", *live]
    assert sorted(ids(store.live_attempts())) == sorted(live)


def test_an_attempt_that_lost_its_record_is_found_by_its_app(store: Store):
    store.record(attempt(number=1, state="failed"))
    store.add(of(attempt(number=2), state="succeeded"))
    store.add(of(attempt(number=3), state="reserved"))
    assert [each.number for each in store.find("train")] == [2], "3 is not recorded before it is made"
    assert [each.number for each in store.find("train", number=2)] == [2]
    assert store.attempt(attempt(number=2).app_id) is None


def test_attempts_of_jobs_come_the_latest_first(store: Store):
    for number in (1, 10, 2):
        store.add(app(f"train-{number}", key=key(), number=number))
    store.add(app("other", key=key(target="prod"), number=1))
    store.add(app("elsewhere", scheduler="local_docker", key=key(), number=11))
    store.add(app("loose"))
    assert [row.number for row in store.of_jobs([key()], LOCAL)] == [10, 2, 1]
    assert ids(store.of_jobs([key(target="prod")], LOCAL)) == ["other"]
    assert [row.number for row in store.of_jobs([key()], LOCAL, {"train-2"})] == [10], "none older than it"
    assert [row.number for row in store.of_jobs([key()], LOCAL, {"elsewhere"})] == [10, 2, 1]


def test_thousands_of_jobs_can_be_asked_for(store: Store):
    store.add(app("a", key=JobKey("p", "default", "j999"), number=1))
    keys = [JobKey("p", "default", f"j{n}") for n in range(1000)]
    assert ids(store.of_jobs(keys, LOCAL)) == ["a"]


KEYS = [key(f"job{number}") for number in range(300)]
IN_ONE = {
    "latest of many jobs": lambda store: store.latest(KEYS),
    "decisive attempts of many jobs": lambda store: store.decisive(KEYS),
    "successes of many jobs": lambda store: store.successes(KEYS, 10),
    "counts of many jobs": lambda store: store.counts([(each, digest("a")) for each in KEYS]),
    "attempt by app id": lambda store: store.by_app_id("a"),
    "live attempts": lambda store: store.live_attempts(),
}
"""Questions with one statement each."""
QUESTIONS = IN_ONE | {
    "newest": lambda store: store.newest(50),
    "newest of one scheduler": lambda store: store.newest(50, "local_cwd"),
    "live": lambda store: store.live(), "to tidy": lambda store: store.to_tidy(LOCAL),
    "of jobs": lambda store: store.of_jobs([key()], LOCAL), "find": lambda store: store.find("train"),
    "app": lambda store: store.app("a"), "tidied": lambda store: store.is_tidied("a"),
    "end and tidy": lambda store: store.end_and_tidy(end_of("a", "failed", 1.0)),
    "apps": lambda store: store.apps("local_cwd"),
    "end": lambda store: store.end(end_of("a", "failed", 1.0)),
    "remove": lambda store: store.remove("a"),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_query_reads_every_row(store: Store, question: str):
    """Each scan follows an index and ends at the limit, or reads a partial index."""
    seen: list[str] = []
    store._connection.set_trace_callback(seen.append)
    QUESTIONS[question](store)
    asked = [*seen]
    assert len(asked) == 1 or question not in IN_ONE
    assert all("document" not in sql for sql in asked if question.startswith("successes"))
    plans = [store._connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall() for sql in asked]
    steps = [row[3] for rows in plans for row in rows]
    scans = [step for step in steps if step.startswith("SCAN a") and "VIRTUAL" not in step]
    assert [step for step in scans if not step.endswith(ORDERED[question])] == []
    assert steps


ORDERED = dict.fromkeys(QUESTIONS, ("(none)",)) | {
    "newest": ("attempts_created", "apps_created", "SCAN app"), "newest of one scheduler": ("SCAN app",),
    "live": ("attempts_live", "apps_unended"), "live attempts": ("attempts_live",),
}  # fmt: skip


# Removing


def test_the_row_of_an_app_without_a_folder_is_void(store: Store, tmp_path: Path):
    for name in ("gone", "there"):
        store.add(app(name))
    (tmp_path / "there").mkdir()
    assert [store.remove_void(name, str(tmp_path / name)) for name in ("gone", "there")] == [True, False]
    assert ids(store.newest()) == ["there"]


def test_removing_an_app_leaves_the_record_of_its_attempt(store: Store):
    made = attempt(state="failed", ended_at=3.0)
    store.record(made)
    store.add(of(made))
    store.remove(made.app_id)
    assert store.app_ids([made.scheduler]) == []
    assert [each.state for each in store.newest()] == ["failed"]


def test_rows_are_counted_by_scheduler(store: Store):
    for app_id, scheduler in {"a": "local_cwd", "b": "local_dir", "c": "local_docker"}.items():
        store.add(app(app_id, scheduler=scheduler))
    assert (store.count(LOCAL), sorted(store.app_ids(LOCAL))) == (2, ["a", "b"])


# The file


def test_a_new_file_is_filled_from_its_source(launcher_home: Path):
    def source():
        yield app("ended", state="failed"), False
        yield app("live"), True

    with Store.open(readonly=True, source=source) as store:
        assert sorted(ids(store.newest())) == ["ended", "live"]
        with pytest.raises(StateError):
            store.add(app("new"))
    assert not launcher_home.exists()
    with Store.open(source=source) as store:
        assert ids(store.to_tidy(LOCAL)) == ["live"]


def test_eight_threads_write_rows_at_once():
    def write(worker: int) -> int:
        with Store.open(durable=False) as store:
            for number in range(20):
                store.add(app(f"{worker}-{number}"))
                store.end_and_tidy(end_of(f"{worker}-{number}", "failed", 1.0))
        return 20

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(write, range(8))) == 160
    with Store.open(readonly=True) as store:
        assert (store.count(LOCAL), store.live(), store.to_tidy(LOCAL)) == (160, [], [])


# Ended apps


def test_ended_apps_are_found_by_words_and_states_with_the_last_one_first(store: Store):
    made = [attempt(key(name), state="running") for name in ("train", "eval", "live")]
    for each in made:
        store.record(each)
        store.add(of(each))
    store.add(app("run-x", 3.0, state="failed", ended_at=30.0, message="No module named 'torch'"))
    for each, at, state in zip(made, (20.0, 40.0), ("failed", "succeeded"), strict=False):
        store.end(end_of(each.app_id, state, at))
    assert ids(store.at(store.ended())) == [made[1].app_id, "run-x", made[0].app_id]
    assert ids(store.at(store.ended(states=["failed"]))) == ["run-x", made[0].app_id]
    assert ids(store.at(store.ended(["TORCH", "failed"]))) == ["run-x"]
    assert ids(store.at(store.ended(["%"]))) == []
    assert ids(store.at([*reversed(store.ended()), 99, -99])) == [made[0].app_id, "run-x", made[1].app_id]
