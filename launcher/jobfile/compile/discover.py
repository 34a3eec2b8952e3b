"""Find the job files of typed paths: a file stands for itself, a directory for every job file below it.

`exclude` of a launcher.toml leaves files and folders out of directories, such as wrong examples.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from launcher import looks
from launcher.dataclass import dataclass
from launcher.errors import CommandError
from launcher.files import GONE, MAX_JOB_FILE_BYTES, PROJECT_FILE, is_top, project_file, read_regular, upwards
from launcher.git import repository
from launcher.looks import noted
from launcher.workspace.ignore import BadPatternError, Ignore

if TYPE_CHECKING:
    from launcher.jobfile.diagnostic import Diagnostic


class _Rule(NamedTuple):
    folder: str
    patterns: Ignore

    def leaves_out(self, path: str, *, whole: bool = False) -> bool:
        """Whether a pattern excludes a file or folder; with `whole`, a folder and everything in it."""
        inside = os.path.relpath(path, self.folder).replace(os.sep, "/")
        return self.patterns.ignores_all_below(inside) if whole else self.patterns.ignores(inside)


class Excluded(NamedTuple):
    """The patterns that apply in a folder, from its launcher.toml and from each one above in the work tree.

    Patterns are those of `.dockerignore`, relative to the folder of their launcher.toml.
    """

    rules: tuple[_Rule, ...] = ()

    @classmethod
    def above(cls, folder: str) -> Excluded:
        """Return the patterns of the folders above, without any that exclude `folder`: the user named it."""
        above = (rule for outer in islice(upwards(folder), 1, None) for rule in _rules_of(outer))
        return cls(tuple(rule for rule in above if not rule.leaves_out(folder)))

    def within(self, folder: str) -> Excluded:
        """Return these patterns and those of the launcher.toml in `folder`."""
        return Excluded((*self.rules, *_rules_of(folder)))

    def takes_file(self, path: str) -> bool:
        """Whether the patterns leave out the file at an absolute path."""
        return any(rule.leaves_out(path) for rule in self.rules)

    def takes_folder(self, path: str) -> bool:
        """Whether the patterns leave out everything in the folder at an absolute path."""
        return any(rule.leaves_out(path, whole=True) for rule in self.rules)


def wrong_pattern(patterns: list[str]) -> str:
    """Return the problem of the patterns, as a sentence; "" for none."""
    try:
        Ignore(patterns)
    except BadPatternError as error:
        return str(error)
    return ""


def _rules_of(folder: str) -> Iterator[_Rule]:
    """Yield the rule of a folder, if any. Problems of its launcher.toml are reported with the job files."""
    try:
        data = read_regular(os.path.join(folder, PROJECT_FILE), MAX_JOB_FILE_BYTES)
    except (OSError, ValueError):
        return
    if b"exclude" not in data:
        return
    import tomli

    try:
        exclude: Any = tomli.loads(data.decode("utf-8-sig")).get("exclude")
        if isinstance(exclude, list) and all(isinstance(pattern, str) for pattern in exclude):
            yield _Rule(folder, Ignore(exclude))
    except (ValueError, RecursionError, BadPatternError):
        return


MOST_OUTSIDE = 50_000
"""The most files and folders below a directory outside of a project: `/` and home folders take minutes."""

SUFFIXES = (".launcher.yaml", ".launcher.yml", ".launcher.toml")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A job file: its path as shown to the user, and its absolute path.

    walked: whether a search of a directory found it; else the user named it.
    """

    file: str
    path: str
    walked: bool = False


def find_files(paths: Iterable[str], cwd: str) -> tuple[list[FoundFile], list[Diagnostic]]:
    """Return the job files of the paths, each once, in the order of the paths, and the problems.

    Relative paths start at `cwd`. In directories, hidden folders, files that git ignores and files that
    `exclude` in a launcher.toml names are left out.
    """
    files: dict[str, FoundFile] = {}
    problems: list[Diagnostic] = []
    for typed in paths:
        path = os.path.abspath(os.path.join(cwd, typed))
        if not looks.is_folder(path):
            files.setdefault(path, FoundFile(typed, path))  # reading the file later reports whether it exists
            continue
        below, are_left_out, found_wrong = _below(typed, path)
        problems += found_wrong
        for found in below:
            files.setdefault(found.path, found)
        if not below and not any(each.code == "too-large" for each in found_wrong):
            from launcher.jobfile.diagnostic import of_whole_file

            hint = (
                f"job files are called NAME{SUFFIXES[0]}, .yml or .toml; `launcher init` writes one, and "
                "a file of another name is given by itself"
            )
            if are_left_out:
                hint = (
                    f"`exclude` in {PROJECT_FILE} leaves out what is in it; files given themselves are taken"
                )
            message = "the directory holds no job file"
            problems.append(of_whole_file(typed, "no-job-files", message, hint))
    return list(files.values()), problems


@noted
def files_of_project(folder: str) -> list[str]:
    """Return the job files below the project folder that holds `folder`; without one, those in `folder`."""
    project, tree = project_file(folder), repository(folder)
    top = os.path.dirname(project) if project else tree.root if tree else None
    try:
        if top is not None:
            return [each.path for each in find_files([top], top)[0]]
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(SUFFIXES)]
    except (CommandError, OSError):
        return []


@noted
def _below(typed: str, directory: str) -> tuple[list[FoundFile], bool, list[Diagnostic]]:
    """Return a directory's job files, whether `exclude` has left any out, and the problems: folders that are
    unreadable, or a directory that is too large to be searched."""
    problems: list[Diagnostic] = []

    def unreadable(error: OSError) -> None:
        if isinstance(error, GONE) and error.filename != directory:
            return  # removed since its parent was listed
        from launcher.jobfile.diagnostic import of_whole_file

        where = os.path.join(typed, os.path.relpath(error.filename, directory))
        message = f"the directory cannot be read: {error.strerror}"
        problems.append(of_whole_file(os.path.normpath(where), "unreadable", message))

    found: list[str] = []
    left_out = 0
    is_of_project = project_file(directory) or any(map(is_top, upwards(directory)))
    left = None if is_of_project else MOST_OUTSIDE
    rules = {directory: Excluded.above(directory)}
    for folder, folders, names in os.walk(directory, onerror=unreadable):
        if left is not None and (left := left - len(folders) - len(names)) < 0:
            return [], False, [_too_large(typed)]
        excluded = rules.pop(folder)
        if PROJECT_FILE in names:
            excluded = excluded.within(folder)
        visible = sorted(name for name in folders if not name.startswith("."))
        folders[:] = [name for name in visible if not excluded.takes_folder(os.path.join(folder, name))]
        rules |= {os.path.join(folder, name): excluded for name in folders}
        here = [os.path.join(folder, name) for name in sorted(names) if name.endswith(SUFFIXES)]
        taken = [path for path in here if not excluded.takes_file(path)]
        left_out += len(visible) - len(folders) + len(here) - len(taken)
        found += taken
    shown = {path: os.path.join(typed, os.path.relpath(path, directory)) for path in sorted(found)}
    ignored = _ignored(found)
    files = [FoundFile(shown[path], path, walked=True) for path in shown if path not in ignored]
    return files, left_out > 0, problems


def _too_large(typed: str) -> Diagnostic:
    from launcher.jobfile.diagnostic import of_whole_file

    message = f"the directory holds more than {MOST_OUTSIDE:,} files and folders, and is in no project"
    hint = f"name the folder of the job files; below a {PROJECT_FILE} or in a git repository, all is searched"
    return of_whole_file(typed, "too-large", message, hint)


def _ignored(paths: Iterable[str]) -> set[str]:
    """Return the files that git ignores, with one question for each work tree."""
    trees: dict[str, list[str]] = {}
    owners = {}
    folders: dict[str, str | None] = {}
    for path in paths:
        folder = os.path.dirname(path)
        if folder not in folders:
            tree = repository(folder)
            folders[folder] = tree.root if tree else None
            if tree:
                owners[tree.root] = tree
        root = folders[folder]
        if root is not None:
            trees.setdefault(root, []).append(path)
    return {path for root, inside in trees.items() for path in owners[root].ignored(inside)}
