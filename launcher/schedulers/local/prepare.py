"""Prepare the start of an app: check its replicas and make its folders; undo that on failure."""

from __future__ import annotations

import os

from launcher.schedulers.appfolder import remove_tree
from launcher.schedulers.local import rundir
from launcher.schedulers.local.logwriter import FILES_PER_REPLICA, NAMES
from launcher.schedulers.local.spawn import SpawnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from launcher.schedulers.local.replicas import Replica
    from launcher.schedulers.local.spawn import Spawner

FILES_OF_OURS = 64
PIPES_PER_REPLICA = 2


class Preparation:
    """The folders that were made for an app."""

    def __init__(self, replicas: Sequence[Replica], spawner: Spawner, unmade: Collection[str] = ()) -> None:
        """`unmade`: roles whose executable and folder another role may make before they start."""
        self._unmade = unmade
        self._replicas = replicas
        self._spawner = spawner
        self._made: list[str] = []  # parents first
        self._log_folders: list[str] = []  # with nothing else in them

    @property
    def spare_files(self) -> int:
        """The number of files that may be open besides the pipes of all replicas."""
        return self._spawner.max_files - FILES_OF_OURS - PIPES_PER_REPLICA * len(self._replicas)

    def make(self, scratch: str) -> None:
        """Check as far as possible that every replica can start; make the log folders and `scratch`.

        Raises SpawnError; call `unmake` then.
        """
        if self.spare_files < FILES_PER_REPLICA:
            raise SpawnError(
                f"{len(self._replicas)} replicas need more open files than the {self._spawner.max_files}"
                " that the system allows (ulimit -Hn)"
            )
        self._make_folder(scratch)
        for replica in self._replicas:
            try:
                if replica.role.name not in self._unmade:
                    self._spawner.check(replica.packed, replica.role.common)
                self._make_log_folder(replica.log.folder)
            except SpawnError as error:
                error.role, error.k = replica.role.name, replica.k
                raise

    def make_output(self, folder: str) -> None:
        """Make the app's output folder, "" for none, unless an attempt of its edition has.

        It is open to other users, since containers read it as theirs; the folders around it are private.
        Raises SpawnError; call `unmake` then.
        """
        if folder and self._make_folder(folder):
            try:
                os.chmod(folder, 0o755)
            except OSError as error:
                raise SpawnError(f"cannot open the folder {folder} to others: {error.strerror}") from error

    def keep(self) -> None:
        """Keep the folders: the app is running."""
        self._made = []
        self._log_folders = []

    def unmake(self) -> None:
        """Remove the made folders with their contents, and the log files in existing folders."""
        made = set(self._made)
        for folder in self._log_folders:
            if folder in made:
                remove_tree(folder)
            else:
                _unlink_logs(folder)
        for folder in reversed(self._made):
            try:
                os.rmdir(folder)  # a parent, which may hold files of other programs
            except OSError:
                pass
        self.keep()

    def _make_log_folder(self, folder: str) -> None:
        if not self._make_folder(folder):
            for name in NAMES:
                if os.path.lexists(os.path.join(folder, name)):
                    raise SpawnError(f"{folder} already holds the logs of another run")
        self._log_folders.append(folder)

    def _make_folder(self, folder: str) -> list[str]:
        try:
            made = rundir.make_folders(folder)
        except OSError as error:
            raise SpawnError(f"cannot make the folder {folder}: {error.strerror}") from error
        self._made += made
        return made


def _unlink_logs(folder: str) -> None:
    for name in NAMES:
        try:
            os.unlink(os.path.join(folder, name))
        except OSError:
            pass
