"""Contract: the records of apps that schedulers return to commands."""

import time

import pytest

from launcher.specs import AppState
from tests.contract.conftest import Case
from tests.contract.test_staged import Staged, submit


def refreshed(case: Case, *app_ids: str) -> dict[str, str]:
    """Return the state of each refreshed app, by app id."""
    return {each.app_id: each.state for each in case.scheduler.refresh(app_ids)}


def test_every_question_about_a_running_app_is_answered_alike(case: Case) -> None:
    app_id = case.start(case.app("exec sleep 1000"))
    case.until_running(app_id)
    for found in (case.scheduler.describe(app_id), case.scheduler.wait(app_id, timeout_s=0.1)):
        assert (found.state, found.ended_at) == (AppState.RUNNING, None)
        assert found.started_at is not None
    start = time.monotonic()
    for seen in (case.another().record(app_id), case.scheduler.wait_record(app_id, timeout_s=0.1)):
        assert (seen.state, seen.ended_at, seen.used) == ("running", None, {})
    assert time.monotonic() - start < 20
    (seen,) = case.another().refresh([app_id, "no-such-app", "../apps", ""])
    assert (seen.handle, seen.state) == (f"{case.name}://{case.session}/{app_id}", "running")
    assert list(seen.replicas) == []
    case.scheduler.cancel(app_id)
    case.end(app_id)
    assert refreshed(case, app_id) == {app_id: "cancelled"}
    assert refreshed(case) == {}


def test_every_question_about_an_ended_app_is_answered_alike(case: Case) -> None:
    app_id = case.start(case.app("exit $((3 * <replica_id>))".replace("<", "$<"), replicas=2))
    waited = case.scheduler.wait_record(app_id, timeout_s=60)
    described = case.end(app_id)
    (refreshed,) = case.scheduler.refresh([app_id])
    seen = case.another().record(app_id)
    assert seen.handle == f"{case.name}://{case.session}/{app_id}"
    for each in (waited, refreshed, seen):
        assert (each.app_id, each.state, each.exit_code, each.message) == (app_id, "failed", 3, described.msg)
        assert (each.started_at, each.ended_at) == (described.started_at, described.ended_at)
    found = {(each.role, each.k): (each.state, each.exit_code) for each in seen.replicas}
    assert found["r", 1] == ("failed", 3)
    assert set(found) == {("r", 0), ("r", 1)}


def test_the_record_has_the_error_file_of_a_replica(case: Case) -> None:
    script = """echo '{"message": "no GPU"}' >"$TORCHELASTIC_ERROR_FILE"; exit 4"""
    seen = case.scheduler.record(case.run(case.app(script)).app_id)
    (replica,) = seen.replicas
    assert (replica.error.message, replica.error.exit_code) == ("no GPU", 4)


@pytest.mark.everywhere
def test_the_end_of_an_attempt_is_waited_for_and_reaped_once(case: Case, staged: Staged) -> None:
    attempt = submit(case, staged, case.app("exit 6"))
    seen = staged.wait_record(attempt.app_id, timeout_s=60)
    assert (seen.handle, seen.state, seen.exit_code) == (attempt.handle, "failed", 6)
    case.end(attempt.app_id)
    assert refreshed(case, attempt.app_id) in ({attempt.app_id: "failed"}, {})
    found = [(each.app_id, each.state, each.exit_code) for each in staged.reap()]
    assert found == [(attempt.app_id, "failed", 6)]
    assert staged.reap() == []
