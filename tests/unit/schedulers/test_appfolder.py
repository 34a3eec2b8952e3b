"""The lock of an app's folder: it has one holder, and belongs to the folder that exists."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher import filelock
from launcher.schedulers import appfolder
from launcher.schedulers.appfolder import AppFolder


@contextmanager
def held(app_dir: Path) -> Iterator[int]:
    fd = AppFolder(str(app_dir)).make_and_lock()
    try:
        yield fd
    finally:
        os.close(fd)


def test_the_lock_of_an_app_folder_has_one_holder(tmp_path: Path) -> None:
    with held(tmp_path / "app"), pytest.raises(BlockingIOError):
        AppFolder(str(tmp_path / "app")).take_lock()
    os.close(AppFolder(str(tmp_path / "app")).take_lock())


def test_the_lock_of_a_removed_folder_does_not_lock_the_next_folder(tmp_path: Path) -> None:
    with held(tmp_path / "app") as old:
        shutil.rmtree(tmp_path / "app")
        with held(tmp_path / "app") as new:
            assert not filelock.is_at(old, AppFolder(str(tmp_path / "app")).lock)
            assert filelock.is_at(new, AppFolder(str(tmp_path / "app")).lock)


def test_a_folder_that_does_not_exist_has_no_lock_to_take(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AppFolder(str(tmp_path / "app")).take_lock()
    assert not (tmp_path / "app").exists()


def test_a_folder_removed_during_the_wait_is_reported_as_gone(tmp_path, monkeypatch):
    with held(tmp_path / "app"), monkeypatch.context() as patched:  # the teardown sleeps, too
        patched.setattr(appfolder.time, "sleep", lambda _: shutil.rmtree(tmp_path / "app"))
        with pytest.raises(FileNotFoundError):
            AppFolder(str(tmp_path / "app")).take_lock()
