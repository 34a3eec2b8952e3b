"""Reserve an app id by the lock of its record here, and by a container of that name, which never starts.

The engine gives a name to one container only, which decides between machines. The lock decides between
clients with one state folder, and names its holder.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from launcher.errors import ReservedError, SchedulerError
from launcher.schedulers.backend import BackendReservation
from launcher.schedulers.docker import apps, images, outputs, record, tombstones
from launcher.schedulers.docker.apps import DockerApp, list_containers
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import Conflict, EngineError, ImageNotFound, NameTaken
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import Report
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.containers import is_foreign, name_taken
from launcher.schedulers.docker.labels import RESERVATION_LABELS, WATCHER, attempt_labels, not_inherited
from launcher.schedulers.docker.names import RUNS_NOTHING, scratch_volume, waiting_container
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.docker.request import build_request
from launcher.schedulers.docker.submission import DockerSubmission, watcher_label
from launcher.schedulers.owner import this_process
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.attempt import UNSTARTED_STATES, Attempt

_TRIES = 5
_PATIENCE_S = 10.0


class DockerReservation(BackendReservation):
    """A reservation that creates and starts its attempt; the app id is reserved when this is made.

    Args:
        take_over: see `StagedScheduler`.

    Attributes:
        marker: id of the container with the app id as its name; "" when an app is resumed.
        found: the app, when a dead owner had started a part of it.
        fresh: images that were pulled for the attempt; see `images.ensure_image`.

    Raises ReservedError, StateError, EngineError, with nothing left behind.
    """

    def __init__(self, engine: Engine, attempt: Attempt, report: Report, *, take_over: bool) -> None:
        super().__init__(attempt)
        self.fresh: set[str] = set()
        self._engine = engine
        self._report = report
        self._take_over = take_over
        self._labels = attempt_labels(attempt, this_process())
        self._labels |= watcher_label(engine, attempt.document.get("cfg") or {})
        self._submission: DockerSubmission | None = None
        self._is_over = False  # started, or removed
        self._replaced: Container | None = None  # the waiting attempt that is submitted again
        self.marker = ""
        self.found: DockerApp | None = None
        self.lock = self._claim()
        is_new = record.read_attempt(self.lock.app_dir) is None
        try:
            self._take()
        except BaseException:
            if is_new:
                self.lock.discard()
            self.lock.release()
            raise
        finally:
            if self._replaced is not None:
                with suppress(EngineError):  # `gc` removes what is left
                    tombstones.forget(engine, self._replaced)

    def create(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        """Create all containers, or only test the creation for an attempt that waits or is in line.

        A failure removes all of the attempt.
        """
        attempt, engine, lock = self.attempt, self._engine, self.lock
        of_needs = outputs.sources_of_needs(attempt, engine.host)
        found = outputs.sources(attempt, of_needs)
        job = build_request(app, cfg, attempt.app_id, session=attempt.session, outputs=found)
        job.needs = of_needs
        for each in job.containers:
            each.kwargs["environment"] = {**each.kwargs["environment"], **attempt.variables}
        made = DockerSubmission(engine, lock, self._report, self.fresh, marker=self.marker)
        self._submission = made
        try:
            if self.inputs is not None:
                facts = record.read_attempt(lock.app_dir) or {}
                facts["inputs"] = [*self.inputs[:3], list(self.inputs.globs)]
                record.write_attempt(lock.app_dir, facts)
            if self.found is not None:
                made.resume(job, self.found)
            else:
                if not self.waits_for or WATCHER in self._labels:
                    self.follow()
                made.prepare(job, self._labels, self.waits_for, self.turn)
        except BaseException:
            self.abort()
            raise

    def start(self) -> None:
        if self._submission is None:
            raise ValueError(f"{self.app_id} was not created")
        self._is_over = True
        self._submission.start()
        self.accepted = self._submission.accepted

    def abort(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._submission is not None:
            self._submission.abort()
            return
        if self.marker:  # otherwise a resumed app stays as it is
            self._engine.remove_volume(scratch_volume(self.attempt.app_id))
            self._engine.remove(self.marker)
            self.lock.discard()
        self.lock.release()

    # -- the app id ------------------------------------------------------------------------------------

    def _find(self) -> DockerApp | None:
        return apps.find(self._engine, self.attempt.app_id, lock_held=True, take_over=self._take_over)

    def _claim(self) -> RecordLock:
        """Take the lock. Waits for the watcher of a killed client: it removes what the client created."""
        app_id, deadline = self.attempt.app_id, time.monotonic() + _PATIENCE_S
        while True:
            try:
                return record.claim(record.folder(app_id))
            except record.HeldError as error:
                found = self._find()
                state = found.view.state if found else "reserved"
                is_undone = found is None or not (found.owner or found.view.started)
                if not is_undone or time.monotonic() > deadline:
                    raise ReservedError(app_id, state, str(error.holder or "")) from error

    def _take(self) -> None:
        """Take the name at the engine, or the app that is to be resumed."""
        engine, app_id, app_dir = self._engine, self.attempt.app_id, self.lock.app_dir
        image, inherited = self._image()
        for left in reversed(range(_TRIES)):
            found = self._find()
            if found is not None and self._clear(found):
                self.found = found
                return
            record.clear(app_dir)
            record.write_labels(app_dir, engine, self._labels)
            record.add_row(self._labels)
            labels = not_inherited(inherited, {**self._labels, **RESERVATION_LABELS})
            body = {"Image": image, **RUNS_NOTHING, "Labels": labels}
            try:
                marker = engine.create(app_id, body)
            except NameTaken as error:
                if is_foreign(engine, app_id):
                    raise name_taken(engine, app_id, app_id, f"cannot reserve {app_id}") from error
                continue  # a client on another machine, or with another state folder, has just taken the name
            except EngineError as error:
                if left and isinstance(error, ImageNotFound):
                    image, inherited = self._image()  # another client has removed the image in the meantime
                    continue
                raise SchedulerError(f"cannot reserve {app_id}: {error}", hint=error.hint) from error
            try:
                if self._is_free(marker):
                    self.marker = marker
                    return
            finally:
                if not self.marker:
                    engine.remove(marker)
        raise ReservedError(app_id, "reserved")

    def _is_free(self, marker: str) -> bool:
        """Whether the app id is free, checked after taking the name: before, another client may have held the
        name, created all of the attempt and released the name; or its reservation was renamed.

        Raises ReservedError when that attempt, or a later one of the job, has already ended.
        """
        attempt = self.attempt
        for stone in tombstones.read_all(self._engine, attempt.key).values():
            if stone.number >= attempt.number:
                raise ReservedError(stone.app_id, stone.outcome.state)
        return all(each.id == marker for each in list_containers(self._engine, attempt.app_id))

    def _clear(self, found: DockerApp) -> bool:
        """Remove containers that a dead owner never started. True when the app's start is to be completed.

        Raises ReservedError when the owner is alive, or when the app was started and cannot be resumed.
        """
        view, engine, app_id = found.view, self._engine, self.attempt.app_id
        if found.owner:
            raise ReservedError(app_id, view.state, found.owner)
        if view.state == "running" and view.unstarted and found.labels.digest == self.attempt.digest:
            return True
        if view.state not in UNSTARTED_STATES:
            raise ReservedError(app_id, view.state)
        waiting = waiting_container(found.containers)
        if waiting is not None:
            decided = tombstones.decide(engine, waiting, tombstones.RESUME, take_over=self._take_over)
            if decided != tombstones.RESUME:
                raise ReservedError(app_id, view.state)  # another client gives it up at this moment
            self._replaced = waiting
        # First: a record of waiting without a container reads as a cancellation.
        record.clear(self.lock.app_dir)
        try:
            # The scratch volume stays: it may be another client's by now, and `create` replaces it.
            run_parallel(lambda each: engine.remove(each.id), found.containers)
        except Conflict as error:  # another client has just started it
            raise ReservedError(app_id, "running") from error
        return False

    def _image(self) -> tuple[str, Mapping[str, str]]:
        """Name and labels of the first role's image, which the app needs, for a container that never runs."""
        document = self.attempt.document
        name = str(document["roles"][0].get("image", ""))
        found = self._engine.image(name) if name else None
        policy = str(document.get("cfg", {}).get("image_pull", images.MISSING))
        if found is None and (not name or policy == images.NEVER):
            if not (name := images.any_of(self._engine) or name):
                raise SchedulerError("the engine has no image to reserve an app id with")
            found = self._engine.image(name)
        elif found is None:
            found = images.ensure_image(self._engine, name, images.MISSING, self._report, self.fresh)
        return name, found.labels if found is not None else {}
