"""The job files of another commit, compiled as they would be in a checkout of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from typing import Any

from launcher.cli import jobs
from launcher.errors import LauncherError
from launcher.git import Repository, repository
from launcher.jobfile.compile.compiled import Compiled
from launcher.jobfile.compile.project import Checkout


def compiled_at(revision: str, files: Sequence[str], args: Any) -> Compiled:
    """Compile `files` as a commit of this repository has them, with the options of the command line.

    The commit is written into a private folder that is removed again; its errors are in the result. Raises
    LauncherError where the current directory is in no repository, or the commit is not there.
    """
    tree = repository(os.getcwd())
    if tree is None:
        raise LauncherError("--base needs a git repository, and there is none here")
    commit = _commit(tree, revision)
    with tree.exported(commit) as root:
        cwd = os.path.join(root, os.path.relpath(os.getcwd(), os.path.realpath(tree.root)))
        os.makedirs(cwd, exist_ok=True)
        moved = [_moved(path, tree.root, root) for path in files or ["."]]
        there = [path for path in moved if os.path.lexists(os.path.join(cwd, path))]
        if not there:
            return Compiled((), ())
        checkout = Checkout(root, tree.origin or tree.root, commit, revision)
        known = copy(args)
        known.var_file = [_var_file(path, cwd) for path in args.var_file]
        return jobs.compiled(there, known, cwd=cwd, checkout=checkout)


def _var_file(path: str, cwd: str) -> str:
    """Return the path of a variables file: the commit's version, else the file of the working tree."""
    return path if os.path.exists(os.path.join(cwd, path)) else os.path.abspath(path)


def _commit(tree: Repository, revision: str) -> str:
    commit = tree.commit_of(revision)
    if not commit:
        raise LauncherError(
            f"this clone has no commit `{revision}`",
            hint="fetch it: `git fetch --unshallow`, or `fetch-depth: 0` of actions/checkout",
        )
    return commit


def _moved(path: str, old_root: str, new_root: str) -> str:
    """Return an absolute path moved below another root, and a relative path unchanged."""
    if not os.path.isabs(path):
        return path
    return os.path.join(new_root, os.path.relpath(os.path.realpath(path), os.path.realpath(old_root)))
