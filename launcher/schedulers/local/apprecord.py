"""Records and descriptions of local apps, from their folders. Imports no specs at the top."""

from __future__ import annotations

import os

from launcher.errors import StateError
from launcher.holding.events import OUT_OF_MEMORY
from launcher.schedulers.local import appview, rundir
from launcher.schedulers.record import SeenApp, in_state, row_of
from launcher.state.records import WAITING, AppRecord, ReplicaRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from launcher.schedulers.local.appview import AppView
    from launcher.schedulers.record import Recorded
    from launcher.schedulers.responses import DescribeAppResponse

_HOST = "localhost"
_URI_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")  # RFC 3986


def app_record(
    scheduler: str, session: str, app_id: str, view: AppView, recorded: Recorded | None = None
) -> AppRecord:
    """The app without its replicas.

    Args:
        scheduler, session: used when the app's own record does not name them yet.
        recorded: the contents of `attempt.json`, where the caller needs name, job and output.
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


def record_end(state_dir: str, app_id: str, view: AppView, *, durable: bool = False) -> bool:
    """Record the end of an app, after killing the processes that a dead supervisor left.

    True when this call recorded it. Without effect where the state folder cannot be written.
    """
    from launcher.schedulers.registry import open_store

    with open_store(readonly=True) as store:
        if store.is_tidied(app_id):
            return False
    return bool(record_ends(state_dir, {app_id: view}, durable=durable))


def record_ends(state_dir: str, ended: Mapping[str, AppView], *, durable: bool = False) -> set[str]:
    """`record_end` for several apps; returns the ids of apps whose end this call recorded."""
    from launcher.schedulers.registry import open_store

    for app_id, view in ended.items():
        if view.abandoned and view.started_at:
            appview.kill_leftovers(rundir.app_dir(state_dir, app_id), view)
    try:
        with open_store(durable=durable) as store:
            return store.end_and_tidy_all(app_record("", "", app_id, view) for app_id, view in ended.items())
    except StateError:
        return set()


class LocalApp(SeenApp):
    """See `SeenApp`.

    Args:
        scheduler, session: see `app_record`.
        whole: the record has the replicas.
    """

    def __init__(
        self, app_dir: str, view: AppView, scheduler: str = "", session: str = "", *, whole: bool = False
    ) -> None:
        recorded = appview.read_attempt(app_dir) or {} if whole else None
        record = app_record(scheduler, session, os.path.basename(app_dir), view, recorded)
        super().__init__(record, recorded, view.owner)
        self._app_dir = app_dir
        self._view = view
        if whole:
            record.replicas = replica_records(app_dir, view)
            record.logs_removed = rundir.has_no_logs(app_dir)

    @property
    def recorded(self) -> Recorded:
        """Read on use: the end of an app needs none of it."""
        if self._recorded is None:
            self._recorded = appview.read_attempt(self._app_dir) or {}
        return self._recorded

    def description(self) -> DescribeAppResponse:
        for each, seen in zip(self.record.replicas, self._view.replicas, strict=True):
            each.message = self._view.shown(seen)[1] or (f"killed: {OUT_OF_MEMORY}" if seen.oom else "")
        answer = super().description()
        log_dir = (appview.read_request(self._app_dir) or {}).get("log_dir")
        answer.ui_url = _file_uri(log_dir) if log_dir else None
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
    """Add the error files of the replicas that failed, or were stopped by a failure.

    The error file of a replica that a user stopped describes the stop, and no failure.
    """
    blamed = ("failed", "cancelled", "lost") if view.state in ("failed", "lost") else ("failed",)
    if not any(each.state in blamed for each in replicas):
        return
    from launcher.schedulers.local.logfiles import errors

    found = errors(app_dir, [(each.role, each.k) for each in replicas if each.state in blamed])
    for each in replicas:
        each.structured_error_msg = found.get((each.role, each.k), "")


def _file_uri(path: str) -> str:
    """`file:` URI of an absolute path, without pathlib and urllib.parse, which cost more than the answer."""
    return "file://" + "".join(chr(c) if c in _URI_SAFE else f"%{c:02X}" for c in os.fsencode(path))
