"""Taking an app id: one owner at a time, wherever earlier owners were killed."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from launcher import paths
from launcher.errors import ReservedError, StateError
from launcher.schedulers import get_scheduler
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local.claim import Claim, claim, discard_ownerless
from launcher.schedulers.record import read_attempt
from launcher.schedulers.registry import open_store
from launcher.state.records import AppRecord

RECORD = {
    "key": None, "name": "n", "session": "s", "app_id": "a-1", "scheduler": "local_cwd", "digest": "d",
    "created_at": 1.0,
}  # fmt: skip


def take(**changes: object) -> Claim:
    paths.ensure(paths.local_apps())
    with open_store(durable=False) as store:
        return claim(store, app_dir(), {**RECORD, **changes})


def app_dir() -> str:
    return paths.local_app("a-1")


def indexed() -> list[str]:
    with open_store(readonly=True) as store:
        return [app.app_id for app in store.newest()]


def test_a_claim_is_a_row_a_folder_a_record_and_a_lock() -> None:
    made = take()
    assert indexed() == ["a-1"]
    assert read_attempt(app_dir()) == RECORD
    assert AppFolder(app_dir()).is_locked()
    made.release()
    assert not AppFolder(app_dir()).is_locked()


def test_one_of_twenty_racing_claims_wins() -> None:
    barrier = threading.Barrier(20)
    won, lost = [], []

    def race() -> None:
        barrier.wait()
        try:
            won.append(take())
        except ReservedError as error:
            lost.append(error)

    threads = [threading.Thread(target=race) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 19)
    won[0].release()


@pytest.mark.parametrize("left", ["events.jsonl", "scratch/file", "request.json"])
def test_a_different_claim_of_a_dead_owner_is_cleared(left: str) -> None:
    take(digest="other").release()
    path = Path(app_dir(), left)
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    made = take()
    assert not path.exists()
    assert read_attempt(app_dir()) == RECORD
    made.release()


@pytest.mark.parametrize("step", ["row", "folder", "lock"])
def test_a_claim_killed_at_any_step_is_taken_over(step: str) -> None:
    with open_store() as store:
        store.add(AppRecord("local_cwd", "s", "a-1", name="n", created_at=1.0, state="reserved"))
    if step != "row":
        Path(app_dir()).mkdir(parents=True)
    if step == "lock":
        Path(AppFolder(app_dir()).lock).touch()
    made = take()
    assert read_attempt(app_dir()) == RECORD
    made.release()


def test_a_row_removed_as_void_in_between_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = os.mkdir

    def ends_recorded_before_mkdir(path: str, *args: int) -> None:
        if path == app_dir():
            get_scheduler("local_cwd", "s").reap()
            assert indexed() == []
        mkdir(path, *args)

    monkeypatch.setattr(os, "mkdir", ends_recorded_before_mkdir)
    made = take()
    assert indexed() == ["a-1"]
    made.release()


def test_a_folder_removed_before_it_was_locked_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    flock, left = fcntl.flock, [1]

    def removed_before_flock(fd: int, how: int) -> None:
        if left:
            left.pop()
            AppFolder(app_dir()).remove()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", removed_before_flock)
    made = take()
    assert read_attempt(app_dir()) == RECORD
    assert AppFolder(app_dir()).is_locked()
    made.release()


def test_a_reader_that_probes_the_lock_does_not_refuse_the_owner() -> None:
    take().release()
    stop = threading.Event()

    def probe() -> None:
        while not stop.is_set():
            AppFolder(app_dir()).is_locked()

    reader = threading.Thread(target=probe)
    reader.start()
    for _ in range(50):
        take().release()
    stop.set()
    reader.join()


def test_only_an_app_without_an_owner_is_discarded_as_ownerless() -> None:
    made = take()
    assert not discard_ownerless(app_dir())
    made.release()
    assert discard_ownerless(app_dir())
    assert indexed() == []


def test_recording_ends_removes_apps_without_a_job_whose_owner_died() -> None:
    take().release()
    assert get_scheduler("local_cwd", "s").reap() == []
    assert not os.path.exists(app_dir())
    assert indexed() == []


def test_recording_ends_finishes_a_removal_that_was_killed() -> None:
    take().release()
    hidden = f"{paths.local_apps()}/.gone-x"
    os.mkdir(hidden)
    get_scheduler("local_cwd", "s").reap()
    assert not os.path.exists(hidden)


def test_a_file_in_the_place_of_the_folder_of_apps_is_one_clear_error(launcher_home: Path) -> None:
    (launcher_home / "local").mkdir(parents=True)
    (launcher_home / "local" / "apps").write_text("")
    with pytest.raises(StateError, match="cannot write"):
        take()
