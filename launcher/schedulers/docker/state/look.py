"""One app as its containers and its record here tell it."""

from __future__ import annotations

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import APP_ID
from launcher.schedulers.docker.records import record
from launcher.schedulers.docker.state.members import members
from launcher.schedulers.docker.state.status import AppView, view


def own(engine: EngineView, app_id: str) -> list[Container]:
    """The containers of an app, as listed."""
    return members(engine.containers(f"{APP_ID}={app_id}"))


def look(engine: EngineView, app_id: str) -> tuple[AppView | None, list[Container]]:
    """The app, and its containers, all of them inspected."""
    found = engine.inspect_all(each.id for each in own(engine, app_id))
    return view(found, record.journal(record.folder(app_id))), found
