"""Contract: describe, list and wait agree on an app; the records of commands are in `test_records.py`."""

from launcher.specs import AppState
from tests.contract.conftest import Case


def test_an_unknown_app_and_an_id_that_is_a_path_have_no_record(case: Case) -> None:
    case.run(case.app())  # so that its folder lies beside those that the odd ids could name
    for odd in ("no-such-app", "", ".", "..", "../apps", "a/b", "/"):
        for ask in ("describe", "exists", "record", "attempt", "about"):
            assert not getattr(case.scheduler, ask)(odd), (ask, odd)
        assert case.scheduler.wait(odd, timeout_s=1) is None
        assert case.scheduler.wait_record(odd, timeout_s=1) is None


def test_describe_returns_the_roles_as_submitted(case: Case) -> None:
    app = case.app("echo $<replica_id>", replicas=2, env={"A": "b"}, metadata={"note": "x"})
    found = case.scheduler.describe(case.start(app))
    assert found.roles == app.roles
    assert found.name == "contract"


def test_the_list_shows_each_app_once_the_newest_first(case: Case) -> None:
    assert case.listed() == []
    first, second = case.start(case.app(replicas=2)), case.start(case.app("exit 1"))
    found = case.end(first)
    assert None not in (found.created_at, found.started_at, found.ended_at)
    assert found.created_at <= found.started_at <= found.ended_at
    case.end(second)
    listed = case.listed()
    found = [(each.app_id, each.state) for each in listed]
    assert found == [(second, AppState.FAILED), (first, AppState.SUCCEEDED)]
    assert listed[0].app_handle == f"{case.name}://{case.session}/{second}"
    assert listed[0].name == "contract"
