"""Having the images of an app at the engine, and whether what an app is to run is in them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, ImageNotFound
from launcher.schedulers.docker.client.objects import Image
from launcher.schedulers.docker.client.parallel import run_parallel
from launcher.schedulers.docker.client.view import EngineView

if TYPE_CHECKING:
    Report = Callable[[str, Mapping[str, Any]], None]

ALWAYS, MISSING, NEVER = "always", "missing", "never"
WORKSPACE_LABEL = "launcher.workspace"
"""On every image that `build.py` makes of a workspace: the digest of the workspace in it."""

_HASH_TAG = re.compile(r":[0-9a-f]{20}\Z")  # of what went into it, so that it never means another image
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # what the engine sets without any


def ensure_images(
    engine: Engine,
    names: Iterable[str],
    policy: str,
    report: Report | None = None,
    fresh: set[str] | None = None,
) -> dict[str, Image]:
    """Image name → image, all of them there when this returns; pulled, several at a time, as `policy` says.

    Args:
        fresh: what was pulled for the same app a moment ago, and is not pulled again; it grows by the rest.

    Raises ImageNotFound for one that is not there and may not, or cannot, be pulled.
    """
    distinct = list(dict.fromkeys(names))
    return dict(
        zip(
            distinct,
            run_parallel(lambda name: ensure_image(engine, name, policy, report, fresh), distinct),
            strict=True,
        )
    )


def ensure_image(
    engine: Engine, name: str, policy: str, report: Report | None = None, fresh: set[str] | None = None
) -> Image:
    """`ensure_images` for one image."""
    fresh = set() if fresh is None else fresh
    found = engine.image(name)
    if found is not None and (policy != ALWAYS or name in fresh or is_only_here(name, found)):
        return found
    if policy == NEVER or name.startswith("sha256:"):
        hint = f"docker pull {name}, or image_pull=missing" if policy == NEVER else None
        raise ImageNotFound(f"the engine has no image {name}", hint=hint)
    engine.pull(name, report)
    fresh.add(name)
    found = engine.image(name)
    if found is None:
        raise EngineError(f"image {name} was removed as soon as it was pulled")
    return found


def is_only_here(name: str, image: Image) -> bool:
    """An id is no name to ask a registry for, and what was made of a workspace is where it was made."""
    return name.startswith("sha256:") or (WORKSPACE_LABEL in image.labels and is_workspace_name(name))


def is_workspace_name(name: str) -> bool:
    """Whether an image with the label is ours by this name: what somebody bases on one has the label, too."""
    return bool(_HASH_TAG.search(name))


def any_of(engine: EngineView) -> str:
    """The id of some image that is there; "" when there is none."""
    return next((image.id for image in engine.images()), "")


def has_executable(engine: EngineView, container: str, image: Image, config: Mapping[str, Any]) -> bool:
    """Whether what a created container is to execute is in it, as far as can be seen from outside.

    Args:
        config: what the container was created from (the body of the request).
    """
    argv = _argv(image, config)
    if not argv:
        return True  # the engine has words for that
    return any(_is_executable(engine, container, path) for path in _places(argv[0], image, config))


def executable(image: Image, config: Mapping[str, Any]) -> str:
    """What a container executes first, as written."""
    return next(iter(_argv(image, config)), "")


def _argv(image: Image, config: Mapping[str, Any]) -> Sequence[str]:
    entrypoint = config.get("Entrypoint")
    entrypoint = image.entrypoint if entrypoint is None else [part for part in entrypoint if part]
    return [*entrypoint, *(config.get("Cmd") or ())]


def _places(command: str, image: Image, config: Mapping[str, Any]) -> list[str]:
    """The paths at which a command is looked for, as execvp does."""
    folder = posixpath.join("/", config.get("WorkingDir") or image.working_dir)
    if "/" in command:
        return [posixpath.join(folder, command)]
    env = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
    path = env.get("PATH", image.env.get("PATH", _PATH))
    return [posixpath.join(folder, part, command) for part in path.split(":")]


def _is_executable(engine: EngineView, container: str, path: str) -> bool:
    found = engine.path_stat(container, path)
    return found is not None and found.executable
