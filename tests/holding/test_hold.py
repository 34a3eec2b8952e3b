"""The loop that all holders share records each decision before it carries it out."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from launcher.holding.app import App
from launcher.holding.hold import AGAIN_S, STARTS, hold
from tests.holding.histories import START_S, created, fact


class World:
    """A driver and a record: lists each act, and gives the facts of a history when the loop waits.

    `full`: before these waits, counted from 1, the disk has no room.
    """

    def __init__(self, facts: str, full: Sequence[int] = ()) -> None:
        self.acts: list[str] = []
        self.deadlines: list[float | None] = []
        self._facts = iter(facts.split("; "))
        self._full = full
        self._waits = 1

    def append(self, event: dict[str, Any]) -> None:
        event.setdefault("t", int(START_S * 1e9))
        self.acts.append(event["e"])

    def is_written(self) -> bool:
        return self._waits not in self._full

    def now(self) -> float:
        return START_S

    def start(self, replicas: Sequence[Any]) -> None:
        self.acts.append("+" + " ".join(each.name for each in replicas))

    def stop(self, replicas: Sequence[tuple[Any, float | None]]) -> None:
        self.acts.append("-" + " ".join(f"{each.name}~{grace_s}" for each, grace_s in replicas))

    def quiet(self) -> None:
        self.acts.append("sweep")

    def wait(self, deadline: float | None) -> Iterator[dict[str, Any]]:
        self.deadlines.append(deadline)
        self._waits += 1
        facts = next(self._facts)
        self.acts.append(f"[{facts}]")
        return iter([fact(each) for each in facts.split(", ") if each])


def held(roles: str, facts: str, **options: Any) -> World:
    app, world = App(), World(facts, **options)
    for event in (created(roles), fact("go")):
        app.take({"t": int(START_S * 1e9), **event})
    hold(app, world, world)
    return world


def test_an_event_is_recorded_before_its_effect():
    assert held("a*2", "a/0, a/1; a/0=3; a/1=-143; quiet").acts == [
        "+a/0 a/1", "[a/0, a/1]", "spawn", "spawn", "[a/0=3]", "exit", "stopping", "-a/1~None",
        "[a/1=-143]", "exit", "sweep", "[quiet]", "quiet", "ended",
    ]  # fmt: skip


def test_many_replicas_are_started_a_few_at_a_time_and_no_more_after_a_failure():
    first = ", ".join(f"a/{k}" for k in range(STARTS))
    ends = ", ".join(f"a/{k}=-143" for k in range(1, STARTS))
    acts = held(f"a*{3 * STARTS}", f"{first}, a/0=3; {ends}; quiet").acts
    assert [each for each in acts if each[0] == "+"] == ["+" + first.replace(",", "")]


def test_an_app_is_swept_once_for_each_end():
    acts = held("a~1A", "a/0; a/0=3; ; quiet; a/0; a/0=0; ; quiet").acts
    assert acts.count("sweep") == 2
    assert acts[-3:] == ["[quiet]", "quiet", "ended"]


def test_facts_during_a_sweep_begin_no_second_sweep():
    assert held("a", "a/0; a/0=0; cancel me; a/0 ready; quiet").acts.count("sweep") == 1


def test_no_replica_is_started_during_a_sweep():
    spawns = ", ".join(f"a/{k}" for k in range(STARTS))
    failures = ", ".join(f"a/{k}=3" for k in range(STARTS))
    acts = held(f"a*{STARTS}~1A b", f"{spawns}, {failures}; ; quiet; {failures}; quiet").acts
    assert [each for each in acts if each[0] == "+"] == ["+" + spawns.replace(",", "")] * 2  # and never b


@pytest.mark.parametrize("seconds", [5, 90])
def test_the_loop_wakes_at_the_deadline_of_the_app(seconds):
    world = held(f"a~1+{seconds}", "a/0; a/0=3; a/0!no; quiet")
    assert START_S + seconds in world.deadlines


def test_a_full_disk_delays_starts_and_the_end_but_no_stop():
    world = held("a*2", "; a/0, a/1; a/0=3; a/1=-143; quiet; ", full=(1, 4, 6))
    assert world.acts == [
        "[]", "+a/0 a/1", "[a/0, a/1]", "spawn", "spawn", "[a/0=3]", "exit", "stopping", "-a/1~None",
        "[a/1=-143]", "exit", "sweep", "[quiet]", "quiet", "ended", "[]",
    ]  # fmt: skip
    assert [each == START_S + AGAIN_S for each in world.deadlines] == [True, False, False, True, False, True]


def test_a_restart_that_is_not_on_disk_is_not_carried_out():
    acts = held("a~1", "a/0; a/0=3; ; a/0; a/0=0; quiet", full=(3,)).acts
    assert acts[acts.index("restart") :][:3] == ["restart", "[]", "+a/0"]
