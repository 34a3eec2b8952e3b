"""The places of a job file: the fields of its mappings, in their order, and where else a field may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.model.types import PlaceKind, fields_of
from launcher.jobfile.text.document import Path

WHERE_RUN = "entrypoint, args, run, env, a role's metadata, and the src of a mount"

ROLE = PlaceKind(fields=fields_of([RoleSpec]))
JOB_FIELDS: Mapping[str, PlaceKind] = {**fields_of([JobFile]), "defaults": PlaceKind(fields={"role": ROLE})}
JOB = PlaceKind(fields=JOB_FIELDS)


def place_at(path: Path) -> PlaceKind | None:
    """Return the place that a path leads to; None below an unknown field."""
    place: PlaceKind | None = JOB
    for segment in path:
        if place is None:
            return None
        place = place.below(segment)
    return place


def fields_at(path: Path) -> Mapping[str, PlaceKind]:
    """Return the fields of the mapping at a path; empty when its keys are free."""
    place = place_at(path)
    return place.fields if place is not None and place.fields is not None else {}


def elsewhere(path: Path, key: str) -> Path | None:
    """Return the mapping that has the field `key`: the nearest one around `path`, inside it or beside it.

    Names of roles and variables in the answer are "*".
    """
    if (home := around(path, key)) is not None:
        return home
    beside = range(len(path) - 1, -1, -1) if path[:1] == ("roles",) and len(path) < 4 else ()
    for size in (len(path), *beside):
        place = place_at(path[:size])
        found = next(_inside(place, path[:size], key), None) if place is not None else None
        if found is not None:
            return found
    return None


def around(path: Path, key: str) -> Path | None:
    """Return the nearest mapping around `path` that has the field `key`."""
    found: Path | None = None
    place: PlaceKind | None = JOB
    for size, segment in enumerate(path):
        # `args` nearly always belong to a role; a job has them only beside a component.
        if place is not None and key in (place.fields or ()) and (size or key != "args"):
            found = path[:size]
        place = place.below(segment) if place is not None else None
    return found


def _inside(place: PlaceKind, path: Path, key: str, levels: int = 2) -> Iterator[Path]:
    if place.fields is None:
        parts: Mapping[str, PlaceKind] = {"*": place.each} if place.each is not None and levels else {}
    else:
        parts = place.fields
    for name, inner in parts.items():
        if inner.fields is not None and key in inner.fields:
            yield (*path, name)
    if levels:
        for name, inner in parts.items():
            yield from _inside(inner, (*path, name), key, levels - 1)
