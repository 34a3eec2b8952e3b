"""Which events a watcher waits for, and how long."""

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.schedulers.docker.client.errors import EngineGone, EngineSilent, EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import Event
from launcher.schedulers.docker.facts import ENGINE_STOPPED, UNSEEN
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.watching.observer import AppObserver, EventQueue
from tests.unit.docker.states import container

Facts = tuple[str, dict[str, str]]
DIE: Facts = ("die", {"exitCode": "3"})
OOM: Facts = ("oom", {})
KILL: Facts = ("kill", {"signal": "9"})


@pytest.fixture
def queue(tmp_path: Path) -> EventQueue:
    return EventQueue(str(tmp_path))


def put(queue: EventQueue, *events: Facts, at: float = 1.0) -> None:
    items = [Event(at, action, "c", attributes) for action, attributes in events]
    for each in items:
        queue.put(each)


def killed(ended_at: float | None = None) -> Container:
    ended_at = time.time() if ended_at is None else ended_at
    return Container(id="c", name="n", state="exited", exit_code=137, ended_at=ended_at)


def test_an_out_of_memory_event_counts_before_and_after_the_end(queue: EventQueue) -> None:
    put(queue, OOM, DIE)
    queue.wait_for_cause(killed())
    assert queue.oom == {"c"}
    put(queue, ("start", {}), DIE, OOM)
    queue.drain()
    queue.wait_for_cause(killed())
    assert queue.oom == {"c"}


def test_a_stop_from_outside_is_known_before_the_end(queue: EventQueue) -> None:
    put(queue, KILL, DIE, OOM)
    queue.wait_for_cause(killed())
    assert (queue.stopped_externally, queue.oom) == ({"c"}, set())


@pytest.mark.parametrize(
    ("events", "code", "by_hand"),
    [((), 0, False), ((), 3, True), ((("stop", {}),), 0, True), ((("stop", {}),), 3, True)],
)
def test_a_program_that_succeeds_after_a_signal_was_not_stopped_by_hand(queue, events, code, by_hand):
    """Unless the engine has stopped its container, as `docker stop` does: the event follows the end."""
    put(queue, ("kill", {"signal": "15"}), ("die", {"exitCode": str(code)}), *events)
    engine: Any = SimpleNamespace(
        answer_anew=lambda: None, started_at=lambda: 1.0, log_frames=lambda *args, **which: nullcontext(())
    )
    ended = replace(container(0, f"exited {code}"), id="c")
    assert AppObserver(engine, "app", queue).end_of(ended, Journal()).get("hand", False) is by_hand


def test_the_events_of_an_end_are_waited_for_once(queue: EventQueue) -> None:
    put(queue, DIE)
    queue.drain()
    queue.wait_for_cause(killed(ended_at=1.0))
    put(queue, OOM)
    queue.wait_for_cause(killed())
    assert queue.oom == set()


def test_an_end_by_itself_is_remembered_when_the_engine_goes_away(queue: EventQueue) -> None:
    put(queue, DIE)
    queue.disconnected(EngineGone("gone"))
    assert (queue.by_itself, queue.watched) == ({"c": (1.0, 3)}, True)


@pytest.mark.parametrize("signal", ["9", "15", "28"])
def test_an_end_after_a_signal_is_not_an_end_by_itself(queue: EventQueue, signal: str) -> None:
    put(queue, ("kill", {"signal": signal}), DIE)
    queue.drain()
    assert queue.by_itself == {}


def test_an_end_that_a_starting_engine_reports_is_not_an_end_by_itself(queue: EventQueue) -> None:
    queue.connected(engine_started_at=2.0)
    put(queue, DIE)
    queue.drain()
    assert queue.by_itself == {}


def test_a_silent_stream_does_not_mean_that_the_engine_went_away(queue: EventQueue) -> None:
    queue.disconnected(EngineSilent("silent"))
    assert not queue.watched


def _observed(
    queue: EventQueue, state_text: str, *, keeps: bool = False, started_at: float = 99.0
) -> tuple[int | None, str]:
    """Return the exit code and the loss that a watcher records for an end when the engine is back."""
    back: Any = SimpleNamespace(
        started_at=lambda: started_at,
        answer_anew=lambda: None,
        keeps_containers=lambda: keeps,
        log_frames=lambda *args, **which: nullcontext(()),
    )
    facts = AppObserver(back, "app", queue).end_of(replace(container(0, state_text), id="c"), Journal())
    return facts["code"], facts.get("lost", "")


def test_the_exit_code_of_an_event_counts_where_the_engine_was_killed_before_recording_it(queue):
    put(queue, ("die", {"exitCode": "0"}), at=11.0)
    queue.disconnected(EngineGone("gone"))
    assert _observed(queue, "exited 255") == (0, "")


@pytest.mark.parametrize(
    ("state_text", "code", "lost"), [("exited 255", None, ENGINE_STOPPED), ("exited 0", 0, "")]
)
def test_an_end_that_the_engine_missed_has_the_exit_code_that_the_engine_reports_after_its_return(
    queue: EventQueue, state_text: str, code: int | None, lost: str
) -> None:
    put(queue, ("die", {"exitCode": "255"}), at=11.0)
    queue.disconnected(EngineGone("gone"))
    assert _observed(queue, state_text) == (code, lost)


@pytest.mark.parametrize(("state_text", "facts", "keeps", "end"), [
    ("exited 0", (), True, (0, "")),
    ("exited 255", (), True, (None, ENGINE_STOPPED)),  # it does not know the code
    ("exited 0", (), False, (None, ENGINE_STOPPED)),
    (
        "exited 0", (KILL,), True, (None, ENGINE_STOPPED),
    ),  # its last run may have had another configuration
])  # fmt: skip
def test_an_end_while_an_engine_with_live_restore_was_away_counts_by_its_code(
    queue, state_text, facts, keeps, end
):
    put(queue, *facts, at=11.0)
    queue.disconnected(EngineGone("gone"))
    assert _observed(queue, state_text, keeps=keeps) == end


@pytest.mark.parametrize(
    ("facts", "end"),
    [((), (None, ENGINE_STOPPED)), ((("die", {"exitCode": "255"}),), (255, "")), ((KILL,), (255, ""))],
)
def test_an_exit_code_that_an_engine_with_live_restore_has_lost_is_not_taken_for_255(queue, facts, end):
    queue.disconnected(EngineGone("gone"))
    queue.connected(engine_started_at=1.0)
    put(queue, *facts, at=11.0)
    queue.drain()
    assert _observed(queue, "exited 255", keeps=True, started_at=1.0) == end


def test_without_a_watcher_an_end_while_an_engine_with_live_restore_was_away_is_lost(queue):
    assert _observed(queue, "exited 0", keeps=True) == (None, UNSEEN)


def test_the_event_of_an_earlier_run_does_not_count_for_the_current_run(queue: EventQueue) -> None:
    """The exit code of the event does not count, and neither does its cause."""
    put(queue, ("die", {"exitCode": "3"}), at=9.0)
    queue.drain()
    assert _observed(queue, "exited 0") == (None, UNSEEN)


def test_an_ambiguous_exit_code_is_not_recorded_while_the_engine_stops(queue: EventQueue) -> None:
    def stopping() -> None:
        raise EngineUnreachable("it stops")

    put(queue, ("die", {"exitCode": "255"}), at=11.0)
    queue.drain()
    engine: Any = SimpleNamespace(started_at=lambda: 1.0, answer_anew=stopping)
    observer = AppObserver(engine, "app", queue)
    with pytest.raises(EngineUnreachable):
        observer.end_of(replace(container(0, "exited 255"), id="c"), Journal())


def test_a_container_that_is_removed_after_the_list_was_read_is_gone(queue: EventQueue) -> None:
    """The list may call it exited: its end would count as a stop by hand, and not as a removal."""
    ended = replace(container(0, "exited 137"), id="c")
    engine: Any = SimpleNamespace(containers=lambda *labels: [ended], inspect_all=lambda ids: [])
    assert AppObserver(engine, "app", queue).containers() == []
