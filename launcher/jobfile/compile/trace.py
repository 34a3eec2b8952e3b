"""Trace each value of a compiled job to its origin: a line of a file, an overlay, a variable, the project."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from launcher.dataclass import dataclass
from launcher.jobfile.compile.project import Config
from launcher.jobfile.compile.variants import Variant
from launcher.jobfile.messages.collector import At, Collector
from launcher.jobfile.text.document import Document, Path, Range
from launcher.specs import Launch

_PART = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[([^\]]*)\]|([^.\[\]]+)')
"""A part of a path as plans write it: `metadata["a.b"]`, `args[3]`, `env`."""


class Origin(NamedTuple):
    """The origin of a value.

    Attributes:
        file, line: the place of its text; "" and 0 for a default of the language.
        layer: "file", "parent", "target", "project" (launcher.toml), "default".
        through: sentences about the variables, axes and commits that it refers to.
    """

    file: str
    line: int
    layer: str
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else "default"
        return "; ".join([place, *self.through])

    def to_json(self) -> dict[str, Any]:
        place = {"file": self.file, "line": self.line} if self.file else {}
        return {"layer": self.layer, **place, **({"through": list(self.through)} if self.through else {})}


@dataclass(frozen=True, slots=True)
class Trace:
    """Finds the origins of the values of one launch."""

    document: Document
    sources: Mapping[Path, tuple[str, ...]]
    definitions: Mapping[str, tuple[Path, At, str]]
    variant: Variant
    config: Config
    scheduler: str
    needs: Mapping[str, tuple[Path, At]]
    """Job or matrix that the file needs → its place."""
    outputs: Sequence[tuple[str, Path, str]]
    """As in Collector."""

    @classmethod
    def of(cls, problems: Collector, variant: Variant, config: Config, launch: Launch) -> Trace:
        return cls(
            variant.document,
            problems.sources,
            problems.definitions,
            variant,
            config,
            launch.scheduler,
            problems.needs,
            problems.outputs,
        )

    def origin(self, path: Path) -> Origin:
        """Return the origin of the value at a path of the job file: ("roles", "trainer", "image")."""
        if path[-1:] == ("memMB",) and not _holds(self.document.value, path):
            path = (*path[:-1], "memory")
        if path[-1:] == ("gpu_type",) and not _holds(self.document.value, path):
            path = (*path[:-1], "capabilities", "gpu_type")
        if path[:1] == ("needs",):
            # A matrix stands for its jobs.
            path = path[:2] if _holds(self.document.value, path[:2]) else ("needs",)
        if path[:1] == ("roles",) and path[2:3] in (("entrypoint",), ("args",)):
            script = (*path[:2], "run")
            path = script if _holds(self.document.value, script) else path
        if _holds(self.document.value, path):
            at = self.document.value_range(path)
            is_target = any(text.holds(at) for text in self.variant.inside)
            notes = (f"target `{self.variant.target}`",) if is_target else ()
            layer = "target" if is_target else self._layer(at)
            return Origin(at.source.file, at.line, layer, (*notes, *self._through(path)))
        return self._component(path) or self._project(path) or Origin("", 0, "default")

    def shared_line(self, path: str) -> str:
        """Return `launcher.toml:12` for a value from a layer below the job's file; "" for other values."""
        keys = tuple(quoted or index or key for quoted, index, key in _PART.findall(path))
        origin = self.origin(tuple(int(key) if key.isdecimal() else key for key in keys))
        return f"{origin.file}:{origin.line}" if origin.file not in ("", self.document.source.file) else ""

    def _layer(self, at: Range) -> str:
        if at.source is self.document.source:
            return "file"
        project = self.config.shared
        return "project" if project is not None and at.source is project.source else "parent"

    def _component(self, path: Path) -> Origin | None:
        """Return the origin in a component call: the argument with the field's name, else the component."""
        value = self.document.value or {}
        name = value.get("component")
        if path[:1] != ("roles",) or name is None:
            return None
        named = ("args", *path[2:3])
        at = self.origin(named if len(named) > 1 and _holds(value, named) else ("component",))
        return at._replace(through=(f"component `{name}`", *at.through))

    def _through(self, path: Path) -> tuple[str, ...]:
        names = self.sources.get(path, ())
        return tuple(
            self.definitions[name][2] if name in self.definitions else f"`$<{name}>`" for name in names
        )

    def _project(self, path: Path) -> Origin | None:
        """Return the origin in launcher.toml, for the project, policies and options of the scheduler."""
        document = self.config.document
        where: Path = ("schedulers", self.scheduler, *path[1:]) if path[:1] == ("cfg",) else path
        if document is None or path[:1] not in (("cfg",), ("lifecycle",), ("project",)):
            return None
        if not _holds(document.value, where):
            return None
        return Origin(document.source.file, document.value_range(where).line, "project")


def _holds(value: Any, path: Path) -> bool:
    """Whether `value` holds `path`, by itself or within a text such as `gpu.small` or `type=bind,…`."""
    for segment in path:
        is_item = isinstance(value, list) and isinstance(segment, int) and segment < len(value)
        if not is_item and not (isinstance(value, dict) and segment in value):
            return isinstance(value, str)
        value = value[segment]
    return True
