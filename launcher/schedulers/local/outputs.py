"""The output folders of local jobs, below the state folder: one for each edition of a job."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf

from launcher.errors import SchedulerError
from launcher.schedulers.appfolder import remove_tree
from launcher.schedulers.local import rundir
from launcher.schedulers.record import read_attempt
from launcher.schedulers.staged import OutputFolders
from launcher.specs.app import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.outputs import needs_variable, output_macro, own_output, read_outputs


class LocalOutputs(OutputFolders):
    """The output folders below a state folder. `root`: the private folder that holds them all."""

    def __init__(self, scheduler: str, root: str) -> None:
        super().__init__(scheduler)
        self.root = root

    def names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.root))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SchedulerError(f"cannot read {self.root}: {error.strerror}") from error

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def address(self, attempt: Attempt, app: AppDef) -> str:
        """The path of the output folder, which every local job has."""
        return self.path(own_output(attempt))

    def lost(self, attempts: Iterable[Attempt]) -> set[str]:
        """The lost output folders. A folder that cannot be examined does not count as lost."""
        return {each.app_id for each in attempts if each.output and _is_gone(self.path(own_output(each)))}

    def archive(self, attempt: Attempt, only: str = "") -> tuple[Iterator[bytes], str]:
        return _packed(self.path(own_output(attempt)), only), ""

    def digest(self, attempt: Attempt) -> str:
        from launcher.schedulers.contents import output_digest

        return output_digest(self.path(own_output(attempt)), inf)

    def unreadable(self, other: str) -> str:
        return "" if other in rundir.SCHEDULERS else super().unreadable(other)

    def remove(self, name: str) -> None:
        remove_tree(self.path(name))

    def macros(self, attempt: Attempt) -> Mapping[str, str]:
        """Macro → path of the attempt's own output folder, and of the output folders of its needs."""
        names = {"": own_output(attempt), **read_outputs(attempt)}
        return {output_macro(job): self.path(name) for job, name in names.items()}

    def variables(self, attempt: Attempt, pending: Collection[str]) -> dict[str, str]:
        """The variable that lists the attempt's needs, with the output folders of needs that have one.

        `pending` are the needs that make their folders before this attempt starts.
        """
        paths_of = {job: self.path(name) for job, name in read_outputs(attempt).items()}
        there = {job: path for job, path in paths_of.items() if job in pending or os.path.isdir(path)}
        return needs_variable(paths_of, there)


def will_be_made(app_dir: str) -> bool:
    """Whether an app that has not started yet makes an output folder at its start."""
    return bool((read_attempt(app_dir) or {}).get("output"))


def _is_gone(path: str) -> bool:
    try:
        return not stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _packed(path: str, only: str) -> Iterator[bytes]:
    """The files of a folder, or one of them, as a tar archive, in pieces. Raises SchedulerError."""
    from launcher.schedulers.packing import packed

    try:
        yield from packed(path, only)
    except (OSError, ValueError) as error:
        raise SchedulerError(f"cannot read {path}: {error}") from error
