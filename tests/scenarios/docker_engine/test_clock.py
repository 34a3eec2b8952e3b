"""A limit on the time of an app counts the time that has passed, also where the clock is set meanwhile."""

import pytest

from launcher.schedulers.docker import record
from launcher.specs import AppDef, AppState
from tests.kill_at import WATCHER, first_run
from tests.waiting import until

SET = """
import os, time
def shift(real, by):
    return lambda: real() + (by if os.path.exists({path!r}) else 0)
time.time, time.time_ns = shift(time.time, {by}), shift(time.time_ns, {by} * 10**9)
"""
"""Python text of a watcher whose clock is set as soon as there is a file."""


@pytest.fixture
def set_clock(case, monkeypatch):
    """A function that sets the clock of the next watcher ahead by so many seconds."""
    path = case.shared / "clock"

    def prepare(by: int):
        first_run(WATCHER, SET.format(path=str(path), by=by), monkeypatch.setattr)
        return path.touch

    return prepare


def recorded(app_id: str, kind: str):
    journal = record.journal(record.folder(app_id))
    return [] if journal is None else [event for event in journal.events if event["e"] == kind]


def test_an_app_does_not_time_out_because_the_clock_is_set_ahead(case, gate, set_clock):
    set_it = set_clock(3600)
    until_set = f"until [ -e {case.shared}/clock ]; do sleep 0.02; done"
    app_id = case.start(AppDef("app", [case.role("a", until_set), case.role("b", gate.script)]), timeout_s=60)
    set_it()
    until(lambda: recorded(app_id, "exit"))
    gate.open()
    assert case.end(app_id).state is AppState.SUCCEEDED
    assert [round(event["by"]) for event in recorded(app_id, "clock")] == [3600]


def test_an_app_times_out_though_the_clock_is_set_back(case, set_clock):
    set_it = set_clock(-3600)
    app_id = case.start(case.app("exec sleep 1000"), timeout_s=3)
    set_it()
    found = case.end(app_id)
    assert (found.state, found.msg) == (AppState.FAILED, "timed out after 3 s")
