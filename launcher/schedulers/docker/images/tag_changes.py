"""Image names that mean another image now than when containers were created from them."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.images.pull import WORKSPACE_LABEL
from launcher.schedulers.docker.labels import APP_ID, PREFIX, ROLE
from launcher.specs.app import AppDef


def notes(engine: EngineView, unchanged: Mapping[str, AppDef]) -> dict[str, list[str]]:
    """Attempt (app id) → notes, for attempts whose containers run another image than their roles name now.

    Two requests, however many attempts there are. Attempts without containers get no note, nor do images
    built from a workspace, whose names never change their meaning.

    Args:
        unchanged: the attempts that a plan leaves as they are, by app id.
    """
    ran: dict[tuple[str, str], str] = {}
    for container in engine.containers(f"{PREFIX}job"):
        labels = container.labels
        if labels.get(APP_ID) in unchanged and container.image_id and labels.get(ROLE):
            ran.setdefault((labels[APP_ID], labels[ROLE]), container.image_id)
    if not ran:
        return {}
    images = engine.images()
    now = {tag: image.id for image in images for tag in image.tags}
    of_workspaces = {image.id for image in images if WORKSPACE_LABEL in image.labels}
    found: dict[str, list[str]] = {}
    for app_id, app in unchanged.items():
        for role in app.roles:
            before, today = ran.get((app_id, role.name), ""), now.get(_full(role.image), "")
            if before and today and before != today and before not in of_workspaces:
                found.setdefault(app_id, []).append(
                    f"role `{role.name}` ran {role.image} when that was {_short(before)};"
                    f" the engine has {_short(today)} under this name now"
                )
    return found


def _full(name: str) -> str:
    """A name as the engine lists it: with its tag, without the default registry."""
    for default in ("docker.io/library/", "docker.io/"):
        name = name.removeprefix(default)
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


def _short(image_id: str) -> str:
    return image_id.removeprefix("sha256:")[:12]
