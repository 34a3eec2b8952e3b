"""The index of local apps."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher import paths
from launcher.errors import StateError
from launcher.schedulers.local import attemptfile, observe, rundir
from launcher.schedulers.local.index import Index
from launcher.specs.launch import JobKey, attempt_id

KEY = JobKey("p", "default", "train")


@pytest.fixture
def index() -> Iterator[Index]:
    with Index.open(paths.local()) as opened:
        yield opened


def add(
    index: Index, app_id: str, created_at: float = 1.0, key: JobKey | None = None, number: int = 1
) -> None:
    index.add(
        app_id, scheduler="local_cwd", session="s", name="n", created_at=created_at, key=key, number=number
    )


def test_the_newest_come_first(index: Index) -> None:
    for n in range(5):
        add(index, f"a-{n}", created_at=n)
    assert [row.app_id for row in index.newest(2)] == ["a-4", "a-3"]
    assert len(index.newest()) == 5
    assert index.newest(scheduler="local_dir") == []


def test_adding_twice_is_adding_once(index: Index) -> None:
    add(index, "a", created_at=1.0)
    add(index, "a", created_at=2.0)
    assert [row.created_at for row in index.newest()] == [1.0]


def test_an_end_is_written_once(index: Index) -> None:
    add(index, "a")
    assert index.settle("a", "failed", 2.0, "why", 3)
    assert not index.settle("a", "succeeded", 3.0, "", 0)
    row = index.find("a")
    assert row is not None
    assert (row.live, row.state, row.ended_at, row.message, row.exit_code) == (False, "failed", 2.0, "why", 3)
    assert index.live() == []


def test_attempts_of_jobs_come_the_latest_first(index: Index) -> None:
    for number in (1, 10, 2):
        add(index, f"train-{number}", key=KEY, number=number)
    add(index, "other", key=JobKey("p", "prod", "train"))
    add(index, "loose")
    assert [row.number for row in index.of_jobs([KEY])] == [10, 2, 1]
    assert [row.app_id for row in index.of_jobs([JobKey("p", "prod", "train")])] == ["other"]


def test_thousands_of_jobs_can_be_asked_for(index: Index) -> None:
    add(index, "a", key=JobKey("p", "default", "j999"))
    keys = [JobKey("p", "default", f"j{n}") for n in range(1000)]
    assert [row.app_id for row in index.of_jobs(keys)] == ["a"]


@pytest.mark.parametrize(
    "where", ["ORDER BY created_at DESC LIMIT 5", "WHERE scheduler = 'x' ORDER BY created_at DESC LIMIT 5",
              "WHERE (project, target, job) IN (VALUES ('a', 'b', 'c'))", "WHERE live"]
)  # fmt: skip
def test_no_question_reads_every_row(index: Index, where: str) -> None:
    with sqlite3.connect(os.path.join(paths.local(), "index.db")) as db:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN SELECT app_id FROM apps {where}")]
    db.close()
    assert all("USING" in step for step in plan if "apps" in step)


def test_a_row_is_void_when_its_folder_is_not_there(index: Index, tmp_path: Path) -> None:
    for name in ("gone", "there"):
        add(index, name)
    (tmp_path / "there").mkdir()
    assert [index.remove_void(name, str(tmp_path / name)) for name in ("gone", "there")] == [True, False]
    assert [row.app_id for row in index.newest()] == ["there"]


def test_reading_where_nothing_was_written_finds_nothing_and_writes_nothing(launcher_home: Path) -> None:
    with Index.open(paths.local(), readonly=True) as index:
        assert index.newest() == index.live() == index.of_jobs([KEY]) == []
        assert index.find("a") is None
        with pytest.raises(StateError):
            add(index, "a")
    assert not launcher_home.exists()


def test_a_reader_cannot_write(index: Index) -> None:
    with Index.open(paths.local(), readonly=True) as reader, pytest.raises(StateError):
        add(reader, "a")


def test_folder_and_file_are_private(index: Index, launcher_home: Path) -> None:
    assert stat.S_IMODE(launcher_home.stat().st_mode) == 0o700
    assert stat.S_IMODE((launcher_home / "local" / "index.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("readonly", [True, False])
def test_an_index_of_a_newer_version_is_refused(index: Index, readonly: bool) -> None:
    index._db.execute("PRAGMA user_version = 99")
    with pytest.raises(StateError, match="newer launcher"):
        Index.open(paths.local(), readonly=readonly)


DAMAGE = {
    "no database": lambda path: path.write_bytes(b"no database at all" * 100),
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 5000),
    "flipped bytes": lambda path: flip(path, 4096, 24576),
    "missing": lambda path: path.unlink(),
    "empty": lambda path: os.truncate(path, 0),
}


def flip(path: Path, start: int, end: int) -> None:
    data = bytearray(path.read_bytes())
    data[start:end] = bytes(byte ^ 0x5A for byte in data[start:end])
    path.write_bytes(data)


def make_folder(app_id: str, key: JobKey | None, number: int | None) -> None:
    folder = Path(rundir.app_dir(paths.local(), app_id))
    folder.mkdir(parents=True)
    record = {"app_id": app_id, "scheduler": "local_cwd", "key": key, "number": number, "name": "n"}
    attemptfile.write(str(folder), {**record, "created_at": float(number or 1)})


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("damage", DAMAGE)
def test_what_became_unreadable_is_made_again_from_the_folders(
    launcher_home: Path, damage: str, readonly: bool
) -> None:
    ids = [attempt_id(KEY, 1), attempt_id(KEY, 2), "loose"]
    with Index.open(paths.local()) as index:
        for number, app_id in enumerate(ids, start=1):
            make_folder(app_id, None if app_id == "loose" else KEY, number)
            add(index, app_id, key=None if app_id == "loose" else KEY, number=number)
    DAMAGE[damage](launcher_home / "local" / "index.db")
    with Index.open(paths.local(), readonly=readonly) as index:
        assert {row.app_id for row in index.newest()} == {*ids}
        assert [row.number for row in index.of_jobs([KEY])] == [2, 1]
        assert {row.session for row in index.newest()} == {KEY.session, "launcher"}
    if not readonly:
        assert sqlite3.connect(launcher_home / "local" / "index.db").execute(
            "PRAGMA integrity_check"
        ).fetchone() == ("ok",)


def test_damage_that_shows_while_the_index_is_open_is_mended(index: Index, launcher_home: Path) -> None:
    for number in (1, 2):
        make_folder(attempt_id(KEY, number), KEY, number)
        add(index, attempt_id(KEY, number), key=KEY, number=number)
    index._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with Index.open(paths.local()) as another:
        flip(launcher_home / "local" / "index.db", 4096, 24576)
        assert [row.number for row in another.of_jobs([KEY])] == [2, 1]
    assert (launcher_home / "local" / "index.db.damaged").exists()


def test_a_row_of_a_folder_without_a_record_takes_its_job_when_the_owner_adds_it(index: Index) -> None:
    folder = Path(rundir.app_dir(paths.local(), "train-1-x"))
    folder.mkdir(parents=True)
    index.add_missing()
    assert [row.job for row in index.newest()] == [None]
    add(index, "train-1-x", key=KEY, number=1)
    assert [(row.job, row.number) for row in index.of_jobs([KEY])] == [("train", 1)]


def test_an_attempt_whose_row_was_lost_is_observed_by_the_name_of_its_folder(index: Index) -> None:
    for number in (7, 8, 9):
        make_folder(attempt_id(KEY, number), KEY, number)
    add(index, attempt_id(KEY, 7), key=KEY, number=7)
    settled = [attempt_id(KEY, 7)]
    assert [row.number for row in observe._without_rows(paths.local(), [KEY], [], settled)] == [9, 8]
    assert observe._without_rows(paths.local(), [KEY], [], ["other", "a-b-c"]) == []


def test_a_folder_that_cannot_be_made_is_refused(launcher_home: Path) -> None:
    launcher_home.write_text("a file is in the way")
    with pytest.raises(StateError, match="cannot write"):
        Index.open(paths.local())


@pytest.mark.parametrize(("kind", "refused"), [("nfs4", True), ("ext4", False)])
def test_a_network_disk_is_refused(monkeypatch: pytest.MonkeyPatch, kind: str, refused: bool) -> None:
    monkeypatch.setattr("launcher.database._filesystem", lambda folder: kind)
    if not refused:
        Index.open(paths.local()).close()
        return
    with pytest.raises(StateError, match="nfs4") as error:
        Index.open(paths.local())
    assert "LAUNCHER_HOME" in str(error.value.hint)


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = str(tmp_path / "a?b#c%20d ü")
    with Index.open(folder) as index:
        add(index, "a")
    with Index.open(folder, readonly=True) as reader:
        assert [row.app_id for row in reader.newest()] == ["a"]
