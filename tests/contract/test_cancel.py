"""Contract: a cancel stops all replicas, may be repeated, and changes no recorded outcome."""

import subprocess
import sys
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
KILLED = """
import os, sys
from launcher.schedulers import get_scheduler
from launcher.specs import AppDef, Role
name, session, image = sys.argv[1:]
app = AppDef("contract", [Role("r", image, entrypoint="sleep", args=["1000"])])
print(get_scheduler(name, session, detach=False).submit(app, {}), flush=True)
os.kill(os.getpid(), 9)
"""
"""A client that is killed while it is attached to an app."""


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


def test_a_cancel_of_an_ended_or_unknown_app_changes_nothing(case: Case) -> None:
    good, bad = case.start(case.app("true")), case.start(case.app("exit 3"))
    before = [case.end(app_id) for app_id in (good, bad)]
    for app_id in (good, bad, "no-such-app"):
        case.scheduler.cancel(app_id)
    assert [case.end(app_id) for app_id in (good, bad)] == before
    assert {each.app_id for each in case.listed()} == {good, bad}


@pytest.mark.everywhere
def test_ten_clients_may_cancel_at_once_and_another_later(case: Case, launcher_home: Path) -> None:
    app_id = case.start(case.app("exec sleep 1000", replicas=3))
    clients = [threading.Thread(target=case.another().cancel, args=(app_id,)) for _ in range(10)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert case.left_of(app_id, launcher_home) == []
    case.scheduler.cancel(app_id)
    assert case.end(app_id).state is AppState.CANCELLED


def test_attached_apps_are_cancelled_with_their_scheduler_and_ended_ones_keep_their_outcome(
    case: Case, launcher_home: Path
) -> None:
    client = case.another(detach=False)
    ended = client.submit(case.app("exit 3"), {})
    client.wait(ended)
    app_id = client.submit(case.app("exec sleep 1000"), {})
    client.close()
    client.close()
    assert case.left_of(app_id, launcher_home) == []
    assert [case.end(each).state for each in (ended, app_id)] == [AppState.FAILED, AppState.CANCELLED]


def test_an_attached_app_is_cancelled_when_its_parent_is_killed(case: Case, launcher_home: Path) -> None:
    if not case.sees_client:
        pytest.skip(f"an app of {case.name} is on other machines than its client")
    argv = [sys.executable, "-c", KILLED, case.name, case.session, case.image]
    ran = subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True)
    assert ran.returncode == -9
    app_id = ran.stdout.strip()
    assert case.end(app_id).state is AppState.CANCELLED
    assert case.left_of(app_id, launcher_home) == []
