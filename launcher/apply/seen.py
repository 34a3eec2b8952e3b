"""The files of checkouts that jobs run: recorded with each attempt, and compared when plans are made."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING

from launcher import git
from launcher.apply.engines import Engines
from launcher.errors import LauncherError
from launcher.specs.app import Role
from launcher.specs.attempt import ENDED_STATES, Attempt
from launcher.specs.binding import BoundLaunch
from launcher.specs.launch import JobKey, Launch
from launcher.specs.macros import substitute
from launcher.specs.seen import NOTHING_SEEN, Seen, differing, recorded_paths

if TYPE_CHECKING:
    from launcher.workspace.seen import Command, SeenFiles

_MOST_SEARCHED = 16
"""The most folders of one PYTHONPATH that are searched."""


class CheckoutFiles:
    """Finds the seen files of the jobs of one plan or apply. Threads may share it."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._found: dict[str, SeenFiles] = {}
        self._lock = Lock()

    def of(self, bound: BoundLaunch) -> Seen:
        """The files of a job that its replicas run in their checkout; none for one that runs elsewhere."""
        scheduler = self._engines.get(bound.launch.scheduler)
        placed = ((role, scheduler.checkout_folder(role, bound.cfg)) for role in bound.app.roles)
        commands = [_command(role, folder) for role, folder in placed if folder is not None]
        if not commands:
            return NOTHING_SEEN
        with self._lock:
            return self._below(bound.launch.root).of(commands)

    def edited(self, launch: Launch, attempt: Attempt, covered: Collection[str] = ()) -> tuple[str, ...]:
        """The files that are not what an ended attempt of the job ran, by path below the root.

        A file that is no code, that git does not track and that was written while the attempt ran, is taken
        for its output.

        Args:
            covered: paths for which `inputs` of the job decides.
        """
        if not attempt.seen or attempt.state not in ENDED_STATES:
            return ()
        try:
            now = self.of(self._engines.bind(launch))
        except LauncherError:  # the job cannot start on this machine, and keeps what it has
            return ()
        files = self._below(launch.root)
        known = files.digests(recorded_paths(attempt.seen))
        found = differing(attempt.seen, now._replace(files={**known, **now.files}))
        begin, end = attempt.created_at, attempt.ended_at or attempt.created_at
        written = [path for path in found if files.written_between(path, begin, end)]
        own = set(written) - _tracked(launch.root, written)
        return tuple(path for path in found if path not in own and path not in covered)

    def edited_of(
        self, launches: Iterable[Launch], attempts: Mapping[JobKey, Attempt]
    ) -> dict[JobKey, tuple[str, ...]]:
        """The jobs with files that are not what the attempt given for them ran."""
        found = {
            launch.key: self.edited(launch, attempts[launch.key], _covered(launch))
            for launch in launches
            if launch.enabled and launch.key in attempts
        }
        return {key: files for key, files in found.items() if files}

    def _below(self, root: str) -> SeenFiles:
        if root not in self._found:
            from launcher.workspace.seen import SeenFiles  # a plan without such jobs does without

            self._found[root] = SeenFiles(root)
        return self._found[root]


def _covered(launch: Launch) -> set[str]:
    """The files that `inputs` of the job names, by path below the root."""
    if not launch.inputs_digest:
        return set()
    from launcher.workspace.inputs import known

    found, folder = known(launch.inputs_digest), posixpath.dirname(launch.file)
    return {posixpath.normpath(posixpath.join(folder, path)) for path in found.files} if found else set()


def _command(role: Role, folder: str) -> Command:
    from launcher.workspace.seen import Command

    words = (substitute(str(word), {"img_root": folder}) for word in (role.entrypoint, *role.args))
    search = role.env.get("PYTHONPATH")
    folders = search.split(":")[:_MOST_SEARCHED] if type(search) is str else []
    return Command(tuple(words), folder, tuple(folders))


def _tracked(root: str, paths: Collection[str]) -> set[str]:
    """Those of `paths` that git tracks; none without git."""
    repository = git.repository(root) if paths else None
    try:
        return set(repository.tracked(paths)) if repository is not None else set()
    except LauncherError:
        return set()
