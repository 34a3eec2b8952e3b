"""Stopping several apps: all of them are asked to end before one of them is waited for."""

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers import pids
from launcher.schedulers.local import filewatch, rundir, stop
from launcher.schedulers.many import in_threads
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, sh


def running(supervise: Supervise, *names: str) -> list[Driven]:
    apps = [supervise(name) for name in names]
    for app in apps:
        app.start(app.role("main", sh("trap '' TERM; sleep 1000")), grace_s=1000)
    return apps


def test_all_apps_are_asked_to_stop_before_one_of_them_has_ended(supervise: Supervise) -> None:
    first, second = running(supervise, "first", "second")
    ended = stop.cancel(["first", "second"], 0.3)
    assert next(ended)[1] is None
    assert rundir.cancellation(second.app_dir)
    assert dict(ended)
    assert [app.view.state for app in (first, second)] == ["cancelled", "cancelled"]
    assert first.left() == second.left() == []


def test_more_apps_than_are_watched_at_once_end_all_the_same(supervise, monkeypatch):
    monkeypatch.setattr(filewatch, "_MOST", 1)
    names = ["first", "second", "third"]
    apps = running(supervise, *names)
    assert dict(stop.cancel(names, 0)) == dict.fromkeys(names)
    assert [app.view.state for app in apps] == ["cancelled"] * 3
    assert [left for app in apps for left in app.left()] == []


def test_an_app_that_cannot_be_stopped_keeps_no_other_from_its_end(supervise, monkeypatch):
    strange, own = running(supervise, "strange", "own")
    send = pids.send

    def as_another_user(pid: int, start: int, number: int) -> bool:
        if pid == strange.pid:
            raise PermissionError
        return send(pid, start, number)

    with monkeypatch.context() as patched:
        patched.setattr(pids, "send", as_another_user)
        found = dict(stop.cancel(["strange", "own"], 0))
    assert isinstance(found["strange"], SchedulerError)
    assert "belongs to another user" in str(found["strange"])
    assert (found["own"], own.view.state, own.left()) == (None, "cancelled", [])
    assert strange.view.state == "running"


def test_threads_report_each_app_with_its_error_and_raise_bugs() -> None:
    def act(app_id: str) -> str:
        if app_id == "bad":
            raise SchedulerError("no")
        if app_id == "bug":
            raise ZeroDivisionError
        return app_id.upper()

    found = dict(in_threads(act, [*"abcdefghijklmnopqrstuvw", "bad"]))
    assert str(found.pop("bad")) == "no"
    assert found == {each: each.upper() for each in "abcdefghijklmnopqrstuvw"}
    with pytest.raises(ZeroDivisionError):
        dict(in_threads(act, ["a", "bug"]))
    assert dict(in_threads(act, [])) == {}
