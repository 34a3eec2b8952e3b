"""Whose job it is: the project, the root folder and the origin of the job files in one folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from launcher.files import project_file
from launcher.git import repository
from launcher.jobfile.compile.config import Config, read_config
from launcher.jobfile.compile.git_facts import GitFacts
from launcher.jobfile.compile.options import Schedulers
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.text.source import leads_out
from launcher.specs import DEFAULT_PROJECT


@dataclass(frozen=True, slots=True)
class Home:
    """What the job files of one folder have in common.

    Attributes:
        root: the git work tree, else the folder of launcher.toml, else the folder itself. Absolute.
        origin: the normalised git remote, else the root.
        config: the launcher.toml.
        git: the commit and branch of the work tree.
    """

    root: str
    origin: str
    config: Config
    git: GitFacts

    @property
    def project(self) -> str:
        """Of job files that name none."""
        return self.config.project or DEFAULT_PROJECT

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Of launcher.toml."""
        return self.config.problems


@dataclass(slots=True)
class Homes:
    """Looks up each folder, each launcher.toml and each work tree once.

    With `is_asked` False git is not asked: the origin is then the root, commit and branch are assumed. With
    `components` False no package is looked into for components.
    """

    cwd: str
    is_asked: bool = True
    allow_dirty: bool = False
    schedulers: Schedulers | None = None
    components: bool = True
    _folders: dict[str, Home] = field(default_factory=dict)
    _configs: dict[str, Config] = field(default_factory=dict)
    _origins: dict[str, str] = field(default_factory=dict)
    _git: dict[str, GitFacts] = field(default_factory=dict)

    def of(self, folder: str) -> Home:
        """The home of the job files in `folder`, an absolute path. Raises CommandError when git refuses."""
        if folder not in self._folders:
            self._folders[folder] = self._look_up(folder)
        return self._folders[folder]

    def _look_up(self, folder: str) -> Home:
        tree = repository(folder)
        path = project_file(folder)
        root = tree.root if tree else os.path.dirname(path) if path else folder
        if root not in self._origins:
            self._origins[root] = (tree.origin if tree and self.is_asked else None) or root
        if root not in self._git:
            self._git[root] = GitFacts(tree, self.allow_dirty, not self.is_asked)
        return Home(root, self._origins[root], self._config(path, root), self._git[root])

    def _config(self, path: str | None, root: str) -> Config:
        if path is None:
            return Config()
        if path not in self._configs:
            shown = os.path.relpath(path, self.cwd)
            outside = leads_out(shown, path, os.path.realpath(root))
            self._configs[path] = (
                Config(problems=(outside,))
                if outside
                else read_config(shown, path, self.schedulers, components=self.components)
            )
        return self._configs[path]
