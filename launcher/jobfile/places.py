"""The places of a job file: which mappings have fixed fields, and what may stand in their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from launcher.jobfile.document import Path

Mode = Literal["run", "bound", "plain", "never"]
"""Which references a text takes: run macros and all others; all but run macros (`$<job.dir>` stays until the
job is bound to a checkout); only what is known while compiling; none."""

WHERE_RUN = "entrypoint, args, env, a role's metadata, and the src of a mount"


@dataclass(frozen=True, slots=True)
class Place:
    """One kind of place.

    Attributes:
        fields: of a mapping with fixed keys; keys that begin with `x-` are free there.
        each: of a list, or of a mapping by name: the place of every part.
        as_written: numbers and truth values are taken as the text in the file.
        nulls: `null` means something here.
    """

    mode: Mode = "plain"
    fields: Mapping[str, Place] | None = None
    each: Place | None = None
    as_written: bool = False
    nulls: bool = False

    def below(self, key: str | int) -> Place | None:
        if self.fields is not None:
            return self.fields.get(str(key))
        return self.each


_PLAIN = Place()
_BOUND = Place("bound")
_NEVER = Place("never")
_RUN_TEXT = Place("run", as_written=True)
_RUN_ANY = Place("run")
_OPTION = Place("bound", nulls=True)


def _fields(names: str, place: Place = _PLAIN) -> dict[str, Place]:
    return dict.fromkeys(names.split(), place)


def _open(place: Place) -> Place:
    """A mapping or list of any depth with one kind of value."""
    return Place(place.mode, None, place, place.as_written, place.nulls)


VAR = Place(fields=_fields("type help from_env default min max choices", _NEVER))
RESOURCE = Place(fields=_fields("cpu gpu memory memMB devices capabilities tags"))
MOUNT = Place("run", fields={**_fields("type read_only permissions"), "src": _RUN_ANY, "dst": _BOUND})
ROLE = Place(
    fields={
        **_fields("num_replicas min_replicas max_retries retry_policy port_map"),
        "image": _BOUND,
        "entrypoint": _RUN_TEXT,
        "args": _open(_RUN_TEXT),
        "env": Place(each=Place("run", {"secret": _BOUND}, as_written=True)),
        "resource": RESOURCE,
        "mounts": Place(each=MOUNT),
        "metadata": _open(_RUN_ANY),
    }
)
LIFECYCLE = Place(
    fields={
        **_fields("on_change on_failed on_cancelled on_lost max_attempts protect"),
        "rerun_on": Place(each=Place(fields={"files": _open(_PLAIN)})),
    }
)
JOB_FIELDS: Mapping[str, Place] = {
    **_fields("description project scheduler timeout enabled"),
    "workspace": Place(each=_PLAIN),
    **_fields("version name", _NEVER),
    "vars": Place("never", each=VAR),
    "cfg": _open(_OPTION),
    "component": _PLAIN,
    "args": _open(Place("run", nulls=True)),
    "roles": Place(each=ROLE),
    "metadata": _open(Place("bound", as_written=True)),
    "lifecycle": LIFECYCLE,
    "matrix": _open(_PLAIN),
    "defaults": Place(fields={"role": ROLE}),
    "targets": Place(),
}
JOB = Place(fields=JOB_FIELDS)


def place_at(path: Path) -> Place | None:
    """The place of a path; None below a field that there is not."""
    place: Place | None = JOB
    for segment in path:
        if place is None:
            return None
        place = place.below(segment)
    return place


def fields_at(path: Path) -> Mapping[str, Place]:
    """The fields of the mapping at a path; empty where keys are free."""
    place = place_at(path)
    return place.fields if place is not None and place.fields is not None else {}


def elsewhere(path: Path, key: str) -> Path | None:
    """The mapping that does have the field `key`: the nearest one around `path`, else one inside it.

    Names of roles and variables in the answer are "*".
    """
    for size in range(len(path) - 1, -1, -1):
        # `args` are a role's nearly always; a job has them beside a component.
        if key in fields_at(path[:size]) and (size or key != "args"):
            return path[:size]
    place = place_at(path)
    return next(_inside(place, path, key), None) if place is not None else None


def _inside(place: Place, path: Path, key: str, levels: int = 2) -> Iterator[Path]:
    if place.fields is None:
        parts: Mapping[str, Place] = {"*": place.each} if place.each is not None and levels else {}
    else:
        parts = place.fields
    for name, inner in parts.items():
        if inner.fields is not None and key in inner.fields:
            yield (*path, name)
    if levels:
        for name, inner in parts.items():
            yield from _inside(inner, (*path, name), key, levels - 1)
