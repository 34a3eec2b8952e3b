"""States, their roll-up, and the text a person reads."""

import json

import pytest
from hypothesis import given, strategies as st

from launcher.errors import LauncherError
from launcher.specs import (
    NONE,
    AppState,
    AppStatus,
    AppStatusError,
    ReplicaState,
    ReplicaStatus,
    RoleStatus,
    is_started,
    is_terminal,
    roll_up,
)

# -- states ------------------------------------------------------------------------------------------------


STATES = ["UNSUBMITTED", "SUBMITTED", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN"]


def test_there_are_eight_states_with_the_established_numbers():
    assert [(state.name, state.value) for state in AppState] == [(name, n) for n, name in enumerate(STATES)]
    assert ReplicaState is AppState


def test_a_state_prints_as_its_name_and_dumps_as_its_number():
    state = AppState.FAILED
    assert (str(state), f"{state}", repr(state)) == ("FAILED", "FAILED", "FAILED (5)")
    assert json.dumps({"state": state}) == '{"state": 5}'


def test_states_that_have_ended_are_terminal_and_with_the_running_one_started():
    ended = {AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED}
    assert {state for state in AppState if is_terminal(state)} == ended
    assert {state for state in AppState if is_started(state)} == ended | {AppState.RUNNING}
    assert {state for state in AppState if AppStatus(state).is_terminal()} == ended


# -- roll-up -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("replicas", "app"), [
    ("", "UNKNOWN"), ("SUCCEEDED", "SUCCEEDED"), ("SUCCEEDED SUCCEEDED", "SUCCEEDED"),
    ("SUCCEEDED RUNNING", "RUNNING"), ("SUCCEEDED PENDING", "RUNNING"), ("RUNNING PENDING", "RUNNING"),
    ("PENDING SUBMITTED", "PENDING"), ("SUBMITTED UNSUBMITTED", "SUBMITTED"),
    ("UNSUBMITTED", "UNSUBMITTED"), ("FAILED SUCCEEDED RUNNING CANCELLED UNKNOWN", "FAILED"),
    ("CANCELLED SUCCEEDED RUNNING UNKNOWN", "CANCELLED"), ("UNKNOWN SUCCEEDED", "UNKNOWN"),
    ("UNKNOWN RUNNING", "UNKNOWN"),
])  # fmt: skip
def test_replicas_roll_up_into_an_app(replicas, app):
    statuses = [ReplicaStatus(k, AppState[state], "r", "") for k, state in enumerate(replicas.split())]
    assert roll_up(statuses) is AppState[app]
    assert roll_up(reversed(statuses)) is AppState[app]


@given(st.lists(st.sampled_from(AppState), min_size=1))
def test_an_app_succeeded_only_when_every_replica_did(states):
    rolled = roll_up([ReplicaStatus(k, state, "r", "") for k, state in enumerate(states)])
    assert (rolled is AppState.SUCCEEDED) is (set(states) == {AppState.SUCCEEDED})
    assert (rolled is AppState.FAILED) is (AppState.FAILED in states)


# -- data --------------------------------------------------------------------------------------------------


def test_statuses_have_the_established_fields_first():
    replica = ReplicaStatus(1, AppState.FAILED, "trainer", "host", "{}")
    assert (replica.id, replica.role, replica.hostname, replica.structured_error_msg) == (
        1,
        "trainer",
        "host",
        "{}",
    )
    assert ReplicaStatus(0, AppState.RUNNING, "r", "").structured_error_msg == NONE
    status = AppStatus(AppState.RUNNING, 2, "msg", "{}", "http://x", [RoleStatus("r", [])])
    assert (status.num_restarts, status.msg, status.structured_error_msg) == (2, "msg", "{}")
    assert (status.ui_url, status.roles) == ("http://x", [RoleStatus("r", [])])
    assert AppStatus(AppState.RUNNING) == AppStatus(AppState.RUNNING, 0, "", NONE, None, [])


@pytest.mark.parametrize("state", [AppState.FAILED, AppState.CANCELLED, AppState.RUNNING, AppState.UNKNOWN])
def test_raise_for_status_raises_for_a_status_that_is_no_success(state):
    status = AppStatus(state)
    with pytest.raises(AppStatusError) as caught:
        status.raise_for_status()
    assert caught.value.status is status
    assert str(caught.value).startswith("job did not succeed:")
    assert repr(state) in str(caught.value)
    assert isinstance(caught.value, LauncherError)
    assert caught.value.exit_code == 5
    AppStatus(AppState.SUCCEEDED).raise_for_status()


def two_roles() -> AppStatus:
    replica = ReplicaStatus(0, AppState.RUNNING, "a", "host", exit_code=None)
    return AppStatus(
        AppState.RUNNING, 1, "m", NONE, "http://x", [RoleStatus("a", [replica]), RoleStatus("b", [])]
    )


def test_the_json_of_a_status_has_its_roles_and_replicas():
    replica = {"id": 0, "state": AppState.RUNNING, "role": "a", "hostname": "host"}
    replica |= {"structured_error_msg": NONE, "exit_code": None, "num_restarts": 0}
    replica |= {"started_at": None, "ended_at": None, "message": ""}
    data = two_roles().to_json()
    assert data == {
        "state": "RUNNING",
        "num_restarts": 1,
        "msg": "m",
        "structured_error_msg": NONE,
        "url": "http://x",
        "roles": [{"role": "a", "replicas": [replica]}, {"role": "b", "replicas": []}],
    }
    assert json.loads(json.dumps(data))["roles"][0]["replicas"][0]["state"] == 3


@pytest.mark.parametrize(("chosen", "roles"), [(None, "ab"), ([], "ab"), (["b"], "b"), (["zzz"], "")])
def test_the_json_of_a_status_has_only_the_chosen_roles(chosen, roles):
    assert [role["role"] for role in two_roles().to_json(filter_roles=chosen)["roles"]] == list(roles)


# -- repr --------------------------------------------------------------------------------------------------


PRINTED = """\
AppStatus:
  msg: ''
  num_restarts: 0
  roles: []
  state: FAILED (5)
  structured_error_msg:{}
  ui_url: null
"""


@pytest.mark.parametrize(("error", "shown"), [
    (NONE, " <NONE>"),
    ('{"message": "test error"}', "\n    message: test error"),
    ('{"message": ', " '{\"message\": '"),
], ids=["none", "JSON", "half-written"])  # fmt: skip
def test_a_status_prints_as_yaml_with_its_error(error, shown):
    status = AppStatus(AppState.FAILED, structured_error_msg=error)
    assert repr(status) == PRINTED.format(shown)


def test_replicas_print_without_python_tags():
    text = repr(two_roles())
    assert "state: RUNNING (3)" in text
    assert "!!" not in text
