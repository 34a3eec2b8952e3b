"""Whose job it is: the project, the root folder and the origin of the job files in one folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from launcher.git import repository
from launcher.jobfile.collector import Collector
from launcher.jobfile.diagnostics import Diagnostic
from launcher.jobfile.model_base import LABEL
from launcher.jobfile.names import got
from launcher.jobfile.source import read_source
from launcher.specs import DEFAULT_PROJECT

CONFIG = "launcher.toml"


@dataclass(frozen=True, slots=True)
class Home:
    """What the job files of one folder have in common.

    Attributes:
        root: the git work tree, else the folder of launcher.toml, else the folder itself. Absolute.
        origin: the normalised git remote, else the root.
        project: of launcher.toml, else "default".
        problems: of launcher.toml.
    """

    root: str
    origin: str
    project: str
    problems: tuple[Diagnostic, ...] = ()


@dataclass(slots=True)
class Homes:
    """Looks up each folder, each launcher.toml and each work tree once.

    With `with_origin` False git is not asked for the remote; the origin is then the root.
    """

    cwd: str
    with_origin: bool = True
    _folders: dict[str, Home] = field(default_factory=dict)
    _projects: dict[str, tuple[str | None, tuple[Diagnostic, ...]]] = field(default_factory=dict)
    _origins: dict[str, str] = field(default_factory=dict)

    def of(self, folder: str) -> Home:
        """The home of the job files in `folder`, an absolute path. Raises CommandError when git refuses."""
        if folder not in self._folders:
            self._folders[folder] = self._look_up(folder)
        return self._folders[folder]

    def _look_up(self, folder: str) -> Home:
        tree = repository(folder)
        top = tree.root if tree else os.path.abspath(os.sep)
        config = _nearest_config(folder, top)
        root = tree.root if tree else os.path.dirname(config) if config else folder
        if root not in self._origins:
            self._origins[root] = (tree.origin if tree and self.with_origin else None) or root
        if config is None:
            return Home(root, self._origins[root], DEFAULT_PROJECT)
        if config not in self._projects:
            self._projects[config] = _read(os.path.relpath(config, self.cwd), config)
        project, problems = self._projects[config]
        return Home(root, self._origins[root], project or DEFAULT_PROJECT, problems)


def _nearest_config(folder: str, top: str) -> str | None:
    """The launcher.toml in the folder or the nearest one above it, no higher than `top`."""
    while True:
        path = os.path.join(folder, CONFIG)
        if os.path.isfile(path):
            return path
        parent = os.path.dirname(folder)
        if folder == top or parent == folder:
            return None
        folder = parent


def _read(file: str, path: str) -> tuple[str | None, tuple[Diagnostic, ...]]:
    """The `project` of a launcher.toml. Its other tables are read by whoever they are for."""
    import re

    from launcher.jobfile.toml import parse_toml

    source = read_source(file, path)
    if isinstance(source, Diagnostic):
        return None, (source,)
    if not source.text.strip():
        return None, ()
    document = parse_toml(source)
    problems = Collector(document, document.problems)
    project = (document.value or {}).get("project")
    if isinstance(project, str) and re.fullmatch(LABEL[1:-1], project):
        return project, tuple(problems.found)
    if isinstance(project, str):
        hint = "lower-case letters, digits and `-`, at most 63, none of them `-` at either end"
        problems.add(("project",), "invalid-name", f"`{project[:80]}` cannot name a project", hint=hint)
    elif project is not None:
        problems.add(("project",), "wrong-type", f"`project` must be text, not {got(project)}")
    return None, tuple(problems.found)
