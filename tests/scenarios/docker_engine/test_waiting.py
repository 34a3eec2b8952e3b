"""A wait for the end of an app wakes at each event of its containers, whichever client causes it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from launcher.schedulers import DescribeAppResponse
from launcher.specs import AppState
from tests import processes
from tests.contract.conftest import END_S, DockerCase
from tests.engines.docker import Daemon

SLEEP = "exec sleep 1000"


def waited(case: DockerCase, app_id: str, happens: Callable[[], Any]) -> DescribeAppResponse:
    """Return the answer of a `wait` that began before `happens` ran."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(case.scheduler.wait, app_id, END_S)
        case.scheduler.wait(app_id, 0)  # as many questions as the other asks before it listens
        happens()
        found = waiting.result()
    assert found is not None
    return found


def test_a_wait_ends_when_the_container_is_removed(case: DockerCase) -> None:
    app_id = case.start(case.app(SLEEP, replicas=2))
    daemon = Daemon()
    [one] = [one for one in daemon.containers() if one.name == f"{app_id}-r-1"]
    found = waited(case, app_id, lambda: daemon.remove([one]))
    assert found.state is AppState.FAILED
    assert "r/1 was removed by hand" in found.msg


def test_a_wait_ends_when_the_container_is_stopped(case: DockerCase) -> None:
    app_id = case.start(case.app(SLEEP, replicas=2))
    found = waited(case, app_id, lambda: Daemon().stop(f"{app_id}-r-0"))
    assert (found.state, found.msg) == (AppState.CANCELLED, "r/0 was stopped by hand")


def test_a_wait_starts_a_missing_watcher(case: DockerCase, launcher_home: Path) -> None:
    """Only a watcher stops an app at its time limit."""
    app_id = case.start(case.app(SLEEP), timeout_s=6, grace_s=0.0)
    watcher = processes.supervisors(str(launcher_home))[app_id]
    processes.kill([watcher])
    assert processes.gone([watcher], timeout_s=60)
    found = case.end(app_id)
    assert (found.state, found.msg) == (AppState.FAILED, "timed out after 6 s")


def test_no_process_of_an_app_runs_after_a_wait_for_its_end(case, launcher_home):
    app_id = case.start(case.app("true", replicas=3))
    case.end(app_id)
    assert processes.of_home(str(launcher_home)) == []
