"""The folder of a local app: its state follows from its record and its lock, and reading changes nothing."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from launcher.errors import StateError
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import appview
from launcher.schedulers.local.appview import AppView, fold

START = {
    "v": 1,
    "e": "supervisor",
    "t": 1,
    "pid": 5,
    "start": 6,
    "boot": "b",
    "handle": "h",
    "attached": False,
}


def lines(*events: dict[str, object]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


def event(kind: str, **fields: object) -> dict[str, object]:
    return {"e": kind, "t": 2_000_000_000, **fields}


def spawn(k: int = 0, restart: int = 0) -> dict[str, object]:
    return event("spawn", role="main", k=k, pid=100 + k, start=7, restart=restart)


def end(k: int = 0, code: int = 0, **more: object) -> dict[str, object]:
    return event("exit", role="main", k=k, code=code, signal=0, **more)


def folded(*events: dict[str, object], locked: bool = True) -> AppView:
    return fold(lines(*events), locked=locked)


def test_the_states_of_an_app_follow_from_its_events_and_its_lock() -> None:
    created = [START, event("created", roles=[["main", 2]])]
    started = [*created, event("starting"), spawn(0)]
    ended = event("ended", state="failed", message="m", code=3)
    assert folded().state == "reserved"
    assert folded(START).state == "reserved"
    assert folded(*created).state == "created"
    assert folded(*created, locked=False).state == "created"
    assert folded(*started).state == "running"
    assert folded(*started, locked=False).state == "lost"
    assert folded(*started[:-1], locked=False).state == "lost"  # it may have started one, and died
    assert folded(*started, ended, locked=False).state == "failed"


def test_a_record_of_a_newer_version_is_refused() -> None:
    with pytest.raises(StateError, match="newer version"):
        folded({**START, "v": 2})


def test_a_record_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.mkdir()  # read(2) fails for any user, as after an error of the disk
    with pytest.raises(StateError, match=f"cannot read {path}: Is a directory"):
        appview.read_state(str(tmp_path))


def test_reading_an_app_that_does_not_exist_returns_none(tmp_path: Path) -> None:
    assert appview.read_state(str(tmp_path / "no")) is None


def test_reading_writes_nothing_and_disturbs_no_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text("pid 17 on box\n")
    before = [(each.name, each.stat().st_mtime_ns) for each in tmp_path.iterdir()]
    view = appview.read_state(str(tmp_path))
    assert (view.state, view.owner) == ("reserved", "")
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = appview.read_state(str(tmp_path))
    assert (held.lock_held, held.owner) == (True, "pid 17 on box")
    assert [(each.name, each.stat().st_mtime_ns) for each in tmp_path.iterdir()] == before


def test_removing_follows_no_links_and_stops_at_nothing(tmp_path: Path) -> None:
    app, precious = tmp_path / "apps" / "a", tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("")
    (app / "scratch" / "read-only").mkdir(parents=True)
    (app / "scratch" / "read-only" / "file").write_text("")
    (app / "scratch" / "link").symlink_to(precious)
    (app / "scratch" / "read-only").chmod(0o500)
    AppFolder(str(app)).remove()
    AppFolder(str(app)).remove()  # once is enough, twice does no harm
    assert os.listdir(tmp_path / "apps") == []
    assert (precious / "file").exists()
