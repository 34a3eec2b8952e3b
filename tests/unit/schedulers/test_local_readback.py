"""Which folders hold the logs of the replicas of an app."""

import os
import sys
from pathlib import Path

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers.local import logfiles
from launcher.schedulers.local.logs import LocalLogs
from launcher.schedulers.logs import LogPart
from launcher.schedulers.record import write_json

_hooked: list[bool] = []
_opened: list[str] = []


def _note(event: str, args: tuple[object, ...]) -> None:
    if event == "open":
        _opened.append(str(args[0]))


@pytest.fixture
def opened() -> list[str]:
    """The paths of the files that the test opens."""
    if not _hooked:
        sys.addaudithook(_note)
        _hooked.append(True)
    _opened.clear()
    return _opened


def app_of(folder: Path, replicas: int) -> str:
    """Return an app folder whose role `main` has so many replicas, each with one line of output."""
    folder.mkdir()
    dirs = [str(folder / "logs" / str(k)) for k in range(replicas)]
    for k, each in enumerate(dirs):
        os.makedirs(each)
        Path(each, "combined.log").write_text(f"replica {k}\n")
    write_json(str(folder), "request.json", {"role_log_dirs": {"main": dirs}})
    return str(folder)


def test_the_request_is_read_once_however_many_replicas_are_read(tmp_path: Path, opened: list[str]) -> None:
    app_dir = app_of(tmp_path / "app", 50)
    opened.clear()
    found = LocalLogs(app_dir).chunks([("main", k) for k in range(50)], LogPart())
    text = b"".join(data for _, _, data in found)
    assert text.count(b"\n") == 50
    assert [path for path in opened if path.endswith("request.json")] == [f"{app_dir}/request.json"]


def test_an_app_that_was_submitted_anew_is_read_anew(tmp_path: Path) -> None:
    app_dir = app_of(tmp_path / "app", 1)
    assert logfiles.folder_of(app_dir, "main", 0).endswith("/logs/0")
    write_json(app_dir, "request.json", {"role_log_dirs": {"other": ["/elsewhere"]}})
    assert logfiles.folder_of(app_dir, "other", 0) == "/elsewhere"


def test_many_apps_are_not_remembered_for_ever(tmp_path: Path) -> None:
    for number in range(logfiles._MOST_APPS + 5):
        logfiles.folder_of(app_of(tmp_path / str(number), 1), "main", 0)
    assert len(logfiles._known_folders) <= logfiles._MOST_APPS


def test_a_missing_app_and_one_that_was_not_created_yet_are_errors_that_name_it(tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    for name, why in (("gone", "there is no app `gone`"), ("begun", "begun was not created yet")):
        with pytest.raises(SchedulerError, match=why):
            logfiles.folder_of(str(tmp_path / name), "main", 0)
