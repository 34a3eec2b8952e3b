"""One app from its taken id to its start: what is made of it, who watches it, and taking all of it back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineUnreachable
from launcher.schedulers.docker.records import record, rows
from launcher.schedulers.docker.records.record import RecordLock
from launcher.schedulers.docker.request.job import DockerContainer, DockerJob
from launcher.schedulers.docker.state.apps import DockerApp
from launcher.schedulers.docker.submit.containers import ContainerSetup, start
from launcher.schedulers.docker.watching.client import WatcherClient, wait_for_exit

_EXIT_S = 60.0


class Submission:
    """Made by whoever holds the lock of the app's record; the watcher takes the lock over.

    Args:
        fresh: images that need not be pulled again; see `pull.ensure_images`.
        marker: id of the container that holds the app's name; it goes when all others are there.
        attached: the app is cancelled when this object is closed, or its process ends.
    """

    def __init__(
        self,
        engine: Engine,
        lock: RecordLock,
        report: Callable[[str, Mapping[str, Any]], None] | None = None,
        fresh: set[str] | None = None,
        *,
        marker: str = "",
        attached: bool = False,
    ) -> None:
        self._engine = engine
        self._lock = lock
        self._app_dir = lock.app_dir
        self._marker = marker
        self._attached = attached
        self._setup = ContainerSetup(engine, report, fresh)
        self._watcher: WatcherClient | None = None
        self._to_start: list[tuple[str, DockerContainer]] = []

    def create(self, job: DockerJob, common: Mapping[str, str]) -> None:
        """Make everything. When it fails, `abort` is the caller's to call."""
        self._spawn(job.app_id)
        self._setup.create(job, common, os.environ)
        if self._marker:
            self._engine.remove(self._marker)
            self._marker = ""
        self._to_start = list(zip(self._setup.ids, job.containers, strict=True))

    def resume(self, job: DockerJob, app: DockerApp) -> None:
        """What a dead owner has made is there; what it did not start is to be started."""
        self._spawn(job.app_id)
        of = {(each.role, each.replica): each for each in job.containers}
        pending = [each for each in app.view.replicas if each.state == "pending"]
        self._to_start = [(each.id, of[each.role, each.k]) for each in pending]

    def _spawn(self, app_id: str) -> None:
        """First of all: it imports what it needs while the engine works for us."""
        self._watcher = WatcherClient.spawn(self._lock, app_id, attached=self._attached)

    def start(self) -> None:
        """Returns when every replica was started. Raises StartError, with nothing of the app left.

        Interrupted, it lets go: a detached app runs on, an attached one is cancelled. So it does when the
        engine cannot be reached, since nobody can say then what was started.
        """
        assert self._watcher is not None, "what was not created cannot be started"
        try:
            self._watcher.go()
            start(self._engine, self._to_start)
            self._watcher.started()
        except EngineUnreachable as error:
            self.close()
            then = "cancels the app" if self._attached else "starts the rest"
            raise EngineUnreachable(
                f"lost the engine while {os.path.basename(self._app_dir)} was being started: {error}",
                hint=f"the engine was stopped or restarted: when it answers, the app's watcher {then};"
                " `launcher list` and apply show how far it came",
            ) from error
        except Exception:
            self.abort()
            raise
        except BaseException:
            self.close()
            raise
        self._lock.release()
        if not self._attached:
            self.close()

    def abort(self) -> None:
        """Remove everything that was made here, running or not, and the record."""
        try:
            self._setup.undo()
            if self._marker:
                self._engine.remove(self._marker)
        except EngineError:
            pass  # the engine went away; the error that brought us here says so
        if self._watcher is not None:
            self._watcher.abort()
        discard(self._lock)

    def close(self) -> None:
        """Let go of the watcher: an attached app is cancelled."""
        if self._watcher is not None:
            self._watcher.close()
        self._lock.release()

    def wait_for_exit(self) -> None:
        wait_for_exit(self._app_dir, _EXIT_S)


def discard(lock: RecordLock) -> None:
    """Remove a record, if it still is ours."""
    if lock.is_valid:
        record.remove(lock.app_dir)
    rows.remove(os.path.basename(lock.app_dir))  # also where the watcher was faster
    lock.release()
