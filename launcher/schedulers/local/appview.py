"""Read the folder of a local app: its state from its events, its record and description, its leftovers.

Imports no specs at the top.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os
import time

from launcher import paths
from launcher.errors import StateError
from launcher.holding.events import OUT_OF_MEMORY
from launcher.holding.journal import read_events
from launcher.holding.state import AppState
from launcher.schedulers import pids
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import rundir
from launcher.schedulers.record import SeenApp, in_state, read_attempt, read_json, row_of
from launcher.schedulers.registry import open_store
from launcher.state.records import UNSTARTED, WAITING, AppRecord, ReplicaRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from launcher.schedulers.pids import Process
    from launcher.schedulers.record import Recorded
    from launcher.schedulers.responses import DescribeAppResponse
    from launcher.specs.attempt import AttemptState

_HOST = "localhost"
_URI_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")  # RFC 3986
VERSION = 1
_PROCESSES = ("supervisor", "holder")
"""The kinds of events that name a process; the processes are attributes of `AppView`."""
_SUPERVISOR = b"launcher.schedulers.local.supervisor"
_HELD = (*WAITING, "running", "lost")
"""The states of an app that its supervisor holds, or has just held."""
NOT_COMPARED = "its supervisor was killed before it compared the input files"
LOST = "its supervisor ended without a word (killed, or the machine was restarted)"

_AGAIN_S = 0.002
_FRESH_S = 0.05  # how long a look at a process counts: one process may hold thousands of apps
_SHORT_PATIENCE_S = 0.05
_GONE_S = 0.5  # time for the processes of a removed folder to end
PATIENCE_S = 5.0  # time for killed processes to exit; processes that hang in the kernel are given up then
_patience_s = 1.0  # how long to wait for a lock; less once a lock has outlasted it
_last_seen = (0, 0, 0.0)  # pid, start and time of the last look that found a process running


class AppView(AppState):
    """An app according to its record and its lock.

    Attributes:
        supervisor: (pid, start time, boot id) of its supervisor; None before there is one.
        holder: the same for the process that holds the app with others until its start; None for none.
        owner: the client that is submitting a reserved or created app; "" when there is none.
        abandoned: its supervisor died before it recorded the end; processes of the app may be left.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state: AttemptState
        self.supervisor: tuple[int, int, str] | None = None
        self.holder: tuple[int, int, str] | None = None
        self.owner = ""
        self.lock_held = False
        self.handle = ""
        self.abandoned = False

    def end(self, state: AttemptState | str, message: str, code: int | None, at: float | None = None) -> None:
        """End the app, whose supervisor did not record an end. Its other replicas count as stopped."""
        self.stop_reason = message
        self._on_ended({"state": state, "message": message, "code": code}, at or 0)
        self.ended_at = at

    def lose(self) -> None:
        """Count the app as lost: its supervisor has died, and no end is on record."""
        self.abandoned, self.state, self.message = True, "lost", LOST

    def note_process(self, event: dict[str, Any]) -> None:
        """Take the process that an event names. Raises StateError for one of a newer version."""
        if event["v"] > VERSION:
            raise StateError(
                f"{event['handle']} was started by a newer version of launcher (record version {event['v']})",
                hint="use the newer version for this app",
            )
        self.handle = event["handle"]
        setattr(self, event["e"], (event["pid"], event["start"], event["boot"]))


def fold(record: bytes, *, locked: bool) -> AppView:
    """The app's state, from the bytes of its record events.jsonl and whether the app is locked.

    Raises StateError for a record that a newer version wrote.
    """
    events = read_events(record)
    view = AppView()
    view.lock_held = locked
    for event in events:
        view.take(event)
        if event.get("e") in _PROCESSES:
            view.note_process(event)
    if view.state != "running" or locked:
        return view
    from launcher.holding.hold import implied_end

    view.lose()
    end = implied_end(events)
    if end is not None:
        view.take({**end, "t": int(view.last_at * 1e9)})
        compares_inputs = any(each.get("inputs") for each in events if each.get("e") == "starting")
        if end["state"] == "succeeded" and compares_inputs:
            view.inputs_changed = view.inputs_changed or NOT_COMPARED
    return view


def read_state(app_dir: str, *, ours: bool = False) -> AppView | None:
    """The state of an app by its record and lock; None when there is no such folder. Writes nothing.

    `ours`: the caller holds the lock, so no supervisor holds it.

    Raises StateError for a record that cannot be read, or that a newer version wrote.
    """
    folder = AppFolder(app_dir)
    locked = not ours and folder.is_locked()
    record = _record(folder)  # after the lock: without a holder, the record is complete
    view = fold(record, locked=locked)
    process = view.supervisor or view.holder
    if locked and process and view.state in ("created", *WAITING, "running"):
        locked = _outlasts(folder, process)
        if not locked:  # the app may have ended since the record was read
            record = _record(folder)
            view = fold(record, locked=False)
    elif not locked and not ours and view.state in _HELD and view.supervisor is not None:
        pid, start, boot = view.supervisor  # it runs on where its lock file was removed, or replaced
        locked = pids.is_running(pid, start) and boot == pids.boot_id()
        record = _record(folder)  # after that look: the app may have ended since the record was read
        view = fold(record, locked=locked)
    if not record and not os.path.isdir(app_dir):
        return None
    if view.state == "reserved" and not process and not _is_judged_by_ledger(folder, record, view):
        return read_state(app_dir, ours=ours)
    if view.state == "lost" or (view.state in WAITING and not locked):
        _end_as_asked(app_dir, view)
    if locked and view.state in UNSTARTED:
        host = os.uname().nodename
        signed = b"" if process else folder.read("lock") or b""
        by = f"pid {process[0]} on {host}" if process else f"a process on {host}"
        view.owner = signed.decode(errors="replace").strip() or by
    return view


def _is_judged_by_ledger(folder: AppFolder, record: bytes, view: AppView) -> bool:
    """Judge an app whose record says nothing by its row; False if its client has gone on since then."""
    from launcher.schedulers.local.emptied import check_held, row_of_started

    if folder.path != paths.local_app(folder.app_id):
        return True  # the ledger knows only the apps of its own state folder
    row = row_of_started(folder)
    if _record(folder) != record:
        return False
    if view.lock_held:
        check_held(folder, row)
    if row is not None:
        view.lose()
        view.started_at = row.started_at
        if row.has_ended:
            view.end(row.state, row.message, row.exit_code, row.ended_at)
    return True


def _record(folder: AppFolder) -> bytes:
    try:
        return folder.read(rundir.EVENTS) or b""
    except OSError as error:
        lock = os.path.join(folder.path, "lock")
        raise StateError(
            f"cannot read {rundir.events(folder.path)}: {error.strerror}",
            hint=f"until then the app is left alone; `fuser -v {lock}` names the process that holds it",
        ) from error


def _end_as_asked(app_dir: str, view: AppView) -> None:
    """End an app whose supervisor died while a client cancelled the app: it is cancelled, not lost. A waiting
    app that was cancelled or withdrawn ends in that state, too."""
    from launcher.holding.events import WITHDRAWN, cancelled

    if view.state in WAITING and rundir.decision(app_dir) == rundir.WITHDRAWN:
        view.abandoned = True
        view.end("skipped", WITHDRAWN, None, _written_at(rundir.decision_file(app_dir)))
    elif (request := rundir.cancellation(app_dir)) is not None:
        view.abandoned = True
        view.end("cancelled", cancelled(request), None, _written_at(rundir.cancel(app_dir)))


def _written_at(path: str) -> float | None:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return None


def _outlasts(folder: AppFolder, process: tuple[int, int, str]) -> bool:
    """Whether the lock of an app stays held. A process that a killed supervisor was spawning holds a copy of
    the lock until its exec: for a few milliseconds, longer on a busy machine.

    A supervisor in another container is not visible here, and its lock stays held. This process waits for the
    whole time only once.
    """
    global _patience_s, _last_seen
    pid, start, boot = process
    if _last_seen[:2] == (pid, start) and time.monotonic() < _last_seen[2] + _FRESH_S:
        return True
    deadline = time.monotonic() + _patience_s
    while not pids.is_running(pid, start) and boot == pids.boot_id():
        if time.monotonic() > deadline:
            _patience_s = _SHORT_PATIENCE_S
            break
        time.sleep(_AGAIN_S)
        if not folder.is_locked():
            return False
    _last_seen = pid, start, time.monotonic()
    return True


# -- its record and description ----------------------------------------------------------------------------


def app_record(
    scheduler: str, session: str, app_id: str, view: AppView, recorded: Recorded | None = None
) -> AppRecord:
    """The app without its replicas.

    Args:
        scheduler, session: used when the app's own record does not name them yet.
        recorded: the contents of `attempt.json`, for name, job and output.
    """
    if view.handle:
        scheduler, _, rest = view.handle.partition("://")
        session = rest.partition("/")[0]
    row = row_of(scheduler, app_id, recorded, session) if recorded else AppRecord(scheduler, session, app_id)
    record = in_state(row, view)
    record.created_at = record.created_at or view.created_at
    record.abandoned = view.state in WAITING and not view.owner
    record.warnings = list(view.warnings)
    return record


def record_end(app_id: str, view: AppView, *, durable: bool = False) -> bool:
    """Record the end of an app, after killing what a dead supervisor left; True when this call recorded it.

    Without effect where the state folder cannot be written.
    """
    with open_store(readonly=True) as store:
        if store.is_tidied(app_id):
            return False
    return bool(record_ends({app_id: view}, durable=durable))


def record_ends(ended: Mapping[str, AppView], *, durable: bool = False) -> set[str]:
    """`record_end` for several apps; returns the ids of apps whose end this call recorded."""
    for app_id, view in ended.items():
        if view.abandoned and view.started_at:
            kill_leftovers(paths.local_app(app_id), view)
    try:
        with open_store(durable=durable) as store:
            return store.end_and_tidy_all(app_record("", "", app_id, view) for app_id, view in ended.items())
    except StateError:
        return set()


class LocalApp(SeenApp):
    """See `SeenApp`. With `whole`, the record has the replicas. `scheduler`, `session`: see `app_record`."""

    def __init__(
        self, app_dir: str, view: AppView, scheduler: str = "", session: str = "", *, whole: bool = False
    ) -> None:
        recorded = read_attempt(app_dir) or {} if whole else None
        record = app_record(scheduler, session, os.path.basename(app_dir), view, recorded)
        super().__init__(record, recorded, view.owner, folder=app_dir)
        self._view = view
        if whole:
            record.replicas = replica_records(app_dir, view)
            record.logs_removed = rundir.has_no_logs(app_dir)

    def description(self) -> DescribeAppResponse:
        for each, seen in zip(self.record.replicas, self._view.replicas, strict=True):
            each.message = self._view.shown(seen)[1] or (f"killed: {OUT_OF_MEMORY}" if seen.oom else "")
        answer = super().description()
        if log_dir := (read_json(self._folder, "request.json") or {}).get("log_dir"):
            # Without pathlib and urllib.parse, which cost more than the answer.
            quoted = (chr(c) if c in _URI_SAFE else f"%{c:02X}" for c in os.fsencode(log_dir))
            answer.ui_url = f"file://{''.join(quoted)}"
        return answer


def replica_records(app_dir: str, view: AppView) -> list[ReplicaRecord]:
    """The replicas of the app, with their error files."""
    found = []
    for each in view.replicas:
        state, message = view.shown(each)
        why = OUT_OF_MEMORY if each.oom else f"signal {each.signal}" if each.signal else ""
        made = ReplicaRecord(
            each.role.name,
            each.k,
            state,
            exit_code=each.code,
            num_restarts=each.restarts,
            started_at=each.started_at,
            ended_at=each.ended_at,
            message=message or why,
            host=_HOST,
            use=each.use,
        )
        found.append(made)
    _add_errors(app_dir, view, found)
    return found


def _add_errors(app_dir: str, view: AppView, replicas: list[ReplicaRecord]) -> None:
    """Add the error files of the replicas that failed, or were stopped by a failure, and not by a user."""
    blamed = ("failed", "cancelled", "lost") if view.state in ("failed", "lost") else ("failed",)
    if not any(each.state in blamed for each in replicas):
        return
    from launcher.schedulers.local.logfiles import errors

    found = errors(app_dir, [(each.role, each.k) for each in replicas if each.state in blamed])
    for each in replicas:
        each.structured_error_msg = found.get((each.role, each.k), "")


# -- the leftovers of a dead supervisor ------------------------------------------------------------------


def visible_pid(pid: int, start: int, boot: str) -> int | None:
    """The pid by which this process can signal a recorded process; None when that is not visible.

    A record has the pid in the process's own namespace: outside of a container its processes have other pids.
    """
    if boot != pids.boot_id():
        return None
    if pids.is_running(pid, start):
        return pid
    for each in pids.processes():
        if each.start == start and each.alive and pids.innermost(each.pid) == pid:
            return each.pid
    return None


def kill_leftovers(app_dir: str, view: AppView) -> int:
    """KILL every process of an app without a supervisor, until none is left; returns their number."""
    killed: set[tuple[int, int]] = set()
    deadline = time.monotonic() + PATIENCE_S
    while left := leftovers(app_dir, view):
        for each in left:
            try:
                if pids.send(each.pid, each.start, _signal.SIGKILL):
                    killed.add((each.pid, each.start))
            except PermissionError:  # the process runs as another user by now
                pass
        if time.monotonic() > deadline:
            break
        for each in left:
            pids.wait_for_exit(each.pid, each.start, deadline - time.monotonic())
    return len(killed)


def leftovers(app_dir: str, view: AppView) -> list[Process]:
    """The living processes of an app: found by their environment, or by the session of a replica that still
    has its leader; and all their descendants. Without /proc: none."""
    everybody = [each for each in pids.processes() if each.pid != os.getpid()]
    mark = b"LAUNCHER_SCRATCH=" + os.fsencode(rundir.scratch(app_dir))
    sessions = set()
    if view.supervisor is not None and view.supervisor[2] == pids.boot_id():
        recorded = {each.run for each in view.replicas}  # otherwise the number may have been reused
        sessions = {each.pid for each in everybody if (each.pid, each.start) in recorded}
    found = {each.pid: each for each in everybody if each.session in sessions or _has(each, mark)}
    found.update({each.pid: each for each in pids.descendants(found, everybody)})
    return [each for each in found.values() if each.alive]


def check_gone(app_dir: str) -> None:
    """Raise StateError for an app without a folder whose processes run on, so that it does not start again.

    The folder was removed or moved. Only an app that the ledger has as live is looked for. Processes that
    were killed with the folder's removal get a moment to end.
    """
    app_id = os.path.basename(app_dir)
    with open_store(readonly=True) as store:
        row = store.app(app_id)
    if row is None or not row.is_live:
        return
    deadline = time.monotonic() + _GONE_S
    while (left := leftovers(app_dir, AppView())) and time.monotonic() < deadline:
        pids.wait_for_exit(left[0].pid, left[0].start, deadline - time.monotonic())
    known = {each.pid for each in left}
    above = sorted({each.parent for each in left} - known)
    supervisors = [pid for pid in above if _SUPERVISOR in pids.read(f"/proc/{pid}/cmdline")]
    if left:
        raise StateError(
            f"the folder of {app_id} is gone, and its processes run on: {app_dir}",
            hint=f"put it back; or end the app: kill -9 {' '.join(map(str, (*supervisors, *sorted(known))))}",
        )


def _has(process: Process, mark: bytes) -> bool:
    """Whether a process was started with this variable. False for another user's, which cannot be read."""
    return mark in pids.environment(process.pid).split(b"\0")
