import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from launcher.plan.codec import PlanFileError, decode, dumps, encode, loads
from launcher.plan.model import Plan
from launcher.plan.recheck import located
from launcher.plan.reconcile import Scope
from launcher.plan.schema import plan_schema
from launcher.specs import canonical
from launcher.specs.attempt import AttemptState, StoodOn
from launcher.specs.inputs import combine
from launcher.specs.launch import JobKey, Launch, Lifecycle, Need, Trigger, WorkspaceRef
from launcher.specs.secret import Secret
from tests.lanes import sampled
from tests.unit.plan.strategies import documents, unhurried
from tests.unit.plan.world import ORIGIN, OWNER, attempt, job, plan

VALIDATOR = Draft202012Validator(plan_schema())
SCOPES = [Scope(origin=ORIGIN, target="default")]

LIFECYCLES = st.builds(
    Lifecycle,
    on_change=st.sampled_from([None, "replace", "hold"]),
    on_failed=st.sampled_from(["hold", "rerun"]),
    on_lost=st.sampled_from(["hold", "rerun"]),
    max_attempts=st.none() | st.integers(1, 3),
    protect=st.booleans(),
    rerun_on=st.lists(
        st.sampled_from([Trigger("every_apply"), Trigger("files", ("a", "b/*")), Trigger("files", ("c",))]),
        max_size=2,
    ).map(tuple),
)


@st.composite
def launches(draw: st.DrawFn, name: str) -> Launch:
    """Launches of any document, read back from their normal form."""
    document = canonical.renormalise(draw(documents()))
    metadata = draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2))
    return Launch(
        key=JobKey("default", "default", name),
        app=canonical.app_from_document(document, name, metadata),
        scheduler=document["scheduler"],
        cfg=document.get("cfg", {}),
        timeout_s=document.get("timeout_s"),
        workspace=WorkspaceRef(**document["workspace"]) if "workspace" in document else None,
        lifecycle=draw(LIFECYCLES),
        trigger_digest=draw(st.sampled_from(["", combine({"a": "1"}), combine({"a": "2"})])),
        enabled=draw(st.booleans()),
        description=draw(st.text(max_size=3)),
        root="/src",
        file=f"jobs/{name}.launcher.yaml",
        origin=ORIGIN,
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any mix of actions, orphans and problems."""
    desired, seen = [], []
    for name in draw(st.sets(st.sampled_from(["a", "b", "c"]))):
        desired.append(draw(launches(name)))
        states: list[AttemptState] = [
            "reserved", "created", "running", "succeeded", "failed", "cancelled", "lost",
        ]  # fmt: skip
        for number in range(1, draw(st.integers(1, 3))):
            ran = replace(draw(launches(name)), key=desired[-1].key) if draw(st.booleans()) else desired[-1]
            owner = draw(st.sampled_from(["", OWNER]))
            origin = draw(st.sampled_from([ORIGIN, ORIGIN, "elsewhere"]))
            seen.append(attempt(ran, draw(st.sampled_from(states)), number, owner=owner, origin=origin))
    gone = [attempt(job("gone"), "running")] if draw(st.booleans()) else []
    made = plan(
        desired,
        *seen,
        *gone,
        scopes=SCOPES,
        retry_failed=draw(st.booleans()),
        prune=draw(st.booleans()),
        take_over=draw(st.booleans()),
    )
    notes = draw(st.lists(st.text(max_size=3), max_size=2))
    made = made.with_notes({JobKey("default", "default", "a"): notes})
    return made.stamped(plan_id="p1", created_at=draw(st.integers(0, 2**32)), commits={ORIGIN: "abc-dirty"})


@pytest.mark.slow
@unhurried
@given(plans())
def test_a_plan_survives_its_file(made: Plan) -> None:
    text = dumps(made)
    read = loads(text)
    assert located(read, root="/src", origin=ORIGIN) == made
    assert str(read) == str(made)
    assert dumps(read) == text


@unhurried
@given(plans())
def test_a_plan_obeys_its_schema(made: Plan) -> None:
    assert list(VALIDATOR.iter_errors(encode(made))) == []


@cache
def _rich() -> dict[str, Any]:
    train, old = (
        job("train", *("--lr", "5"), env={"A": "1", "KEY": Secret("env:KEY")}, on_change="replace",
            on_failed="rerun", rerun_on=(Trigger("every_apply"), Trigger("files", ("data/*",))),
            trigger_digest=combine({"data/*": "1"}), workspace=WorkspaceRef(".", "ws1:sha256:0")),
        job("train"),
    )  # fmt: skip
    gone, taken = attempt(job("gone"), "running"), attempt(job("taken"), "running", origin="elsewhere")
    made = plan(
        [train, job("taken")],
        attempt(old, "running", 2),
        attempt(old, "reserved", 3),
        gone,
        taken,
        scopes=SCOPES,
    )
    made = made.with_notes({train.key: ["a note"]})
    made = made.stamped(plan_id="p1", created_at=0, commits={ORIGIN: "abc"})
    return encode(made)


def rich() -> dict[str, Any]:
    """Return a plan document with everything in it."""
    return copy.deepcopy(_rich())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside `value`."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, item in entries:
        yield (*path, key)
        yield from places(item, (*path, key))


def edited(path: tuple[Any, ...], *value: Any) -> dict[str, Any]:
    """Return the rich plan with the value at `path` replaced, or removed when there is none."""
    made = rich()
    holder: Any = made
    for key in path[:-1]:
        holder = holder[key]
    if value:
        holder[path[-1]] = value[0]
    else:
        del holder[path[-1]]
    return made


def accepted(data: Any) -> bool:
    try:
        decode(data)
    except PlanFileError:
        return False
    return True


def test_a_plan_with_every_field_is_accepted() -> None:
    assert accepted(rich())


PLACES = list(places(rich()))


@pytest.mark.parametrize("path", sampled(PLACES, *PLACES[::4]), ids=lambda path: ".".join(map(str, path)))
def test_data_that_the_schema_refuses_is_refused_without_a_traceback(path: tuple[Any, ...]) -> None:
    for data in (
        edited(path),
        *(edited(path, value) for value in (None, 7, -1, "x", "", True, [], [7], {}, {"x": 7})),
    ):
        if not VALIDATOR.is_valid(data):
            assert not accepted(data)
        else:
            accepted(data)  # the rest of what is wrong, no schema can say; it must not crash


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, {"version": 1}, {"version": "launcher.plan/v1"}])
def test_a_value_that_is_no_plan_is_refused(value: Any) -> None:
    assert not accepted(value)


def test_every_fault_is_reported_at_once_with_its_path() -> None:
    data = rich()
    data["jobs"][0]["action"] = "explode"
    data["jobs"][0]["guard"]["attempt"] = "3"
    data["jobs"][0]["launch"]["document"]["roles"][0]["arg"] = []
    del data["engines"]
    with pytest.raises(PlanFileError) as caught:
        decode(data, name="p.json")
    assert str(caught.value).splitlines() == [
        "p.json is not a usable plan:",
        "  jobs[0].action: want one of keep, create, replace, rerun, resume, destroy, hold, got 'explode'",
        "  jobs[0].guard.attempt: want a whole number, got text",
        "  jobs[0].launch.document.roles[0].arg: not a field here; did you mean `args`?",
        "  engines: is missing",
    ]


@pytest.mark.parametrize(("path", "value", "refusal"), [
    (("jobs", 0, "launch", "document", "roles", 0, "args", 0), "-x",
        "launch.digest: does not match the document"),
    (("jobs", 0, "launch", "document", "roles", 0, "num_replicas"), 1, "document: is not in normal form"),
    (("jobs", 0, "stops"), [], "plan_digest: does not match the jobs"),
    (("jobs", 0, "action"), "keep", "plan_digest: does not match the jobs"),
    (("plan_digest",), "lp2:sha256:" + "0" * 64, "plan_digest: does not match the jobs"),
    (("created_at",), "2026-13-01T00:00:00Z", "created_at: no such time"),
    (("jobs", 0, "reasons"), [], "reasons: want at least one"),
])  # fmt: skip
def test_a_plan_edited_by_hand_is_refused(path: tuple[Any, ...], value: Any, refusal: str) -> None:
    with pytest.raises(PlanFileError, match=refusal):
        decode(edited(path, value))


def test_a_plan_of_a_newer_version_is_refused_with_the_versions_and_nothing_else() -> None:
    with pytest.raises(PlanFileError) as caught:
        decode({"version": "launcher.plan/v4", "tasks": []})
    assert str(caught.value) == "plan.json is a launcher.plan/v4, and this version reads launcher.plan/v3"


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff", '{"version": NaN}', "null"])
def test_text_that_is_no_plan_is_refused(text: str | bytes) -> None:
    with pytest.raises(PlanFileError, match=r"plan\.json"):
        loads(text)


def test_a_reason_without_values_is_written_without_them() -> None:
    data = encode(plan(job("train")).stamped(plan_id="p1", created_at=0))
    assert [sorted(each) for each in data["jobs"][0]["reasons"]] == [["code"]]


def test_a_change_is_written_with_the_values_that_it_has() -> None:
    old, new = job("train", env={"A": "1", "B": "1"}), job("train", env={"B": "2", "C": "1"})
    data = encode(plan(new, attempt(old, "succeeded")).stamped(plan_id="p1", created_at=0))
    found = [(each["op"], "old" in each, "new" in each) for each in data["jobs"][0]["changes"]]
    assert found == [("-", True, False), ("~", True, True), ("+", False, True)]


def test_needs_survive_the_file_of_a_plan() -> None:
    prepare, train = job("prepare"), job("train", needs=(Need("prepare"), Need("x-0", False)))
    done = [
        attempt(prepare, "running", 3, edition=2),
        attempt(job("x-0"), "succeeded", 2, edition=1),
        attempt(train, "waiting", 4, owner=OWNER, needs=(StoodOn("prepare", 2, 1, "p-2", "local_cwd"),)),
    ]
    made = plan([prepare, train], *done, select=["+train"]).stamped(plan_id="p1", created_at=0)
    data = encode(made)
    VALIDATOR.validate(data)
    back = located(loads(dumps(made)), root="/src", origin=ORIGIN)
    assert back == made
    assert back.steps[1].withdraws[0].state == "waiting"
    assert [need["edition"] for need in data["jobs"][1]["needs"]] == [2, 1]
    assert data["jobs"][0]["guard"]["edition"] == 2


def test_a_plan_of_v1_is_read_and_matches_the_schema() -> None:
    text = (Path(__file__).parent / "plan-v1.json").read_text()
    made = loads(text)
    VALIDATOR.validate(json.loads(text))
    assert [(step.kind, step.after, step.needs) for step in made.steps] == [
        (kind, (), ()) for kind in ("resume", "keep", "replace")
    ]
    assert (made.steps[2].guard.attempt, made.steps[2].guard.edition) == (2, 2)
