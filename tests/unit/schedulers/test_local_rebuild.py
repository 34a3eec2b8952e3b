"""Rows of local apps that the store has lost come back from the folders of the apps."""

import sqlite3
from pathlib import Path

import pytest

from launcher import paths
from launcher.schedulers.appstore import open_store
from launcher.schedulers.local import observe, rundir
from launcher.schedulers.record import write_json
from launcher.specs.launch import JobKey, attempt_id
from tests.unit.state.older import SECOND

KEY = JobKey("p", "default", "train")
LOCAL = rundir.SCHEDULERS

OLD = """
PRAGMA journal_mode=WAL;
CREATE TABLE apps (
    app_id TEXT PRIMARY KEY,
    scheduler TEXT NOT NULL,
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    project TEXT, target TEXT, job TEXT, number INTEGER,
    created_at REAL NOT NULL,
    live INTEGER NOT NULL DEFAULT 1,
    state TEXT, ended_at REAL, message TEXT, exit_code INTEGER
);
INSERT INTO apps VALUES ('loose', 'local_dir', 's', 'n', NULL, NULL, NULL, NULL, 3.0, 0,
    'failed', 4.0, 'why', 5);
INSERT INTO apps VALUES ('train-1-x', 'local_cwd', 'p', 'train', 'p', 'default', 'train', 1, 2.0, 1,
    NULL, NULL, NULL, NULL);
PRAGMA user_version=1;
"""
"""The index of release 0.1."""


def make_folder(app_id: str, key: JobKey | None, number: int | None) -> None:
    folder = Path(rundir.app_dir(paths.local(), app_id))
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


@pytest.mark.parametrize("readonly", [True, False])
def test_the_index_of_the_first_release_is_read_and_left_in_place(launcher_home, readonly):
    older_store(launcher_home)
    before = (launcher_home / "local" / "index.db").read_bytes()
    make_folder("new", None, None)
    with open_store(readonly=readonly) as store:
        found = {app.app_id: (app.handle, app.job, app.state, app.exit_code) for app in store.newest()}
        assert [app.app_id for app in store.to_tidy(LOCAL) if app.app_id != "new"] == ["train-1-x"]
    assert found == {
        "loose": ("local_dir://s/loose", None, "failed", 5),
        "train-1-x": ("local_cwd://p/train-1-x", "train", "reserved", None),
        "new": ("local_cwd://launcher/new", None, "reserved", None),
    }
    assert (launcher_home / "local" / "index.db").read_bytes() == before


def older_store(home: Path) -> None:
    """A state folder of release 0.1: an empty ledger, and an index with two apps."""
    (home / "local").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    for path, script in {
        "ledger.db": f"PRAGMA journal_mode=WAL; {SECOND}; PRAGMA user_version=2",
        "local/index.db": OLD,
    }.items():
        made = sqlite3.connect(home / path)
        made.executescript(script)
        made.close()


@pytest.mark.parametrize("what", ["deleted", "damaged"])
def test_without_the_index_of_the_first_release_the_folders_are_enough(
    launcher_home: Path, what: str
) -> None:
    older_store(launcher_home)
    make_folder("loose", None, None)
    index = launcher_home / "local" / "index.db"
    index.unlink() if what == "deleted" else index.write_bytes(b"no database" * 1000)
    with open_store() as store:
        assert [app.app_id for app in store.newest()] == ["loose"]


def test_a_folder_whose_row_was_lost_gets_a_new_row() -> None:
    with open_store() as store:
        make_folder("a", None, None)
        assert store.newest() == []
        observe.add_missing(store, paths.local())
        assert [app.app_id for app in store.newest()] == ["a"]


@pytest.mark.parametrize("others", [0, observe._MANY])
def test_an_attempt_whose_row_was_lost_is_observed_by_the_name_of_its_folder(others: int) -> None:
    for number in (7, 8, 9):
        make_folder(attempt_id(KEY, number), KEY, number)
    keys = [KEY, *(KEY._replace(job=f"other-{number}") for number in range(others))]
    settled = [attempt_id(KEY, 7)]
    apps = observe.LocalApps(paths.local(), "local_cwd")
    assert [app.number for app in apps._without_rows(keys, [], settled)] == [9, 8]
    assert apps._without_rows(keys, [], ["other", "a-b-c"]) == []
