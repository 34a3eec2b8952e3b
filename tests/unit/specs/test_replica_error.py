"""Structured errors: the format that programs write, any other text, and which error was the cause."""

import json

import pytest
from hypothesis import given, strategies as st

from launcher.specs import NONE
from launcher.specs.replica_error import MOST_BYTES, ReplicaError, error_text, read_error
from launcher.state.records import AppRecord, ReplicaRecord
from tests.lanes import thinned


def written(message: str, *, time: object = None, code: object = None) -> str:
    extra = {} if time is None else {"timestamp": time, "py_callstack": "Traceback …"}
    return json.dumps({"message": {"message": message, "errorCode": code, "extraInfo": extra}})


def test_the_error_of_an_elastic_worker_is_read_whole() -> None:
    found = read_error(written("ValueError: boom\nmore", time="1293182", code=3))
    assert found == ReplicaError("ValueError: boom\nmore", 3, 1293182.0, "Traceback …")
    assert found.summary == "ValueError: boom"


@pytest.mark.parametrize(("text", "message"), [
    ('{"message": "plain"}', "plain"), ("not json at all", "not json at all"),
    ('{"message": {"mess', '{"message": {"mess'), ("[1, 2]", "[1, 2]"), ('{"other": 1}', '{"other": 1}'),
])  # fmt: skip
def test_text_that_is_no_structured_error_is_the_message(text: str, message: str) -> None:
    assert read_error(text) == ReplicaError(message)
    assert [read_error(empty) for empty in ("", "  \n", NONE)] == [None] * 3


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_of_an_error_file_is_read_without_an_exception(text: str) -> None:
    assert read_error(text) is None or isinstance(read_error(text), ReplicaError)


def replica(k: int, text: str, ended_at: float | None = None) -> ReplicaRecord:
    return ReplicaRecord("r", k, "failed", structured_error_msg=text, ended_at=ended_at)


def of(*replicas: ReplicaRecord) -> AppRecord:
    app = AppRecord("local_cwd", "s", "app")
    app.replicas = replicas
    return app


def test_the_first_error_is_the_cause_and_without_a_time_it_counts_from_the_end_of_its_replica() -> None:
    late, first = replica(0, written("late", time=20)), replica(1, written("first", time="10"))
    app = of(late, replica(2, NONE), first)
    assert app.root_cause is first
    assert app.cause == "r/1: first"
    ended = replica(1, "broken", ended_at=15.0)
    assert of(late, ended, replica(2, "no time at all")).root_cause is ended
    assert (of(replica(0, NONE)).root_cause, of(replica(0, NONE)).cause) == (None, "")


@pytest.mark.parametrize("time", [10**30, 10**400, -1, "1e99", "Infinity", "soon", True])
def test_an_error_with_a_time_that_no_calendar_has_has_no_time(time: object) -> None:
    found = read_error(written("boom", time=time))
    assert (found.message, found.time) == ("boom", None)


def cut(text: str) -> ReplicaError | None:
    assert len(text) > MOST_BYTES
    return read_error(error_text(text.encode()[:MOST_BYTES]))


ENDS = ("", "\n", "\\", '"', "é", "\u2028")


@pytest.mark.parametrize(("end", "shift"), thinned([(end, n) for end in ENDS for n in range(7)], every=4))
@pytest.mark.slow
def test_the_message_of_an_error_that_is_too_long_is_cut(end: str, shift: int) -> None:
    message = "x" * shift + f"boom {end}" * MOST_BYTES
    found = cut(written(message, time=5))
    assert message.startswith(found.message.rstrip("\ufffd"))
    assert len(found.message) > MOST_BYTES / 20


@pytest.mark.parametrize("rest", ["", ", ", ', "extr', ', "extraInfo": {"timestamp": 1', ', "errorCode": 1'])
def test_a_message_before_the_cut_is_kept(rest: str) -> None:
    long = MOST_BYTES - len(rest) - len('{"message": {"message": "boom", "x": ""')
    text = f'{{"message": {{"message": "boom", "x": "{"y" * long}"{rest}'
    found = cut(text + "z")
    assert found.message == "boom"


@pytest.mark.parametrize("text", ["{ no json", "plain", '{"other": "', '["', "{"])
def test_a_long_text_that_is_no_error_stays_text(text: str) -> None:
    assert cut(text + "x" * MOST_BYTES) == ReplicaError((text + "x" * MOST_BYTES)[:MOST_BYTES])
