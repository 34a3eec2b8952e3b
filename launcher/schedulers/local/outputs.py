"""The output folders of local jobs, below the state folder: one for each edition of a job."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping

from launcher import paths
from launcher.errors import SchedulerError
from launcher.schedulers.appfolder import remove_tree
from launcher.schedulers.local import attemptfile
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


def variables(state_dir: str, attempt: Attempt, pending: Collection[str]) -> dict[str, str]:
    """The variable that lists the attempt's needs, with the folders of those that have one.

    Args:
        pending: the needs that make theirs before this attempt starts.
    """
    paths_of = {job: folder(state_dir, name) for job, name in read_outputs(attempt).items()}
    there = {job: path for job, path in paths_of.items() if job in pending or os.path.isdir(path)}
    return needs_variable(paths_of, there)


def make_root(state_dir: str) -> None:
    """Make the folder of all output folders, which is private. Raises StateError.

    A supervisor makes the folder in it when its app starts: an attempt that never ran leaves none.
    """
    paths.ensure(root(state_dir))


def will_be_made(app_dir: str) -> bool:
    """Whether an app that has not started yet makes an output folder when it does."""
    return bool((attemptfile.read(app_dir) or {}).get("output"))


def is_gone(state_dir: str, attempt: Attempt) -> bool:
    """Whether the attempt has recorded an output folder, and there is none. A folder that cannot be looked at
    is not gone."""
    if not attempt.output:
        return False
    try:
        return not stat.S_ISDIR(os.stat(folder(state_dir, own_output(attempt))).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def archive(state_dir: str, name: str) -> Iterator[bytes]:
    """The files of an output folder as a tar archive, in pieces. Raises SchedulerError."""
    from launcher.schedulers.packing import packed

    path = folder(state_dir, name)
    try:
        yield from packed(path)
    except (OSError, ValueError) as error:
        raise SchedulerError(f"cannot read {path}: {error}") from error


def names(state_dir: str) -> list[str]:
    try:
        return sorted(os.listdir(root(state_dir)))
    except FileNotFoundError:
        return []


def remove(state_dir: str, name: str) -> None:
    remove_tree(folder(state_dir, name))
