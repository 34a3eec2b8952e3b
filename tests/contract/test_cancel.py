"""Contract: a cancel stops all replicas, may be repeated, and changes no recorded outcome."""

import threading
from pathlib import Path

import pytest

from launcher.schedulers import Stream
from launcher.specs import AppState
from tests.contract.conftest import Case

STUBBORN = """
    sh -c 'trap "" TERM HUP INT; sleep 1000 & echo up; while :; do wait; done' &
    trap "" TERM HUP INT
    while :; do wait; done
"""


def test_cancel_stops_a_running_app(case: Case, launcher_home: Path) -> None:
    app_id = case.start(case.app("exec sleep 1000", replicas=3))
    case.scheduler.cancel(app_id)
    assert case.left_of(app_id, launcher_home) == []
    assert case.end(app_id).state is AppState.CANCELLED


def test_cancel_leaves_no_process_of_a_replica_that_ignores_the_signal(case, launcher_home):
    app_id = case.start(case.app(STUBBORN), grace_s=0.2)
    case.wait_for_line(app_id, "up")
    case.scheduler.cancel(app_id)
    assert case.left_of(app_id, launcher_home) == []
    assert case.end(app_id).state is AppState.CANCELLED


def test_a_replica_may_clean_up_within_the_grace_period(case: Case) -> None:
    app_id = case.start(case.app("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"))
    case.wait_for_line(app_id, "up")
    case.scheduler.cancel(app_id)
    assert case.lines(app_id, streams=Stream.STDOUT) == ["up\n", "bye\n"]
    assert case.end(app_id).state is AppState.CANCELLED


def test_a_second_cancel_is_no_error(case: Case) -> None:
    app_id = case.start(case.app("exec sleep 1000"))
    case.scheduler.cancel(app_id)
    case.scheduler.cancel(app_id)
    assert case.end(app_id).state is AppState.CANCELLED


def test_cancelling_an_unknown_app_does_nothing(case: Case) -> None:
    case.scheduler.cancel("no-such-app")
    assert case.listed() == []


def test_cancelling_an_ended_app_changes_nothing(case: Case) -> None:
    good, bad = case.start(case.app("true")), case.start(case.app("exit 3"))
    before = [case.end(app_id) for app_id in (good, bad)]
    for app_id in (good, bad):
        case.scheduler.cancel(app_id)
    assert [case.end(app_id) for app_id in (good, bad)] == before


@pytest.mark.everywhere
def test_ten_clients_may_cancel_at_once(case: Case, launcher_home: Path) -> None:
    app_id = case.start(case.app("exec sleep 1000", replicas=2))
    clients = [threading.Thread(target=case.another().cancel, args=(app_id,)) for _ in range(10)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert case.left_of(app_id, launcher_home) == []
    assert case.end(app_id).state is AppState.CANCELLED


def test_a_detached_app_outlives_its_scheduler(case: Case) -> None:
    client = case.another(detach=True)
    app_id = client.submit(case.app("exec sleep 1000"), {})
    client.close()
    case.until_running(app_id)
    found = case.scheduler.describe(app_id)
    assert found.state is AppState.RUNNING


@pytest.mark.everywhere
def test_an_attached_app_is_cancelled_with_its_scheduler(case: Case, launcher_home: Path) -> None:
    client = case.another(detach=False)
    app_id = client.submit(case.app("exec sleep 1000"), {})
    client.close()
    client.close()
    assert case.left_of(app_id, launcher_home) == []
    assert case.end(app_id).state is AppState.CANCELLED


def test_closing_an_attached_scheduler_changes_no_outcome(case: Case) -> None:
    client = case.another(detach=False)
    app_id = client.submit(case.app("exit 3"), {})
    client.wait(app_id)
    client.close()
    assert case.end(app_id).state is AppState.FAILED


def test_an_attached_app_is_cancelled_when_its_parent_is_killed(case: Case, launcher_home: Path) -> None:
    if not case.sees_client:
        pytest.skip(f"an app of {case.name} is on other machines than its client")
    code = """
        import os
        from launcher.specs import AppDef, Role
        scheduler = get_scheduler(name, values[1], detach=False)
        app = AppDef('contract', [Role('r', values[0], entrypoint='sleep', args=['1000'])])
        print(json.dumps(scheduler.submit(app, {})), flush=True)
        sys.stdout.flush()
        os.kill(os.getpid(), 9)
    """
    app_id = case.elsewhere(code, case.image, case.session, killed=True)
    found = case.end(app_id)
    assert found.state is AppState.CANCELLED
    assert case.left_of(app_id, launcher_home) == []
