"""Turn the recorded attempt and the state of an app into the records and answers of schedulers.

Imports no specs at the top: `list` and `status` load this module.
"""

from __future__ import annotations

import os
import sys

from launcher.specs.jobkey import JobKey
from launcher.state.records import AppRecord, as_seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from launcher.holding.use import Use
    from launcher.schedulers.responses import DescribeAppResponse
    from launcher.specs.app import AppDef
    from launcher.specs.attempt import Attempt
    from launcher.turns.line import Ask

    Recorded = Mapping[str, Any]
    """The contents of `attempt.json`: the fields of `Attempt.to_json`. Of an app that no job file made it has
    `name` and `session` instead of the key, which is None; {} where nothing is recorded yet."""

    class View(Protocol):
        """The state of an app, as `launcher.holding` folds it."""

        @property
        def state(self) -> str: ...
        @property
        def message(self) -> str: ...
        @property
        def code(self) -> int | None: ...
        @property
        def started_at(self) -> float | None: ...
        @property
        def ended_at(self) -> float | None: ...
        @property
        def num_restarts(self) -> int: ...
        @property
        def inputs_changed(self) -> str: ...
        @property
        def output_digest(self) -> str: ...
        @property
        def used(self) -> Mapping[str, Use]: ...


def write_json(app_dir: str, name: str, value: Mapping[str, Any]) -> None:
    """Write a JSON file in an app's folder. Raises StateError; then the old file stays."""
    import json

    from launcher import paths
    from launcher.schedulers.appfolder import AppFolder

    try:
        AppFolder(app_dir).write(name, json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except OSError as error:
        raise paths.unusable(error, os.path.join(app_dir, name)) from error


def read_json(app_dir: str, name: str) -> dict[str, Any] | None:
    """Read a JSON file in an app's folder; None for a missing or damaged one. Raises StateError."""
    from launcher.errors import StateError
    from launcher.schedulers.appfolder import AppFolder

    try:
        return AppFolder(app_dir).read_json(name)
    except OSError as error:
        raise StateError(f"cannot read {os.path.join(app_dir, name)}: {error.strerror}") from error


def read_attempt(app_dir: str) -> dict[str, Any] | None:
    """Read attempt.json; None when its client was killed before it wrote it, or the folder is missing.

    Raises StateError for a file that cannot be read.
    """
    return read_json(app_dir, "attempt.json")


def attempt_of_app(app: AppDef, cfg: Mapping[str, Any], scheduler: str, session: str, app_id: str) -> Attempt:
    """The attempt number 0, for an app that no job file made."""
    import time

    from launcher.specs.attempt import Attempt
    from launcher.specs.canonical import document_of
    from launcher.specs.jobkey import DEFAULT_TARGET

    return Attempt(
        key=JobKey(session, DEFAULT_TARGET, app.name),
        number=0,
        app_id=app_id,
        scheduler=scheduler,
        digest="",
        document=document_of(app, cfg, scheduler),
        metadata={str(name): str(value) for name, value in app.metadata.items()},
        created_at=time.time(),
    )


def ask_of_run(app: AppDef, app_id: str, *, in_turn: bool, is_held_here: bool = True) -> Ask | None:
    """The app's request to this machine, behind earlier ones; None if it needs nothing, or without turns.

    Raises StateError where the tables cannot be written, UsageError for a LAUNCHER_GPUS that is no number.

    Args:
        in_turn: the app waits for its share; otherwise it takes the share at once.
        is_held_here: see `StagedScheduler`.
    """
    if not asks(app) or (is_held_here and sys.platform != "linux"):
        return None
    from launcher import paths
    from launcher.turns.machine import ask_of, machine, total
    from launcher.turns.table import draw

    if not is_held_here:
        return ask_of(app, app_id, None, at_once=not in_turn)
    ask = ask_of(app, app_id, machine(with_gpus=total(app).gpus > 0), at_once=not in_turn)
    if ask is not None:
        try:
            ask.number = draw(ask.tables, 1)
        except OSError as error:
            raise paths.unusable(error, ask.table) from error
    return ask


def asks(app: AppDef) -> bool:
    """Whether an app asks for cores, memory or GPUs."""
    wanted = [role.resource for role in app.roles if role.num_replicas > 0]
    return any(each.cpu > 0 or each.memMB > 0 or each.gpu > 0 for each in wanted)


def reserved(attempt: Attempt) -> dict[str, Any]:
    """The contents of `attempt.json` for an attempt; the number 0 means an app that no job file made."""
    recorded = attempt.to_json()
    if attempt.number:
        return recorded
    return {**recorded, "key": None, "name": attempt.key.job, "session": attempt.session}


def name_of(recorded: Recorded) -> str:
    """The name of the job, or of the AppDef; "" where nothing is recorded."""
    key = recorded.get("key")
    return str(key[2] if key else recorded.get("name") or "")


def row_of(scheduler: str, app_id: str, recorded: Recorded, session: str = "") -> AppRecord:
    """The record of an app as it was reserved. `session`: used where the recorded attempt names none."""
    key = recorded.get("key")
    return AppRecord(
        scheduler,
        JobKey(*key).session if key else str(recorded.get("session") or session),
        app_id,
        name=name_of(recorded),
        key=tuple(key) if key else None,
        number=recorded.get("number") if key else None,
        digest=str(recorded.get("digest") or "") if key else "",
        plan_id=str(recorded.get("plan_id") or ""),
        state="reserved",
        created_at=recorded.get("created_at"),
        output=str(recorded.get("output") or "") if key else "",
        matrix=str(recorded.get("matrix") or ""),
        commit=str(recorded.get("commit") or ""),
        actor=str(recorded.get("actor") or ""),
    )


def in_state(record: AppRecord, view: View) -> AppRecord:
    """Set the state of an app in its record, except its replicas; returns the record."""
    record.state, record.message, record.exit_code = view.state, view.message, view.code
    record.started_at, record.ended_at = view.started_at, view.ended_at
    record.num_restarts, record.inputs_changed = view.num_restarts, view.inputs_changed
    record.used, record.output_digest = view.used, view.output_digest
    return record


class SeenApp:
    """One app, as its scheduler has read it.

    Attributes:
        record: its present state, with replicas and warnings where the whole app was read.
        owner: see `Attempt`.

    Args:
        folder: the app's folder, from which `recorded` is read on use if it is not given.
    """

    def __init__(
        self, record: AppRecord, recorded: Recorded | None = None, owner: str = "", *, folder: str = ""
    ) -> None:
        self.record = record
        self.owner = owner
        self._recorded = recorded
        self._folder = folder

    @property
    def recorded(self) -> Recorded:
        """The contents of `attempt.json`: the app as it was reserved. The end of an app needs none of it."""
        if self._recorded is None and self._folder:
            self._recorded = read_attempt(self._folder) or {}
        return self._recorded or {}

    def attempt(self) -> Attempt | None:
        """The attempt of a job in its present state; None for an app without a job."""
        if not self.recorded.get("key"):
            return None
        from launcher.specs.attempt import Attempt

        return as_seen(Attempt.from_json(self.recorded), self.record, self.owner)

    def about(self) -> Mapping[str, Any]:
        """See `Scheduler.about`."""
        attempt = self.attempt()
        if attempt is not None:
            return attempt.about()
        return {name: self.recorded[name] for name in ("metadata", "document") if self.recorded.get(name)}

    def description(self) -> DescribeAppResponse:
        """The answer of `describe`, for an app that was read as a whole."""
        from launcher.schedulers.responses import description_of
        from launcher.specs.canonical import app_from_document

        document, metadata = self.recorded.get("document"), self.recorded.get("metadata") or {}
        app = app_from_document(document, name_of(self.recorded), metadata) if document else None
        lost = "lost: " if self.record.state == "lost" else ""  # answers have no such state
        message = "; ".join(part for part in (lost + self.record.message, *self.record.warnings) if part)
        answer = description_of(self.record, app, message)
        answer.metadata = metadata
        return answer
