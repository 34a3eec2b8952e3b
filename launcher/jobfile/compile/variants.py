"""Make the variants of a job: one for each target, with `defaults` filled in; and the names of its matrix.

A job of a matrix is called NAME-<values of the axes>, or by a pattern of the file with values in it. The name
that means all of the jobs is `matrix.group` with a pattern, and `name` without one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.dataclass import dataclass, field, replace
from launcher.jobfile.compile.build import conflict_of_component
from launcher.jobfile.compile.matrix import GROUP, LONG_MARK, Combination, is_pattern, named, slug
from launcher.jobfile.compile.overlay import (
    Placed,
    Removed,
    holding,
    laid_over,
    swept,
    with_defaults,
    without,
)
from launcher.jobfile.compile.project import Home
from launcher.jobfile.messages.collector import Collector, got, nearest, place_name, suggest
from launcher.jobfile.messages.wording_fields import bad_label, label_like
from launcher.jobfile.model.fields import JOB, fields_at, place_at
from launcher.jobfile.model.types import LABEL
from launcher.jobfile.text.document import Document, Path, Range
from launcher.specs.jobkey import DEFAULT_SCHEDULER, DEFAULT_TARGET
from launcher.specs.macros import find_macros

_FIXED = ("version", "name", "targets", "extends", "abstract", "jobs")
"""The fields that identify the job, which no target can change."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A job file under one target, with its `targets` and `defaults` merged in.

    Attributes:
        defaulted: the variables whose default the target sets.
        inside: the texts of the target's overlay in all layers; none without a target.
        common: only its `defaults`, where they have a role; else None.
    """

    target: str
    document: Document
    defaulted: frozenset[str] = frozenset()
    inside: Sequence[Range] = ()
    common: Document | None = None


@dataclass(slots=True)
class Variants:
    """Makes the variants of one job. Faults of its targets and defaults go to `problems`.

    Attributes:
        marked: the job with marks at the keys that its layers removed; None for a job of one layer.
        targets: the overlays that are mappings, by name.
    """

    document: Document
    problems: Collector
    marked: Placed | None = None
    targets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        value = self.document.value or {}
        if "targets" in value:
            self.targets = dict(self._overlays(value["targets"]))
        if "defaults" in value:
            if "component" in value and "roles" not in value:
                conflict_of_component("defaults", "they are for `roles`", self.problems)
            self._check_defaults(value["defaults"], ("defaults",))

    @property
    def declared(self) -> list[str]:
        """The names of all targets of the file, including wrong ones."""
        found = (self.document.value or {}).get("targets")
        return [*found] if isinstance(found, dict) else []

    def of(self, target: str) -> Variant:
        """Return the file under a target; the file itself where it has no such target."""
        value = self.document.value or {}
        if "targets" not in value and "defaults" not in value:
            return Variant(target, self.document)
        root = self.marked or Placed(value, self.document.root())
        base = without(root, "targets")
        if target not in self.targets:
            return Variant(target, self._document(base), common=self._common(base))
        over = without(root.part("targets").part(target), *_FIXED)
        own = _defaults_of_vars(over.value.get("vars"), value.get("vars"))
        if "vars" in over.value:
            over = Placed({**over.value, "vars": own}, over.spot)
        merged = laid_over(base, over, JOB)
        defaulted = frozenset(name for name, part in own.items() if part["default"] is not None)
        inside = self.document.extents(("targets", target))
        return Variant(target, self._document(merged), defaulted, inside, self._common(merged))

    def _document(self, merged: Placed) -> Document:
        return holding(self.document, swept(with_defaults(merged)))

    def _common(self, merged: Placed) -> Document | None:
        node = swept(Placed({"defaults": merged.value.get("defaults")}, merged.spot))
        common = node.value.get("defaults")
        has_role = isinstance(common, dict) and isinstance(common.get("role"), dict)
        return holding(self.document, node) if has_role else None

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
                if isinstance(overlay, dict):
                    self._check_overlay(path, overlay)
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
        """Note each `null` that removes nothing and whose key is no field: the key is misspelt."""
        known = base if isinstance(base, dict) else {}
        fields = fields_at(path)
        for key, inner in overlay.items():
            here = (*at, key)
            if key.startswith("x-") or (*path, key) == ("vars",):
                continue  # variables are checked elsewhere
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
        """Whether the keys of the mapping at `path` are the user's choice, and defaults add none."""
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
                        whose = f"target `{path[1]}` can give variable `{name}`"
                        message = f"{whose} another default, and nothing else"
                        meant = nearest(key, ["default"])
                        label = "" if meant else "write it in `vars` of the job"
                        place: Path = (*at, key)
                        self.problems.add(place, "unknown-field", message, at="key", label=label, meant=meant)

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
                meant = nearest(key, ["role"])
                label = "" if meant else "fields of roles stand below `role`"
                self.problems.add((*path, key), "unknown-field", message, at="key", label=label, meant=meant)

    def _wrong(self, path: Path, value: Any, label: str) -> None:
        message = f"`{path[-1]}` must be a mapping, not {got(value)}"
        self.problems.add(path, "wrong-type", message, at="key", label=label)


def _defaults_of_vars(given: Any, declared: Any) -> dict[str, Any]:
    """Return the valid part of an overlay's `vars`: defaults of declared variables."""
    if not isinstance(given, dict) or not isinstance(declared, dict):
        return {}
    return {
        name: {"default": None if isinstance(part["default"], Removed) else part["default"]}
        for name, part in given.items()
        if isinstance(declared.get(name), dict) and isinstance(part, dict) and "default" in part
    }


def chosen_target(
    asked: str | None, targets: Sequence[str], home: Home, problems: Collector, lacking: Collector
) -> str:
    """The target to compile for. A missing target is noted in `lacking`, since other files may have it; in
    `problems` where launcher.toml names it."""
    path: Path = ("targets",)
    if asked is not None:
        if asked != DEFAULT_TARGET and asked not in targets:
            message = f"the file declares no target `{asked}`"
            label, otherwise = "", "it declares no target at all: leave --target out"
            if asked in ((home.config.shared and home.config.shared.value) or {}).get("targets", ()):
                entry = lacking.entry(asked, {}) if targets else lacking.entry("targets", [asked])
                label, otherwise = f"add `{entry}`: launcher.toml has it", ""
            is_own = lacking.document.key_range(path).source is lacking.document.source
            at = path if is_own else ("name",)
            title = "targets"
            lacking.unknown(
                at, "unknown-target", message, asked, targets, title, label=label, otherwise=otherwise
            )
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


_NAME: Path = ("name",)
_MATRIX: Path = ("matrix",)
_GROUP: Path = (*_MATRIX, GROUP)


def beginning(name: str) -> str:
    """Return the common beginning of the names of all jobs of a matrix."""
    found = find_macros(name)
    return name[: found[0][1]] if found else f"{name}-"


def group_of(name: object, matrix: object) -> object:
    """Return the name that means all jobs of a matrix: `name`, or `group` beside a pattern (None without)."""
    group = matrix.get(GROUP) if isinstance(matrix, dict) else None
    return group if is_pattern(name) else name


def check_names(
    name: object, matrix: object, made: Sequence[Combination], problems: Collector
) -> Sequence[Combination]:
    """Check the names, and return the combinations; of those that only placeholders make equal, the first.

    Combinations that a short hash does not tell apart get long ones. Faults of the names of jobs, or of the
    name that means all of them, go to `problems`.

    Args:
        name, matrix: as written.
        made: empty where the matrix is wrong.
    """
    if not isinstance(name, str) or not isinstance(matrix, dict):
        return made
    if not is_pattern(name) and any(made) and not made[0].axes:
        _no_pattern(name, matrix, made, problems)
        return made
    _check_group(name, matrix, made, problems)
    names = [named(name, each) for each in made]
    if any(map(is_pattern, names)):
        return made  # a value is missing; that is reported for the job that lacks it
    if len(counts := Counter(names)) < len(names):
        made = [
            replace(each, mark=LONG_MARK) if counts[full] > 1 else each
            for full, each in zip(names, made, strict=True)
        ]
        names = [named(name, each) for each in made]
    first: dict[str, Combination] = {}
    for full, each in zip(names, made, strict=True):
        first.setdefault(full, each)
    if not problems.is_sound(_MATRIX):
        return [*first.values()]
    twin = next((pair for pair in zip(names, made, strict=True) if first[pair[0]] is not pair[1]), None)
    if twin is not None:
        _same_name(name, twin[0], first[twin[0]], twin[1], problems)
    elif is_pattern(name) and matrix.get(GROUP) in names:
        message = f"`{matrix[GROUP]}` is the name of one of the jobs, and cannot mean all of them"
        problems.add(_GROUP, "constraint", message, label="choose another name")
    return made


def _check_group(
    name: str, matrix: Mapping[str, Any], made: Sequence[Combination], problems: Collector
) -> None:
    group = matrix.get(GROUP)
    entry = problems.entry(GROUP, label_like(beginning(name)) or "sweep")
    if GROUP not in matrix or isinstance(group, list | dict):  # an axis may be called `group`
        if is_pattern(name) and (any(made) or not made):
            message = f"`name` is a pattern, and `matrix` has no `{GROUP}`: a name for all of its jobs"
            hint = "`needs`, --select, --rerun and other commands take it"
            problems.add(_MATRIX, "missing-field", message, at="key", label=f"add `{entry}`", hint=hint)
    elif not isinstance(group, str):
        if group is not None:  # reported already
            message = f"`{GROUP}` must be text, not {got(group)}"
            problems.add(_GROUP, "wrong-type", message, label=f"such as `{entry}`")
    elif is_pattern(group):
        message = f"references cannot stand in `{GROUP}`"
        problems.add(_GROUP, "reference-phase", message, label="write the name itself")
    elif not re.fullmatch(LABEL[1:-1], group):
        bad_label(_GROUP, group, "matrix", problems)
    elif "$" not in name:
        message = f"`{name}` means all jobs of this matrix already"
        axis = next((axis for each in made for axis in each.axes), "lr")
        label = f"delete it, or write `{_pattern(name, [axis], problems)}`"
        problems.add(_GROUP, "conflicting-fields", message, at="key", label=label)


def _no_pattern(
    name: str, matrix: Mapping[str, Any], made: Sequence[Combination], problems: Collector
) -> None:
    """Note a plain name in a matrix without axes: without values, the names of its jobs cannot differ."""
    common = [key for key in made[0].further if all(key in each.further for each in made)]
    alone = (key for key in common if len({slug(each.further[key].value) for each in made}) == len(made))
    keys = [key] if (key := next(alone, "")) else common
    hint = "" if GROUP in matrix else f"and add `{problems.entry(GROUP, name)}` to `matrix`"
    label = f"write a pattern, such as `{_pattern(name, keys or ['…'], problems)}`"
    message = "the jobs of a matrix without axes have no names of their own"
    problems.add(_NAME, "constraint", message, label=label, hint=hint)


def _pattern(name: str, keys: Sequence[str], problems: Collector) -> str:
    return problems.entry("name", "-".join([name, *(f"$<matrix.{key}>" for key in keys)]))


def _same_name(name: str, full: str, one: Combination, other: Combination, problems: Collector) -> None:
    cells = other.cells
    differs = [
        key for key, cell in one.cells.items() if key in cells and slug(cell.value) != slug(cells[key].value)
    ]
    message = f"`{one}` and `{other}` are both called `{full}`"
    unused = [f"`$<matrix.{key}>`" for key in differs if f"$<matrix.{key}>" not in name]
    label = f"add {unused[0]}" if unused and is_pattern(name) else "change a value, or delete one of them"
    problems.add(_NAME if is_pattern(name) else _MATRIX, "constraint", message, label=label)
