"""A thousand replicas in order: the supervisor's work for each, its memory, a reader's work."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from launcher.schedulers.local.appview import fold
from launcher.schedulers.local.logfiles import RecordReader
from launcher.schedulers.local.logs import LocalLogs
from launcher.schedulers.restarts import Restart, RestartNotes, RestartReader
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, states

pytestmark = pytest.mark.slow

FEW, MANY = 100, 400  # a line for each pair of replicas would be most of the work of 400
MOST = 1000
BOUND = 1.25 * MANY / FEW
COUNTED = """
import os, sys
lines = 0
def trace(frame, event, arg):
    global lines
    lines += event == "line"
    return trace
leave = os._exit
def report(code):
    sys.settrace(None)
    with open({path!r}, "w") as file:
        file.write(str(lines))
    leave(code)
os._exit = report
sys.settrace(trace)
"""
"""Counts the lines of Python that a supervisor executes, loops of comprehensions included."""


def _roles(app: Driven, count: int, client: list[str]) -> Iterator[dict[str, Any]]:
    """A server with a probe, and `count` - 1 clients that wait for it."""
    ready = {"service": True, "ready": {"file": "up", "timeout": 60}}
    yield app.role("server", ["sh", "-c", "touch up; exec sleep 1000"], rules=ready)
    yield app.role("client", *[client] * (count - 1), rules={"depends_on": {"server": "ready"}})


def _lines_of(work: Callable[[], object]) -> int:
    """Return the lines of Python that `work` executes."""
    lines = 0

    def trace(_: FrameType, event: str, __: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def test_work_grows_with_the_number_of_replicas_and_no_faster(supervise: Supervise, tmp_path: Path) -> None:
    executed, folded = {}, {}
    for count in (FEW, MANY):
        path = tmp_path / str(count)
        app = supervise(first=COUNTED.format(path=str(path)))
        view = app.run(*_roles(app, count, ["true"]))
        assert (view.state, states(view)) == ("succeeded", ["cancelled"] + ["succeeded"] * (count - 1))
        assert app.left() == []
        executed[count] = int(path.read_text())
        record = app.record.encode()
        folded[count] = _lines_of(lambda record=record: fold(record, locked=True))
    assert executed[MANY] < BOUND * executed[FEW], executed
    assert folded[MANY] < BOUND * folded[FEW], folded


def test_restarts_are_put_between_the_output_in_time_that_grows_with_their_number(supervise):
    """Each replica fails three times; a reader begins at the first line of each."""
    executed = {}
    for count in (FEW, MANY):
        app = supervise()
        app.run(app.role("r", *[["false"]] * count, retries=2, policy="REPLICA"))
        names = [("r", k) for k in range(count)]
        found: list[Restart] = []
        notes = RestartNotes(RestartReader(LocalLogs(app.app_dir).events()), found.append, names)

        def read(
            notes: RestartNotes = notes, app: Driven = app, names: list[tuple[str, int]] = names
        ) -> None:
            seen = notes.look()
            notes.waiting()
            for role, k in names:
                for record in RecordReader(str(app.logs / role / str(k))).read():
                    notes.before((role, k), record.time_ns)
            notes.flush(seen)

        executed[count] = _lines_of(read)
        assert len({(each.k, each.number) for each in found}) == len(found) > count
    assert executed[MANY] < BOUND * executed[FEW], executed


def test_the_order_of_many_roles_takes_no_memory_beyond_their_rules(supervise: Supervise) -> None:
    resident = {}
    for ordered in (False, True):
        app = supervise()
        roles = [*_roles(app, MOST, ["sleep", "1000"])]
        app.start(*(each if ordered else {**each, "rules": {}} for each in roles), grace_s=5)
        app.until(lambda view: {*states(view)} == {"running"})
        status = Path(f"/proc/{app.pid}/status").read_text()
        resident[ordered] = int(status.split("VmRSS:")[1].split()[0])
        app.cancel()
        app.ended()
    assert resident[True] - resident[False] < 2048, resident
