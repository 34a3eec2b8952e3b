"""The output folders of local jobs, below the state folder: one for each edition of a job."""

from __future__ import annotations

import os
from collections.abc import Mapping

from launcher import paths
from launcher.schedulers.appfolder import remove_tree
from launcher.specs.attempt import Attempt
from launcher.specs.outputs import needs_variable, output_macro, own_output, read_outputs


def root(state_dir: str) -> str:
    """The folder of all output folders."""
    return os.path.join(state_dir, "outputs")


def folders(state_dir: str, attempt: Attempt) -> Mapping[str, str]:
    """Macro → absolute path: the attempt's own output folder, and those of the needs it stands on."""
    names = {"": own_output(attempt), **read_outputs(attempt)}
    return {output_macro(job): folder(state_dir, name) for job, name in names.items()}


def folder(state_dir: str, name: str) -> str:
    return os.path.join(root(state_dir), name)


def variables(state_dir: str, attempt: Attempt) -> dict[str, str]:
    """The variable that lists the attempt's needs, with the folders of those that have made one."""
    paths_of = {job: folder(state_dir, name) for job, name in read_outputs(attempt).items()}
    there = {job: path for job, path in paths_of.items() if os.path.isdir(path)}
    return needs_variable(paths_of, there)


def make(state_dir: str, attempt: Attempt) -> None:
    """Make the attempt's own folder, unless an attempt of its edition has. Raises StateError.

    It is open to other users, since containers read it as theirs; the folders around it are private.
    """
    path = paths.ensure(folder(state_dir, own_output(attempt)))
    try:
        os.chmod(path, 0o755)
    except OSError as error:
        raise paths.unusable(error, path) from error


def names(state_dir: str) -> list[str]:
    try:
        return sorted(os.listdir(root(state_dir)))
    except FileNotFoundError:
        return []


def remove(state_dir: str, name: str) -> None:
    remove_tree(folder(state_dir, name))
