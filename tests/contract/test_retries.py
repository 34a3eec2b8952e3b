"""Contract: restarts inside an attempt, by policy."""

import time

import pytest

from launcher.specs import AppState, RetryPolicy
from tests.contract.conftest import Case, states

FAILS_TWICE = 'echo "try $LAUNCHER_RESTART"; test "$LAUNCHER_RESTART" -ge 2'


def test_an_app_that_fails_twice_succeeds_with_two_retries(case: Case) -> None:
    """The other policies restart replicas below; `tests/holding` counts the restarts of each."""
    app_id = case.start(case.app(case.count + FAILS_TWICE, max_retries=2, retry_policy=RetryPolicy.REPLICA))
    found = case.end(app_id)
    assert found.state is AppState.SUCCEEDED
    assert found.num_restarts == 2
    assert case.lines(app_id) == ["try 0\n", "try 1\n", "try 2\n"]


@pytest.mark.parametrize("retries", [0, 2])
def test_an_app_that_always_fails_has_failed_after_its_retries(case: Case, retries: int) -> None:
    """Its message has the last line of stderr of its last run, which says nothing after a restart."""
    script = f"echo out; {case.count} test $LAUNCHER_RESTART = 0 && echo old >&2; exit 5"
    found = case.run(case.app(script, max_retries=retries, retry_policy=RetryPolicy.ROLE))
    assert (found.state, found.exit_code, found.num_restarts) == (AppState.FAILED, 5, retries)
    assert found.msg == ("r/0 exited with 5" if retries else "r/0 exited with 5: old")


def test_the_replica_policy_restarts_the_failed_replica_alone(case: Case) -> None:
    script = (
        case.count + 'echo "try $LAUNCHER_RESTART"; test $<replica_id> = 0 || test "$LAUNCHER_RESTART" = 1'
    )
    app = case.app(script, replicas=2, max_retries=1, retry_policy=RetryPolicy.REPLICA)
    app_id = case.start(app)
    assert case.end(app_id).state is AppState.SUCCEEDED
    assert case.lines(app_id, k=0) == ["try 0\n"]
    assert case.lines(app_id, k=1) == ["try 0\n", "try 1\n"]
    record = case.scheduler.record(app_id)
    assert [replica.num_restarts for replica in record.replicas] == [0, 1]


def _two_roles(case: Case, policy: RetryPolicy) -> str:
    """Replica r/0 fails once, when its two peers are up; they run until it has come back."""
    say = case.count + 'echo "try $LAUNCHER_RESTART"; cd "$LAUNCHER_SCRATCH";'
    wait = "while test ! -e {}; do sleep 0.01; done"
    fail = f"{say} {wait.format('r')}; {wait.format('other')}; test $LAUNCHER_RESTART = 1 && touch again"
    peer = f"{say} touch $<role>; {wait.format('again')}"
    script = f"if test $<replica_id> = 0; then {fail}; else {peer}; fi"
    app = case.app(script, replicas=2, max_retries=1, retry_policy=policy)
    app.roles.append(case.role("other", peer))
    app_id = case.start(app, grace_s=5.0)
    assert states(case.end(app_id)) == ["r/0 SUCCEEDED 0", "r/1 SUCCEEDED 0", "other/0 SUCCEEDED 0"]
    return app_id


def test_the_role_policy_restarts_the_failed_role_alone(case: Case) -> None:
    app_id = _two_roles(case, RetryPolicy.ROLE)
    assert case.lines(app_id, "r", 1) == ["try 0\n", "try 1\n"]
    assert case.lines(app_id, "other", 0) == ["try 0\n"]


def test_the_application_policy_restarts_all_replicas(case: Case) -> None:
    app_id = _two_roles(case, RetryPolicy.APPLICATION)
    assert case.lines(app_id, "r", 1) == ["try 0\n", "try 1\n"]
    assert case.lines(app_id, "other", 0) == ["try 0\n", "try 1\n"]


@pytest.mark.slow
def test_a_restart_comes_after_its_pause(case: Case) -> None:
    script = case.count + 'test "$LAUNCHER_RESTART" -ge 1'
    found = case.run(case.app(script, max_retries=1, retry_delay=1, retry_policy=RetryPolicy.APPLICATION))
    assert (found.state, found.num_restarts) == (AppState.SUCCEEDED, 1)
    (replica,) = found.roles_statuses[0].replicas
    assert replica.started_at - found.created_at >= 1


def test_a_replica_in_its_pause_is_pending_and_can_be_cancelled(case, launcher_home):
    script, policy = "echo once; exit 5", RetryPolicy.REPLICA
    app_id = case.start(case.app(script, max_retries=1, retry_delay=300, retry_policy=policy))
    while (found := case.scheduler.describe(app_id)).num_restarts == 0:
        assert found.ended_at is None
        time.sleep(0.05)
    assert (found.state, states(found)[0].split()[1]) == (AppState.RUNNING, "PENDING")
    case.scheduler.cancel(app_id)
    assert states(case.end(app_id))[0].split()[1] == "CANCELLED"
    assert case.lines(app_id) == ["once\n"]
    assert case.left_of(app_id, launcher_home) == []
