"""Noted reads of what job files are compiled from beside their texts: files, folders, git and variables.

The compiler reads the world only through these functions, so that every read is noted (`launcher.noted`);
`tests/unit/jobfile/test_noted.py` finds other reads.
"""

from __future__ import annotations

import os

from launcher import files, git
from launcher.noted import not_repeatable, noted


@noted
def current_folder() -> str:
    return os.getcwd()


@noted
def exists(path: str) -> bool:
    return os.path.exists(path)


@noted
def lexists(path: str) -> bool:
    return os.path.lexists(path)


@noted
def is_folder(path: str) -> bool:
    return os.path.isdir(path)


@noted
def is_file(path: str) -> bool:
    return os.path.isfile(path)


@noted
def is_link(path: str) -> bool:
    return os.path.islink(path)


@noted
def real_path(path: str) -> str:
    return os.path.realpath(path)


@noted
def expanded(path: str) -> str:
    """Return the path with `~` replaced by the home of the user."""
    return os.path.expanduser(path)


@noted
def names_in(folder: str) -> tuple[str, ...]:
    """The names in a folder, sorted. Raises OSError."""
    return tuple(sorted(os.listdir(folder)))


def content(path: str, limit: int) -> bytes:
    """As `files.read_regular`."""
    if path.startswith(files.GIVEN):
        not_repeatable()  # a pipe cannot be read twice
    return _content(path, limit)


@noted
def _content(path: str, limit: int) -> bytes:
    return files.read_regular(path, limit)


@noted
def project_file(folder: str) -> str | None:
    """As `files.project_file`."""
    return files.project_file(folder)


@noted
def is_top(folder: str) -> bool:
    """As `files.is_top`."""
    return files.is_top(folder)


@noted
def variable(name: str) -> str | None:
    """The value of an environment variable; None where it is not set."""
    return os.environ.get(name)


@noted
def work_tree(path: str) -> str | None:
    """The root of the git work tree that holds a path; None without one, or without git."""
    tree = git.repository(path)
    return tree.root if tree is not None else None


@noted
def origin(root: str) -> str | None:
    """The remote of a work tree, as `Repository.origin`. Raises CommandError."""
    return _tree(root).origin


@noted
def head(root: str) -> git.Head:
    """The commit and branch of a work tree, as `Repository.head`. Raises CommandError."""
    return _tree(root).head()


@noted
def ignored(root: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths in a work tree that git ignores. Raises CommandError."""
    return tuple(sorted(_tree(root).ignored(paths)))


def _tree(root: str) -> git.Repository:
    found = git.repository(root)
    return found if found is not None and found.root == root else git.Repository(root)  # removed: git says so
