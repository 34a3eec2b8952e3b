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


def test_there_are_eight_states_with_the_established_numbers():
    assert [(state.name, state.value) for state in AppState] == [
        ("UNSUBMITTED", 0),
        ("SUBMITTED", 1),
        ("PENDING", 2),
        ("RUNNING", 3),
        ("SUCCEEDED", 4),
        ("FAILED", 5),
        ("CANCELLED", 6),
        ("UNKNOWN", 7),
    ]
    assert ReplicaState is AppState


def test_a_state_prints_as_its_name_and_dumps_as_its_number():
    assert (str(AppState.FAILED), f"{AppState.FAILED}", repr(AppState.FAILED)) == (
        "FAILED",
        "FAILED",
        "FAILED (5)",
    )
    assert json.dumps({"state": AppState.FAILED}) == '{"state": 5}'


def test_three_app_states_are_terminal():
    assert {state for state in AppState if is_terminal(state)} == {
        AppState.SUCCEEDED,
        AppState.FAILED,
        AppState.CANCELLED,
    }


def test_terminal_and_running_states_are_started():
    started = {state for state in AppState if is_started(state)}
    assert started == {AppState.RUNNING, AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED}


# -- roll-up -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "app"),
    [
        ("", "UNKNOWN"),
        ("SUCCEEDED", "SUCCEEDED"),
        ("SUCCEEDED SUCCEEDED", "SUCCEEDED"),
        ("SUCCEEDED RUNNING", "RUNNING"),
        ("SUCCEEDED PENDING", "RUNNING"),
        ("RUNNING PENDING", "RUNNING"),
        ("PENDING SUBMITTED", "PENDING"),
        ("SUBMITTED UNSUBMITTED", "SUBMITTED"),
        ("UNSUBMITTED", "UNSUBMITTED"),
        ("FAILED SUCCEEDED RUNNING CANCELLED UNKNOWN", "FAILED"),
        ("CANCELLED SUCCEEDED RUNNING UNKNOWN", "CANCELLED"),
        ("UNKNOWN SUCCEEDED", "UNKNOWN"),
        ("UNKNOWN RUNNING", "UNKNOWN"),
    ],
)
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


def test_a_replica_status_has_the_established_fields_first():
    replica = ReplicaStatus(1, AppState.FAILED, "trainer", "host", "{}")
    assert (replica.id, replica.role, replica.hostname, replica.structured_error_msg) == (
        1,
        "trainer",
        "host",
        "{}",
    )
    assert (replica.exit_code, replica.num_restarts, replica.message) == (None, 0, "")
    assert (replica.started_at, replica.ended_at) == (None, None)
    assert ReplicaStatus(0, AppState.RUNNING, "r", "").structured_error_msg == NONE


def test_an_app_status_has_the_established_fields():
    status = AppStatus(AppState.RUNNING, 2, "msg", "{}", "http://x", [RoleStatus("r", [])])
    assert (status.num_restarts, status.msg, status.structured_error_msg) == (2, "msg", "{}")
    assert (status.ui_url, status.roles) == ("http://x", [RoleStatus("r", [])])
    assert AppStatus(AppState.RUNNING) == AppStatus(AppState.RUNNING, 0, "", NONE, None, [])
    assert not status.is_terminal()
    assert AppStatus(AppState.CANCELLED).is_terminal()


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


def test_a_success_raises_nothing():
    AppStatus(AppState.SUCCEEDED).raise_for_status()


def two_roles() -> AppStatus:
    replica = ReplicaStatus(0, AppState.RUNNING, "a", "host", exit_code=None)
    return AppStatus(
        AppState.RUNNING, 1, "m", NONE, "http://x", [RoleStatus("a", [replica]), RoleStatus("b", [])]
    )


def test_the_json_of_a_status_has_its_roles_and_replicas():
    data = two_roles().to_json()
    assert data == {
        "state": "RUNNING",
        "num_restarts": 1,
        "roles": [
            {
                "role": "a",
                "replicas": [
                    {
                        "id": 0,
                        "state": AppState.RUNNING,
                        "role": "a",
                        "hostname": "host",
                        "structured_error_msg": NONE,
                        "exit_code": None,
                        "num_restarts": 0,
                        "started_at": None,
                        "ended_at": None,
                        "message": "",
                    }
                ],
            },
            {"role": "b", "replicas": []},
        ],
        "msg": "m",
        "structured_error_msg": NONE,
        "url": "http://x",
    }
    assert json.loads(json.dumps(data))["roles"][0]["replicas"][0]["state"] == 3


@pytest.mark.parametrize(("chosen", "roles"), [(None, "ab"), ([], "ab"), (["b"], "b"), (["zzz"], "")])
def test_the_json_of_a_status_has_only_the_chosen_roles(chosen, roles):
    assert [role["role"] for role in two_roles().to_json(filter_roles=chosen)["roles"]] == list(roles)


# -- repr --------------------------------------------------------------------------------------------------


def test_a_status_prints_as_yaml():
    assert (
        repr(AppStatus(AppState.FAILED))
        == """\
AppStatus:
  msg: ''
  num_restarts: 0
  roles: []
  state: FAILED (5)
  structured_error_msg: <NONE>
  ui_url: null
"""
    )


def test_an_error_in_json_prints_as_yaml_within():
    status = AppStatus(AppState.FAILED, structured_error_msg='{"message": "test error"}')
    assert (
        repr(status)
        == """\
AppStatus:
  msg: ''
  num_restarts: 0
  roles: []
  state: FAILED (5)
  structured_error_msg:
    message: test error
  ui_url: null
"""
    )


def test_a_half_written_error_prints_as_it_is():
    assert "structured_error_msg: '{\"message\": '" in repr(
        AppStatus(AppState.FAILED, structured_error_msg='{"message": ')
    )


def test_replicas_print_without_python_tags():
    text = repr(two_roles())
    assert "state: RUNNING (3)" in text
    assert "!!" not in text
