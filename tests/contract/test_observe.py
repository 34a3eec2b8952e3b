"""Contract: every process describes, lists, waits for and cancels an app alike."""

import pytest

from launcher.specs import AppState
from tests.contract.conftest import Case


def test_describe_and_wait_return_none_for_an_unknown_app(case: Case) -> None:
    assert case.scheduler.describe("no-such-app") is None
    assert case.scheduler.wait("no-such-app", timeout_s=1) is None
    assert not case.scheduler.exists("no-such-app")


@pytest.mark.everywhere
def test_an_id_that_is_a_path_is_an_unknown_app(case: Case) -> None:
    case.run(case.app())
    assert [case.scheduler.describe(odd) for odd in ("", ".", "..", "../apps", "a/b", "/")] == [None] * 6


def test_an_empty_scheduler_lists_nothing(case: Case) -> None:
    assert case.listed() == []


def test_a_running_app_is_running(case: Case) -> None:
    app_id = case.start(case.app("echo up; exec sleep 1000"))
    case.until_running(app_id)
    found = case.scheduler.describe(app_id)
    assert found.state is AppState.RUNNING
    assert found.started_at is not None
    assert found.ended_at is None


def test_describe_returns_the_roles_as_submitted(case: Case) -> None:
    app = case.app("echo $<replica_id>", replicas=2, env={"A": "b"}, metadata={"note": "x"})
    found = case.scheduler.describe(case.start(app))
    assert found.roles == app.roles
    assert found.name == "contract"


def test_an_app_is_created_then_started_then_ended(case: Case) -> None:
    found = case.run(case.app())
    assert found.created_at is not None
    assert found.started_at is not None
    assert found.ended_at is not None
    assert found.created_at <= found.started_at <= found.ended_at


def test_the_list_shows_each_app_once_the_newest_first(case: Case) -> None:
    first, second = case.start(case.app(replicas=2)), case.start(case.app("exit 1"))
    case.end(first)
    case.end(second)
    listed = case.listed()
    assert [(each.app_id, each.state) for each in listed] == [
        (second, AppState.FAILED),
        (first, AppState.SUCCEEDED),
    ]
    assert listed[0].app_handle == f"{case.name}://{case.session}/{second}"
    assert listed[0].name == "contract"


@pytest.mark.everywhere
def test_wait_returns_a_running_app_after_its_timeout(case: Case) -> None:
    app_id = case.start(case.app("exec sleep 1000"))
    case.until_running(app_id)
    found = case.scheduler.wait(app_id, timeout_s=0.1)
    assert found.state is AppState.RUNNING


def test_another_process_describes_and_lists_a_running_app(case: Case) -> None:
    app_id = case.start(case.app("exec sleep 1000"))
    case.until_running(app_id)
    code = """
        described = scheduler.describe(values[0])
        own = [each.app_id for each in scheduler.list() if f"/{values[1]}/" in each.app_handle]
        print(json.dumps([str(described.state), own]))
    """
    assert case.elsewhere(code, app_id, case.session) == ["RUNNING", [app_id]]


@pytest.mark.slow
def test_another_process_waits_for_the_end_of_an_app(case: Case) -> None:
    app_id = case.start(case.app("sleep 0.5; exit 4"))
    code = """
        found = scheduler.wait(values[0])
        print(json.dumps([str(found.state), found.exit_code]))
    """
    assert case.elsewhere(code, app_id) == ["FAILED", 4]


@pytest.mark.everywhere
def test_another_process_cancels_a_running_app(case: Case) -> None:
    app_id = case.start(case.app("exec sleep 1000"))
    assert case.elsewhere("print(scheduler.cancel(values[0]) or 1)", app_id) == 1
    assert case.end(app_id).state is AppState.CANCELLED


def test_another_process_reads_the_logs(case: Case) -> None:
    app_id = case.start(case.app("echo one; echo two"))
    code = "print(json.dumps(list(scheduler.log_iter(values[0], 'r', should_tail=True))))"
    assert case.elsewhere(code, app_id) == ["one\n", "two\n"]
