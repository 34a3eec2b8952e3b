"""Rows of local apps that the store has lost come back from the folders of the apps."""

import sqlite3
from pathlib import Path

import pytest

from launcher import paths
from launcher.schedulers.local import appview, observe, rundir
from launcher.schedulers.record import write_json
from launcher.schedulers.registry import open_store
from launcher.specs.launch import JobKey, attempt_id
from launcher.state.records import AppRecord
from tests.unit.state.older import SECOND

KEY = JobKey("p", "default", "train")
LOCAL = rundir.SCHEDULERS


def make_folder(app_id: str, key: JobKey | None, number: int | None) -> None:
    folder = Path(paths.local_app(app_id))
    folder.mkdir(parents=True)
    record = {"app_id": app_id, "scheduler": "local_cwd", "key": key, "number": number, "name": "n"}
    write_json(str(folder), "attempt.json", {**record, "created_at": float(number or 1)})


@pytest.mark.parametrize("readonly", [True, False])
def test_a_new_store_has_a_row_for_every_folder(readonly: bool) -> None:
    ids = [attempt_id(KEY, 1), attempt_id(KEY, 2), "loose"]
    for number, app_id in enumerate(ids, start=1):
        make_folder(app_id, None if app_id == "loose" else KEY, number)
    with open_store(readonly=readonly) as store:
        assert {app.app_id for app in store.newest()} == {*ids}
        assert [app.number for app in store.of_jobs([KEY], LOCAL)] == [2, 1]
        assert {app.session for app in store.newest()} == {KEY.session, "launcher"}


def test_the_apps_of_a_store_without_rows_of_apps_come_from_their_folders(launcher_home: Path) -> None:
    launcher_home.mkdir(mode=0o700, exist_ok=True)
    made = sqlite3.connect(launcher_home / "ledger.db")
    made.executescript(f"PRAGMA journal_mode=WAL; {SECOND}; PRAGMA user_version=2")
    made.close()
    make_folder("loose", None, None)
    with open_store() as store:
        assert [app.app_id for app in store.newest()] == ["loose"]


def test_a_folder_whose_row_was_lost_gets_a_new_row() -> None:
    with open_store() as store:
        make_folder("a", None, None)
        assert store.newest() == []
        observe.add_missing(store)
        assert [app.app_id for app in store.newest()] == ["a"]


def test_a_lost_record_is_judged_by_the_ledger_of_its_own_state_folder_alone(tmp_path: Path) -> None:
    with open_store() as store:
        store.add(AppRecord("local_cwd", "s", "a", name="a", created_at=1.0, state="running"))
    for folder, state in ((Path(paths.local_app("a")), "lost"), (tmp_path / "other" / "a", "reserved")):
        folder.mkdir(parents=True)
        view = appview.read_state(str(folder))
        assert view is not None
        assert view.state == state


@pytest.mark.parametrize("others", [0, observe._MANY])
def test_an_attempt_whose_row_was_lost_is_observed_by_the_name_of_its_folder(others: int) -> None:
    for number in (7, 8, 9):
        make_folder(attempt_id(KEY, number), KEY, number)
    keys = [KEY, *(KEY._replace(job=f"other-{number}") for number in range(others))]
    settled = [attempt_id(KEY, 7)]
    apps = observe.LocalApps("local_cwd")
    assert [app.number for app in apps._without_rows(keys, [], settled)] == [9, 8]
    assert apps._without_rows(keys, [], ["other", "a-b-c"]) == []
