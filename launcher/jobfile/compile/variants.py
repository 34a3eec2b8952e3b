"""The variants of a job file: itself and itself under each of its `targets`, with `defaults` filled in.

One mapping is laid over another, values and their places together: maps merge by key, all else replaces. The
places of the result are those of its parts, so that a problem is shown where its value was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from launcher.jobfile.compile.project import Home
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got, place_name, suggest
from launcher.jobfile.messages.wording_fields import bad_label
from launcher.jobfile.model.base import LABEL
from launcher.jobfile.model.fields import fields_at, place_at
from launcher.jobfile.text.document import Document, Path, Spot
from launcher.specs import DEFAULT_TARGET
from launcher.specs.jobkey import DEFAULT_SCHEDULER


class Placed(NamedTuple):
    """A value and where it stands."""

    value: Any
    spot: Spot

    def part(self, key: str) -> Placed:
        """The value of a key that is there."""
        return Placed(self.value[key], self.entry(key)[2])

    def entry(self, key: str) -> tuple[int, int, Spot]:
        """Where a key stands, and the spot of its value."""
        entries = self.spot.entries or {}
        return entries.get(key) or (self.spot.start, self.spot.end, Spot(self.spot.start, self.spot.end))


class _Removed:
    """Marks what a `null` has taken away, until `swept`: a default that is laid under it later stays away."""


_REMOVED = _Removed()


def laid_over(base: Placed, over: Placed, *, is_filling: bool = False) -> Placed:
    """`over` on top of `base`. Keys keep the order of `base`, new ones follow.

    A `null` removes; what was removed is marked, see `swept`. With `is_filling`, `base` only fills in what
    `over` leaves out: the result stands where `over` does, and a `null` that finds nothing to remove stays
    what it is.
    """
    if not isinstance(over.value, dict):
        return over
    if not isinstance(base.value, dict):
        base = Placed({}, over.spot)
    values = dict(base.value)
    home = over if is_filling else base
    spot = Spot(home.spot.start, home.spot.end)
    spot.entries = dict(base.spot.entries or {})
    for key in over.value:
        inner, entry = over.part(key), over.entry(key)
        if inner.value is None and (key in values or not is_filling):
            values[key] = _REMOVED
        elif isinstance(inner.value, dict):
            start, end, _ = base.entry(key) if isinstance(values.get(key), dict) and not is_filling else entry
            under = base.part(key) if key in base.value else Placed(None, inner.spot)
            merged = laid_over(under, inner, is_filling=is_filling)
            values[key], spot.entries[key] = merged.value, (start, end, merged.spot)
            continue
        else:
            values[key] = inner.value
        spot.entries[key] = entry
    return Placed(values, spot)


def swept(node: Placed) -> Placed:
    """Return the mapping without the keys that the overlay removed."""
    if not isinstance(node.value, dict):
        return node
    values = {}
    spot = Spot(node.spot.start, node.spot.end)
    spot.entries = {}
    for key, value in node.value.items():
        if value is _REMOVED:
            continue
        start, end, inner = node.entry(key)
        part = swept(Placed(value, inner))
        values[key] = part.value
        spot.entries[key] = (start, end, part.spot)
    return Placed(values, spot)


def replaced(node: Placed, key: str, value: Placed) -> Placed:
    """`node` with another value for a key that it has."""
    start, end, _ = node.entry(key)
    spot = Spot(node.spot.start, node.spot.end)
    spot.entries = {**(node.spot.entries or {}), key: (start, end, value.spot)}
    return Placed({**node.value, key: value.value}, spot)


def without(node: Placed, *keys: str) -> Placed:
    """`node` without some of its keys."""
    return Placed({key: value for key, value in node.value.items() if key not in keys}, node.spot)


def without_options(job: Placed) -> Placed:
    """`job` without the options of its scheduler: `cfg` of the job, of `defaults.role` and of each role."""
    job = without(job, "cfg")
    for key in ("roles", "defaults"):
        if isinstance(job.value.get(key), dict):
            parts = job.part(key)
            for name, part in parts.value.items():
                if isinstance(part, dict) and "cfg" in part and (key == "roles" or name == "role"):
                    parts = replaced(parts, name, without(parts.part(name), "cfg"))
            job = replaced(job, key, parts)
    return job


_FIXED = ("version", "name", "targets")
"""What makes the job the one it is: no target can say it anew."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A job file as one target has it: no `targets`, no `defaults` in it any more.

    Attributes:
        defaulted: the variables that the target gives a default of its own.
        inside: offsets of the target's overlay in the text; of nothing for the file itself.
        common: its `defaults` alone, where they have a role; else None.
    """

    target: str
    document: Document
    defaulted: frozenset[str] = frozenset()
    inside: tuple[int, int] = (0, 0)
    common: Document | None = None


@dataclass(slots=True)
class Variants:
    """Makes the variants of one file. What is wrong with its targets and defaults goes to `problems`.

    Attributes:
        targets: the overlays that are mappings, by name.
    """

    document: Document
    problems: Collector
    targets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        value = self.document.value or {}
        if "targets" in value:
            self.targets = dict(self._overlays(value["targets"]))
        if "defaults" in value:
            self._check_defaults(value["defaults"], ("defaults",))

    @property
    def declared(self) -> list[str]:
        """The targets that the file has, those that are wrong too."""
        found = (self.document.value or {}).get("targets")
        return [*found] if isinstance(found, dict) else []

    def of(self, target: str) -> Variant:
        """The file under a target; the file itself where it has no such target."""
        value = self.document.value or {}
        if "targets" not in value and "defaults" not in value:
            return Variant(target, self.document)
        root = Placed(value, self.document.root())
        base = without(root, "targets")
        if target not in self.targets:
            return Variant(target, self._document(base), common=self._common(base))
        over = without(root.part("targets").part(target), *_FIXED)
        own = _defaults_of_vars(over.value.get("vars"), value.get("vars"))
        if "vars" in over.value:
            over = Placed({**over.value, "vars": own}, over.spot)
        before = base.value.get("scheduler", DEFAULT_SCHEDULER)
        if "scheduler" in over.value and before != (over.value["scheduler"] or DEFAULT_SCHEDULER):
            base = without_options(base)
        merged = laid_over(base, over)
        defaulted = frozenset(name for name, part in own.items() if part["default"] is not None)
        inside = self.document.extent(("targets", target))
        return Variant(target, self._document(merged), defaulted, inside, self._common(merged))

    def _document(self, merged: Placed) -> Document:
        return self._holding(swept(_with_defaults(merged)))

    def _common(self, merged: Placed) -> Document | None:
        node = swept(Placed({"defaults": merged.value.get("defaults")}, merged.spot))
        common = node.value.get("defaults")
        has_role = isinstance(common, dict) and isinstance(common.get("role"), dict)
        return self._holding(node) if has_role else None

    def _holding(self, node: Placed) -> Document:
        return replace(self.document, value=node.value, root=lambda: node.spot)

    def _overlays(self, targets: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        if not isinstance(targets, dict):
            example = self.problems.entry("dev", {"scheduler": DEFAULT_SCHEDULER})
            self._wrong(("targets",), targets, f"overlays by name: `{example}`")
            return
        for name, overlay in targets.items():
            path: Path = ("targets", name)
            if name == DEFAULT_TARGET:
                message = f"`{DEFAULT_TARGET}` is the job without an overlay, and cannot name one"
                self.problems.add(path, "invalid-name", message, at="key", label="give it another name")
            elif not re.fullmatch(LABEL[1:-1], name):
                bad_label(path, name, "target", self.problems, at_key=True)
            elif not isinstance(overlay, dict):
                example = self.problems.written({"scheduler": DEFAULT_SCHEDULER})
                self._wrong(path, overlay, f"what differs in it, such as {example}")
            else:
                self._check_overlay(path, overlay)
                yield name, overlay

    def _check_overlay(self, path: Path, overlay: Mapping[str, Any]) -> None:
        for key in _FIXED:
            if key in overlay:
                message = f"`{key}` is the same in every target"
                self.problems.add((*path, key), "unknown-field", message, at="key", label="delete it here")
        value = self.document.value or {}
        self._check_removals(path, overlay, value, ())
        if overlay.get("defaults") is not None:
            self._check_defaults(overlay["defaults"], (*path, "defaults"))
        if overlay.get("vars") is not None:
            self._check_vars((*path, "vars"), overlay["vars"], value.get("vars"))

    def _check_removals(self, at: Path, overlay: Mapping[str, Any], base: Any, path: Path) -> None:
        """Note each `null` that takes nothing away, under no field there is: it is misspelt."""
        known = base if isinstance(base, dict) else {}
        fields = fields_at(path)
        for key, inner in overlay.items():
            here = (*at, key)
            if key.startswith("x-") or (*path, key) == ("vars",):
                continue  # variables are checked by themselves
            if isinstance(inner, dict):
                self._check_removals(here, inner, known.get(key), (*path, key))
            elif inner is None and key not in known and fields and key not in fields:
                message = f"`{key}` is not a field of {place_name(path)}"
                self.problems.unknown(here, "unknown-field", message, key, fields, "fields here")
            elif inner is None and key not in known and self._is_free(path):
                message = f"there is no `{key}` here to remove"
                label = suggest(key, known) or ("write {} to add it" if path == ("needs",) else "")
                self.problems.add(here, "unknown-field", message, at="key", label=label)

    def _is_free(self, path: Path) -> bool:
        """Whether the names in the mapping at `path` are the file's own, and defaults add none."""
        place = place_at(path)
        is_role_part = len(path) > 1 and path[0] == "roles" and "defaults" in (self.document.value or {})
        return place is not None and place.fields is None and not place.nulls and not is_role_part

    def _check_vars(self, path: Path, given: Any, declared: Any) -> None:
        if not isinstance(given, dict):
            self._wrong(path, given, f"such as {self.problems.written({'epochs': {'default': 1}})}")
            return
        known = declared if isinstance(declared, dict) else {}
        for name, part in given.items():
            at: Path = (*path, name)
            if name not in known:
                message = f"no variable `{name}` is declared, and target `{path[1]}` gives it a default"
                self.problems.unknown(at, "unknown-variable", message, name, known, "declared")
            elif not isinstance(part, dict):
                self._wrong(at, part, f"such as {self.problems.written({'default': 1})}")
            else:
                for key in part:
                    if key != "default" and not key.startswith("x-"):
                        message = (
                            f"target `{path[1]}` can give variable `{name}` another default, and nothing else"
                        )
                        label = suggest(key, ["default"]) or "write it in `vars` of the job"
                        self.problems.add((*at, key), "unknown-field", message, at="key", label=label)

    def _check_defaults(self, defaults: Any, path: Path) -> None:
        if not isinstance(defaults, dict):
            example = self.problems.written({"role": {"image": "python:3.12-slim"}})
            self._wrong(path, defaults, f"such as {example}")
            return
        for key, part in defaults.items():
            if key == "role":
                if not isinstance(part, dict) and (part is not None or len(path) == 1):
                    self._wrong((*path, key), part, "the fields that roles have in common")
            elif not key.startswith("x-"):
                message = f"`{key}` is not a field of `defaults`"
                label = suggest(key, ["role"]) or "fields of roles stand below `role`"
                self.problems.add((*path, key), "unknown-field", message, at="key", label=label)

    def _wrong(self, path: Path, value: Any, label: str) -> None:
        message = f"`{path[-1]}` must be a mapping, not {got(value)}"
        self.problems.add(path, "wrong-type", message, at="key", label=label)


def _defaults_of_vars(given: Any, declared: Any) -> dict[str, Any]:
    """The part of an overlay's `vars` that is right: defaults of declared variables."""
    if not isinstance(given, dict) or not isinstance(declared, dict):
        return {}
    return {
        name: {"default": part["default"]}
        for name, part in given.items()
        if isinstance(declared.get(name), dict) and isinstance(part, dict) and "default" in part
    }


def chosen_target(asked: str | None, targets: Sequence[str], home: Home, problems: Collector) -> str:
    """The target to compile for. One that there is not is noted."""
    path: Path = ("targets",)
    if asked is not None:
        if asked != DEFAULT_TARGET and asked not in targets:
            message = f"the file declares no target `{asked}`"
            otherwise = "it declares no target at all: leave --target out"
            problems.unknown(path, "unknown-target", message, asked, targets, "targets", otherwise=otherwise)
        return asked
    usual = home.config.target
    if usual is None or usual == DEFAULT_TARGET or not targets:
        return DEFAULT_TARGET
    if usual not in targets:
        message = f"the file declares no target `{usual}`, which is the project's"
        config = home.config.document
        related = (Collector(config).place(("target",), "named here", at="value"),) if config else ()
        label, hint = suggest(usual, targets), f"declare it, or pass --target {DEFAULT_TARGET}"
        problems.add(path, "unknown-target", message, at="key", label=label, hint=hint, related=related)
    return usual


def _with_defaults(job: Placed) -> Placed:
    """`defaults.role` laid under every role."""
    if "defaults" not in job.value:
        return job
    common = job.part("defaults")
    job = without(job, "defaults")
    has_role = isinstance(common.value, dict) and isinstance(common.value.get("role"), dict)
    if not has_role or not isinstance(job.value.get("roles"), dict):
        return job
    roles = job.part("roles")
    for name, role in roles.value.items():
        if isinstance(role, dict):
            under = laid_over(common.part("role"), roles.part(name), is_filling=True)
            roles = replaced(roles, name, under)
    return replaced(job, "roles", roles)
