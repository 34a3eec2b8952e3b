"""The lines a person reads of a status, and that nothing a replica leaves behind can break them."""

import json
import time

import pytest
from hypothesis import given, strategies as st

from launcher.specs import NONE, AppState, AppStatus, ReplicaStatus, RoleStatus


@pytest.fixture
def london(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/London")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def replica_lines(*replicas: ReplicaStatus) -> str:
    text = AppStatus(AppState.FAILED, roles=[RoleStatus(replicas[0].role, list(replicas))]).format()
    return text.partition("Roles:\n")[2].partition("\n    Msg:")[0]


def test_a_status_is_formatted_in_lines():
    assert AppStatus(AppState.RUNNING, 2, "hello", NONE, "http://x").format() == (
        "AppStatus:\n    State: RUNNING\n    Num Restarts: 2\n    Roles:\n    Msg: hello\n"
        "    Structured Error Msg: <NONE>\n    UI URL: http://x\n    "
    )


def replica(k: int, state: str, role: str = "r", **more: object) -> ReplicaStatus:
    return ReplicaStatus(k, AppState[state], role, "", **more)


@pytest.mark.parametrize(
    ("replicas", "lines"),
    [
        ([replica(1, "RUNNING"), replica(0, "SUCCEEDED")], " *r[0]:SUCCEEDED\n  r[1]:RUNNING"),
        ([replica(0, "FAILED")], " *r[0]:FAILED (no reply file)"),
        ([replica(0, "CANCELLED")], " *r[0]:CANCELLED (no reply file)"),
        ([replica(0, "FAILED", exit_code=3)], " *r[0]:FAILED (exitcode: 3)"),
    ],
    ids=["by id, the first is marked", "an unexplained failure", "an unexplained end", "a known exit code"],
)
def test_each_replica_has_a_line(replicas, lines):
    assert replica_lines(*replicas) == lines


def test_formatting_chosen_roles_leaves_the_others_out():
    roles = [RoleStatus(name, [replica(0, "RUNNING", name)]) for name in "ab"]
    status = AppStatus(AppState.RUNNING, roles=roles)
    for chosen, other in ("ab", "ba"):
        assert f"{chosen}[0]" in status.format(filter_roles=[chosen])
        assert f"{other}[0]" not in status.format(filter_roles=[chosen])


def error(message: object, code: object = None, timestamp: object = None) -> str:
    reply = {"message": message, "errorCode": code, "extraInfo": {"timestamp": timestamp}}
    return json.dumps({"message": {name: value for name, value in reply.items() if value is not None}})


@pytest.mark.usefixtures("london")
def test_an_error_reply_is_formatted_with_time_host_and_message():
    text = error("it broke", code=7, timestamp=1293182)
    assert replica_lines(ReplicaStatus(1, AppState.FAILED, "r", "gpu01", text)) == (
        "  r[1]:FAILED (exitcode: 7)\n        timestamp: 1970-01-16 00:13:02\n"
        "        hostname: gpu01\n        error_msg: it broke"
    )


@pytest.mark.parametrize(
    ("code", "exit_code", "shown"), [(0, None, "<N/A>"), (None, None, "<N/A>"), (None, 9, "9")]
)
def test_an_error_reply_without_a_code_takes_the_exit_code(code, exit_code, shown):
    failed = replica(0, "FAILED", structured_error_msg=error("x", code=code), exit_code=exit_code)
    assert f"(exitcode: {shown})" in replica_lines(failed)


def test_a_long_message_is_wrapped_and_indented():
    lines = replica_lines(ReplicaStatus(0, AppState.FAILED, "r", "h", error("word " * 40))).splitlines()
    message = lines[2:]
    assert message[0].startswith("        error_msg: word")
    assert all(line.startswith(" " * (8 + len("error_msg: ")) + "word") for line in message[1:])
    assert len(message) == 3


@pytest.mark.parametrize(("text", "shown"), [
    ("not json at all", "not json at all"), ('{"message": ', '{"message":'), ("[1, 2]", "[1, 2]"),
    ("3", "3"), ('{"other": 1}', '{"other": 1}'), ('{"message": "just text"}', "just text"),
    ('{"message": {"extraInfo": 3}}', "error_msg: "), (error("x", timestamp="soon"), "error_msg: x"),
    (error("x", timestamp=10**30), "error_msg: x"),
])  # fmt: skip
def test_a_broken_error_reply_keeps_role_id_and_state(text, shown):
    lines = replica_lines(ReplicaStatus(1, AppState.FAILED, "trainer", "gpu01", text))
    assert lines.startswith("  trainer[1]:FAILED (exitcode: <N/A>)\n")
    assert "hostname: gpu01" in lines
    assert shown in lines
    assert "timestamp" not in lines.replace(text, "")


KEYS = st.sampled_from(["message", "errorCode", "extraInfo", "timestamp"])
REPLY = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)
)


@given(st.text() | REPLY.map(json.dumps))
def test_a_status_with_any_error_text_is_formatted_and_printed(text):
    failed = replica(0, "FAILED", structured_error_msg=text)
    status = AppStatus(AppState.FAILED, structured_error_msg=text, roles=[RoleStatus("r", [failed])])
    assert "r[0]:FAILED" in status.format()
    assert repr(status)
