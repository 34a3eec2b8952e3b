"""Create and start the containers of one app from its request, and remove them when a step fails.

The watcher is found or started first, so that it loads its modules while the engine works. When this process
dies, the watcher removes an app that was never started, and completes the start of one that was.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from launcher.dataclass import replace
from launcher.errors import ReservedError, SchedulerError, StartError
from launcher.holding.replica import made_by_others
from launcher.schedulers.docker import images, outputs
from launcher.schedulers.docker.apps import own_containers
from launcher.schedulers.docker.client.engine import Engine, tar_entry
from launcher.schedulers.docker.client.errors import (
    Conflict,
    EngineError,
    EngineRefused,
    NameTaken,
    explained,
)
from launcher.schedulers.docker.client.objects import Image
from launcher.schedulers.docker.client.streams import Report
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.job import DockerContainer, DockerJob
from launcher.schedulers.docker.labels import APP_ID, TURN, not_inherited
from launcher.schedulers.docker.names import NETWORK, NETWORK_LABELS, OUTPUT, SCRATCH, is_of_need
from launcher.schedulers.docker.request import with_gpus
from launcher.schedulers.docker.watching.probes import taken_port
from launcher.secrets import resolve
from launcher.specs.secret import Secret

_ROOT = ("", "0", "root")


def trial(job: DockerJob) -> DockerJob:
    """The request for only the first container of each role.

    It lacks the output folders of the job's needs, which may not exist before the job starts.
    """

    def without_needs(container: DockerContainer) -> DockerContainer:
        own = [each for each in container.kwargs.get("mounts") or [] if not is_of_need(each)]
        return replace(container, kwargs={**container.kwargs, "mounts": own})

    firsts = {each.role: each for each in reversed(job.containers)}
    alone = [without_needs(each) for each in job.containers if firsts[each.role] is each]
    return replace(job, containers=alone, needs={})


class ContainerSetup:
    """Creates the objects of one app, and records them for `undo`.

    Args:
        fresh: images that need not be pulled again; see `images.ensure_image`.
    """

    def __init__(self, engine: Engine, report: Report | None, fresh: set[str] | None = None) -> None:
        self.engine = engine
        self._report = report
        self._fresh = fresh
        self._made: dict[int, str] = {}  # position in the job → id
        self._volume = ""
        self._output = ""  # the output volume, if it was made here

    def create(
        self, job: DockerJob, common: Mapping[str, str], environ: Mapping[str, str], dealt: Sequence[str] = ()
    ) -> None:
        """Create all objects with the labels `common`, and check images and executables.

        Args:
            environ: the variables that `copy_env` selects from.
            dealt: the ids of the app's GPUs; without them the engine chooses.

        Raises StartError or SchedulerError naming role and replica, with nothing left behind.
        """
        if any(each.kwargs.get("device_requests") for each in job.containers):
            job = with_gpus(job, dealt)
        try:
            job = outputs.with_needs(self.engine, job)
            configs = [self._config(each, job, common, environ) for each in job.containers]
            there = self._images(job)
            for each, config in zip(job.containers, configs, strict=True):
                config["Labels"] = not_inherited(there[each.image].labels, config["Labels"])
            if any(each.kwargs.get("network") == NETWORK for each in job.containers):
                self.engine.ensure_network(NETWORK, NETWORK_LABELS)
            self._make_scratch(job.scratch, common)
            self._output = outputs.ensure(self.engine, job, common)
            later = made_by_others(job.role_rules)  # other roles may make their executables before they start
            firsts = {each.role: i for i, each in reversed(list(enumerate(job.containers)))}
            checked = {i for role, i in firsts.items() if role not in later}

            def make(i: int) -> None:
                self._create(job.app_id, i, job.containers[i], configs[i])
                if i in checked:  # while the others are created
                    self._check(i, job.containers[i], configs[i], there[job.containers[i].image])

            run_parallel(make, range(len(configs)))
            self._open_folders(job, there)
        except BaseException:
            self.undo()
            raise

    @property
    def ids(self) -> list[str]:
        """Ids of the containers, in the order of the job."""
        return [self._made[position] for position in sorted(self._made)]

    def undo(self) -> None:
        """Remove the created objects, running or not. A volume in use is left to the watcher's removal."""
        run_parallel(lambda made: self.engine.remove(made, force=True), self._made.values())
        self._made.clear()
        for volume in filter(None, (self._volume, self._output)):
            with suppress(Conflict):  # the engine still creates a container, though the request has failed
                self.engine.remove_volume(volume)
        self._volume = self._output = ""

    def _config(
        self,
        container: DockerContainer,
        job: DockerJob,
        common: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> dict[str, Any]:
        own = {"launcher.role": container.role, "launcher.replica": str(container.replica)}
        labels = {**container.kwargs.get("labels", {}), **common, **own}
        env = environment_of(container, job, environ)
        return replace(container, kwargs={**container.kwargs, "labels": labels, "environment": env}).body()

    def _images(self, job: DockerJob) -> dict[str, Image]:
        """Every image of the job; all are at the engine when this returns."""
        users = {each.image: each for each in reversed(job.containers)}

        def have(name: str) -> Image:
            try:
                return images.ensure_image(self.engine, name, job.image_pull, self._report, self._fresh)
            except EngineError as error:
                text = f"cannot create {where(users[name])}: image {name}: {error.cause}"
                raise explained(error, text) from error

        names = list(dict.fromkeys(each.image for each in job.containers))
        return dict(zip(names, run_parallel(have, names), strict=True))

    def _make_scratch(self, name: str, common: Mapping[str, str]) -> None:
        """Create the scratch volume. An earlier app of this id, removed by hand, may have left a volume."""
        try:
            for left in self.engine.volumes(f"{APP_ID}={common[APP_ID]}"):
                if TURN not in left.labels:
                    self.engine.remove_volume(left.name)
        except Conflict as error:
            text = f"cannot make the scratch volume {name}: {error.cause}"
            raise SchedulerError(text, hint="a container uses that of an earlier app: remove it") from error
        # A volume without labels was made by a killed engine, at the request of a client that has died, too.
        if not self.engine.create_volume(name, common, since=0):
            raise SchedulerError(
                f"cannot make the scratch volume {name}: one that is not launcher's has this name",
                hint=f"remove it: docker volume rm {name}",
            )
        self._volume = name

    def _create(
        self, app_id: str, position: int, container: DockerContainer, config: Mapping[str, Any]
    ) -> None:
        try:
            self._made[position] = self.engine.create(container.kwargs["name"], config)
        except NameTaken as error:
            doing = f"cannot create {where(container)}"
            raise name_taken(self.engine, app_id, container.kwargs["name"], doing) from error
        except EngineError as error:
            raise explained(error, f"cannot create {where(container)}: {error.cause}") from error

    def _open_folders(self, job: DockerJob, there: Mapping[str, Image]) -> None:
        """Let every user write to the scratch and output folders: a fresh volume belongs to root."""
        users = (each.kwargs.get("user") or there[each.image].user for each in job.containers)
        if all(str(user).partition(":")[0] in _ROOT for user in users):
            return
        # The engine writes to no container with `read_only`, but they all share the volume.
        writable = [i for i, each in enumerate(job.containers) if not each.kwargs.get("read_only")]
        if not writable:
            raise SchedulerError(
                f"cannot open {SCRATCH} to users other than root: every container is `read_only`",
                hint="leave one replica writable, or set `user` to root",
            )
        for folder in (SCRATCH, OUTPUT) if outputs.has_own(job) else (SCRATCH,):
            self.engine.put_archive(self._made[writable[0]], "/", tar_entry(folder, None, 0o1777))

    def _check(
        self, position: int, container: DockerContainer, config: Mapping[str, Any], image: Image
    ) -> None:
        """Check that the first container of a role has its executable."""
        what = images.missing_executable(self.engine, self._made[position], image, config)
        if what is not None:
            raise StartError(
                f"cannot start {where(container)}: there is no executable `{what}` in {container.image}"
                f"\n  command: {command(container)}"
            )


def start_all(
    engine: Engine, containers: Iterable[tuple[str, DockerContainer]], rules: Mapping[str, Mapping[str, Any]]
) -> None:
    """Start each (container id, request). Raises StartError naming role, replica and command.

    Args:
        rules: role → its `ready`, if any.
    """

    def one(item: tuple[str, DockerContainer]) -> None:
        made, container = item
        probe = None if container.replica else rules.get(container.role, {}).get("ready")
        if why := taken_port(engine, container.kwargs.get("network") or "", probe):
            raise StartError(f"cannot start {where(container)}: {why}")
        try:
            engine.start_on(NETWORK, NETWORK_LABELS, made)
        except EngineRefused as error:
            text = f"cannot start {where(container)}: {error.cause}\n  command: {command(container)}"
            raise StartError(text, hint=error.hint) from error

    run_parallel(one, containers)


def where(container: DockerContainer) -> str:
    return f"{container.role}/{container.replica}"


def command(container: DockerContainer) -> str:
    entrypoint = container.kwargs.get("entrypoint") or ()
    first = [entrypoint] if isinstance(entrypoint, str) else list(entrypoint)
    return shlex.join([*first, *container.command])


def environment_of(container: DockerContainer, job: DockerJob, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a container copies from `environ`, and its own, with the values of secrets."""
    wanted, own = job.copy_env or (), container.kwargs.get("environment", {}).items()
    copied = {
        name: value for name, value in environ.items() if any(fnmatchcase(name, each) for each in wanted)
    }
    return {**copied, **{name: resolve(value) if isinstance(value, Secret) else value for name, value in own}}


def is_foreign(engine: Engine, name: str) -> bool:
    """Whether a container that belongs to no app has this name."""
    holder = engine.inspect(name)
    return holder is not None and (APP_ID not in holder.labels or not own_containers(engine, [holder]))


def name_taken(engine: Engine, app_id: str, name: str, doing: str) -> SchedulerError:
    """The error for a container name in use; `doing` as in "cannot create main/0".

    A ReservedError where another launcher client has the name: callers wait for that client's attempt.
    """
    if is_foreign(engine, name):
        text = f"{doing}: a container that is not launcher's holds the name {name}"
        return SchedulerError(text, hint=f"remove or rename it: docker rm {name}")
    return ReservedError(app_id, "created")
