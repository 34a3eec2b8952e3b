"""A holder records the steps of an app to its start, in order."""

from typing import Any

import pytest

from launcher.holding.hold import way_to_start


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
    """Whether the app starts, after all that has happened; None while it waits."""
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
    ("state", "why"),
    [("failed", "a failed"), ("cancelled", "a was cancelled"), ("removed", "a was removed")],
)
def test_an_app_is_given_up_when_a_need_does_not_succeed(state: str, why: str) -> None:
    assert go(holder := Holder(), ["a", "b"], ("a", state)) is False
    assert holder.calls == ["accept waiting", "follow_needs", f"give_up {why}"]


@pytest.mark.parametrize(("jobs", "kind"), [(["a"], "waiting"), ([], "queued")])
def test_a_holder_goes_no_further_with_an_app_that_ended_before_it_was_accepted(
    jobs: list[str], kind: str
) -> None:
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
