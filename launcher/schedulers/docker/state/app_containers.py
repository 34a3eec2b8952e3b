"""The containers of an app: which ones the engine lists, and which of those belong to the app.

Labels are not enough: `docker commit` copies them into the image, so every container of such an image has
them too. The engine gives a name to one container only, so the name of the replica decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import APP_ID, Labels
from launcher.schedulers.docker.names import container_name
from launcher.schedulers.docker.records import record
from launcher.schedulers.docker.state.replicas import ALL_MARKS, is_reservation
from launcher.schedulers.docker.state.status import DockerAppView, view


def list_containers(engine: EngineView, app_id: str) -> list[Container]:
    """The containers of an app, as the engine lists them."""
    return own_containers(engine.containers(f"{APP_ID}={app_id}"))


def inspect_app(engine: EngineView, app_id: str) -> tuple[DockerAppView | None, list[Container]]:
    """The app by its containers and its record here, and its containers, all inspected."""
    found = engine.inspect_all(each.id for each in list_containers(engine, app_id))
    return view(found, record.journal(record.folder(app_id))), found


def own_containers(containers: Iterable[Container]) -> list[Container]:
    """The containers that belong to an app, in their order: named as their replica (plus the mark of a stop).

    One container per replica: where a copy took the plain name of a marked one, the older one counts.
    """
    oldest: dict[str, Container] = {}
    for each in containers:
        name = _name(each)
        if each.name != name and each.name not in [name + mark for mark in ALL_MARKS]:
            continue
        first = oldest.setdefault(name, each)
        if (each.created_at or 0.0) < (first.created_at or 0.0):
            oldest[name] = each
    return list(oldest.values())


def _name(container: Container) -> str:
    """The name that a container with these labels was created with."""
    labels = Labels(container.labels)
    if is_reservation(container):
        return labels.app_id
    return container_name(labels.app_id, labels.role, labels.replica)
