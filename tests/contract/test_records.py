"""Contract: the records of apps that schedulers return to commands."""

import time

import pytest

from launcher.specs.launch import attempt_id
from tests.contract.conftest import Case
from tests.contract.test_staged import Staged, attempt_of, submit


def refreshed(case: Case, *app_ids: str) -> dict[str, str]:
    """Return the state of each refreshed app, by app id."""
    return {each.app_id: each.state for each in case.scheduler.refresh(app_ids)}


def test_a_refresh_returns_the_present_state_of_each_known_app(case: Case) -> None:
    app_id = case.start(case.app("exec sleep 1000"))
    case.until_running(app_id)
    (seen,) = case.another().refresh([app_id, "no-such-app", "../apps", ""])
    assert (seen.handle, seen.state) == (f"{case.name}://{case.session}/{app_id}", "running")
    assert list(seen.replicas) == []
    case.scheduler.cancel(app_id)
    case.end(app_id)
    assert refreshed(case, app_id) == {app_id: "cancelled"}


def test_a_refresh_of_nothing_is_empty(case: Case) -> None:
    assert refreshed(case) == {}


@pytest.mark.everywhere
def test_a_refresh_returns_how_an_app_ended(case: Case) -> None:
    described = case.run(case.app("exit 3"))
    (seen,) = case.scheduler.refresh([described.app_id])
    assert (seen.state, seen.exit_code, seen.message) == ("failed", 3, described.msg)
    assert seen.ended_at == described.ended_at


def test_the_record_of_an_app_has_its_replicas(case: Case) -> None:
    described = case.run(case.app("exit $((3 * <replica_id>))".replace("<", "$<"), replicas=2))
    seen = case.another().record(described.app_id)
    assert (seen.handle, seen.state) == (f"{case.name}://{case.session}/{described.app_id}", "failed")
    assert (seen.exit_code, seen.started_at, seen.ended_at) == (3, described.started_at, described.ended_at)
    found = {(each.role, each.k): (each.state, each.exit_code) for each in seen.replicas}
    assert found["r", 1] == ("failed", 3)
    assert set(found) == {("r", 0), ("r", 1)}


def test_the_record_has_the_error_file_of_a_replica(case: Case) -> None:
    script = """echo '{"message": "no GPU"}' >"$TORCHELASTIC_ERROR_FILE"; exit 4"""
    seen = case.scheduler.record(case.run(case.app(script)).app_id)
    (replica,) = seen.replicas
    assert (replica.error.message, replica.error.exit_code) == ("no GPU", 4)


def test_an_unknown_app_has_no_record(case: Case) -> None:
    for app_id in ("no-such-app", "", "..", "a/b"):
        assert case.scheduler.record(app_id) is None
        assert case.scheduler.wait_record(app_id, timeout_s=1) is None
        assert case.scheduler.attempt(app_id) is None
        assert case.scheduler.about(app_id) == {}


def test_a_wait_for_the_record_ends_with_the_app(case: Case) -> None:
    app_id = case.start(case.app("sleep 0.3; exit 5"))
    seen = case.scheduler.wait_record(app_id, timeout_s=60)
    assert (seen.app_id, seen.state, seen.exit_code) == (app_id, "failed", 5)
    assert seen.has_ended


def test_a_wait_for_the_record_gives_up_in_time(case: Case) -> None:
    app_id = case.start(case.app("exec sleep 1000"))
    case.until_running(app_id)
    start = time.monotonic()
    seen = case.scheduler.wait_record(app_id, timeout_s=0.1)
    assert time.monotonic() - start < 20
    assert (seen.state, seen.ended_at) == ("running", None)


@pytest.mark.everywhere
def test_a_wait_for_the_record_of_an_attempt_returns_how_the_attempt_ended(
    case: Case, staged: Staged
) -> None:
    attempt = submit(case, staged, case.app("exit 6"))
    seen = staged.wait_record(attempt.app_id, timeout_s=60)
    assert (seen.handle, seen.state, seen.exit_code) == (attempt.handle, "failed", 6)
    assert refreshed(case, attempt.app_id) in ({attempt.app_id: "failed"}, {})


def test_a_reserved_attempt_is_refreshed_as_live(case: Case, staged: Staged) -> None:
    reservation = staged.reserve(attempt_of(case, case.app()))
    (seen,) = staged.refresh([reservation.app_id])
    assert not seen.has_ended
    staged.abort(reservation)
    assert refreshed(case, reservation.app_id) == {}


def test_an_app_has_the_digest_and_the_document_of_its_attempt(case: Case, staged: Staged) -> None:
    app = case.app("true")
    attempt = submit(case, staged, app)
    events = staged.about(attempt.app_id)
    assert (events["digest"], events["document"]) == (attempt.digest, attempt.document)
    assert staged.about(attempt_id(attempt.key, 9)) == {}


def test_a_scheduler_reports_whether_it_has_apps_on_this_machine(case: Case, staged: Staged) -> None:
    submit(case, staged, case.app("true"))
    assert staged.has_apps_here()
    assert staged.is_in_use()
