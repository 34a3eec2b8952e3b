"""Rows of Docker apps in the store, from the reservation to the removal."""

from typing import Any

import pytest

from launcher.errors import LauncherError
from launcher.schedulers.registry import open_store
from launcher.specs.attempt import Attempt
from launcher.state.records import AppRecord
from tests.contract.conftest import DockerCase
from tests.contract.test_staged import attempt_of, submit

DOCKER = "local_docker"


def on_record() -> dict[str, AppRecord]:
    with open_store(readonly=True) as store:
        return {app.app_id: app for app in store.apps(DOCKER)}


def test_an_app_has_a_row_from_its_reservation_to_its_removal(case: DockerCase, staged: Any) -> None:
    attempt = attempt_of(case, case.app("exit 3"))
    reservation = staged.reserve(attempt)
    assert on_record()[attempt.app_id].key == attempt.key
    staged.abort(reservation)
    assert on_record() == {}
    ended: Attempt = submit(case, staged, case.app("exit 3"))
    case.end(ended.app_id)
    assert [each.app_id for each in staged.reap()] == [ended.app_id]
    app = on_record()[ended.app_id]
    assert (app.state, app.exit_code, app.name) == ("failed", 3, attempt.key.job)
    staged.remove(ended.app_id)
    assert on_record() == {}


def test_an_app_that_no_job_file_made_has_a_row(case: DockerCase, staged: Any) -> None:
    app_id = case.scheduler.submit(case.app("exit 0"), {})
    assert on_record()[app_id].job is None
    case.end(app_id)
    staged.reap()
    assert on_record()[app_id].state == "succeeded"


@pytest.mark.parametrize("reserved", [False, True])
def test_an_attempt_that_cannot_be_created_leaves_no_row(case, staged, reserved):
    app = case.app("true")
    app.roles[0].image = "localhost:1/there/is/none:such"
    start = (lambda: submit(case, staged, app)) if reserved else (lambda: staged.submit(app, {}))
    with pytest.raises(LauncherError):
        start()
    assert on_record() == {}
