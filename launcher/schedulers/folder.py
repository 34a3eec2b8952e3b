"""Base class of schedulers without an engine: each app is a folder of files.

    $LAUNCHER_HOME/<scheduler>/<app id>/
        lock          locked by the client that submits the app, until it has started
        app.json      the reserved attempt (number 0: without a job), and the client that reserved it
        created       all files of the app exist, no replica runs
        started       the app counts as started, even if only some replicas were
        cancelled     a client has cancelled it
        <role>.<k>.*  the scheduler's files of a replica; its output is <role>.<k>.log

All state is in files, so any process can read it; the kernel releases the lock of a killed client.
"""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from launcher import paths
from launcher.errors import LauncherError, ReservedError, SchedulerError, StartError
from launcher.files import write_whole
from launcher.holding.events import created
from launcher.holding.hold import implied_end
from launcher.schedulers.answers import description_of, listed_of
from launcher.schedulers.api import LogsUnsupported
from launcher.schedulers.appfolder import AppFolder, is_id, sweep
from launcher.schedulers.appstore import open_store
from launcher.schedulers.checks import check_runnable
from launcher.schedulers.ids import make_unique, normalise
from launcher.schedulers.logs import LogRecord
from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse
from launcher.schedulers.staged import Reservation, StagedScheduler
from launcher.secrets import resolve
from launcher.specs.app import AppDef, CfgVal, Role
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import app_from_document, document_of
from launcher.specs.dryrun import AppDryRunInfo
from launcher.specs.jobkey import DEFAULT_TARGET, JobKey
from launcher.specs.macros import SYMBOLIC_APP_ID, macros
from launcher.specs.secret import Secret
from launcher.state.records import AppRecord, ReplicaRecord, as_seen

_POLL_S = 0.05
_CHUNK = 1 << 16


class FolderReservation(Reservation):
    """The folder of an app, owned while `lock` is open; -1 once it is released."""

    def __init__(self, attempt: Attempt, lock: int) -> None:
        super().__init__(attempt)
        self.lock = lock
        self.roles: list[Role] = []
        self.cfg: Mapping[str, CfgVal] = {}

    def release(self) -> None:
        """Close the lock. May be called twice."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


class FolderScheduler(StagedScheduler["list[Role]"]):
    """Subclasses start, observe and stop replicas. The request holds one role per replica.

    In the abstract methods `stem` is the path that the files of a replica begin with.
    """

    def __init__(self, backend: str, session_name: str, *, detach: bool = False) -> None:
        super().__init__(backend, session_name)
        self._detach = detach
        self._attached: list[str] = []

    # To be implemented by a subclass

    @abstractmethod
    def start_replica(self, stem: str, role: Role, env: Mapping[str, str], cfg: Mapping[str, CfgVal]) -> None:
        """Start a replica that outlives this process, with its output in `<stem>.log`.

        Args:
            role: with its macros filled in.
            env: its own variables, added to the inherited ones.

        Raises OSError or LauncherError when it cannot be started.
        """

    @abstractmethod
    def replica(self, stem: str, role: str, k: int) -> ReplicaRecord:
        """The state of a replica: running, succeeded, failed, or lost when its outcome is unknown."""

    @abstractmethod
    def stop_replicas(self, stems: list[str], grace_s: float | None) -> None:
        """Stop the replicas, by force after `grace_s`; returns when none runs.

        Args:
            stems: of all replicas of an app; some may not run, or have never been started.
        """

    def check_role(self, role: Role) -> None:
        """Raise StartError for a role that cannot be started, before any replica is."""

    # Paths

    def place(self, app_id: str = "", name: str = "") -> str:
        """The path of a file of an app, of the app's folder, or of the folder of all apps."""
        return os.path.join(paths.home(), self.backend, app_id, name).rstrip("/")

    @property
    def shared_engine(self) -> str:
        return ""

    def fingerprint(self) -> str:
        return f"{self.backend}:{os.uname().nodename}:{self.place()}"

    # Submission

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[list[Role]]:
        check_runnable(app)
        return AppDryRunInfo(_filled(app, SYMBOLIC_APP_ID), lambda roles: "\n".join(map(repr, roles)))

    def schedule(self, dryrun_info: AppDryRunInfo[list[Role]]) -> str:
        app, cfg = dryrun_info.app, dryrun_info.cfg
        reservation = self.reserve(self._of_no_job(app, cfg))
        try:
            self.create(reservation, app, cfg)
            if not self._detach:
                self._attached.append(reservation.app_id)
            self.start(reservation)
        finally:
            self.abort(reservation)
        return reservation.app_id

    def _of_no_job(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> Attempt:
        return Attempt(
            key=JobKey(self.session_name, DEFAULT_TARGET, app.name),
            number=0,
            app_id=make_unique(normalise(app.name, limit=48)),
            scheduler=self.backend,
            digest="",
            document=document_of(app, cfg, self.backend),
            metadata=dict(app.metadata),
            created_at=time.time(),
        )

    def reserve(self, attempt: Attempt) -> FolderReservation:
        app_id = attempt.app_id
        reservation = FolderReservation(attempt, self._lock(app_id))
        try:
            if self._time_of(app_id, "started") is None:
                self._note(attempt)
                return reservation
        except BaseException:
            reservation.release()
            raise
        reservation.release()  # a record under a held lock is one that is being started
        known = self.record(app_id)
        raise ReservedError(app_id, known.state if known else "gone")

    def _note(self, attempt: Attempt) -> None:
        """Write the reservation, in place of one that a dead client left."""
        app_id, session, name = attempt.app_id, attempt.key.session, attempt.key.job
        if self._time_of(app_id, "created") is not None:
            os.unlink(self.place(app_id, "created"))
        row = AppRecord(self.backend, session, app_id, name=name, created_at=attempt.created_at)
        row.state = "reserved"
        with open_store(durable=False) as store:  # for `launcher list`
            store.add(row)
        owner = f"pid {os.getpid()} on {os.uname().nodename}"
        self._write(app_id, "app.json", json.dumps({"attempt": attempt.to_json(), "owner": owner}))

    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        assert isinstance(reservation, FolderReservation)
        reservation.roles, reservation.cfg = _filled(app, reservation.app_id), cfg
        try:
            for role in reservation.roles:
                self.check_role(role)
        except StartError:
            self.abort(reservation)
            raise
        self._write(reservation.app_id, "created")

    def start(self, reservation: Reservation) -> None:
        assert isinstance(reservation, FolderReservation)
        app_id = reservation.app_id
        self._write(app_id, "started")
        stems: list[str] = []
        for name, k, role in _numbered(reservation.roles):
            stems.append(self.place(app_id, f"{name}.{k}"))
            try:
                env = _environment(role, reservation.attempt.handle)
                self.start_replica(stems[-1], role, env, reservation.cfg)
            except (OSError, LauncherError) as error:
                self.stop_replicas(stems, 0.0)
                self._delete(app_id)
                reservation.release()
                raise StartError(f"{name}/{k} cannot be started: {error}") from error
        reservation.release()

    def abort(self, reservation: Reservation) -> None:
        assert isinstance(reservation, FolderReservation)
        if reservation.lock >= 0 and self._time_of(reservation.app_id, "started") is None:
            self._delete(reservation.app_id)
        reservation.release()

    def close(self) -> None:
        while self._attached:
            self.cancel(self._attached.pop())

    # Reading: `record` reads an app, and the other methods use it

    def record(self, app_id: str) -> AppRecord | None:
        attempt, _ = self._reserved(app_id)
        if attempt is None:
            return None
        # Tested in this order: an unlocked started app was started completely, or its client died.
        started_at, locked = self._time_of(app_id, "started"), AppFolder(self.place(app_id)).is_locked()
        session, name = attempt.key.session, attempt.key.job
        record = AppRecord(self.backend, session, app_id, name=name, created_at=attempt.created_at)
        record.replicas = [
            self._replica(app_id, role["name"], k, started_at is None or locked)
            for role in attempt.document["roles"]
            for k in range(role.get("num_replicas", 1))
        ]
        if started_at is not None:  # then all had started
            starts = [each.started_at for each in record.replicas if each.started_at]
            record.started_at = min([started_at, *starts])
        if started_at is None:
            # A submission of a dead client begins again.
            created = locked and self._time_of(app_id, "created") is not None
            record.state = "created" if created else "reserved"
        else:
            _conclude(record)
        return record

    def _replica(self, app_id: str, role: str, k: int, is_starting: bool) -> ReplicaRecord:
        seen = self.replica(self.place(app_id, f"{role}.{k}"), role, k)
        if seen.state == "running":
            return seen
        if is_starting:
            return ReplicaRecord(role, k, "pending")
        cancelled_at = self._time_of(app_id, "cancelled")
        if cancelled_at is not None and cancelled_at <= (seen.ended_at or cancelled_at):
            seen.state, seen.ended_at = "cancelled", seen.ended_at or cancelled_at
        return seen

    def refresh(self, app_ids: Iterable[str]) -> Iterator[AppRecord]:
        for app_id in app_ids:
            record = self.record(app_id)
            if record is not None:
                record.replicas = ()
                yield record

    def attempt(self, app_id: str) -> Attempt | None:
        attempt, owner = self._reserved(app_id)
        record = self.record(app_id)
        if attempt is None or record is None or not attempt.number:
            return None
        is_submitted = record.started_at is None and AppFolder(self.place(app_id)).is_locked()
        return as_seen(attempt, record, owner if is_submitted else "")

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        attempt, _ = self._reserved(app_id)
        record = self.record(app_id)
        if attempt is None or record is None:
            return None
        return description_of(record, app_from_document(attempt.document, record.name, attempt.metadata))

    def _records(self) -> list[AppRecord]:
        """Every app, the newest first."""
        names = os.listdir(self.place()) if os.path.isdir(self.place()) else []
        found = [record for record in map(self.record, names) if record is not None]
        return sorted(found, key=lambda each: each.created_at or 0.0, reverse=True)

    def log_records(  # type: ignore[no-untyped-def]
        self, app_id: str, role_name: str, k: int = 0, since=None, until=None, follow=False, streams=None
    ) -> Iterator[LogRecord]:
        if since is not None or until is not None or str(streams or "combined") != "combined":
            raise LogsUnsupported(f"{self.backend} has one log per replica, without times")
        stem = self.place(app_id, f"{role_name}.{k}")
        if not os.path.exists(f"{stem}.log"):
            raise SchedulerError(f"{app_id} has no log of {role_name}/{k}")
        with open(f"{stem}.log", "rb") as log:
            last = False
            while not last:
                # Tested before reading: data read after the end is complete.
                last = not follow or self.replica(stem, role_name, k).state != "running"
                for data in iter(lambda: log.read(_CHUNK), b""):
                    yield LogRecord(time.time_ns(), "stdout", data)
                time.sleep(0 if last else _POLL_S)

    # Ends

    def cancel(self, app_id: str, grace_s: float | None = None) -> None:
        record = self.record(app_id)
        if record is None or not record.is_live:
            return
        with suppress(
            FileExistsError
        ):  # by the first of several clients: replicas that end later were cancelled
            os.close(os.open(self.place(app_id, "cancelled"), os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self.stop_replicas([self.place(app_id, f"{each.role}.{each.k}") for each in record.replicas], grace_s)

    def _cancel_existing(self, app_id: str) -> None:
        self.cancel(app_id)

    def finished(self) -> list[AppRecord]:
        return [record for record in self._records() if record.has_ended]

    def remove(self, app_id: str) -> None:
        record = self.record(app_id)
        if record is None:
            return
        if record.is_live:
            raise SchedulerError(f"{app_id} has not ended", hint=f"launcher cancel {app_id}")
        self._delete(app_id)

    def sweep(self) -> list[str]:
        sweep(self.place())  # interrupted removals
        return []

    # Files

    def _lock(self, app_id: str) -> int:
        """The lock of the app's folder, open. Raises ReservedError while another client holds it."""
        paths.ensure(self.place())
        try:
            return AppFolder(self.place(app_id)).make_and_lock()
        except BlockingIOError:
            raise ReservedError(app_id, "reserved", self._reserved(app_id)[1]) from None
        except OSError as error:
            raise paths.unusable(error, self.place(app_id)) from error

    def _reserved(self, app_id: str) -> tuple[Attempt | None, str]:
        """The reservation and its client; None for an unknown app. An id is never a path."""
        if not is_id(app_id):
            return None, ""
        try:
            with open(self.place(app_id, "app.json"), encoding="utf-8") as file:
                found = json.load(file)
        except (FileNotFoundError, NotADirectoryError):
            return None, ""
        return Attempt.from_json(found["attempt"]), found["owner"]

    def _write(self, app_id: str, name: str, text: str = "") -> None:
        write_whole(self.place(app_id, name), text)

    def _time_of(self, app_id: str, name: str) -> float | None:
        """When a file was written, in seconds since the epoch; None where there is none."""
        return time_of(self.place(app_id, name))

    def _delete(self, app_id: str) -> None:
        AppFolder(self.place(app_id)).remove()
        with open_store(durable=False) as store:
            store.remove(app_id)

    def list(self) -> list[ListAppResponse]:
        return [listed_of(record) for record in self._records()]


def time_of(path: str) -> float | None:
    """When a file was written, in seconds since the epoch; None where there is none."""
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return None


def _conclude(record: AppRecord) -> None:
    """Derive the state of a started app from those of its replicas; the first one to end decides."""
    record.state = "running"
    if any(each.state in ("pending", "running") for each in record.replicas):
        return
    end = implied_end(_events(record.replicas))
    assert end is not None, "an app of which no replica restarts ends with its last replica"
    record.state, record.message, record.exit_code = end["state"], end["message"], end["code"]
    record.ended_at = max((each.ended_at or 0.0 for each in record.replicas), default=None)


def _events(replicas: Sequence[ReplicaRecord]) -> Iterator[dict[str, Any]]:
    """What the replicas of an app show, all of which have ended, as its events."""
    counts = Counter(each.role for each in replicas)
    yield created([(role, count, 0, "") for role, count in counts.items()], {})
    yield {"e": "starting"}
    if any(each.state == "cancelled" for each in replicas):
        yield {"e": "cancel"}
    for each in sorted(replicas, key=lambda each: each.ended_at or 0.0):
        run = {"role": each.role, "k": each.k}
        code = None if each.state == "lost" else each.exit_code
        yield {"e": "spawn", **run}
        yield {"e": "exit", **run, "code": code, "stopped": each.state == "cancelled"}


def _filled(app: AppDef, app_id: str) -> list[Role]:
    """One role per replica, with the macros of that replica filled in."""
    return [
        macros.Values("", app_id, str(k), "LAUNCHER_RANK0_HOST").apply(role)
        for role in app.roles
        for k in range(role.num_replicas)
    ]


def _numbered(roles: Iterable[Role]) -> Iterator[tuple[str, int, Role]]:
    """(name, replica, role) of a role per replica."""
    numbers: dict[str, int] = {}
    for role in roles:
        k = numbers[role.name] = numbers.get(role.name, -1) + 1
        yield role.name, k, role


def _environment(role: Role, handle: str) -> dict[str, str]:
    env = {name: resolve(text) if isinstance(text, Secret) else text for name, text in role.env.items()}
    return {**env, "LAUNCHER_JOB_ID": handle, "LAUNCHER_RANK0_HOST": "localhost"}
