"""The output folders of jobs on Docker: volumes, one for each edition of a job.

The volumes do not have the label of apps, so that cleaning up after an app leaves them. The output folders of
local jobs are folders of this machine, and mounted as such.
"""

from __future__ import annotations

import math
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from io import BufferedReader

from launcher.dataclass import replace
from launcher.errors import SchedulerError
from launcher.schedulers.contents import (
    CONTENTS,
    MOST_BYTES,
    MOST_FILES,
    MOST_S,
    TOO_LARGE,
    TOO_MANY,
    TOO_SLOW,
    Entry,
    digest_of,
)
from launcher.schedulers.docker import record
from launcher.schedulers.docker.client.configuration import endpoint, shares_folders
from launcher.schedulers.docker.client.engine import Engine, writable
from launcher.schedulers.docker.client.errors import Conflict, EngineRefused, NotFound
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.images import any_of
from launcher.schedulers.docker.job import DockerContainer, DockerJob
from launcher.schedulers.docker.labels import PREFIX, SCHEDULER, Labels
from launcher.schedulers.docker.names import OUTPUT, is_of_need, output_of, output_of_need, output_volume
from launcher.schedulers.ids import random_id
from launcher.schedulers.owner import from_json, this_process
from launcher.schedulers.registry import get_scheduler
from launcher.schedulers.staged import OutputFolders, StagedScheduler
from launcher.specs.app import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.outputs import has_output, needs_variable, output_macro, own_output, read_outputs
from launcher.unpacking import PieceReader, UnpackError

LABEL = f"{PREFIX}output"
"""The label of the volume of an output folder; its value is the volume's name."""
LOCAL = ("local_cwd", "local_dir")
"""The schedulers whose output folders are folders of this machine."""
_BLOCK = 1 << 20
_OF_JOB = tuple(f"{PREFIX}{name}" for name in ("project", "target", "job"))


def sources(attempt: Attempt, needs: Mapping[str, str]) -> Mapping[str, str]:
    """Macro → mount source of the attempt's own output folder, and of the output folders of its needs.

    Args:
        needs: as from `sources_of_needs`.
    """
    there = {output_macro(job): source for job, source in needs.items() if source}
    return {output_macro(): output_volume(own_output(attempt)), **there}


def sources_of_needs(attempt: Attempt, host: str) -> dict[str, str]:
    """Job → the volume, or the folder of this machine, of each need; "" for a need that is out of reach.

    Args:
        host: the address of the engine.
    """

    def source(scheduler: str, name: str) -> str:
        if scheduler == SCHEDULER:
            return output_volume(name)
        keeper = get_scheduler(scheduler, "") if shares_folders(host) else None
        return keeper.output_folders.path(name) if isinstance(keeper, StagedScheduler) else ""

    names = read_outputs(attempt)
    return {need.job: source(need.scheduler, names[need.job]) for need in attempt.needs}


def has_own(job: DockerJob) -> bool:
    """Whether the job has an output folder of its own."""
    return any(target == OUTPUT for target, _ in _mounts(job))


def ensure(engine: Engine, job: DockerJob, common: Mapping[str, str]) -> str:
    """Make the job's output volume, unless an attempt of its edition has; returns its name if made here.

    Args:
        common: the labels of the app; the volume gets those that name the job.

    Raises SchedulerError when the output folder of a need is gone.
    """
    made = ""
    for target, source in dict.fromkeys(_mounts(job)):
        if target == OUTPUT:
            of_job = {name: common[name] for name in _OF_JOB if name in common}
            there = engine.volume(source)
            if there is None or not there.labels:
                engine.create_volume(source, {**of_job, LABEL: source}, since=Labels(common).asked_at)
            made = source if there is None else ""
            continue
        if os.path.isdir(source) if _is_path(source) else engine.volume(source) is not None:
            continue
        need = target.rpartition("/")[2]
        where = f"there is no folder {source}" if _is_path(source) else f"the engine has no volume {source}"
        raise SchedulerError(
            f"the output folder of `{need}` is gone: {where}",
            hint=f"run `{need}` again: launcher apply --rerun {need}",
        )
    return made


def _is_path(source: str) -> bool:
    return source.startswith("/")


def with_needs(engine: Engine, job: DockerJob) -> DockerJob:
    """The job with the list of its needs as a variable, and with the output folders of its needs."""
    if not job.needs:
        return job
    volumes = {each.name for each in engine.volumes(LABEL)}
    there = {
        need: source
        for need, source in job.needs.items()
        if (os.path.isdir(source) if _is_path(source) else source in volumes)
    }
    variable = needs_variable(job.needs, {need: output_of_need(need) for need in there})

    def filled(container: DockerContainer) -> DockerContainer:
        mounts = list(container.kwargs.get("mounts") or [])
        taken = {each.get("target") for each in mounts}
        for need, source in there.items():
            if (target := output_of_need(need)) not in taken:
                kind = "bind" if _is_path(source) else "volume"
                mounts.append({"type": kind, "source": source, "target": target, "read_only": True})
        environment = {**container.kwargs.get("environment", {}), **variable}
        return replace(container, kwargs={**container.kwargs, "mounts": mounts, "environment": environment})

    return replace(job, containers=[filled(each) for each in job.containers])


ARCHIVED = OUTPUT.rpartition("/")[2]
"""The folder in an archive that has the files."""
_COPIER = f"{PREFIX}copier"
"""The label of a container that an archive is read from; its value is the process that made it."""


def remove_copiers(engine: Engine) -> None:
    """Remove the containers of processes that were killed while they read an archive."""
    for each in engine.containers(_COPIER):
        owner = from_json(each.labels[_COPIER])
        if owner is None or not owner.is_alive(each.created_at):
            engine.remove(each.id)


class DockerOutputs(OutputFolders):
    """The output folders at an engine: volumes."""

    def __init__(self, view_of: Callable[[], EngineView]) -> None:
        """`view_of`: connects to the engine; called before the first request."""
        super().__init__(SCHEDULER)
        self._engine = view_of

    def names(self) -> list[str]:
        return sorted(output_of(each.name) for each in self._engine().volumes(LABEL))

    def address(self, attempt: Attempt, app: AppDef) -> str:
        return output_volume(own_output(attempt)) if has_output(app) else ""

    def lost(self, attempts: Iterable[Attempt]) -> set[str]:
        recorded = [each for each in attempts if each.output]
        try:
            there = {each.name for each in self._engine().volumes(LABEL)} if recorded else set()
        except SchedulerError:
            return set()
        return {each.app_id for each in recorded if each.output not in there}

    def elsewhere(self, attempt: Attempt) -> str:
        return record.other_engine(self._engine(), attempt.app_id)

    def archive(self, attempt: Attempt, only: str = "") -> tuple[Iterator[bytes], str]:
        """Archive the folder through a container of one of the attempt's images, else of any image."""
        images = [str(role["image"]) for role in attempt.document.get("roles", ()) if role.get("image")]
        pieces = _archive(writable(self._engine()), own_output(attempt), images, only)
        return pieces, "" if only else ARCHIVED

    def digest(self, attempt: Attempt) -> str:
        pieces, top = self.archive(attempt)
        return archive_digest(pieces, top, math.inf)

    def unreadable(self, other: str) -> str:
        if other not in LOCAL:
            return super().unreadable(other)
        try:
            host = endpoint().host
        except SchedulerError:  # no engine, as the first request to it says
            return ""
        return "" if shares_folders(host) else f"the engine at {host} has no folders of this machine"

    def remove(self, name: str) -> None:
        try:
            writable(self._engine()).remove_volume(output_volume(name))
        except Conflict as error:
            raise SchedulerError(f"the output folder {name} is in use: {error.cause}") from error


def _archive(engine: Engine, name: str, images: Iterable[str], only: str) -> Iterator[bytes]:
    """The files of an output folder, or one file, as a tar archive in pieces, below the folder `ARCHIVED`.

    A container that is never started mounts the volume: no image is pulled for it, and nothing runs.

    Args:
        images: image names for the container: it uses the first that the engine has, else any image.

    Raises SchedulerError when the engine has no image.
    """
    remove_copiers(engine)
    named = (found.id for found in map(engine.image, images) if found is not None)
    image = next(named, "") or any_of(engine)
    if not image:
        raise SchedulerError(
            "the engine has no image, and reading a volume takes a container of one",
            hint="pull any image: docker pull busybox",
        )
    volume = output_volume(name)
    mount = {"Type": "volume", "Source": volume, "Target": OUTPUT, "ReadOnly": True}
    body = {
        "Image": image,
        "Cmd": ["true"],
        "Labels": {_COPIER: this_process().to_json()},
        "HostConfig": {"Mounts": [{**mount, "VolumeOptions": {"NoCopy": True}}], "NetworkMode": "none"},
    }
    made = engine.create(f"{volume}-{random_id()}", body)
    try:
        yield from engine.archive(made, f"{OUTPUT}/{only}" if only else OUTPUT)
    finally:
        engine.remove(made)


def digest_at_end(engine: Engine, containers: Iterable[Container]) -> str:
    """The digest of the files that an app has left in its output folder; see `contents.output_digest`.

    Args:
        containers: replicas of the app, each of which mounts the folder; the first that exists is read.

    Raises EngineUnreachable.
    """
    for each in containers:
        try:
            return archive_digest(engine.archive(each.id, OUTPUT), ARCHIVED)
        except NotFound:
            continue
        except (EngineRefused, UnpackError) as error:
            return f"it could not be read at the end: {error}"
    return "its containers were gone at the end"


def archive_digest(pieces: Iterator[bytes], top: str, most_s: float = MOST_S) -> str:
    """The digest of the files of an archive, below its folder `top`; see `contents.output_digest`.

    An archive with more bytes than the bound has no digest: only reading all of it would tell the sizes.
    Raises UnpackError.
    """
    deadline = time.monotonic() + most_s
    found: dict[str, tuple[Entry, bytes]] = {}
    size = 0
    try:
        with (
            closing(pieces),  # type: ignore[type-var]  # a generator
            tarfile.open(fileobj=BufferedReader(PieceReader(pieces), _BLOCK), mode="r|") as archive,
        ):
            for member in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # else it remembers them all
                size += member.size
                if size > MOST_BYTES or len(found) >= MOST_FILES:
                    return TOO_LARGE if size > MOST_BYTES else TOO_MANY
                if time.monotonic() > deadline:
                    return TOO_SLOW
                if (path := member.name.removeprefix(f"{top}/")) != member.name:
                    if member.islnk():
                        entry, content = found[member.linkname.removeprefix(f"{top}/")]
                        found[path] = entry._replace(path=_bytes(path)), content
                    elif member.isreg() or member.issym():
                        found[path] = _entry(archive, member, path)
    except (tarfile.TarError, KeyError) as error:
        raise UnpackError(f"the archive is damaged: {error}") from error
    hashes = dict(found.values())
    return digest_of(CONTENTS, hashes, hashes.__getitem__)


def _entry(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> tuple[Entry, bytes]:
    """A file or link of an archive, and the SHA-256 of its content."""
    if member.issym():
        return Entry(_bytes(path), b"l", 0), sha256(_bytes(member.linkname)).digest()
    whole, source = sha256(), archive.extractfile(member)
    while source is not None and (chunk := source.read(_BLOCK)):
        whole.update(chunk)
    return Entry(_bytes(path), b"x" if member.mode & 0o100 else b"f", member.size), whole.digest()


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _mounts(job: DockerJob) -> Iterable[tuple[str, str]]:
    """Target and source of every mount of an output folder."""
    for container in job.containers:
        for mount in container.kwargs.get("mounts") or ():
            if mount.get("target") == OUTPUT or is_of_need(mount):
                yield str(mount["target"]), str(mount["source"])
