"""The records that an engine has of an attempt, each read apart from the others, and the images of names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from launcher.schedulers.docker import rows, tombstones
from launcher.schedulers.docker.apps import list_containers
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.images.pull import WORKSPACE_LABEL
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.names import is_replica, where
from launcher.schedulers.docker.status import view
from launcher.specs.attempt import Attempt, ImageNow, Recorded


def recorded(engine: EngineView, app_id: str) -> list[Recorded]:
    """See `StagedScheduler.recorded`."""
    found = []
    stone = tombstones.read(engine, app_id)
    if stone is not None and (attempt := stone.attempt()) is not None:
        found.append(Recorded(f"the volume {stone.volume}", attempt))
    replicas = engine.inspect_all(each.id for each in list_containers(engine, app_id) if is_replica(each))
    found += [Recorded(name, attempt, is_outcome=False) for name, attempt in _by_labels(replicas)]
    if (here := rows.attempt_here(app_id)) is not None:
        found.append(Recorded("its record in LAUNCHER_HOME", here, is_outcome=here.state != "running"))
    return found


def _by_labels(replicas: list[Container]) -> Iterator[tuple[str, Attempt]]:
    """The attempt of containers by their labels; one for all containers that say the same."""
    shown = view(replicas, labels=Labels(replicas[0].labels)) if replicas else None
    images = {where(each)[0]: each.image_id for each in replicas}
    known: list[Attempt] = []
    for each in replicas:
        attempt = Labels(each.labels).attempt
        if attempt is not None and shown is not None and attempt not in known:
            known.append(attempt)
            state = replace(attempt, state=shown.state, exit_code=shown.exit_code, images=images)
            yield ("its containers" if len(known) == 1 else f"the container {each.name}"), state


def images_now(engine: EngineView, names: Collection[str]) -> Mapping[str, ImageNow]:
    """See `StagedScheduler.images_now`."""
    found = {name: image for name in names if (image := engine.image(name)) is not None}
    return {
        name: ImageNow(image.id, image.labels.get(WORKSPACE_LABEL, ""), image.repo_digests)
        for name, image in found.items()
    }
