"""The submission of one app, from its reserved id to its start: its containers, its watcher, its removal."""

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
    """Creates and starts an app. Needs the lock of the app's record, which the watcher takes over.

    Args:
        fresh: images that need not be pulled again; see `pull.ensure_images`.
        marker: id of the container that reserves the app's name; removed when all others exist.
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
        """Create all containers. When it fails, the caller must call `abort`."""
        self._spawn(job.app_id)
        self._setup.create(job, common, os.environ)
        if self._marker:
            self._engine.remove(self._marker)
            self._marker = ""
        self._to_start = list(zip(self._setup.ids, job.containers, strict=True))

    def resume(self, job: DockerJob, app: DockerApp) -> None:
        """Take over the containers that a dead owner created; `start` starts those that it did not."""
        self._spawn(job.app_id)
        of = {(each.role, each.replica): each for each in job.containers}
        pending = [each for each in app.view.replicas if each.state == "pending"]
        self._to_start = [(each.id, of[each.role, each.k]) for each in pending]

    def _spawn(self, app_id: str) -> None:
        """Spawn the watcher, before any request: it loads its modules while the engine works."""
        self._watcher = WatcherClient.spawn(self._lock, app_id, attached=self._attached)

    def start(self) -> None:
        """Start every replica. Raises StartError, with nothing of the app left.

        Interrupted, it closes the submission: a detached app runs on, an attached one is cancelled. So it
        does when the engine cannot be reached, since it is not known then which replicas were started.
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
        """Remove all created objects, running or not, and the record."""
        try:
            self._setup.undo()
            if self._marker:
                self._engine.remove(self._marker)
        except EngineError:
            pass  # the engine went away, as the error that led here reports
        if self._watcher is not None:
            self._watcher.abort()
        discard(self._lock)

    def close(self) -> None:
        """Close the connection to the watcher: an attached app is cancelled."""
        if self._watcher is not None:
            self._watcher.close()
        self._lock.release()

    def wait_for_exit(self) -> None:
        wait_for_exit(self._app_dir, _EXIT_S)


def discard(lock: RecordLock) -> None:
    """Remove a record, if its lock is still valid."""
    if lock.is_valid:
        record.remove(lock.app_dir)
    rows.remove(os.path.basename(lock.app_dir))  # also where the watcher was faster
    lock.release()
