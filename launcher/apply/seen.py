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
        self._tracked: dict[str, frozenset[str]] = {}
        self._lock = Lock()

    def of(self, launch: Launch) -> Seen:
        """The files of a job that its replicas run in their checkout; none for one that runs elsewhere."""
        scheduler, options = self._engines.get(launch.scheduler), self._engines.options(launch)
        folder = {"job.dir": launch.directory}
        placed = (
            (role, scheduler.checkout_folder(substitute(role.image, folder), options))
            for role in launch.app.roles
        )
        commands = [_command(role, launch.directory, where) for role, where in placed if where is not None]
        if not commands:
            return NOTHING_SEEN
        with self._lock:
            return self._below(launch.root).of(commands)

    def edited(self, launch: Launch, attempt: Attempt, covered: Collection[str] = ()) -> tuple[str, ...]:
        """The files that are not what an ended attempt of the job ran, by path below the root.

        A file that is no code, that git does not track and that was written while the attempt ran, is taken
        for its output.

        Args:
            covered: paths for which `inputs` of the job decides.
        """
        if not attempt.seen or attempt.state not in ENDED_STATES:
            return ()
        now, files = self.of(launch), self._below(launch.root)
        if now.record() == attempt.seen:
            return ()
        known = files.digests(path for path in recorded_paths(attempt.seen) if path not in now.files)
        found = differing(attempt.seen, now._replace(files={**known, **now.files}))
        begin, end = attempt.created_at, attempt.ended_at or attempt.created_at
        written = {path for path in found if files.written_between(path, begin, end)}
        own = written - self._tracked_below(launch.root) if written else written
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

    def _tracked_below(self, root: str) -> frozenset[str]:
        """The files that git tracks; none without git."""
        if root not in self._tracked:
            repository = git.repository(root)
            try:
                found = repository.tracked(["."]) if repository is not None else ()
            except LauncherError:
                found = ()
            self._tracked[root] = frozenset(found)
        return self._tracked[root]

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


def _command(role: Role, directory: str, folder: str) -> Command:
    from launcher.workspace.seen import Command

    known = {"job.dir": directory, "img_root": folder}
    words = (substitute(str(word), known) for word in (role.entrypoint, *role.args))
    search = role.env.get("PYTHONPATH")
    folders = substitute(search, known).split(":")[:_MOST_SEARCHED] if type(search) is str else []
    return Command(tuple(words), folder, tuple(folders))
