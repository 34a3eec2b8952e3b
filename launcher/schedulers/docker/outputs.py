"""The output folders of jobs on Docker: volumes, one for each edition of a job.

They do not have the label of apps: cleaning up after an app leaves them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import Conflict
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import PREFIX, SCHEDULER
from launcher.schedulers.docker.names import OUTPUT, output_of, output_volume
from launcher.schedulers.docker.request.job import DockerContainer, DockerJob
from launcher.specs.attempt import Attempt
from launcher.specs.outputs import output_macro, own_output, read_outputs

LABEL = f"{PREFIX}output"
"""Marks the volume of an output folder; its value is the volume's name."""
_NEEDS = "/launcher/needs/"
_OF_JOB = tuple(f"{PREFIX}{name}" for name in ("project", "target", "job"))


def volumes(attempt: Attempt) -> Mapping[str, str]:
    """Macro → volume of the attempt's own output folder, and of those of the needs on this scheduler."""
    here = {need.job for need in attempt.needs if need.scheduler == SCHEDULER}
    read = {job: name for job, name in read_outputs(attempt).items() if job in here}
    return {output_macro(job): output_volume(name) for job, name in {"": own_output(attempt), **read}.items()}


def has_own(job: DockerJob) -> bool:
    """Whether the job has an output folder of its own."""
    return any(target == OUTPUT for target, _ in _mounts(job))


def ensure(engine: Engine, job: DockerJob, common: Mapping[str, str]) -> str:
    """Make the job's own output volume, unless an attempt of its edition has; returns its name if made here.

    Args:
        common: the labels of the app, of which the volume gets those that name the job.

    Raises SchedulerError when the volume of a need is gone.
    """
    made = ""
    for target, source in dict.fromkeys(_mounts(job)):
        if engine.volume(source) is not None:
            continue
        if target == OUTPUT:
            of_job = {name: common[name] for name in _OF_JOB if name in common}
            engine.create_volume(source, {**of_job, LABEL: source})
            made = source
            continue
        need = target.rpartition("/")[2]
        raise SchedulerError(
            f"the output folder of `{need}` is gone: the engine has no volume {source}",
            hint=f"run `{need}` again: launcher apply --rerun {need}",
        )
    return made


def without_needs(container: DockerContainer) -> DockerContainer:
    """The container without the output folders of needs, which may not exist before it starts."""
    mounts = container.kwargs.get("mounts") or []
    own = [each for each in mounts if not str(each.get("target", "")).startswith(_NEEDS)]
    return replace(container, kwargs={**container.kwargs, "mounts": own})


def names(engine: EngineView) -> list[str]:
    """The output folders at the engine."""
    return sorted(output_of(each.name) for each in engine.volumes(LABEL))


def remove(engine: Engine, name: str) -> None:
    """Raises SchedulerError while a container uses it."""
    try:
        engine.remove_volume(output_volume(name))
    except Conflict as error:
        raise SchedulerError(f"the output folder {name} is in use: {error.cause}") from error


def _mounts(job: DockerJob) -> Iterable[tuple[str, str]]:
    """Target and source of every mount of an output folder."""
    for container in job.containers:
        for mount in container.kwargs.get("mounts") or ():
            target = str(mount.get("target", ""))
            if target == OUTPUT or target.startswith(_NEEDS):
                yield target, str(mount["source"])
