"""The places of a job file, derived from the models: the fields of mappings, their order and contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from launcher.dataclass import dataclass, replace
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.model.types import Mode, Model, Traits, traits_of
from launcher.jobfile.text.document import Path

WHERE_RUN = "entrypoint, args, run, env, a role's metadata, and the src of a mount"


@dataclass(frozen=True, slots=True)
class PlaceKind:
    """One kind of place. The attributes that are not described here are those of Traits.

    Attributes:
        fields: of a mapping with fixed keys; keys that begin with `x-` are free there.
        each: of a list, or of a mapping by name: the place of every part.
    """

    mode: Mode = "plain"
    fields: Mapping[str, PlaceKind] | None = None
    each: PlaceKind | None = None
    as_written: bool = False
    nulls: bool = False
    job_names: bool = False

    def below(self, key: str | int) -> PlaceKind | None:
        if self.fields is not None:
            return self.fields.get(str(key))
        return self.each


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The types that a value may have, without `Annotated` and None."""
    if get_origin(annotation) is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    elif annotation is not NoneType:
        yield annotation


def _place(annotation: Any, traits: Traits) -> PlaceKind:
    """The place of a value of a type whose texts have these traits."""
    text = PlaceKind(
        traits.mode, as_written=traits.as_written, nulls=traits.nulls, job_names=traits.job_names
    )
    kinds = [*_alternatives(annotation)]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Model)]
    if models:
        return replace(text, fields=_fields(models))
    each = next(
        (_place(get_args(kind)[-1], traits) for kind in kinds if get_origin(kind) in (list, dict)), None
    )
    if each is not None and each.fields is not None:
        # The other traits belong to the inner type.
        text = PlaceKind("never" if traits.mode == "never" else "plain", job_names=traits.job_names)
    return replace(text, each=each)


def _fields(models: Sequence[type[Model]]) -> dict[str, PlaceKind]:
    """The fields of a mapping that any of these models may read, in their order."""
    found = {name: info for model in models for name, info in model.model_fields.items()}
    names = [*found]
    for name, info in found.items():
        if traits_of(info).after in found:
            names.remove(name)
            names.insert(names.index(traits_of(info).after) + 1, name)
    return {name: _place(found[name].annotation, traits_of(found[name])) for name in names}


ROLE = PlaceKind(fields=_fields([RoleSpec]))
JOB_FIELDS: Mapping[str, PlaceKind] = {**_fields([JobFile]), "defaults": PlaceKind(fields={"role": ROLE})}
JOB = PlaceKind(fields=JOB_FIELDS)


def place_at(path: Path) -> PlaceKind | None:
    """Return the place of a path; None below an unknown field."""
    place: PlaceKind | None = JOB
    for segment in path:
        if place is None:
            return None
        place = place.below(segment)
    return place


def fields_at(path: Path) -> Mapping[str, PlaceKind]:
    """The fields of the mapping at a path; empty where keys are free."""
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
    """The nearest mapping around `path` that has the field `key`."""
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
