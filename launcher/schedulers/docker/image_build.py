"""Build a workspace into images: the names of the images that an app needs, and the build itself.

An image's name is a hash of all inputs: the workspace's digest, the base image, the Dockerfile. So a plan
shows it before the build. Each image is built once at a time on this host, over all threads, processes and
state folders of a user.
"""

from __future__ import annotations

import fcntl
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

from launcher import paths
from launcher.dataclass import replace
from launcher.errors import SchedulerError, StateError
from launcher.filelock import is_at, try_lock
from launcher.files import read_regular
from launcher.schedulers.docker import images
from launcher.schedulers.docker.client.engine import Engine, no_report
from launcher.schedulers.docker.client.errors import BuildFailed, Conflict, NotFound
from launcher.schedulers.docker.client.objects import Image, Labelled
from launcher.schedulers.docker.client.streams import Report
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.labels import WORKSPACE_LABEL as LABEL
from launcher.schedulers.workspaces import BoundWorkspace
from launcher.specs.app import AppDef, CfgVal
from launcher.workspace.archive import archive
from launcher.workspace.context import unreadable

BASES = "launcher.workspace-bases"
"""The label with the ids of an image's bases: a base name that means another id makes the image stale."""

NAME = "launcher.workspace-image"
"""The label with the name that an image is built for: images with equal content may have two names."""

FOLDER = "/workspace"
"""Folder of the files when neither `workdir` nor the image names a folder other than `/`."""

_TRIES = 3
_WAITS = "waiting for another build of this image"
_STEP_REMOVED = re.compile(
    "unknown parent image ID|failed to get digest sha256:.*no such file or directory|No such image: sha256:"
)
"""Text of the engine's error when another client removes the cached step that a build goes on from."""
_LAYER = re.compile(r" ---> ([0-9a-f]{12})$")


# The Dockerfile of a workspace

NAMES = ("Dockerfile.launcher", "Dockerfile.torchx", "Dockerfile")
_FILES = "workspace"
# A path in an argument needs no escapes. WORKDIR creates the folder, and replicas run in it.
_OURS = f"ARG IMAGE\nFROM $IMAGE\nARG FOLDER\nWORKDIR $FOLDER\nCOPY {_FILES}/ .\n".encode()

_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE | re.MULTILINE)
_ARG = re.compile(r"^\s*ARG\s+(.*)$", re.IGNORECASE | re.MULTILINE)
_IMAGE = re.compile(r"\$(?:IMAGE\b|\{IMAGE(?::[-+][^}]*)?\})")
_WITH_IMAGE = re.compile(r"^(?!\s*#).*\$\{?IMAGE\b", re.MULTILINE)


class Dockerfile(NamedTuple):
    """A Dockerfile. `below`: the context folder that the default one copies; "" for a workspace's own."""

    name: str
    content: bytes
    below: str = ""

    @property
    def text(self) -> str:
        """The content, with U+FFFD for bytes that are not UTF-8."""
        return self.content.decode("utf-8", "replace")

    @property
    def takes_image(self) -> bool:
        """Whether a line of it names the argument IMAGE, which is the role's image."""
        return _WITH_IMAGE.search(self.text) is not None

    @property
    def arguments(self) -> set[str]:
        """The names that its ARG lines declare."""
        lines = _ARG.findall(self.text.replace("\\\n", " "))
        return {word.partition("=")[0] for line in lines for word in line.split()}

    def bases(self, image: str) -> list[str]:
        """The base images, with `image` for IMAGE; without names that only the engine can expand."""
        stages: set[str] = {"scratch"}
        found: list[str] = []
        for named, stage in _FROM.findall(self.text):
            base = _IMAGE.sub(lambda _: image, named)
            if "$" not in base and base.lower() not in stages and base not in found:
                found.append(base)
            stages.add(stage.lower())
        return found


def dockerfile_of(folder: str) -> Dockerfile:
    """The workspace's own Dockerfile, or the default, which copies the files to the replicas' folder."""
    for name in NAMES:
        path = os.path.join(folder, name)
        try:
            return Dockerfile(name, read_regular(path))
        except (FileNotFoundError, IsADirectoryError):
            continue
        except OSError as error:
            raise unreadable(path, error) from error
    return Dockerfile("Dockerfile", _OURS, _FILES)


# The images of an app


class _Work(NamedTuple):
    """One image to build. `workdir` is the run option, "" without."""

    name: str
    base: str
    dockerfile: Dockerfile
    workspace: BoundWorkspace
    workdir: str

    @property
    def bases(self) -> list[str]:
        return self.dockerfile.bases(self.base)

    def arguments(self, base: Image | None) -> dict[str, str]:
        """The build arguments that the Dockerfile declares: the engine warns of any other.

        `base` is the image below it.
        """
        values = {"IMAGE": self.base, "WORKSPACE": self.workspace.folder}
        if self.dockerfile.below and base is not None:
            values["FOLDER"] = self.workdir or _folder(base.working_dir) or FOLDER
        return {name: values[name] for name in self.dockerfile.arguments & values.keys()}


def workspace_app(app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace) -> AppDef:
    """The app with the images that contain the workspace. Asks no engine."""
    todo = _work(app, cfg, workspace)
    return replace(app, roles=[replace(role, image=todo[role.image].name) for role in app.roles])


def build_workspace(
    engine: Engine,
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    workspace: BoundWorkspace,
    report: Report | None = None,
    fresh: set[str] | None = None,
) -> AppDef:
    """Build the images of `workspace_app`, and push them where `image_repo` is given. Returns that app.

    Args:
        fresh: base images that need not be pulled again; see `images.ensure_image`.

    Raises BuildFailed, with nothing of a failed build left behind.
    """
    policy, repo = str(cfg.get("image_pull") or "missing"), cfg.get("image_repo")
    report = None if cfg.get("quiet") else report
    say = report or no_report
    todo = list({work.name: work for work in _work(app, cfg, workspace).values()}.values())
    bases = list(dict.fromkeys(base for work in todo for base in work.bases))
    found = run_parallel(lambda base: images.ensure_image(engine, base, policy, report, fresh), bases)
    there = dict(zip(bases, found, strict=True))

    def have(work: _Work) -> None:
        on = [there[base] for base in work.bases]

        def make() -> None:
            _have(engine, work, on, report)
            if repo and not _is_pushed(engine.image(work.name), str(repo)):
                engine.push(work.name, report)

        found = engine.image(work.name)
        if not _is_current(found, _labels(work, on)) or (repo and not _is_pushed(found, str(repo))):
            # With the ids of the bases: after the pull of a base the build gives another image.
            name = " ".join([engine.engine_id(), work.name, *(image.id for image in on)])
            once(name, make, lambda: say("building", {"image": work.name, "line": _WAITS}))

    run_parallel(have, todo)
    return workspace_app(app, cfg, workspace)


def notes(app: AppDef, workspace: BoundWorkspace) -> list[str]:
    """Notes for a plan: images of roles that have no effect."""
    dockerfile = dockerfile_of(workspace.folder)
    if dockerfile.takes_image:
        return []
    return [
        f"role `{role.name}`: its image {role.image} is not used:"
        f" the workspace's {dockerfile.name} has no FROM $IMAGE"
        for role in app.roles
        if role.image
    ]


def _work(app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace) -> dict[str, _Work]:
    """Image of a role → the image to build on it."""
    dockerfile = dockerfile_of(workspace.folder)
    repo = cfg.get("image_repo") or images.WORKSPACE_REPOSITORY
    workdir = str(cfg.get("workdir") or "") if dockerfile.below else ""
    if workdir and not _folder(workdir):
        raise SchedulerError(
            "the files of the workspace would overwrite the image's own in `/`",
            hint=f"give `workdir` another folder; without it they go where the image runs, else to {FOLDER}",
        )
    for role in app.roles:
        if not role.image and dockerfile.takes_image:
            raise SchedulerError(
                f"role `{role.name}` has no image to build the workspace on",
                hint="give it an image, or the workspace a Dockerfile with a FROM of its own",
            )
    return {
        role.image: _Work(
            f"{repo}:{_tag(workspace, role.image, dockerfile, workdir)}",
            role.image,
            dockerfile,
            workspace,
            workdir,
        )
        for role in app.roles
    }


def _folder(path: str) -> str:
    """A path in an image, absolute; "" for its root."""
    clean = posixpath.normpath(posixpath.join("/", path))
    return "" if clean.strip("/") == "" else clean


def _tag(workspace: BoundWorkspace, image: str, dockerfile: Dockerfile, workdir: str) -> str:
    # With the text: an ignore file may exclude the Dockerfile from the digest, but not from the build.
    named = [workspace.digest, image if dockerfile.takes_image else "", dockerfile.name, workdir]
    parts = (b"3", dockerfile.content, *map(str.encode, named))
    return sha256(b"\0".join(sha256(part).digest() for part in parts)).hexdigest()[:20]


def _have(engine: Engine, work: _Work, on: list[Image], report: Report | None) -> None:
    """Build the image on the current images of its bases, unless it exists.

    Other hosts may build it at the same time: the first host to name its image wins. Each host removes the
    other images at its end, so that the last one leaves one image, whatever the order of their steps was.
    """
    labels = _labels(work, on)
    for attempt in range(1, _TRIES + 1):
        there = engine.image(work.name)
        if not _is_current(there, labels):
            try:
                made = _build(engine, work, labels, on, report)
            except BuildFailed as error:
                if attempt < _TRIES and _STEP_REMOVED.search(str(error)):
                    continue
                raise
            try:
                if not _is_current(engine.image(work.name), labels):
                    with suppress(NotFound):  # another host has removed it: that host's image has the name
                        engine.tag(made, work.name)
            except BaseException:
                _remove_unused(engine, made)
                raise
            if there is not None:
                _remove_unused(engine, there.id)  # the image that had the name before
            there = engine.image(work.name)
        if there is not None and _is_current(there, labels):
            _remove_duplicates(engine, there, {**labels, NAME: work.name})
            if engine.image(work.name) is not None:
                return
    raise SchedulerError(
        f"cannot build {work.name}: other clients of the engine remove it as soon as it is built",
        hint="see who else builds or prunes images at this engine, and try again",
    )


def _build(
    engine: Engine, work: _Work, labels: Mapping[str, str], on: list[Image], report: Report | None
) -> str:
    """Build the image. Returns its id; it has no name yet."""
    layers, dockerfile, workspace = _Layers(report), work.dockerfile, work.workspace
    extra = {dockerfile.name: dockerfile.content}
    try:
        return engine.build(
            # The default Dockerfile is beside the workspace, so that it is not copied.
            archive(workspace.folder, digest=workspace.digest, below=dockerfile.below, extra=extra),
            tag=work.name,
            dockerfile=dockerfile.name,
            buildargs=work.arguments(on[0] if on else None),
            labels={**labels, NAME: work.name},
            report=layers.read,
            nameless=True,
        )
    except BaseException:
        for layer in reversed(layers.made):
            _remove_unused(engine, layer)
        raise


def _remove_duplicates(engine: Engine, named: Image, labels: Mapping[str, str]) -> None:
    """Remove unnamed images with the content of the named one, which other builds have made."""
    for image in engine.images(f"{LABEL}={labels[LABEL]}"):
        if image.id != named.id and not image.tags and _is_current(image, labels):
            _remove_unused(engine, image.id)


def _labels(work: _Work, on: list[Image]) -> dict[str, str]:
    return {LABEL: work.workspace.digest, BASES: " ".join(image.id for image in on)}


def _is_current(image: Image | Labelled | None, labels: Mapping[str, str]) -> bool:
    """Whether an image was built from the same files, on the same base images."""
    return image is not None and all(image.labels.get(key) == value for key, value in labels.items())


class _Layers:
    """The images that the steps of a build have created, read from its output; without cached images."""

    def __init__(self, report: Report | None) -> None:
        self.made: list[str] = []
        self._report = report
        self._is_new = False

    def read(self, kind: str, facts: Mapping[str, Any]) -> None:
        line = str(facts.get("line", ""))
        if line.startswith("Step "):
            self._is_new = not _FROM.match(line.partition(" : ")[2])
        elif line == " ---> Using cache":
            self._is_new = False
        elif self._is_new and (layer := _LAYER.match(line)):
            self.made.append(layer[1])
        if self._report is not None:
            self._report(kind, facts)


def _remove_unused(engine: Engine, image: str) -> None:
    """Remove an image that has no name and no user."""
    found = engine.image(image)
    if found is None or found.repo_tags:
        return
    with suppress(Conflict):  # a container, or another image, still needs it
        engine.remove_image(image)


def _is_pushed(image: Image | None, repo: str) -> bool:
    """Whether the engine has pushed the image to the repository: it records the digest there."""
    return image is not None and any(digest.startswith(f"{repo}@") for digest in image.repo_digests)


# One build of an image at a time

_running: dict[str, Future[None]] = {}
_running_lock = Lock()


def once(name: str, work: Callable[[], None], waiting: Callable[[], None]) -> None:
    """Run `work`, or wait until another thread has run the work of this name, and raise its error.

    Args:
        waiting: called before this thread, or process, waits for another one.
    """
    with _running_lock:
        found = _running.get(name)
        ours = _running[name] = Future() if found is None else found
    if found is not None:
        waiting()
        found.result()
        return
    try:
        with exclusive(name, waiting):
            work()
    except BaseException as error:
        ours.set_exception(error)
        raise
    else:
        ours.set_result(None)
    finally:
        with _running_lock:
            del _running[name]


@contextmanager
def exclusive(name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of this name against the other processes of this user on this host.

    There is no lock where its file cannot be made: two builds of one image are slow, not wrong.
    """
    root = paths.runtime()
    path = os.path.join(root, "builds", sha256(name.encode()).hexdigest())
    try:
        paths.ensure_private(root, os.path.dirname(path), "XDG_RUNTIME_DIR")
        fd = _locked(path, waiting)
    except (OSError, StateError):
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(fd)


def _locked(path: str, waiting: Callable[[], None]) -> int:
    """The open file, locked. The holder removes the file, and the next process locks a new one."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not try_lock(fd):
            waiting()
            fcntl.flock(fd, fcntl.LOCK_EX)
        if is_at(fd, path):
            return fd
        os.close(fd)
