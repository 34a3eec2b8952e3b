"""Put the GPUs that an app was dealt into its request. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.schedulers.docker.request.job import DockerContainer, DockerJob
from launcher.turns.deal import GPUS, shares


def with_gpus(job: DockerJob, dealt: Sequence[str]) -> DockerJob:
    """The request with the ids of each replica's GPUs in place of `$<gpus>`.

    A replica for which too few were dealt, as without a turn, leaves the choice to the engine.
    """
    wanted = [sum(_count(each) for each in _asked(container)) for container in job.containers]
    found = [[device for device in text.split(",") if device] for text in shares(dealt, wanted)]
    return replace(job, containers=[_filled(*pair) for pair in zip(job.containers, found, strict=True)])


def _filled(container: DockerContainer, devices: Sequence[str]) -> DockerContainer:
    requests, begin = [], 0
    for each in container.kwargs.get("device_requests") or ():
        if _is_symbolic(each):
            end = begin + _count(each)
            requests.append(_request(each, devices[begin:end]))
            begin = end
        else:
            requests.append(each)
    return replace(container, kwargs={**container.kwargs, "device_requests": requests})


def _request(symbolic: Mapping[str, Any], devices: Sequence[str]) -> dict[str, Any]:
    """The engine takes a count or ids, not both."""
    left_out = "count" if len(devices) == _count(symbolic) else "device_ids"
    filled = {**symbolic, "device_ids": list(devices)}
    return {name: value for name, value in filled.items() if name != left_out}


def _asked(container: DockerContainer) -> list[Mapping[str, Any]]:
    return [each for each in container.kwargs.get("device_requests") or () if _is_symbolic(each)]


def _is_symbolic(request: Mapping[str, Any]) -> bool:
    return request.get("device_ids") == [GPUS] and isinstance(request.get("count"), int)


def _count(request: Mapping[str, Any]) -> int:
    return max(int(request["count"]), 0)
