"""Base class of schedulers without an engine: each app is a folder of files.

    $LAUNCHER_HOME/<scheduler>/<app id>/
        lock          locked by the client that submits the app, until it has started
        app.json      the reserved attempt, and the client that reserved it
        created       all files of the app exist, no replica runs
        started       the app counts as started, even if only some replicas were
        cancelled     a client has cancelled it
        <role>.<k>.*  the scheduler's files of a replica; its output is <role>.<k>.log

All state is in files, so any process can read it; the kernel releases the lock of a killed client.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from launcher import paths
from launcher.errors import LauncherError, ReservedError, SchedulerError, StartError
from launcher.files import write_whole
from launcher.holding.events import created
from launcher.holding.hold import implied_end
from launcher.schedulers.appfolder import AppFolder, sweep
from launcher.schedulers.backend import BackendReservation, BackendScheduler
from launcher.schedulers.checks import check_runnable
from launcher.schedulers.logs import LogPart, LogRecord, LogsUnsupported, Where
from launcher.schedulers.readback import AppLogs
from launcher.schedulers.record import SeenApp, reserved, row_of, write_json
from launcher.schedulers.registry import open_store
from launcher.secrets import resolve
from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal, Role
from launcher.specs.attempt import Attempt
from launcher.specs.macros import SYMBOLIC_APP_ID, macros
from launcher.specs.secret import Secret
from launcher.state.records import AppRecord, ReplicaRecord

_POLL_S = 0.02
_CHUNK = 1 << 16


class FolderScheduler(BackendScheduler["list[Role]"]):
    """Subclasses start, observe and stop replicas. The paths of a replica's files begin with `stem`."""

    shared_engine = ""
    grace_s = 10.0
    """Seconds that replicas have to end, unless the client that cancels their app gives others."""

    # To be implemented by a subclass

    @abstractmethod
    def start_replica(self, stem: str, role: Role, env: Mapping[str, str], cfg: Mapping[str, CfgVal]) -> None:
        """Start a replica that outlives this process, with its output in `<stem>.log`.

        Args:
            role: the role, with its macros filled in.
            env: the replica's own variables, added to the inherited ones.

        Raises OSError or LauncherError when it cannot be started.
        """

    @abstractmethod
    def replica(self, stem: str, role: str, k: int) -> ReplicaRecord:
        """The state of a replica: running while any process of it does, succeeded, failed, or lost."""

    @abstractmethod
    def end_replica(self, stem: str, *, by_force: bool) -> bool:
        """Ask a running replica to end, or kill it; False where that cannot be done yet."""

    def check_role(self, role: Role) -> None:
        """Raise StartError for a role that cannot be started, before any replica is."""

    # Submission

    def fingerprint(self) -> str:
        return f"{self.backend}:{os.uname().nodename}:{self.place()}"

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[list[Role]]:
        check_runnable(app)
        return AppDryRunInfo(_filled(app, SYMBOLIC_APP_ID), lambda roles: "\n".join(map(repr, roles)))

    def claim(self, attempt: Attempt) -> FolderReservation:
        app_id = attempt.app_id
        paths.ensure(self.place())
        try:
            lock = AppFolder(self.place(app_id)).make_and_lock()
        except BlockingIOError:  # another client holds it
            raise ReservedError(app_id, "reserved", self._reservation(app_id)[1]) from None
        except OSError as error:
            raise paths.unusable(error, self.place(app_id)) from error
        made = FolderReservation(self, attempt, lock)
        try:
            if self.time_of(app_id, "started") is None:
                self._note(attempt)
                return made
        except BaseException:
            made.release()
            raise
        made.release()  # the record of a locked app: the app is being started
        known = self.read(app_id)
        raise ReservedError(app_id, known.record.state if known else "gone")

    def _note(self, attempt: Attempt) -> None:
        """Write the reservation, in place of one that a dead client left."""
        app_id, recorded = attempt.app_id, reserved(attempt)
        if self.time_of(app_id, "created") is not None:
            os.unlink(self.place(app_id, "created"))
        with open_store(durable=False) as store:  # for `launcher list`
            store.add(row_of(self.backend, app_id, recorded))
        owner = f"pid {os.getpid()} on {os.uname().nodename}"
        write_json(self.place(app_id), "app.json", {"attempt": recorded, "owner": owner})

    # Reading

    def read(self, app_id: str, *, whole: bool = False) -> SeenApp | None:
        recorded, owner = self._reservation(app_id)
        if not recorded:
            return None
        # Tested in this order: an unlocked started app was started completely, or its client died.
        started_at, locked = self.time_of(app_id, "started"), AppFolder(self.place(app_id)).is_locked()
        record = row_of(self.backend, app_id, recorded)
        record.replicas = [
            self._replica(app_id, role["name"], k, started_at is None or locked)
            for role in recorded["document"]["roles"]
            for k in range(role.get("num_replicas", 1))
        ]
        if started_at is not None:  # then all replicas had started
            starts = [each.started_at for each in record.replicas if each.started_at]
            record.started_at = min([started_at, *starts])
            _conclude(record)
        elif locked and self.time_of(app_id, "created") is not None:
            record.state = "created"  # a submission of a dead client begins again
        return SeenApp(record, recorded, owner if started_at is None and locked else "")

    def _reservation(self, app_id: str) -> tuple[dict[str, Any], str]:
        """The reservation and its client; {} for an unknown app."""
        found = AppFolder(self.place(app_id)).read_json("app.json") or {"attempt": {}, "owner": ""}
        return found["attempt"], found["owner"]

    def _replica(self, app_id: str, role: str, k: int, is_starting: bool) -> ReplicaRecord:
        seen = self.replica(self.place(app_id, f"{role}.{k}"), role, k)
        if seen.state == "running":
            return seen
        if is_starting:
            return ReplicaRecord(role, k, "pending")
        cancelled_at = self.time_of(app_id, "cancelled")
        if cancelled_at is not None and cancelled_at <= (seen.ended_at or cancelled_at):
            seen.state, seen.ended_at = "cancelled", seen.ended_at or cancelled_at
        return seen

    def records(self) -> list[AppRecord]:
        names = os.listdir(self.place()) if os.path.isdir(self.place()) else []
        found = [seen.record for seen in map(self._seen, names) if seen is not None]
        return sorted(found, key=lambda each: each.created_at or 0.0, reverse=True)

    def logs(self, app_id: str) -> FolderLogs:
        return FolderLogs(self, app_id)

    # Ends

    def stop(self, app_id: str, grace_s: float | None, *, interrupt: bool = False) -> None:
        seen = self.read(app_id)
        if seen is None or not seen.record.is_live:
            return
        with suppress(FileExistsError):  # the first of several clients makes it: later ends are cancellations
            os.close(os.open(self.place(app_id, "cancelled"), os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self.end([(each.role, each.k) for each in seen.record.replicas], app_id, grace_s)

    def end(self, replicas: Sequence[Where], app_id: str, grace_s: float | None = None) -> None:
        """End replicas, by force after the grace period; returns when none runs."""
        kill_at = time.monotonic() + (self.grace_s if grace_s is None else grace_s)
        done: set[tuple[str, bool]] = set()
        stems = {self.place(app_id, f"{role}.{k}"): (role, k) for role, k in replicas}
        while live := [stem for stem in stems if self.replica(stem, *stems[stem]).state == "running"]:
            by_force = time.monotonic() >= kill_at
            for stem in live:
                if (stem, by_force) not in done and self.end_replica(stem, by_force=by_force):
                    done.add((stem, by_force))
            time.sleep(_POLL_S)

    def remove(self, app_id: str) -> None:
        seen = self._seen(app_id)
        if seen is None:
            return
        if seen.record.is_live:
            raise SchedulerError(f"{app_id} has not ended", hint=f"launcher cancel {app_id}")
        self.delete(app_id)

    def sweep(self) -> list[str]:
        sweep(self.place())  # interrupted removals
        return []

    # Files

    def place(self, app_id: str = "", name: str = "") -> str:
        """The path of a file of an app, of the app's folder, or of the folder of all apps."""
        return os.path.join(paths.home(), self.backend, app_id, name).rstrip("/")

    def write(self, app_id: str, name: str, text: str = "") -> None:
        write_whole(self.place(app_id, name), text)

    def time_of(self, app_id: str, name: str) -> float | None:
        """The time at which a file was written, in seconds since the epoch; None where there is none."""
        return time_of(self.place(app_id, name))

    def delete(self, app_id: str) -> None:
        AppFolder(self.place(app_id)).remove()
        with open_store(durable=False) as store:
            store.remove(app_id)


class FolderReservation(BackendReservation):
    """The folder of an app, owned while `lock` is open; -1 once it is released."""

    def __init__(self, scheduler: FolderScheduler, attempt: Attempt, lock: int) -> None:
        super().__init__(attempt)
        self._scheduler = scheduler
        self._fd = lock
        self._roles: list[Role] = []
        self._cfg: Mapping[str, CfgVal] = {}

    def create(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        self._roles, self._cfg = _filled(app, self.app_id), cfg
        try:
            for role in self._roles:
                self._scheduler.check_role(role)
        except LauncherError:
            self.abort()
            raise
        self._scheduler.write(self.app_id, "created")

    def start(self) -> None:
        self._scheduler.write(self.app_id, "started")
        begun: list[Where] = []
        for role in self._roles:
            k = sum(name == role.name for name, _ in begun)
            begun.append((role.name, k))
            stem = self._scheduler.place(self.app_id, f"{role.name}.{k}")
            try:
                env = {n: resolve(text) if isinstance(text, Secret) else text for n, text in role.env.items()}
                env |= {"LAUNCHER_JOB_ID": self.attempt.handle, "LAUNCHER_RANK0_HOST": "localhost"}
                self._scheduler.start_replica(stem, role, env, self._cfg)
            except (OSError, LauncherError) as error:
                self._scheduler.end(begun, self.app_id, 0.0)
                self._scheduler.delete(self.app_id)
                self.release()
                raise StartError(f"{role.name}/{k} cannot be started: {error}") from error
        self.release()

    def abort(self) -> None:
        if self._fd >= 0 and self._scheduler.time_of(self.app_id, "started") is None:
            self._scheduler.delete(self.app_id)
        self.release()

    def release(self) -> None:
        """Close the lock. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FolderLogs(AppLogs):
    """One log for each replica, without times."""

    def __init__(self, scheduler: FolderScheduler, app_id: str) -> None:
        self._scheduler = scheduler
        self.scheduler = scheduler.backend
        self._app_id = app_id

    def records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        role, k = where
        if part.since is not None or part.until is not None or part.stream != "combined":
            raise LogsUnsupported(f"{self._scheduler.backend} has one log per replica, without times")
        stem = self._scheduler.place(self._app_id, f"{role}.{k}")
        if not os.path.exists(f"{stem}.log"):
            raise SchedulerError(f"{self._app_id} has no log of {role}/{k}")
        with open(f"{stem}.log", "rb") as log:
            last = False
            while not last:
                # Tested before reading: data read after the end is complete.
                last = not part.follow or self._scheduler.replica(stem, role, k).state != "running"
                for data in iter(lambda: log.read(_CHUNK), b""):
                    yield LogRecord(time.time_ns(), "stdout", data)
                time.sleep(0 if last else _POLL_S)


def time_of(path: str) -> float | None:
    """The time at which a file was written, in seconds since the epoch; None where there is none."""
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return None


def number_in(path: str) -> int | None:
    """The number that a file holds; None where it is missing or empty."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    return int(text) if text else None


def _conclude(record: AppRecord) -> None:
    """Derive the state of a started app from its replicas' states; the first replica to end decides."""
    record.state = "running"
    if any(each.state in ("pending", "running") for each in record.replicas):
        return
    end = implied_end(_events(record.replicas))
    assert end is not None, "an app of which no replica restarts ends with its last replica"
    record.state, record.message, record.exit_code = end["state"], end["message"], end["code"]
    record.ended_at = max((each.ended_at or 0.0 for each in record.replicas), default=None)


def _events(replicas: Sequence[ReplicaRecord]) -> Iterator[dict[str, Any]]:
    """The events of an app, from the ends of its replicas, all of which have ended."""
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
