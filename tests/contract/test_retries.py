"""Contract: restarts inside an attempt, by policy."""

import time
from collections.abc import Callable

import pytest

from launcher.schedulers.checks import RejectedAppError
from launcher.specs import AppDef, AppState, RetryPolicy, Role
from tests.contract.conftest import Case, states
from tests.lanes import thinned

FAILS_TWICE = 'echo "try $LAUNCHER_RESTART"; test "$LAUNCHER_RESTART" -ge 2'


@pytest.mark.parametrize("policy", list(RetryPolicy))
def test_an_app_that_fails_twice_succeeds_with_two_retries(case: Case, policy: RetryPolicy) -> None:
    app_id = case.start(case.app(case.count + FAILS_TWICE, max_retries=2, retry_policy=policy))
    found = case.end(app_id)
    assert found.state is AppState.SUCCEEDED
    assert found.num_restarts == 2
    assert case.lines(app_id) == ["try 0\n", "try 1\n", "try 2\n"]


@pytest.mark.parametrize("policy", thinned(RetryPolicy, first=1, every=3))
def test_an_app_that_always_fails_has_failed_after_its_retries(case: Case, policy: RetryPolicy) -> None:
    found = case.run(case.app("exit 5", max_retries=2, retry_policy=policy))
    assert found.state is AppState.FAILED
    assert found.exit_code == 5
    assert found.num_restarts == 2


def test_an_app_without_retries_never_restarts(case: Case) -> None:
    found = case.run(case.app("exit 5"))
    assert found.num_restarts == 0


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
@pytest.mark.parametrize("policy", thinned(RetryPolicy, every=2))
def test_a_scheduler_keeps_or_refuses_a_pause_before_a_restart(case: Case, policy: RetryPolicy) -> None:
    script = case.count + 'test "$LAUNCHER_RESTART" -ge 1'
    app = case.app(script, max_retries=1, retry_delay=1, retry_policy=policy)
    if "retry_delay" not in case.scheduler.supports:
        with pytest.raises(RejectedAppError, match=rf"{case.name} does not support `retry_delay`"):
            case.start(app)
        return
    found = case.run(app)
    assert (found.state, found.num_restarts) == (AppState.SUCCEEDED, 1)
    (replica,) = found.roles_statuses[0].replicas
    assert found.created_at is not None
    assert replica.started_at is not None
    assert replica.started_at - found.created_at >= 1


@pytest.fixture
def pausing(case: Case) -> AppDef:
    """Return an app that fails once, and then waits minutes for its restart."""
    if "retry_delay" not in case.scheduler.supports:
        pytest.skip(f"{case.name} does not support `retry_delay`")
    return case.app("echo once; exit 5", max_retries=1, retry_delay=300, retry_policy=RetryPolicy.REPLICA)


def _comes_to_its_pause(case: Case, app_id: str) -> bool:
    """Wait until the app has failed once, and waits for its restart; False when it has ended instead."""
    while (found := case.scheduler.describe(app_id)) is not None and found.num_restarts == 0:
        if found.ended_at is not None:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def paused(case: Case, pausing: AppDef) -> Callable[..., str]:
    """A function that starts an app that has failed once and waits minutes for its restart."""

    def start(*others: Role) -> str:
        pausing.roles.extend(others)
        app_id = case.start(pausing)
        assert _comes_to_its_pause(case, app_id)
        return app_id

    return start


def test_a_replica_in_its_pause_is_pending_and_can_be_cancelled(case, paused, launcher_home):
    app_id = paused()
    found = case.scheduler.describe(app_id)
    assert (found.state, states(found)[0].split()[1]) == (AppState.RUNNING, "PENDING")
    case.scheduler.cancel(app_id)
    assert states(case.end(app_id))[0].split()[1] == "CANCELLED"
    assert case.lines(app_id) == ["once\n"]
    assert case.left_of(app_id, launcher_home) == []


@pytest.mark.slow
def test_the_time_limit_of_an_app_includes_its_pauses(case: Case, pausing: AppDef) -> None:
    limit_s = 3
    while not _comes_to_its_pause(case, app_id := case.start(pausing, timeout_s=limit_s)):
        limit_s *= 2  # a busy engine has taken so long to start the app
    found = case.end(app_id)
    assert (found.state, found.msg) == (AppState.FAILED, f"timed out after {limit_s} s")


def test_the_failure_of_another_role_ends_an_app_in_its_pause(case: Case, paused: Callable[..., str]) -> None:
    gate = case.shared / "gate"
    app_id = paused(case.role("other", f"until test -e {gate}; do sleep 0.05; done; exit 4"))
    gate.touch()
    found = case.end(app_id)
    assert (found.state, found.msg) == (AppState.FAILED, "other/0 exited with 4")
