"""Observe, list, stop and remove the apps of the state folder; record their ends; restore their rows."""

from __future__ import annotations

import os
import time

from launcher import paths
from launcher.errors import SchedulerError, StateError
from launcher.files import is_below
from launcher.schedulers.appfolder import AppFolder, sweep
from launcher.schedulers.backend import EngineApps
from launcher.schedulers.local import rundir
from launcher.schedulers.record import in_state
from launcher.schedulers.registry import open_store
from launcher.state.records import PENDING, UNSTARTED, WAITING, AppRecord, as_seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import TypeVar

    from launcher.errors import LauncherError
    from launcher.schedulers.api import Known, OnWait
    from launcher.schedulers.local.appview import AppView, LocalApp
    from launcher.specs.attempt import Attempt, AttemptState
    from launcher.specs.launch import JobKey
    from launcher.state.store import Store

    T = TypeVar("T")


_READ_WITHIN_S = 60.0
_POLL_S = 0.001
_MANY = 100  # jobs for which one listing is quicker than a look for each
_PATIENCE_S = 5.0  # time for the exit of a supervisor that has recorded the end


class LocalApps(EngineApps):
    """The apps of a state folder, which local_cwd and local_dir share.

    Args:
        backend: the scheduler whose records are listed.
        session: the session of apps without a job.
        on_wait, store: see `Scheduler.on_wait`, `StagedScheduler.store`.
    """

    def __init__(
        self, backend: str, session: str = "", on_wait: OnWait | None = None, store: Store | None = None
    ) -> None:
        self._backend = backend
        self._session = session
        self._on_wait = on_wait
        self._store = store

    def _asked(self, ask: Callable[[Store], T]) -> T:
        """The answer of the open store or, without one, of the store in LAUNCHER_HOME, read once."""
        if self._store is not None:
            return ask(self._store)
        with open_store(readonly=True) as opened:
            return ask(opened)

    def read(self, app_id: str, *, whole: bool = False) -> LocalApp | None:
        """Read an app. With `whole`, an app whose supervisor has died is ended: its processes are killed."""
        return self._app(app_id, _read_state(paths.local_app(app_id)), whole=whole, tidy=whole)

    def read_ended(
        self, app_id: str, timeout_s: float | None = None, *, whole: bool = False
    ) -> LocalApp | None:
        """Read the app once it has ended: the kernel wakes this call when the supervisor ends."""
        return self._app(app_id, wait_for_end(paths.local_app(app_id), timeout_s), whole=whole, tidy=True)

    def _app(self, app_id: str, view: AppView | None, *, whole: bool, tidy: bool) -> LocalApp | None:
        if view is None:
            return None
        from launcher.schedulers.local.appview import LocalApp, record_end

        if view.abandoned and tidy:
            record_end(app_id, view)
        return LocalApp(paths.local_app(app_id), view, self._backend, self._session, whole=whole)

    def observe(
        self, keys: Collection[JobKey], settled: Collection[str] = (), known: Known = None
    ) -> list[Attempt]:
        """Every live attempt of a job and the latest one of each of `keys`, without those in `settled`.

        Finds an attempt of `keys` without a row by the name of its folder. Writes nothing.
        """
        found = self._in_line(known or {})
        settled = {*settled, *found}

        def ask(store: Store) -> tuple[list[AppRecord], list[AppRecord]]:
            live = store.to_tidy(rundir.SCHEDULERS, settled)
            return live, store.of_jobs(keys, rundir.SCHEDULERS, settled)

        live, of_jobs = self._asked(ask)
        for row in live:
            attempt = self._attempt(row, known) if row.job is not None else None
            if attempt is not None:
                found[row.app_id] = attempt
        done = set()
        for row in [*self._without_rows(keys, of_jobs, settled), *of_jobs]:  # of each job, the highest first
            if row.key in done:
                continue
            attempt = found.get(row.app_id) or self._attempt(row, known)
            if attempt is not None:  # a row without a folder is void: an older attempt is the latest
                found[row.app_id] = attempt
                done.add(row.key)
        return list(found.values())

    def _in_line(self, known: Mapping[str, Attempt]) -> dict[str, Attempt]:
        """App id → attempt, for many that a living process holds in line (see `launcher.turns.queue`)."""
        queued = [each for each in known.values() if each.state == "queued"]
        if len(queued) < _MANY:
            return {}
        from launcher.paths import token
        from launcher.turns.machine import slots_table
        from launcher.turns.table import in_lines

        held = in_lines(slots_table(), token()).intersection(folders())
        return {each.app_id: each for each in queued if each.owner and each.app_id in held}

    def _without_rows(
        self, keys: Collection[JobKey], rows: list[AppRecord], settled: Collection[str]
    ) -> list[AppRecord]:
        """Rows for attempts with a folder, but no row, after the latest known one of each job, highest first.

        This checks one path per job; for many jobs one listing names those that need it.
        """
        from launcher.specs.jobkey import attempt_id

        known: dict[tuple[str, str], int] = {}  # (job, hash of project and target) → the highest number
        ids = [row.app_id for row in rows]
        for app_id in (*settled, *ids):
            job, text, scope = ("", "", *app_id.rsplit("-", 2))[-3:]
            if text.isdecimal():
                known[job, scope] = max(int(text), known.get((job, scope), 0))
        if len(keys) >= _MANY:
            others = {*folders()}.difference(settled, ids)
            jobs = {app_id.rsplit("-", 2)[0] for app_id in others}
            keys = [key for key in keys if key.job in jobs]
        out: list[AppRecord] = []
        for key in keys:
            number = known.get((key.job, attempt_id(key, 0).rpartition("-")[2]), 0) + 1
            while os.path.isdir(paths.local_app(app_id := attempt_id(key, number))):
                out += [app for app, _ in records([app_id])]
                number += 1
        return [row for row in reversed(out) if row.job is not None]

    def _attempt(self, row: AppRecord, known: Known = None) -> Attempt | None:
        """The attempt of a row; without a record it has no document. `known`: see `observe`.

        An attempt whose record cannot be read is returned as last known, with `unreadable` set.
        """
        from launcher.schedulers.local.appview import LocalApp

        app_dir = paths.local_app(row.app_id)
        try:
            view = _read_state(app_dir)
        except StateError as error:
            from launcher.dataclass import replace

            return replace((known or {}).get(row.app_id) or _of_row(row, row.state), unreadable=str(error))
        if view is None:
            return None
        app = LocalApp(app_dir, view)
        if known and row.app_id in known and view.state not in PENDING:
            return as_seen(known[row.app_id], app.record, app.owner)
        return app.attempt() or _of_row(row, view.state, view.owner)

    def records(self) -> list[AppRecord]:
        """The apps of the scheduler, the newest first. Apps without a recorded end are read from folders.

        One whose record cannot be read is as last known, with a warning that says why.
        """
        apps = self._asked(lambda store: store.apps(self._backend))
        out = []
        for app in apps:
            if app.is_live:
                try:
                    view = _read_state(paths.local_app(app.app_id))
                except StateError as error:
                    app.warnings = [str(error)]
                    out.append(app)
                    continue
                if view is None:
                    continue
                in_state(app, view)
            out.append(app)
        return out

    def wait_for_start(self, app_id: str) -> None:
        """Return once a held app has started or ended, or its supervisor has died."""
        from launcher.schedulers.local.filewatch import AppWatch

        app_dir = paths.local_app(app_id)
        with AppWatch(app_dir) as watch:
            while not watch.ended:
                view = _read_state(app_dir)
                if view is None or view.state not in UNSTARTED:
                    return
                watch.wait()

    def stop_all(
        self, app_ids: Iterable[str], grace_s: float | None, *, interrupt: bool = False
    ) -> Iterator[tuple[str, LauncherError | None]]:
        """Stop apps; yields each app when no process of it is left."""
        from launcher.schedulers.local.stop import cancel

        return cancel(app_ids, grace_s, interrupt=interrupt, on_wait=self._on_wait)

    def withdraw_all(self, app_ids: Iterable[str]) -> Iterator[tuple[str, bool | LauncherError]]:
        from launcher.schedulers.local.stop import withdraw

        return withdraw(app_ids, self._on_wait)

    def sweep(self) -> list[str]:
        from launcher.turns.machine import gpu_table, slots_table
        from launcher.turns.table import tidy

        for table in (slots_table(), gpu_table()):
            tidy(table)
        return []

    def reap(self) -> list[Attempt]:
        """Record the ends of apps, and remove the processes, folders and void rows of dead owners.

        Returns the attempts of jobs whose end was recorded by this call.
        """
        from launcher.schedulers.local.appview import record_ends

        apps_dir = paths.local_apps()
        if not os.path.isdir(apps_dir):
            return []
        sweep(apps_dir)

        def ask(store: Store) -> tuple[int, list[AppRecord]]:
            return store.count(rundir.SCHEDULERS), store.to_tidy(rundir.SCHEDULERS)

        rows, live = self._asked(ask)
        if rows < len(folders()):
            with open_store(durable=False) as store:
                add_missing(store)
                live = store.to_tidy(rundir.SCHEDULERS)
        ended = {app.app_id: view for app in live if (view := self._ended_or_removed(app)) is not None}
        jobs = {app.app_id: app for app in live if app.app_id in ended and app.job is not None}
        first = record_ends(ended, durable=bool(jobs)) if ended else set()
        found = (self._attempt(jobs[app_id]) for app_id in jobs if app_id in first)
        return [attempt for attempt in found if attempt is not None]

    def _ended_or_removed(self, app: AppRecord) -> AppView | None:
        """The app if it has ended. Removes a void row, and the app without a job of a dead owner."""
        app_dir = paths.local_app(app.app_id)
        try:
            view = _read_state(app_dir)
        except StateError:  # it may be live; plans name it
            return None
        if view is None:
            with open_store(durable=False) as store:
                store.remove_void(app.app_id, app_dir)
        elif view.has_ended:
            return view
        elif view.state in PENDING and not view.lock_held and app.job is None:
            # The next apply resumes or removes attempts of jobs.
            from launcher.schedulers.local.claim import discard_ownerless

            discard_ownerless(app_dir)
        return None

    def finished(self) -> list[AppRecord]:
        """See `StagedScheduler.finished`. Writes nothing."""
        found = [app for app in self.records() if app.has_ended or app.warnings]
        for app in found:
            app.ended_at = app.ended_at or app.created_at
            app.in_use = self._is_in_use(app)
            app.logs_removed = rundir.has_no_logs(paths.local_app(app.app_id))
        return found

    def _is_in_use(self, row: AppRecord) -> bool:
        """Whether an app without a job has just ended, and its client is to read the folder."""
        if row.job is not None or row.ended_at is None or row.ended_at < time.time() - _READ_WITHIN_S:
            return False
        from launcher.schedulers import pids
        from launcher.schedulers.local.emptied import claimant

        pid = claimant(AppFolder(paths.local_app(row.app_id)))
        return pid not in (None, os.getpid()) and pids.start_time(pid or 0) is not None

    def remove(self, app_id: str) -> None:
        """Remove folder and row of an app that has ended. Raises SchedulerError when it has not."""
        from launcher.schedulers.local.claim import discard_ended

        app_dir = paths.local_app(app_id)
        view = self._ended(app_id)
        if view is None:
            with open_store(durable=False) as store:
                store.remove_void(app_id, app_dir)
            return
        self._finish(app_id, view)
        try:
            discard_ended(app_dir)
        except OSError as error:
            raise paths.unusable(error, app_dir) from error

    def remove_logs(self, app_id: str, *, dry_run: bool = False) -> str:
        """See `StagedScheduler.remove_logs`. Error files, which lie beside the logs, stay."""
        from launcher.schedulers.local.logfiles import folders_of, remove_logs

        app_dir = paths.local_app(app_id)
        view = self._ended(app_id)
        found = [each for of_role in (folders_of(app_dir) or {}).values() for each in of_role]
        if not all(is_below(os.path.realpath(each), os.path.realpath(app_dir)) for each in found):
            return "their logs are in a `log_dir`, which launcher leaves to you"
        if view is not None and not dry_run:
            self._finish(app_id, view)
            try:
                remove_logs(found)
                AppFolder(app_dir).write(rundir.LOGS_REMOVED, "")
            except OSError as error:
                raise paths.unusable(error, app_dir) from error
        return ""

    def _ended(self, app_id: str) -> AppView | None:
        """The app; None without a folder. Raises SchedulerError when it has not ended."""
        view = _read_state(paths.local_app(app_id))
        if view is None or view.has_ended:
            return view
        raise SchedulerError(f"{app_id} has not ended: {view.state}", hint=f"launcher cancel {app_id}")

    def _finish(self, app_id: str, view: AppView) -> None:
        """Record the end, and wait until no process writes into the folder of the app."""
        from launcher.schedulers import pids
        from launcher.schedulers.local.appview import record_end

        record_end(app_id, view)  # kills the processes of a lost app
        if view.supervisor and view.lock_held:
            pids.wait_for_exit(*view.supervisor[:2], _PATIENCE_S)


def _of_row(row: AppRecord, state: AttemptState | str, owner: str = "") -> Attempt:
    """The attempt of a row, without its document."""
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey

    return Attempt(
        key=JobKey(*row.key),
        number=row.number or 0,
        app_id=row.app_id,
        scheduler=row.scheduler,
        digest="",
        document={},
        created_at=row.created_at or 0.0,
        state=state,  # type: ignore[arg-type]
        owner=owner,
    )


def _read_state(app_dir: str) -> AppView | None:
    # Not for apps that the ledger knows to have ended.
    from launcher.schedulers.local.appview import check_gone, read_state

    view = read_state(app_dir)
    if view is None:
        check_gone(app_dir)
    return view


def wait_for_end(app_dir: str, timeout_s: float | None = None) -> AppView | None:
    """Return the state once the app has ended, has no supervisor, or `timeout_s` has passed.

    It waits for the exit of the supervisor, not for the last event: the kernel takes some 20 ms to free an
    inotify descriptor.
    """
    from launcher.schedulers import pids

    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (view := _read_state(app_dir)) is not None and view.lock_held:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            break
        if view.supervisor is not None and pids.is_running(*view.supervisor[:2]):
            pids.wait_for_exit(*view.supervisor[:2], left)
        elif view.supervisor is not None or view.has_ended:
            time.sleep(_POLL_S)  # its lock is about to be released, which changes no file
        else:
            from launcher.schedulers.local.filewatch import AppWatch

            with AppWatch(app_dir) as watch:
                watch.wait(left)
    return view


def add_missing(store: Store) -> None:
    """Add rows for folders without one: rows are lost when the database is deleted."""
    known = set(store.app_ids(rundir.SCHEDULERS))
    missing = [app_id for app_id in folders() if app_id not in known]
    store.add_all(records(missing))


# -- the folders of apps -----------------------------------------------------------------------------------


def apps() -> Iterator[tuple[AppRecord, bool]]:
    """Every app that has a folder, as `registry.every_app` yields them."""
    return records(folders())


def records(app_ids: list[str]) -> Iterator[tuple[AppRecord, bool]]:
    """The records of the apps that have a folder, each with whether its end is still to be recorded."""
    return (found for app_id in app_ids if (found := _record(app_id)) is not None)


def folders() -> list[str]:
    """The ids of the apps that have a folder."""
    try:
        names = os.listdir(paths.local_apps())
    except OSError:
        return []
    return [name for name in names if not name.startswith(".")]


def _record(app_id: str) -> tuple[AppRecord, bool] | None:
    from launcher.schedulers.local.appview import app_record
    from launcher.schedulers.record import read_attempt

    app_dir = paths.local_app(app_id)
    try:
        recorded = read_attempt(app_dir) or {}
        view = _read_state(app_dir)
        made_at = os.stat(app_dir).st_mtime
    except (StateError, OSError):  # a newer version wrote it, or it was removed since the listing
        return None
    if view is None:
        return None
    made = app_record(recorded.get("scheduler") or rundir.SCHEDULERS[0], "launcher", app_id, view, recorded)
    made.name = made.name or app_id
    made.created_at = made.created_at or made_at
    if view.has_ended and view.state != "lost" and not view.abandoned:
        return made, False
    # Processes may be left.
    made.ended_at, made.message, made.exit_code = None, "", None
    made.state = "running" if view.started_at else view.state if view.state in WAITING else "reserved"
    return made, True
