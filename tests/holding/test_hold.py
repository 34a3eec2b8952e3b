"""A holder records the steps of an app to its start, and each decision before it carries it out."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from launcher.holding.app import App
from launcher.holding.hold import AGAIN_S, STARTS, hold
from launcher.holding.replica import has_order, made_by_others
from launcher.holding.way import way_to_start
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


def test_each_run_of_an_app_is_followed_by_one_sweep():
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


class Holder:
    """A holder that notes each call; answers as given, then as if the app could start."""

    def __init__(self, **answers: list[Any]) -> None:
        self.calls: list[str] = []
        self._answers = answers

    def _call(self, name: str, output: str = "", otherwise: Any = None) -> Any:
        self.calls.append(f"{name} {output}".strip())
        given = self._answers.get(name)
        return given.pop(0) if given else otherwise

    def accept(self, kind: str, **fields: Any) -> bool:
        return bool(self._call("accept", kind, otherwise=True))

    def note(self, kind: str, **fields: Any) -> None:
        self._call("note", " ".join([kind, *fields.values()]))

    def follow_needs(self) -> None:
        self._call("follow_needs")

    def ends_of_needs(self) -> dict[str, str]:
        return {"a": "succeeded", "b": "", "c": "failed"}

    def give_up(self, why: str) -> None:
        self._call("give_up", why)

    def has_share(self) -> bool:
        return bool(self._call("has_share", otherwise=True))

    def compare(self) -> bool:
        return bool(self._call("compare", otherwise=False))

    def decide(self) -> bool | None:
        found: bool | None = self._call("decide", otherwise=True)
        return found


def go(holder: Holder, jobs: list[str], *happened: Any) -> bool | None:
    """Return whether the app starts, after all that has happened; None while it waits."""
    way = way_to_start(jobs, holder)
    try:
        next(way)
        for each in happened:
            way.send(each)
    except StopIteration as over:
        decided: bool = over.value
        return decided
    return None


def test_an_app_that_needs_nothing_starts_at_once() -> None:
    assert go(holder := Holder(), []) is True
    assert holder.calls == ["has_share", "compare", "decide"]


def test_an_app_waits_for_its_needs_then_in_line_then_for_its_input_files() -> None:
    holder = Holder(has_share=[False, False, True], compare=[True])
    assert go(holder, ["a", "b"], ("b", "succeeded"), ("a", "succeeded"), None, None, "x.txt changed") is True
    assert holder.calls == [
        *("accept waiting", "follow_needs", "note met b", "note met a"),
        *("has_share", "accept queued", "has_share", "has_share"),
        *("compare", "note inputs x.txt changed", "decide"),
    ]


def test_an_app_with_unchanged_input_files_records_no_comparison() -> None:
    assert go(holder := Holder(compare=[True]), [], "") is True
    assert holder.calls == ["has_share", "compare", "decide"]


@pytest.mark.parametrize(
    ("state", "why"), [("failed", "b failed"), ("cancelled", "b was cancelled"), ("removed", "b was removed")]
)
def test_an_app_is_given_up_for_every_need_that_has_not_succeeded(state: str, why: str) -> None:
    assert go(holder := Holder(), ["a", "b", "c"], ("b", state)) is False
    assert holder.calls == ["accept waiting", "follow_needs", f"give_up {why}, c failed"]


@pytest.mark.parametrize(("jobs", "kind"), [(["a"], "waiting"), ([], "queued")])
def test_a_holder_goes_no_further_with_an_app_that_ended_before_it_was_accepted(jobs, kind):
    holder = Holder(accept=[False], has_share=[False])
    assert go(holder, jobs) is False
    assert holder.calls[-1] == f"accept {kind}"


def test_an_app_does_not_start_when_another_process_has_decided_its_end() -> None:
    assert go(Holder(decide=[False]), []) is False


def test_a_decision_that_cannot_be_recorded_is_tried_again() -> None:
    holder = Holder(decide=[None, None, True])
    assert go(holder, [], None) is None
    assert go(Holder(decide=[None, True]), [], None) is True
    assert holder.calls.count("decide") == 2


@pytest.mark.parametrize(("rule", "found"), [
    ({}, False), ({"retry_delay": 3}, False), ({"service": True}, True), ({"ready": {"port": 80}}, True),
    ({"depends_on": {"server": "ready"}}, True),
])  # fmt: skip
def test_roles_have_an_order_when_one_of_them_has_a_rule(rule, found):
    assert has_order({"client": rule, "other": {}}) is found
    assert has_order({"other": {}, "client": rule}) is found


def test_made_by_others_returns_the_roles_that_start_after_another_has_succeeded():
    rules = {
        "client": {"depends_on": {"server": "ready"}},
        "server": {"depends_on": {"data": "succeeded"}},
        "beside": {"depends_on": {"data": "started"}},
        "data": {},
    }
    assert made_by_others(rules) == {"server", "client"}
