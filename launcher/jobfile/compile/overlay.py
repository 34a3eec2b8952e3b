"""Lay a mapping over another, values together with their places: mappings merge by key, other values replace.

Each part of the result keeps its place, so that a problem is shown where its value was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from launcher.dataclass import dataclass, replace
from launcher.jobfile.model.fields import JOB_FIELDS
from launcher.jobfile.model.types import PlaceKind
from launcher.jobfile.text.document import Document, Range, Spot
from launcher.specs.jobkey import DEFAULT_SCHEDULER


class Placed(NamedTuple):
    """A value and its place."""

    value: Any
    spot: Spot

    def part(self, key: str) -> Placed:
        """Return the value of an existing key."""
        return Placed(self.value[key], self.entry(key)[2])

    def entry(self, key: str) -> tuple[int, int, Spot]:
        """Return start and end of a key, and the spot of its value."""
        at = self.spot
        return (at.entries or {}).get(key) or (at.start, at.end, Spot(at.start, at.end, at.source))


@dataclass(slots=True, eq=False)
class Removed:
    """Marks a key that `null` or `remove` has removed, so that no default brings it back.

    Attributes:
        at: the place of the item of `remove`; None for a `null`.
        is_found: whether the key existed.
    """

    at: Range | None = None
    is_found: bool = True


OVERLAY = PlaceKind(fields=dict(JOB_FIELDS))
"""The place of an overlay. Unless it names a scheduler, it has that of the job below it."""
WHOLE = PlaceKind(fields={**JOB_FIELDS, "targets": PlaceKind(each=OVERLAY)})
"""The place of a job file."""

_EXCLUDED: Mapping[str, tuple[str, ...]] = {
    "run": ("entrypoint", "args"),
    "entrypoint": ("run", "shell"),
    "args": ("run", "shell"),
    "memory": ("memMB",),
    "memMB": ("memory",),
    "component": ("roles", "defaults"),
    "roles": ("component", "args"),
}
"""Field → the fields that it displaces in the same mapping of a lower layer."""


def laid_over(
    base: Placed, over: Placed, place: PlaceKind | None = None, *, is_filling: bool = False
) -> Placed:
    """Return `over` laid over `base`. Keys keep the order of `base`, new keys follow.

    A `null` removes a key, which is then marked; see `swept`. A field displaces the fields in `_EXCLUDED`.

    Args:
        place: the place of both in a job file; None where all keys are free.
        is_filling: `base` only fills in what `over` leaves out: the result has the places of `over`, and a
            `null` that finds nothing to remove stays what it is.
    """
    if not isinstance(over.value, dict):
        return over
    if not isinstance(base.value, dict):
        base = Placed({}, over.spot)
    base = without(base, *_displaced(base.value, over.value, place))
    if _changes_scheduler(base.value, over.value, place):
        base = without_options(base)
    values = dict(base.value)
    entries = dict(base.spot.entries or {})
    for key, value in over.value.items():
        entry = over.entry(key)
        below = values.get(key)
        is_null = value is None and not (is_filling and below is None)
        if is_null or isinstance(value, Removed):
            mark = value if isinstance(value, Removed) else Removed()
            mark.is_found = mark.is_found or not (below is None or isinstance(below, Removed))
            values[key] = mark
        elif isinstance(value, dict) and (key in values or not is_filling):
            start, end, _ = base.entry(key) if isinstance(below, dict) and not is_filling else entry
            under = base.part(key) if key in base.value else Placed(None, entry[2])
            inner = place.below(key) if place is not None else None
            merged = laid_over(under, Placed(value, entry[2]), inner, is_filling=is_filling)
            values[key], entries[key] = merged.value, (start, end, merged.spot)
            continue
        else:
            values[key] = value
        entries[key] = entry
    return Placed(values, (over if is_filling else base).spot.with_entries(entries))


def _displaced(base: Mapping[str, Any], over: Mapping[str, Any], place: PlaceKind | None) -> Iterator[str]:
    """Yield the keys of `base` that conflict with keys of `over`."""
    if not base or place is None or place.fields is None:
        return
    for key in over.keys() & _EXCLUDED.keys() & place.fields.keys():
        yield from _EXCLUDED[key]
    if "component" in over and base.get("component", over["component"]) != over["component"]:
        yield "args"


def _changes_scheduler(base: Mapping[str, Any], over: Mapping[str, Any], place: PlaceKind | None) -> bool:
    """Whether the options in `base` are for another scheduler than `over` has."""
    if place is None or "scheduler" not in (place.fields or ()) or "scheduler" not in over:
        return False
    usual = DEFAULT_SCHEDULER if place is not OVERLAY else over["scheduler"]
    return bool(base.get("scheduler", usual) != (over["scheduler"] or DEFAULT_SCHEDULER))


def without_options(job: Placed) -> Placed:
    """Return `job` without its scheduler's options: `cfg` of the job, of `defaults.role` and of each role."""
    job = without(job, "cfg")
    for key in ("roles", "defaults"):
        if isinstance(job.value.get(key), dict):
            parts = job.part(key)
            names = parts.value if key == "roles" else parts.value.keys() & {"role"}
            found = {name: parts.part(name) for name in names if isinstance(parts.value[name], dict)}
            bare = {name: without(part, "cfg") for name, part in found.items()}
            job = replaced(job, {key: replaced(parts, bare)})
    return job


def swept(node: Placed) -> Placed:
    """Return the mapping without removed keys, and without keys whose mapping held only removed ones."""
    if not holds_removed(node.value):
        return node
    values, entries = {}, {}
    for key, value in node.value.items():
        if isinstance(value, Removed) or is_vain(value):
            continue
        start, end, inner = node.entry(key)
        part = swept(Placed(value, inner))
        values[key] = part.value
        entries[key] = (start, end, part.spot)
    return Placed(values, node.spot.with_entries(entries))


def holds_removed(value: Any) -> bool:
    """Whether a value is a mark of a removed key, or has one at any depth of its mappings."""
    if isinstance(value, dict):
        return any(map(holds_removed, value.values()))
    return isinstance(value, Removed)


def is_vain(value: Any) -> bool:
    """Whether a mapping has only items of `remove` that found nothing to remove."""
    if isinstance(value, dict):
        return bool(value) and all(map(is_vain, value.values()))
    return isinstance(value, Removed) and not value.is_found


def replaced(node: Placed, parts: Mapping[str, Placed]) -> Placed:
    """Return `node` with other values for existing keys."""
    entries = {key: (*node.entry(key)[:2], part.spot) for key, part in parts.items()}
    values = {key: part.value for key, part in parts.items()}
    return Placed({**node.value, **values}, node.spot.with_entries({**(node.spot.entries or {}), **entries}))


def without(node: Placed, *keys: str) -> Placed:
    """Return `node` without some of its keys."""
    if not node.value.keys() & {*keys}:
        return node
    return Placed({key: value for key, value in node.value.items() if key not in keys}, node.spot)


def with_defaults(job: Placed) -> Placed:
    """Return the job with `defaults.role` laid under every role."""
    if "defaults" not in job.value:
        return job
    common = job.part("defaults")
    job = without(job, "defaults")
    has_role = isinstance(common.value, dict) and isinstance(common.value.get("role"), dict)
    if not has_role or not isinstance(job.value.get("roles"), dict):
        return job
    roles = job.part("roles")
    place = JOB_FIELDS["roles"].each
    found = (name for name, role in roles.value.items() if isinstance(role, dict))
    role = common.part("role")
    filled = {name: laid_over(role, roles.part(name), place, is_filling=True) for name in found}
    return replaced(job, {"roles": replaced(roles, filled)})


def holding(document: Document, node: Placed) -> Document:
    """Return the document with another value and that value's places."""
    return replace(document, value=node.value, root=lambda: node.spot)
