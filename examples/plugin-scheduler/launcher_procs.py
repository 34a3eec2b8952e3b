"""A scheduler in one file, to copy from: an app is a folder, a replica is a process of this machine.

    $LAUNCHER_HOME/procs/<app id>/
        lock          locked by the client that submits the app, until it has started
        app.json      what was reserved
        created       everything of the app is there, nothing runs
        started       from here on it is an app that ran, however far its start came
        cancelled     a client has cancelled it
        <role>.<k>.log            output of a replica, and locked while anything writes to it
        <role>.<k>.{pid,code}     its process group, and its exit code

All state is in files, so any process can read it; a killed client or replica gives its locks back to the
kernel. There are no restarts and no timeouts, a failed replica stops no other, and logs have no times.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

from launcher import paths
from launcher.errors import ReservedError, SchedulerError, StartError
from launcher.schedulers import DescribeAppResponse, ListAppResponse, StagedScheduler
from launcher.schedulers.answers import description_of, listed_of
from launcher.schedulers.api import LogsUnsupported
from launcher.schedulers.appstore import open_store
from launcher.schedulers.checks import check_runnable
from launcher.schedulers.ids import make_unique, normalise
from launcher.schedulers.logs import LogRecord
from launcher.schedulers.staged import Reservation
from launcher.secrets import resolve
from launcher.specs import AppDef, AppDryRunInfo, Attempt, Role, Secret, macros, runopts
from launcher.specs.canonical import app_from_document, document_of
from launcher.state.records import AppRecord, ReplicaRecord, as_seen

NAME = "procs"
# The shell outlives the SIGTERM that its process group gets, to write down how the replica took it.
RUN = 'echo $$ >"$0.pid"; trap : TERM; "$@"; echo $? >"$0.code"'


class Held(Reservation):
    """The folder of an app, ours while `lock` is open."""

    def __init__(self, attempt: Attempt, lock: int) -> None:
        super().__init__(attempt)
        self.lock = lock
        self.roles: list[Role] = []
        self.cwd = ""


class ProcsScheduler(StagedScheduler[list[Role]]):
    """Runs replicas as processes. Its request: one role per replica, with the macros filled in."""

    workspace_option = "cwd"

    def __init__(self, session_name: str, *, detach: bool = False) -> None:
        super().__init__(NAME, session_name)
        self._detach = detach
        self._attached: list[str] = []

    def _run_opts(self) -> runopts:
        opts = runopts()
        opts.add("cwd", str, "folder the replicas run in; the current one unless a job file says")
        return opts

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, Any]) -> None:
        """Processes need no resource."""

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, Any]) -> AppDryRunInfo[list[Role]]:
        check_runnable(app)
        return AppDryRunInfo(filled(app, macros.app_id), lambda roles: "\n".join(map(repr, roles)))

    # Submission: step by step for `apply`, at once for `run` and the Runner

    def fingerprint(self) -> str:
        return f"{NAME}:{os.uname().nodename}:{place()}"

    def reserve(self, attempt: Attempt) -> Held:
        about: dict[str, Any] = {
            "name": attempt.key.job,
            "session": attempt.key.session,
            "attempt": attempt.to_json(),
        }
        about |= {"document": dict(attempt.document), "metadata": dict(attempt.metadata)}
        about["created_at"] = attempt.created_at
        return Held(attempt, take(attempt.app_id, about))

    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, Any]) -> None:
        assert isinstance(reservation, Held)
        reservation.roles, reservation.cwd = filled(app, reservation.app_id), cfg.get("cwd") or "."
        try:
            check_executables(reservation.roles)
        except StartError:
            self.abort(reservation)
            raise
        write(place(reservation.app_id, "created"))

    def start(self, reservation: Reservation) -> None:
        assert isinstance(reservation, Held)
        launch(reservation.attempt.handle, reservation.roles, reservation.cwd)
        os.close(reservation.lock)

    def abort(self, reservation: Reservation) -> None:
        assert isinstance(reservation, Held)
        if reservation.lock >= 0 and time_of(reservation.app_id, "started") is None:
            delete(reservation.app_id)
            os.close(reservation.lock)
            reservation.lock = -1

    def schedule(self, dryrun_info: AppDryRunInfo[list[Role]]) -> str:
        app, cfg = dryrun_info.app, dryrun_info.cfg
        app_id = make_unique(normalise(app.name, limit=48))
        check_executables(filled(app, app_id))
        about = {"name": app.name, "session": self.session_name, "attempt": None, "created_at": time.time()}
        about |= {"document": document_of(app, cfg, NAME), "metadata": dict(app.metadata)}
        lock = take(app_id, about)
        launch(f"{NAME}://{self.session_name}/{app_id}", filled(app, app_id), cfg.get("cwd") or ".")
        os.close(lock)
        if not self._detach:
            self._attached.append(app_id)
        return app_id

    def close(self) -> None:
        while self._attached:
            self.cancel(self._attached.pop())

    # What there is: `record` tells of an app, and the rest is made of that

    def record(self, app_id: str) -> AppRecord | None:
        about = read(app_id)
        if about is None:
            return None
        record = AppRecord(NAME, about["session"], app_id, name=about["name"], created_at=about["created_at"])
        roles = [(role["name"], role.get("num_replicas", 1)) for role in about["document"]["roles"]]
        record.replicas = [replica(app_id, role, k) for role, number in roles for k in range(number)]
        record.started_at = time_of(app_id, "started")
        if record.started_at is None:
            # What a dead client has created is begun anew.
            created = time_of(app_id, "created") is not None and is_locked(place(app_id, "lock"))
            record.state = "created" if created else "reserved"
            return record
        first = sorted(record.replicas, key=lambda each: each.ended_at or 0.0)
        for state in ("running", "cancelled", "lost", "failed", "succeeded"):
            decisive = next((each for each in first if each.state == state), None)
            if decisive is not None:
                record.state = state
                break
        if record.state == "failed" and decisive is not None:
            record.exit_code = decisive.exit_code
            record.message = f"{decisive.role}/{decisive.k} exited with {decisive.exit_code}"
        record.ended_at = first[-1].ended_at if record.has_ended else None
        return record

    def attempt(self, app_id: str) -> Attempt | None:
        about, record = read(app_id), self.record(app_id)
        if about is None or record is None or about["attempt"] is None:
            return None
        owner = about["owner"] if record.started_at is None and is_locked(place(app_id, "lock")) else ""
        return as_seen(Attempt.from_json(about["attempt"]), record, owner)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        about, record = read(app_id), self.record(app_id)
        if about is None or record is None:
            return None
        return description_of(record, app_from_document(about["document"], record.name, about["metadata"]))

    def _records(self) -> Iterator[AppRecord]:
        names = os.listdir(place()) if os.path.isdir(place()) else []
        there = [record for record in map(self.record, names) if record is not None]
        yield from sorted(there, key=lambda record: record.created_at or 0.0, reverse=True)

    def log_records(  # type: ignore[no-untyped-def]
        self, app_id: str, role_name: str, k: int = 0, since=None, until=None, follow=False, streams=None
    ) -> Iterator[LogRecord]:
        if since is not None or until is not None or str(streams or "combined") != "combined":
            raise LogsUnsupported(f"{NAME} has one log per replica, without times")
        path = place(app_id, f"{role_name}.{k}.log")
        if not os.path.exists(path):
            raise SchedulerError(f"{app_id} has no log of {role_name}/{k}")
        with open(path, "rb") as log:
            last = False
            while not last:
                last = not follow or not is_locked(path)  # before the read: nothing is written behind it
                for data in iter(lambda: log.read(1 << 16), b""):
                    yield LogRecord(time.time_ns(), "stdout", data)
                time.sleep(0 if last else 0.05)

    # Ends

    def cancel(self, app_id: str, grace_s: float | None = None) -> None:
        record = self.record(app_id)
        if record is None or not record.is_live:
            return
        write(place(app_id, "cancelled"))
        kill_at = time.monotonic() + (10.0 if grace_s is None else grace_s)
        names = [f"{each.role}.{each.k}" for each in record.replicas]
        told: set[tuple[str, int]] = set()
        while live := [name for name in names if is_locked(place(app_id, f"{name}.log"))]:
            signum = signal.SIGTERM if time.monotonic() < kill_at else signal.SIGKILL
            for name in live:
                if (name, signum) not in told and time_of(app_id, f"{name}.pid") is not None:
                    told.add((name, signum))
                    with open(place(app_id, f"{name}.pid")) as pid:
                        os.killpg(int(pid.read()), signum)
            time.sleep(0.02)

    def _cancel_existing(self, app_id: str) -> None:
        self.cancel(app_id)

    def finished(self) -> list[AppRecord]:
        return [record for record in self._records() if record.has_ended]

    def remove(self, app_id: str) -> None:
        record = self.record(app_id)
        if record is not None and record.is_live:
            raise SchedulerError(f"{app_id} has not ended", hint=f"launcher cancel {app_id}")
        delete(app_id)

    def list(self) -> list[ListAppResponse]:
        return [listed_of(record) for record in self._records()]


def create_scheduler(session_name: str, detach: bool = False, **_: object) -> ProcsScheduler:
    """Replicas run as plain processes of this machine: an example of a scheduler."""
    return ProcsScheduler(session_name, detach=detach)


def filled(app: AppDef, app_id: str) -> list[Role]:
    """One role per replica, with the macros of that replica filled in."""
    return [
        macros.Values("", app_id, str(k), "LAUNCHER_RANK0_HOST").apply(role)
        for role in app.roles
        for k in range(role.num_replicas)
    ]


def check_executables(roles: list[Role]) -> None:
    for role in roles:
        if shutil.which(role.entrypoint, path=role.env.get("PATH")) is None:
            raise StartError(f"{role.name}/0: there is no executable `{role.entrypoint}`")


def launch(handle: str, roles: list[Role], cwd: str) -> None:
    """Start every replica in a process group of its own, with its log as a lock on its life."""
    app_id = handle.rpartition("/")[2]
    write(place(app_id, "started"))
    started: dict[str, int] = {}
    for role in roles:
        k = started[role.name] = started.get(role.name, -1) + 1
        env = {name: resolve(text) if isinstance(text, Secret) else text for name, text in role.env.items()}
        env |= {"LAUNCHER_JOB_ID": handle, "LAUNCHER_RANK0_HOST": "localhost"}
        argv = ["sh", "-c", RUN, place(app_id, f"{role.name}.{k}"), role.entrypoint, *role.args]
        with open(place(app_id, f"{role.name}.{k}.log"), "wb") as log:
            fcntl.flock(log, fcntl.LOCK_EX)  # of the open file: all that inherit it hold it
            made = subprocess.Popen(
                argv, cwd=cwd, env=os.environ | env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        made.returncode = 0  # nothing here waits for it: how it ended is in its files


def replica(app_id: str, role: str, k: int) -> ReplicaRecord:
    name = f"{role}.{k}"
    lives = is_locked(place(app_id, f"{name}.log"))  # asked first: the exit code is written before the end
    found = ReplicaRecord(role, k, "running" if lives else "pending", host="localhost")
    found.started_at = time_of(app_id, f"{name}.log")
    if lives or time_of(app_id, "started") is None or is_locked(place(app_id, "lock")):
        return found
    cancelled_at, found.ended_at = time_of(app_id, "cancelled"), time_of(app_id, f"{name}.code")
    if found.ended_at is not None:
        with open(place(app_id, f"{name}.code")) as code:
            found.exit_code = int(code.read())
    if cancelled_at is not None and cancelled_at <= (found.ended_at or cancelled_at):
        found.state, found.ended_at = "cancelled", found.ended_at or cancelled_at
    else:
        found.state = "lost" if found.exit_code is None else "failed" if found.exit_code else "succeeded"
    return found


def place(app_id: str = "", name: str = "") -> str:
    return os.path.join(paths.home(), NAME, app_id, name).rstrip("/")


def take(app_id: str, about: Mapping[str, Any]) -> int:
    """The app's folder with what is reserved, and its lock, open. What a dead client left is cleared.

    Raises ReservedError where another client holds the lock, or where the app has started.
    """
    paths.ensure(place(app_id))
    lock = os.open(place(app_id, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    known = ProcsScheduler("").record(app_id)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if known is not None and known.started_at is not None:
            raise ReservedError(app_id, known.state)
    except BlockingIOError:
        os.close(lock)
        raise ReservedError(app_id, "reserved", (read(app_id) or {}).get("owner", "")) from None
    if time_of(app_id, "created") is not None:
        os.unlink(place(app_id, "created"))
    owner = f"pid {os.getpid()} on {os.uname().nodename}"
    write(place(app_id, "app.json"), json.dumps({**about, "owner": owner}))
    with open_store(durable=False) as store:  # the row that `launcher list` reads
        store.add(
            AppRecord(
                NAME,
                about["session"],
                app_id,
                name=about["name"],
                state="reserved",
                created_at=about["created_at"],
            )
        )
    return lock


def delete(app_id: str) -> None:
    shutil.rmtree(place(app_id), ignore_errors=True)
    with open_store(durable=False) as store:
        store.remove(app_id)


def read(app_id: str) -> dict[str, Any] | None:
    """What was reserved; None for an unknown app. An id is the name of a folder, never a path."""
    if not app_id or app_id.startswith(".") or "/" in app_id:
        return None
    try:
        with open(place(app_id, "app.json"), encoding="utf-8") as about:
            return dict(json.load(about))
    except FileNotFoundError:
        return None


def write(path: str, text: str = "") -> None:
    """The whole file or nothing, whenever we are killed."""
    with open(f"{path}.new", "w", encoding="utf-8") as new:
        new.write(text)
    os.replace(f"{path}.new", path)


def time_of(app_id: str, name: str) -> float | None:
    """When a file was written, in seconds since the epoch; None where there is none."""
    path = place(app_id, name)
    return os.stat(path).st_mtime if os.path.exists(path) else None


def is_locked(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
