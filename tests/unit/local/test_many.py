"""A thousand replicas in order: what the supervisor does for each, what it holds, what a reader does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from launcher.schedulers.local.appview import fold
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven

pytestmark = pytest.mark.slow

FEW, MANY = 250, 1000
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


def _lines_of_a_fold(record: bytes) -> int:
    lines = 0

    def trace(_: FrameType, event: str, __: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        fold(record, locked=True)
    finally:
        sys.settrace(before)
    return lines


def test_work_grows_with_the_number_of_replicas_and_no_faster(supervise: Supervise, tmp_path: Path) -> None:
    executed, folded = {}, {}
    for count in (FEW, MANY):
        path = tmp_path / str(count)
        app = supervise(first=COUNTED.format(path=str(path)))
        view = app.run(*_roles(app, count, ["true"]))
        states = [each.state for each in view.replicas]
        assert (view.state, states) == ("succeeded", ["cancelled"] + ["succeeded"] * (count - 1))
        assert app.left() == []
        executed[count] = int(path.read_text())
        folded[count] = _lines_of_a_fold(app.record.encode())
    bound = 1.25 * MANY / FEW
    assert executed[MANY] < bound * executed[FEW], executed
    assert folded[MANY] < bound * folded[FEW], folded


def test_order_takes_no_more_memory_than_its_rules(supervise: Supervise) -> None:
    resident = {}
    for ordered in (False, True):
        app = supervise()
        roles = [*_roles(app, MANY, ["sleep", "1000"])]
        app.start(*(each if ordered else {**each, "rules": {}} for each in roles), grace_s=5)
        app.until(lambda view: all(each.state == "running" for each in view.replicas))
        status = Path(f"/proc/{app.pid}/status").read_text()
        resident[ordered] = int(status.split("VmRSS:")[1].split()[0])
        app.cancel()
        app.ended()
    assert resident[True] - resident[False] < 2048, resident
