"""Observe, list, stop and remove the apps of an engine; record and verify their ends."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from launcher.dataclass import replace
from launcher.errors import LauncherError
from launcher.holding.events import WITHDRAWN, cancelled
from launcher.paths import actor
from launcher.schedulers.backend import EngineApps
from launcher.schedulers.docker import apps, record, tombstones
from launcher.schedulers.docker.apps import DockerApp, list_containers
from launcher.schedulers.docker.client.engine import Engine, writable
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import INSPECTIONS, EngineView, run_parallel
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import PREFIX, Labels
from launcher.schedulers.docker.names import error_file, is_replica, where
from launcher.schedulers.docker.status import DockerReplica, view
from launcher.schedulers.docker.watching import waiting
from launcher.schedulers.docker.watching.waiting import ensure_watched
from launcher.schedulers.many import in_threads
from launcher.schedulers.record import SeenApp
from launcher.specs.attempt import Attempt, Recorded
from launcher.specs.launch import JobKey
from launcher.specs.replica_error import MOST_BYTES, error_text
from launcher.state.records import AppRecord, ReplicaRecord, of_attempt

if TYPE_CHECKING:
    from launcher.schedulers.api import Known

_MOST_FILES = 64  # error files to read; each takes two requests


class FoundApp(SeenApp):
    """An app at the engine; see `SeenApp`."""

    def __init__(self, found: DockerApp) -> None:
        labels, self._attempt = found.labels, _attempt_of(found)
        document = labels.document if self._attempt is None else self._attempt.document
        about = {"name": labels.name, "metadata": labels.metadata, "document": document}
        super().__init__(found.to_record(), about, found.owner)

    def attempt(self) -> Attempt | None:
        return self._attempt


class DockerApps(EngineApps):
    """The apps of an engine.

    Args:
        view: the engine. Methods that change an app need one that is not readonly.
        take_over: see `StagedScheduler`.
    """

    def __init__(self, view: EngineView, *, take_over: bool = False) -> None:
        self._view = view
        self._take_over = take_over

    @property
    def _engine(self) -> Engine:
        return writable(self._view)

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, app_id: str, *, whole: bool = False) -> SeenApp | None:
        """An app of this engine or, as last recorded here, of another one.

        Read as a whole, an app that needs a watcher and has none gets one.
        """
        if whole:
            watched = self._watched(app_id)
            return None if watched is None else self._whole(watched)
        found = apps.find(self._view, app_id, take_over=self._take_over)
        return record.elsewhere(self._view, app_id) if found is None else _brief(found)

    def _watched(self, app_id: str) -> DockerApp | None:
        found = apps.find(self._view, app_id)
        if found is None:
            record.refuse_elsewhere(self._view, app_id)
        elif found.view.needs_watcher and isinstance(self._view, Engine):
            ensure_watched(self._view, app_id)
        return found

    def _whole(self, found: DockerApp) -> SeenApp:
        """The app with its replicas, and with the errors that they left."""
        seen, drift = FoundApp(found), found.view.drift
        if drift not in seen.record.message:
            seen.record.message = "; ".join(filter(None, (seen.record.message, drift)))
        errors = error_files(self._view, found)
        seen.record.replicas = [_replica_record(each, found, errors) for each in found.view.replicas]
        return seen

    def read_ended(
        self, app_id: str, timeout_s: float | None = None, *, whole: bool = False
    ) -> SeenApp | None:
        """Wait for the end on the engine's event stream, and for its record.

        An app whose watcher dies meanwhile gets another one, which judges the end. One that waits for others
        and has no watcher is not waited for: the next apply starts it.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        found = self._watched(app_id)
        while found is not None and not found.is_abandoned:
            found = waiting.wait_for_end(self._view, app_id, deadline)
            is_left = found is not None and found.view.ended and found.view.needs_watcher
            if not (is_left and isinstance(self._view, Engine) and ensure_watched(self._view, app_id)):
                break
        if whole:
            return None if found is None else self._whole(found)
        if found is not None and not found.labels.is_job:
            return _brief(found)
        # The engine may have ended it by going away.
        return Patience(self._view.host, deadline).persist(lambda: self.read(app_id))

    def records(self) -> list[AppRecord]:
        """Every app of the engine, the newest first.

        The list alone does not show which containers wait to be restarted, nor which an engine ended as it
        stopped.
        """
        found = apps.find_all(self._view)
        unclear = [each for each in found if each.paused_by is not None or apps.needs_confirmation(each)]
        clear = run_parallel(lambda app: apps.inspect(self._view, app), unclear, INSPECTIONS)
        known = {each.app_id: each for each in clear}
        return [_with_start(known.get(each.app_id, each)) for each in found]

    def observe(
        self, keys: Collection[JobKey], settled: Collection[str] = (), known: Known = None
    ) -> list[Attempt]:
        """See `StagedScheduler.observe`.

        Ended attempts of jobs outside `keys` are returned until their end is recorded here. So are settled
        ones that another program has started again. Containers are inspected only where the list is not
        enough: for apps that have ended or lost their owner.
        """
        engine, take_over, asked = self._view, self._take_over, set(keys)
        stones = tombstones.read_all(engine)
        found = apps.find_all(engine, f"{PREFIX}job", stones=stones, take_over=take_over)
        ends = [(each.labels, each.view.state) for each in found]
        ends += [(each.labels, each.outcome.state) for each in stones.values()]
        latest = tombstones.decisive(each for each in ends if each[0].key in asked)

        def is_asked_for(app: DockerApp) -> bool:
            unsettled = not app.view.ended or (app.journal is not None and not app.journal.end_recorded)
            if app.app_id in settled:
                return bool(app.view.ended and app.view.live and app.app_id in latest)
            return unsettled or app.app_id in latest

        def confirmed(app: DockerApp) -> DockerApp | None:
            if not apps.needs_confirmation(app):
                return app
            return apps.find(engine, app.app_id, take_over=take_over, previous=app)

        current = run_parallel(confirmed, filter(is_asked_for, found), INSPECTIONS)
        attempts = [_attempt_of(app) for app in current if app is not None]
        there = {app.app_id for app in found} | set(settled)
        attempts += [
            stone.attempt() for app_id, stone in stones.items() if app_id in latest and app_id not in there
        ]
        here = [attempt for attempt in attempts if attempt is not None]
        return [*here, *record.live_elsewhere(engine, keys, settled)]

    def outcomes(self) -> list[Attempt]:
        stones = tombstones.read_all(self._view)
        latest = tombstones.decisive((each.labels, each.outcome.state) for each in stones.values())
        found = (stones[app_id].attempt() for app_id in sorted(latest))
        return [attempt for attempt in found if attempt is not None]

    def forget_outcome(self, app_id: str) -> None:
        if (stone := tombstones.read(self._engine, app_id)) is not None:
            tombstones.remove_replaced(self._engine, stone.labels.key)  # first: else one of these decides
            self._engine.remove_volume(stone.volume)

    def wait_for_start(self, app_id: str) -> None:
        waiting.wait_for_start(self._view, app_id)

    # -- ends ----------------------------------------------------------------------------------------------

    def stop_all(
        self, app_ids: Iterable[str], grace_s: float | None, *, interrupt: bool = False
    ) -> Iterator[tuple[str, LauncherError | None]]:
        """Stop apps; yields each app when none of its containers runs."""
        from launcher.schedulers.docker.watching import actions, ends

        def stop(app_id: str) -> None:
            if not interrupt:
                record.refuse_elsewhere(self._view, app_id)
            actions.cancel(self._engine, app_id, grace_s=grace_s, interrupt=interrupt)

        asked = list(app_ids)
        ends.decide_all(self._engine, asked, "cancelled", cancelled({"by": actor(), "interrupt": interrupt}))
        return in_threads(stop, asked)

    def withdraw_all(self, app_ids: Iterable[str]) -> Iterator[tuple[str, bool | LauncherError]]:
        from launcher.schedulers.docker.watching import ends

        asked = list(app_ids)
        ends.decide_all(self._engine, asked, "skipped", WITHDRAWN)
        return in_threads(lambda app_id: ends.give_up(self._engine, app_id, "skipped", WITHDRAWN), asked)

    def reap(self) -> list[Attempt]:
        from launcher.schedulers.docker.watching.ends import record_ends

        return record_ends(self._engine)

    def finished(self) -> list[AppRecord]:
        from launcher.schedulers.docker import gc

        return gc.finished(self._view)

    def remove(self, app_id: str) -> None:
        from launcher.schedulers.docker import gc

        gc.remove(self._engine, app_id)

    def remove_logs(self, app_id: str, *, dry_run: bool = False) -> str:
        from launcher.schedulers.docker import gc

        why = gc.why_logs_stay(self._view, app_id)
        if not why and not dry_run:
            gc.remove_logs(self._engine, app_id)
        return why

    def sweep(self) -> list[str]:
        from launcher.schedulers.docker import gc

        return gc.sweep(self._engine)

    # -- verifying -----------------------------------------------------------------------------------------

    def recorded(self, app_id: str) -> list[Recorded]:
        """See `StagedScheduler.recorded`: the volume of its outcome, its containers and its record here."""
        engine, found = self._view, []
        stone = tombstones.read(engine, app_id)
        if stone is not None and (attempt := stone.attempt()) is not None:
            found.append(Recorded(f"the volume {stone.volume}", attempt))
        replicas = engine.inspect_all(each.id for each in list_containers(engine, app_id) if is_replica(each))
        found += [Recorded(name, attempt, is_outcome=False) for name, attempt in _by_labels(replicas)]
        if (here := record.attempt_here(app_id)) is not None:
            found.append(Recorded("its record in LAUNCHER_HOME", here, is_outcome=here.state != "running"))
        return found


def _with_start(found: DockerApp) -> AppRecord:
    """The app as a list shows it, with its start, which may be in the record of another state folder."""
    app = found.to_record()
    if app.state == "running" and app.started_at is None:
        app.started_at = record.started_elsewhere(app.app_id, found.labels.owner)
    return app


def _brief(found: DockerApp) -> SeenApp:
    """The app without its replicas; a job's attempt is judged with its watcher's facts."""
    seen = FoundApp(found)
    attempt = seen.attempt()
    if attempt is not None:
        seen.record = of_attempt(attempt)
        seen.record.abandoned = found.is_abandoned
    return seen


def _attempt_of(found: DockerApp) -> Attempt | None:
    """As `apps.attempt_of`; also compares the input files of a success that no watcher has compared yet."""
    attempt, journal, view = apps.attempt_of(found), found.journal, found.view
    is_judged = view.inputs_changed or journal is None or journal.outcome is not None or view.final
    if attempt is None or attempt.state != "succeeded" or not attempt.inputs or is_judged:
        return attempt
    from launcher.schedulers.docker.watching.ends import changed_inputs

    labels = found.containers[0].labels if found.containers else {}
    return replace(attempt, inputs_changed=changed_inputs(found.app_dir, labels, is_late=True))


def error_files(engine: EngineView, found: DockerApp) -> dict[tuple[str, int], str]:
    """(role, replica) → text of its error file, for replicas that failed, or were stopped because one failed.

    A replica that a user stopped may have written a file too, which is not an error. A file that cannot be
    read counts as missing, so that the rest of the app can still be described.
    """
    view = found.view
    blamed = {"failed", "cancelled"} if view.state in ("failed", "lost") else {"failed"}
    some = [each for each in view.replicas if each.state in blamed and each.id]
    some.sort(key=lambda each: (each.state != "failed", each.ended_at or 0.0))
    del some[_MOST_FILES:]

    def text_of(replica: DockerReplica) -> str:
        path = error_file(replica.role, replica.k)
        try:
            return error_text(engine.read_file(replica.id, path, MOST_BYTES) or b"")
        except EngineError:
            return ""

    texts = run_parallel(text_of, some)
    return {(each.role, each.k): text for each, text in zip(some, texts, strict=True) if text}


def _replica_record(
    replica: DockerReplica, found: DockerApp, errors: Mapping[tuple[str, int], str]
) -> ReplicaRecord:
    return ReplicaRecord(
        replica.role,
        replica.k,
        "pending" if replica.waits else replica.state,
        exit_code=replica.exit_code,
        num_restarts=replica.num_restarts,
        started_at=replica.started_at,
        ended_at=replica.ended_at,
        message=replica.message or replica.waits or _published_ports(replica, found.labels),
        host=replica.hostname,
        structured_error_msg=errors.get((replica.role, replica.k), ""),
        use=replica.use,
    )


def _published_ports(replica: DockerReplica, labels: Labels) -> str:
    """The addresses of its ports on the engine's machine: `http at 127.0.0.1:49153`."""
    roles = labels.document.get("roles", ())
    ports = (each.get("port_map", {}).items() for each in roles if each["name"] == replica.role)
    found = ((name, replica.ports.get(port)) for name, port in next(ports, ()))
    return ", ".join(f"{name} at {at[0]}:{at[1]}" for name, at in found if at is not None)


def _by_labels(replicas: list[Container]) -> Iterator[tuple[str, Attempt]]:
    """The attempt of containers by their labels; the same object for all containers with equal labels."""
    shown = view(replicas, labels=Labels(replicas[0].labels)) if replicas else None
    images = {where(each)[0]: each.image_id for each in replicas}
    known: list[Attempt] = []
    for each in replicas:
        attempt = Labels(each.labels).attempt
        if attempt is not None and shown is not None and attempt not in known:
            known.append(attempt)
            state = replace(attempt, state=shown.state, exit_code=shown.exit_code, images=images)
            yield ("its containers" if len(known) == 1 else f"the container {each.name}"), state
