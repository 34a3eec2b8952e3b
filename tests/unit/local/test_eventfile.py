"""The record of a local app: the state that follows from it and from its lock, also for records of dead
supervisors and of older versions; reading changes nothing.
"""

import fcntl
import json
import os
from pathlib import Path

import pytest

from launcher.errors import StateError
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import appview, rundir
from launcher.schedulers.local.appview import AppView, fold
from tests.unit.local.driving import Driven

START = {
    "v": 1, "e": "supervisor", "t": 1, "pid": 5, "start": 6, "boot": "b", "handle": "h", "attached": False,
}  # fmt: skip


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


GO = [event("starting"), spawn(0), spawn(1), event("started")]


def created(max_retries: int = 0, policy: str = "APPLICATION", count: int = 2) -> list[dict[str, object]]:
    return [START, event("created", roles=[["main", count]], retries=[[max_retries, policy]])]


def left(*events: dict[str, object]) -> AppView:
    """Return the view of an app whose supervisor died after these events."""
    return fold(lines(*events), locked=False)


def test_an_implied_end_has_the_time_of_the_last_event_and_the_code_that_decided_it() -> None:
    view = left(*created(), *GO, end(0, 3), {**end(1), "t": 5_000_000_000})
    assert (view.code, view.ended_at) == (3, 5.0)
    assert left(*created(), *GO, end(0), end(1)).code == 0


def test_a_recorded_end_is_not_an_abandoned_one() -> None:
    ended = event("ended", state="failed", message="m", code=3)
    assert not left(*created(), *GO, end(0, 3), end(1), ended).abandoned
    assert not fold(lines(*created(), *GO, end(0), end(1)), locked=True).abandoned  # it may yet be recorded


def test_an_app_whose_supervisor_is_killed_before_it_reads_the_cancel_is_cancelled(app: Driven) -> None:
    app.start(app.role("main", ["sleep", "1000"]))
    Path(rundir.cancel(app.app_dir)).write_text("interrupt bob\n")
    app.kill()
    assert (app.view.state, app.view.message, app.view.abandoned) == ("cancelled", "interrupted by bob", True)


APPS = json.loads(Path(__file__).with_name("records_of_e8c8003.json").read_text())
"""Records of real apps, and what version e8c8003 showed of each prefix; users and ids are replaced."""


@pytest.mark.parametrize("name", sorted(APPS))
def test_an_older_record_shows_the_same_app_at_each_of_its_events(name):
    events, expected = APPS[name]["events"], APPS[name]["shown"]
    for number, line in enumerate(expected, 1):
        view = fold("".join(f"{each}\n" for each in events[:number]).encode(), locked=True)
        shown = [[each.name, *view.shown(each), each.code] for each in view.replicas]
        assert [view.state, view.message, view.code, view.num_restarts, *shown] == line, events[number - 1]


def test_the_records_hold_every_kind_of_event_that_a_local_app_had():
    kinds = {json.loads(line)["e"] for app in APPS.values() for line in app["events"]}
    assert kinds >= {
        "created", "waiting", "starting", "started", "spawn", "ready", "exit", "restart", "stopping", "ended",
    }  # fmt: skip
