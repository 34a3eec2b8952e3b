"""Waiting for the end of an app on the engine's event stream."""

from __future__ import annotations

import time

from launcher.schedulers.docker.labels import APP_ID
from launcher.schedulers.docker.state import apps
from launcher.schedulers.docker.watching.client import wait_for_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.docker.client.view import EngineView
    from launcher.schedulers.docker.state.apps import App

_EXIT_S = 30.0
_NEWS = frozenset({"die", "destroy", "rename"})


def wait_for_end(engine: EngineView, app_id: str, deadline: float | None) -> App | None:
    """The app when it has ended and its watcher has gone, or as it is at `deadline` (monotonic)."""
    found = apps.find(engine, app_id)
    if found is not None and not found.view.ended:
        found = _listen(engine, app_id, deadline)
    if found is None or not found.view.ended:
        return found
    left = _EXIT_S if deadline is None else max(0.0, min(_EXIT_S, deadline - time.monotonic()))
    gone = wait_for_exit(found.app_dir, left)
    if gone and found.view.settled and not found.view.live:
        return found  # nobody is left who could tell more
    return apps.find(engine, app_id) or found


def _listen(engine: EngineView, app_id: str, deadline: float | None) -> App | None:
    from threading import Timer

    with engine.events(f"{APP_ID}={app_id}") as events:
        alarm = None if deadline is None else Timer(max(0.0, deadline - time.monotonic()), events.close)
        if alarm is not None:
            alarm.daemon = True
            alarm.start()
        try:
            found = apps.find(engine, app_id)  # subscribed first: nothing is missed
            live = set(found.view.live) if found is not None else set()
            while found is not None and not found.view.ended:
                event = next(events, None)
                if event is None:
                    return apps.find(engine, app_id)
                if event.action == "start":
                    live.add(event.container_id)
                elif event.action in _NEWS:
                    live.discard(event.container_id)
                    if event.action == "die" and live:
                        continue  # nothing ends while some of it runs: looking each time would take time
                    # Answers when the end is in the engine's lists, too.
                    engine.inspect(event.container_id)
                    found = apps.find(engine, app_id)
            return found
        finally:
            if alarm is not None:
                alarm.cancel()
