"""The pause before a restart on the real engine: cancels, kills, and the view of other clients."""

import os
import signal
from collections.abc import Callable
from typing import Any

from launcher.schedulers.docker import apps, gc, record
from launcher.schedulers.docker.watching import actions
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.schedulers.docker.watching.waiting import ensure_watched, wait_for_end
from tests.scenarios.docker_engine.raw_apps import SLEEP, RawApp
from tests.waiting import PATIENCE_S, until

Make = Callable[..., RawApp]
ONCE = "test -e /again && exit 0; touch /again; exit 3"
LONG = {"r": (1, "REPLICA", 300)}


def _events(made: RawApp, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind on record."""
    journal = record.journal(made.app_dir)
    return [event for event in journal.events if event["e"] == kind]


def _due_at(restart: dict[str, Any]) -> float:
    return float(restart["t"] / 1e9 + restart["delay_s"])


def _in_pause(made: RawApp) -> None:
    made.start()
    until(lambda: (seen := made.view()) is not None and seen.num_restarts == 1)


def test_the_other_replicas_of_a_role_are_stopped_and_wait_in_its_pause(app: Make) -> None:
    made = app({"r": ["exit 3", SLEEP], "other": [SLEEP]}, retries={"r": (1, "ROLE", 300)})
    _in_pause(made)
    until(lambda: [each.state for each in made.containers()] == ["running", "exited", "exited"])
    seen = made.view()
    assert [each.waits for each in seen.replicas] == ["", "waits to be restarted", "waits to be restarted"]
    actions.cancel(made.engine, made.app_id)
    assert made.end().state == "cancelled"
    assert made.states() == ["other/0 cancelled", "r/0 cancelled", "r/1 cancelled"]


def test_a_restart_keeps_its_time_when_the_watcher_is_killed_in_the_pause(app: Make) -> None:
    made = app({"r": [ONCE]}, retries={"r": (1, "REPLICA", 10)})
    _in_pause(made)
    _kill_watcher(made)
    [restart] = _events(made, "restart")
    seen = made.view()
    assert (seen.state, seen.needs_watcher) == ("running", True)
    assert ensure_watched(made.engine, made.app_id)
    found = made.end()
    assert (found.state, found.num_restarts) == ("succeeded", 1)
    [after] = apps.inspect_app(made.engine, made.app_id)[1]
    assert after.started_at is not None
    assert after.started_at >= _due_at(restart)


def test_an_app_in_its_pause_without_a_watcher_can_be_cancelled(app: Make) -> None:
    made = app({"r": ["exit 3"]}, retries=LONG)
    _in_pause(made)
    _kill_watcher(made)
    actions.cancel(made.engine, made.app_id)
    found = made.view()
    assert (found.state, found.final) == ("cancelled", True)


def test_another_home_does_not_disturb_an_app_in_its_pause(app, tmp_path, monkeypatch):
    made = app({"r": ["exit 3"]}, retries=LONG)
    _in_pause(made)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("LAUNCHER_HOME", str(tmp_path / "elsewhere"))
        found = apps.find(made.engine, made.app_id)
        assert (found.view.state, found.view.replicas[0].waits) == ("running", "waits to be restarted")
        listed = [each for each in apps.find_all(made.engine) if each.app_id == made.app_id]
        assert [each.view.state for each in listed] == ["running"]
        assert made.app_id not in [each.app_id for each in gc.finished(made.engine)]
        assert not ensure_watched(made.engine, made.app_id)
        actions.cancel(made.engine, made.app_id)
        found = apps.find(made.engine, made.app_id)
        assert (found.view.state, found.paused_by) == ("cancelled", None)
    assert (made.end().state, made.states()) == ("cancelled", ["r/0 cancelled"])


def test_another_home_waits_for_the_end_after_a_pause(app, tmp_path, monkeypatch):
    made = app({"r": ["exit 3"]}, retries={"r": (1, "REPLICA", 1)})
    _in_pause(made)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("LAUNCHER_HOME", str(tmp_path / "elsewhere"))
        found = wait_for_end(made.engine, made.app_id, None)
        assert (found.view.state, found.view.exit_code) == ("failed", 3)
    assert made.end().num_restarts == 1


def _kill_watcher(made: RawApp) -> None:
    os.kill(made.watcher_pid(), signal.SIGKILL)
    assert wait_for_exit(made.app_dir, PATIENCE_S)
