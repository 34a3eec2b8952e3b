"""The images that an app needs: pull them, check that they have its executables, find changed tags."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.schedulers.docker.apps import own_containers
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, ImageNotFound
from launcher.schedulers.docker.client.objects import Image
from launcher.schedulers.docker.client.streams import Report
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import APP_ID, PREFIX, ROLE, WORKSPACE_LABEL
from launcher.specs.app import AppDef
from launcher.specs.attempt import ImageNow

ALWAYS, MISSING, NEVER = "always", "missing", "never"
WORKSPACE_REPOSITORY = "launcher-workspace"
"""The repository of workspace images without the option `image_repo`: no registry has it."""

_HASH_TAG = re.compile(r":[0-9a-f]{20}\Z")  # a hash of its inputs, so that it never means another image
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # the engine's default


def ensure_image(
    engine: Engine, name: str, policy: str, report: Report | None = None, fresh: set[str] | None = None
) -> Image:
    """The image of this name, pulled where it is missing, or as `policy` says.

    Args:
        fresh: images pulled for the same app before, which are not pulled again; a new one is added.

    Raises ImageNotFound for an image that the engine lacks and that may not or cannot be pulled.
    """
    fresh = set() if fresh is None else fresh
    found = engine.image(name)
    if found is not None and (policy != ALWAYS or name in fresh or is_only_here(name, found)):
        return found
    is_in_registries = not name.startswith(("sha256:", f"{WORKSPACE_REPOSITORY}:"))
    if policy == NEVER or not is_in_registries:
        hint = f"docker pull {name}, or image_pull=missing" if is_in_registries else None
        raise ImageNotFound(f"the engine has no image {name}", hint=hint)
    engine.pull(name, report)
    fresh.add(name)
    found = engine.image(name)
    if found is None:
        raise EngineError(f"image {name} was removed as soon as it was pulled")
    return found


def is_only_here(name: str, image: Image) -> bool:
    """Whether no registry has the image: `name` is an id, or the image was built here from a workspace."""
    return name.startswith("sha256:") or (WORKSPACE_LABEL in image.labels and is_workspace_name(name))


def is_workspace_name(name: str) -> bool:
    """Whether the name is of a workspace image; images based on such an image share its label only."""
    return bool(_HASH_TAG.search(name))


def any_of(engine: EngineView) -> str:
    """The id of any image of the engine; "" when it has none."""
    return next((image.id for image in engine.images()), "")


def missing_executable(
    engine: EngineView, container: str, image: Image, config: Mapping[str, Any]
) -> str | None:
    """The command that a created container lacks; None when it has its executable, as far as its files show.

    Args:
        config: the body of the request that created the container.
    """
    entrypoint = config.get("Entrypoint")
    entrypoint = image.entrypoint if entrypoint is None else [part for part in entrypoint if part]
    command = next(iter((*entrypoint, *(config.get("Cmd") or ()))), None)
    if command is None:
        return None  # the engine reports that
    folder, parts = posixpath.join("/", config.get("WorkingDir") or image.working_dir), [""]
    if "/" not in command:  # the paths that execvp searches
        env = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
        parts = env.get("PATH", image.env.get("PATH", _PATH)).split(":")
    found = (engine.path_stat(container, posixpath.join(folder, part, command)) for part in parts)
    return None if any(each is not None and each.executable for each in found) else command


def changed_tags(engine: EngineView, unchanged: Mapping[str, AppDef]) -> dict[str, list[str]]:
    """App id → notes, for attempts whose containers run another image than their roles name now.

    It makes two requests, however many attempts there are. Attempts without containers get no notes, nor do
    images built from a workspace, whose names never change their meaning.

    Args:
        unchanged: the attempts that a plan leaves as they are, by app id.
    """
    ran: dict[tuple[str, str], str] = {}
    for container in own_containers(engine, engine.containers(f"{PREFIX}job")):
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


def images_now(engine: EngineView, names: Iterable[str]) -> dict[str, ImageNow]:
    """See `StagedScheduler.images_now`."""
    found = {name: image for name in names if (image := engine.image(name)) is not None}
    return {
        name: ImageNow(image.id, image.labels.get(WORKSPACE_LABEL, ""), image.repo_digests)
        for name, image in found.items()
    }


def _full(name: str) -> str:
    """A name as the engine lists it: with its tag, without the default registry."""
    for default in ("docker.io/library/", "docker.io/"):
        name = name.removeprefix(default)
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


def _short(image_id: str) -> str:
    return image_id.removeprefix("sha256:")[:12]
