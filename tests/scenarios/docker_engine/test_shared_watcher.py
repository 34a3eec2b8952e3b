"""Many apps share one watcher on the real engine: clients find it, and survive its death."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from launcher.paths import program
from launcher.schedulers.docker import record
from launcher.schedulers.docker.watching import client, rendezvous
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.specs.app import AppDef, RetryPolicy
from launcher.specs.status import AppState
from launcher.turns.line import HOLDS, QUEUED
from tests import processes
from tests.contract.conftest import DockerCase
from tests.contract.test_holding import ended, hold, prepare
from tests.engines.proxy import Proxy, everything
from tests.scenarios.docker_engine.test_turns import Table, resubmit, submit
from tests.waiting import PATIENCE_S, until

SLEEP = "exec sleep 1000"
CLIENT = """
import json, sys
from launcher.schedulers import get_scheduler
from launcher.specs.app import AppDef, Role
_, image, session, go, *scripts = sys.argv
scheduler = get_scheduler("local_docker", session, detach=True)
while go and not __import__("os").path.exists(go):
    pass
print(json.dumps([
    scheduler.submit(AppDef("app", [Role("r", image, entrypoint="sh", args=["-c", each])]), {})
    for each in scripts
]))
"""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def holders(home: Path, app_ids: Iterable[str]) -> set[int | None]:
    """Return the processes that hold these apps."""
    held = processes.supervisors(str(home))
    return {held.get(each) for each in app_ids}


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        os.kill(pid, number)
    assert processes.gone(pids, timeout_s=PATIENCE_S)


def started(case: DockerCase, count: int, script: str = SLEEP) -> list[str]:
    return [case.start(case.app(script)) for _ in range(count)]


def clients(case: DockerCase, count: int, go: Path, *scripts: str, **environ: str) -> list[Any]:
    """Client processes that submit apps of these scripts once the file `go` exists."""
    argv = [sys.executable, "-c", CLIENT, case.image, case.session, str(go), *scripts]
    environ = {**os.environ, **environ}
    return [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ) for _ in range(count)]


def apps_of(found: Iterable[Any]) -> list[str]:
    return [app_id for each in found for app_id in json.loads(each.communicate()[0])]


def has_ended(app_id: str) -> bool:
    """Return whether the watcher has recorded the end."""
    journal = record.journal(record.folder(app_id))
    return journal is not None and journal.outcome is not None


def is_stopping(app_id: str) -> bool:
    journal = record.journal(record.folder(app_id))
    return journal is not None and journal.app.stop is not None


def test_many_apps_have_one_watcher_with_one_event_stream(case, launcher_home, tmp_path, monkeypatch):
    with Proxy(tmp_path / "p.sock", everything) as proxy, monkeypatch.context() as behind:
        behind.setenv("DOCKER_HOST", proxy.host)
        apps = started(case, 2)
        [watcher] = processes.watchers(str(launcher_home))
        assert holders(launcher_home, apps) == {watcher}
        until(lambda: proxy.streams(watcher) == 1)
        assert case.run(case.app("exit 3")).exit_code == 3
        assert (proxy.streams(watcher), processes.watchers(str(launcher_home))) == (1, [watcher])
        for each in apps:
            case.scheduler.cancel(each, grace_s=0)
        case.scheduler.close()  # its next connection is to the engine itself


def test_a_watcher_ends_with_its_last_app_and_leaves_no_socket(case: DockerCase, launcher_home: Path) -> None:
    first, second = started(case, 2)
    watchers = processes.watchers(str(launcher_home))
    case.scheduler.cancel(first, grace_s=0)
    assert holders(launcher_home, [second]) == {*watchers}
    scheduler: Any = case.scheduler
    name = rendezvous.name_of(scheduler.engine, program(client._MAIN))
    rendezvous.connect(name).close()
    case.scheduler.cancel(second, grace_s=0)
    assert processes.gone(watchers, timeout_s=PATIENCE_S)
    assert rendezvous.connect(name) is None


def test_the_next_command_continues_each_app_of_a_killed_watcher(case, staged, table, gate, launcher_home):
    """Running apps get a new watcher; the next apply resumes waiting apps and frees their shares."""
    held = table.hold(cpu=1)
    running, _ = submit(case, table, case.app(f"{gate.script}; exit 4"), "running")
    need = prepare(case, staged, gate.script)
    waiting = hold(case, staged, case.app(), need, job="waiting")
    app = case.app(f"echo once >>{case.shared}/ran")
    queued, _ = submit(case, table, app, "queued")
    kill(processes.watchers(str(launcher_home)))
    for each, state in ((running, "running"), (waiting, "waiting"), (queued, "queued")):
        found = staged.attempt(each.app_id)
        assert (found.state, found.owner) == (state, "")
    assert table.seen()[running.app_id] == HOLDS
    assert staged.describe(running.app_id).state is AppState.RUNNING
    assert staged.describe(need.app_id).state is AppState.RUNNING
    hold(case, staged, case.app(), need, job="waiting")
    assert resubmit(staged, table, app, queued) == "queued"
    assert table.seen() == {"held-by-test": HOLDS, running.app_id: HOLDS, queued.app_id: QUEUED}
    [watcher] = processes.watchers(str(launcher_home))
    assert holders(launcher_home, [running.app_id, need.app_id, waiting.app_id, queued.app_id]) == {watcher}
    gate.open()
    held.leave()
    assert ended(case, staged, running)[0] == "failed"
    assert ended(case, staged, waiting)[0] == "succeeded"
    assert ended(case, staged, queued)[0] == "succeeded"
    assert (case.shared / "ran").read_text() == "once\n"


def test_sigterm_ends_the_watcher_and_no_app(case: DockerCase, launcher_home: Path) -> None:
    apps = started(case, 2)
    kill(processes.watchers(str(launcher_home)), signal.SIGTERM)
    assert [case.scheduler.describe(each).state for each in apps] == [AppState.RUNNING] * 2
    assert len(holders(launcher_home, apps) | {*processes.watchers(str(launcher_home))}) == 1


def test_eight_clients_at_once_start_one_watcher(case: DockerCase, launcher_home: Path) -> None:
    found = clients(case, 8, case.shared / "go", SLEEP)
    (case.shared / "go").touch()
    apps = apps_of(found)
    [watcher] = processes.watchers(str(launcher_home))
    assert holders(launcher_home, apps) == {watcher}


def test_an_attached_app_has_a_watcher_of_its_own(case: DockerCase, launcher_home: Path) -> None:
    detached = started(case, 1)
    attached: Any = case.another(detach=False)
    app_id = attached.submit(case.app(SLEEP), {})
    assert len(holders(launcher_home, [*detached, app_id])) == 2
    attached.close()
    assert case.end(app_id).state is AppState.CANCELLED
    assert None not in holders(launcher_home, detached)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_app_of_many_clients_is_watched_to_its_end(case: DockerCase, launcher_home: Path) -> None:
    """Watchers end and start all the time, since no app lives for long."""
    go = case.shared / "go"
    go.touch()
    for app_id in apps_of(clients(case, 8, go, *["true", "exit 3"] * 2)):
        assert wait_for_exit(record.folder(app_id), PATIENCE_S)
        assert has_ended(app_id)
    assert processes.gone(processes.watchers(str(launcher_home)), timeout_s=PATIENCE_S)


def test_an_app_that_ends_slowly_delays_no_other(case, launcher_home, request):
    """More apps than a watcher usually has threads are being stopped."""
    is_deaf = f"{case.shared}/$<app_id>"
    bad = f"until test -e {is_deaf}; do sleep 0.1; done; exit 3"
    deaf = f"trap '' TERM; touch {is_deaf}; while :; do sleep 1; done"
    roles = [case.role("bad", bad), case.role("deaf", deaf)]
    slow = [case.start(AppDef("slow", roles), grace_s=600) for _ in range(9)]
    request.addfinalizer(lambda: [case.scheduler.cancel(each, grace_s=0) for each in slow])
    until(lambda: all(map(is_stopping, slow)))
    app_id = case.start(case.app("exit 3", max_retries=1, retry_policy=RetryPolicy.ROLE))
    assert case.end(app_id).num_restarts == 1
    assert not any(map(has_ended, slow))


def test_a_watcher_that_does_not_answer_is_replaced_and_withdraws(case, launcher_home, monkeypatch):
    [first] = started(case, 1)
    [stopped] = processes.watchers(str(launcher_home))
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(rendezvous, "ANSWER_S", 0.5)
    [second] = started(case, 1)
    assert holders(launcher_home, [first]) == {stopped}
    [other] = {*processes.watchers(str(launcher_home))} - {stopped}
    os.kill(stopped, signal.SIGCONT)
    case.scheduler.cancel(first, grace_s=0)
    assert processes.gone([stopped], timeout_s=PATIENCE_S)
    assert case.scheduler.describe(second).state is AppState.RUNNING
    assert holders(launcher_home, [second]) == {other}


def test_apps_are_watched_again_when_an_engine_is_back(case, launcher_home, tmp_path, monkeypatch):
    with Proxy(tmp_path / "p.sock", everything) as proxy, monkeypatch.context() as behind:
        behind.setenv("DOCKER_HOST", proxy.host)
        go = case.shared / "go"
        ran = case.shared / "ran"
        script = f"until test -e {go}; do sleep 0.05; done; echo once >>{ran}; exit 3"
        apps = started(case, 3, script)
        [watcher] = processes.watchers(str(launcher_home))
        until(lambda: proxy.streams(watcher) == 1)
        proxy.is_closed = True
        proxy.cut()
        until(lambda: proxy.turned_away > 1)
        go.touch()
        until(lambda: ran.exists() and len(ran.read_text().split()) == 3)
        assert not any(map(has_ended, apps))
        proxy.is_closed = False
        until(lambda: all(map(has_ended, apps)))
        case.scheduler.close()  # its next connection is to the engine itself
    assert [case.scheduler.describe(each).exit_code for each in apps] == [3] * 3


def test_a_wait_starts_a_missing_watcher(case: DockerCase, launcher_home: Path) -> None:
    """Only a watcher stops an app at its time limit."""
    app_id = case.start(case.app(SLEEP), timeout_s=6, grace_s=0.0)
    watcher = processes.supervisors(str(launcher_home))[app_id]
    processes.kill([watcher])
    assert processes.gone([watcher], timeout_s=60)
    found = case.end(app_id)
    assert (found.state, found.msg) == (AppState.FAILED, "timed out after 6 s")
