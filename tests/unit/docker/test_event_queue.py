"""Which events a watcher waits for, and how long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.events import Event
from launcher.schedulers.docker.watching.observer import EventQueue

Facts = tuple[str, dict[str, str]]
DIE: Facts = ("die", {})
OOM: Facts = ("oom", {})
KILL: Facts = ("kill", {"signal": "9"})


@pytest.fixture
def queue(tmp_path: Path) -> EventQueue:
    return EventQueue(str(tmp_path))


def put(queue: EventQueue, *events: Facts) -> None:
    items = [Event(1.0, action, "c", "n", attributes) for action, attributes in events]
    queue.read_events(items)  # type: ignore[arg-type]


def killed(ended_at: float | None = None) -> Container:
    ended_at = time.time() if ended_at is None else ended_at
    return Container(id="c", name="n", state="exited", exit_code=137, ended_at=ended_at)


def test_an_out_of_memory_event_counts_before_and_after_the_end(queue: EventQueue) -> None:
    put(queue, OOM, DIE)
    queue.wait_for_cause(killed())
    assert queue.oom == {"c"}
    put(queue, ("start", {}), DIE, OOM)
    queue.wait(time.time())
    queue.wait_for_cause(killed())
    assert queue.oom == {"c"}


def test_a_stop_from_outside_is_known_before_the_end(queue: EventQueue) -> None:
    put(queue, KILL, DIE, OOM)
    queue.wait_for_cause(killed())
    assert (queue.stopped_externally, queue.oom) == ({"c"}, set())


def test_the_events_of_an_end_are_waited_for_once(queue: EventQueue) -> None:
    put(queue, DIE)
    queue.wait(time.time())
    queue.wait_for_cause(killed(ended_at=1.0))
    put(queue, OOM)
    queue.wait_for_cause(killed())
    assert queue.oom == set()


def test_an_engine_that_goes_away_is_no_stop_from_outside(queue: EventQueue) -> None:
    put(queue, KILL, DIE)
    queue.wait(time.time())
    queue.reconnect()
    assert queue.stopped_externally == set()
