"""Which containers belong to an app. Pure.

Labels alone do not tell: `docker commit` copies them into the image, so that every container of such an image
bears them too. The engine gives a name to one container only, so the name of the replica decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.names import container_name
from launcher.schedulers.docker.state.replicas import ALL_MARKS, is_reservation


def members(containers: Iterable[Container]) -> list[Container]:
    """Those that are an app's own, in their order: named as their replica (plus the mark of a stop).

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
