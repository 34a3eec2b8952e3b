"""Named resources: `gpu.small`, `aws_p3.2xlarge`, and what plug-ins add."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

from launcher.errors import LauncherError
from launcher.looks import not_repeatable
from launcher.specs.app import NULL_RESOURCE, GiB, Resource
from launcher.text import name_hint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "launcher.named_resources"

GPU_TYPE = "gpu_type"
"""The capability that names the kind of a replica's GPUs as its scheduler knows it: "a100"."""
GPU_TYPE_FORM = r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"


def gpu_type(resource: Resource) -> str:
    """Return the kind of the GPUs that a replica asks for; "" for any kind, and for no GPUs."""
    return str(resource.capabilities.get(GPU_TYPE) or "") if resource.gpu > 0 else ""


class UnknownResourceException(LauncherError, KeyError):
    """There is no resource of that name, or its plug-in cannot be loaded."""


@cache
def _factories() -> Mapping[str, Callable[[], Resource]]:
    """Every name and the function that makes its resource; plug-ins win over built-in ones."""
    from launcher.specs import named_resources_aws as aws, named_resources_generic as generic

    none = dict.fromkeys(("NULL", "MISSING"), lambda: NULL_RESOURCE)
    ours = {**generic.NAMED_RESOURCES, **aws.NAMED_RESOURCES, **none}
    from importlib.metadata import entry_points

    def make(entry_point: EntryPoint) -> Resource:
        not_repeatable()
        try:
            made = entry_point.load()()
            if not isinstance(made, Resource):
                raise TypeError(f"want a Resource, got {made!r:.200}")
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}"
            raise UnknownResourceException(
                f"the resource `{entry_point.name}` cannot be loaded from {entry_point.value}: {why}"
            ) from error
        return made

    plugins = {point.name: partial(make, point) for point in entry_points(group=ENTRY_POINTS)}
    return {**ours, **plugins}


class _NamedResources:
    """`named_resources["gpu.small"]`: a new Resource at each access. `in`, `len` and iteration work."""

    def __getitem__(self, name: str) -> Resource:
        """Raises UnknownResourceException, a KeyError, with the nearest name."""
        try:
            make = _factories()[name]
        except KeyError:
            # The suggestion is in the message, because callers that catch a KeyError print only its text.
            known = name_hint(str(name), _factories()) or ""
            message = f"there is no named resource `{name}`"
            raise UnknownResourceException(f"{message}. {known[:1].upper()}{known[1:]}") from None
        return make()

    def __contains__(self, name: object) -> bool:
        return name in _factories()

    def __iter__(self) -> Iterator[str]:
        return iter(_factories())

    def __len__(self) -> int:
        return len(_factories())


named_resources = _NamedResources()


def get_named_resources(res: str) -> Resource:
    """The resource of that name. Raises UnknownResourceException, which is a KeyError."""
    return named_resources[res]


def resource(
    cpu: float | None = None, gpu: int | None = None, memMB: int | None = None, h: str | None = None
) -> Resource:
    """Return the named resource `h`, else a resource of the amounts, by default 2 cores, 0 GPUs, 1024 MiB."""
    if h:
        return get_named_resources(h)
    return Resource(
        cpu=2 if cpu is None else cpu, gpu=0 if gpu is None else gpu, memMB=GiB if memMB is None else memMB
    )
