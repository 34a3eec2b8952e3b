"""The process that looks after one local app: it talks to the client that started it, and ends with the app.

Run as `python -I -S -c '…; main()'` with the control socket at descriptor 3 and the app's lock at 4. It stays
small: no import here may pull in `signal`, `json`, `enum`, `typing` or `dataclasses`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os

from launcher.schedulers import pids
from launcher.schedulers.local import kernel, rundir
from launcher.schedulers.local.app import App
from launcher.schedulers.local.control import CONTROL_FD, LOCK_FD, Inbox, send
from launcher.schedulers.local.logwriter import FILES_PER_REPLICA, LogWriter, ReplicaLog
from launcher.schedulers.local.loop import Loop
from launcher.schedulers.local.outcome import INTERRUPT, Outcome, cancellation
from launcher.schedulers.local.prepare import Preparation
from launcher.schedulers.local.record import Record
from launcher.schedulers.local.replicas import Replica, Role
from launcher.schedulers.local.spawn import Spawner, SpawnError, pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VERSION = 1
MAX_OPEN_LOGS = 1024
RECORD_RETRY_S = 1.0


class Supervisor:
    """From the client's "create" over its "go" to the end of the app."""

    def __init__(self, control: int) -> None:
        self._control = control
        self._inbox = Inbox(control)
        self._loop = Loop()
        self._loop.watch(control, self._hear)
        self._loop.on_signal(_signal.SIGCHLD, self._child_ended)
        for signum in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
            self._loop.on_signal(signum, self._told_to_stop)
        self._over = False
        self._told_by = 0  # the signal that came before there was an app
        self._app: App | None = None
        self._going = False
        self._error: SpawnError | None = None  # why it is taken back
        self._said_started = False
        self._ended = False
        self._said_lost = False
        self._said_dropped = False
        self._app_dir = ""
        self._attached = False
        self._closed = False  # the client lets go of an attached app, and does not just end
        self._timeout_s: float | None = None
        self._record: Record
        self._preparation: Preparation

    def run(self) -> None:
        while not self._over:
            self._loop.turn(wait=not (self._app and self._app.busy))
            if self._app and self._app.busy:
                self._app.step()

    def kill_all(self) -> None:
        """Leave nothing behind when this process fails."""
        if self._app and not self._over:
            self._app.kill_all()

    # -- what the client says ------------------------------------------------------------------------------

    def _hear(self) -> None:
        if not self._inbox.read():
            self._hung_up()
            return
        while (message := self._inbox.take()) is not None:
            if message["op"] == "create" and self._app is None:
                self._create(message)
            elif message["op"] == "go" and self._app and not self._going:
                self._go()
            elif message["op"] == "close":
                self._closed = True

    def _hung_up(self) -> None:
        self._close_control()
        if self._app is None:
            self._over = True
        elif self._ended:  # cancelled in the same moment: that is on record
            return
        elif not self._going:  # whoever submitted it is dead or thought better of it
            self._take_away()
        elif self._attached:
            why = "its Runner was closed" if self._closed else "its parent process ended"
            self._app.stop("parent", Outcome("cancelled", why))

    def _create(self, message: Mapping[str, Any]) -> None:
        self._app_dir = message["app_dir"]
        self._attached = message["attached"]
        self._timeout_s = message["timeout_s"]
        roles = [_role(each) for each in message["roles"]]
        spawner = Spawner(message["env"])
        self._preparation = Preparation([r for role in roles for r in role.replicas], spawner)
        try:
            self._begin_record(message["handle"])
            self._preparation.make(rundir.scratch(self._app_dir))
        except SpawnError as error:
            self._error = error
            self._take_away()
            return
        logs = LogWriter(
            min(MAX_OPEN_LOGS, self._preparation.spare_files // FILES_PER_REPLICA),
            self._output_lost,
            separate=message["separate_streams"],
            max_bytes=message["log_max_bytes"],
            on_drop=self._output_dropped,
        )
        self._app = App(roles, self._loop, spawner, logs, self._record, message["grace_s"])
        self._app.on_started = self._all_started
        self._app.on_broken = self._cannot_start
        self._app.on_ended = self._all_ended
        self._record.add(
            "created",
            roles=[[role.name, len(role.replicas)] for role in roles],
            retries=[[role.max_retries, role.retry_policy] for role in roles],
        )
        if self._wanted():
            self._answer({"ok": "created"})

    def _begin_record(self, handle: str) -> None:
        try:
            self._record = Record(rundir.events(self._app_dir), rundir.spare(self._app_dir))
        except FileExistsError as error:
            self._app_dir = ""  # it belongs to the run that its record tells of
            raise SpawnError(f"{handle} was started before") from error
        except OSError as error:
            raise SpawnError(f"cannot write {self._app_dir}: {error.strerror}") from error
        start = pids.start_time(os.getpid())
        self._record.begin(
            VERSION,
            "supervisor",
            pid=os.getpid(),
            start=start,
            boot=pids.boot_id(),
            handle=handle,
            attached=self._attached,
        )

    def _go(self) -> None:
        if self._wanted() and self._app:
            self._going = True
            self._record.add("starting")  # from here on nobody may think that nothing was started
            self._app.start()

    # -- what the app says ---------------------------------------------------------------------------------

    def _all_started(self) -> None:
        self._preparation.keep()
        self._say_started()
        kernel.trim_memory()
        if not self._attached:
            self._close_control()
        if self._timeout_s:
            self._loop.after(self._timeout_s, self._time_is_up)

    def _cannot_start(self, error: SpawnError) -> None:
        self._error = error
        if self._app:
            self._app.take_back()

    def _all_ended(self, outcome: Outcome) -> None:
        if not outcome.state:
            self._take_away()
            return
        self._record.add("ended", state=outcome.state, message=outcome.message, code=outcome.code)
        self._ended = True
        self._leave()

    def _output_lost(self, log: ReplicaLog, error: OSError) -> None:
        """Said once; the replicas go on."""
        if not self._said_lost:
            self._said_lost = True
            self._record.add("warning", message=f"log output was lost: {log.folder}: {error.strerror}")

    def _output_dropped(self, log: ReplicaLog) -> None:
        """Record it once; the logs say how much is missing, and where."""
        if not self._said_dropped:
            self._said_dropped = True
            self._record.add("warning", message=f"log output is dropped beyond log_max_mb: {log.folder}")

    # -- reasons to stop -----------------------------------------------------------------------------------

    def _child_ended(self, signum: int) -> None:
        if self._app:
            self._app.child_ended()

    def _time_is_up(self) -> None:
        if self._app:
            self._app.stop("timeout", Outcome("failed", f"timed out after {self._timeout_s} s"))

    def _told_to_stop(self, signum: int) -> None:
        self._told_by = signum
        if self._ended or self._over:
            self._over = True  # the disk is full; whoever wants us gone knows better than we
        elif self._app and self._going:
            by, grace_s = rundir.cancelled_by(self._app_dir)
            self._app.stop("cancel", self._cancellation(by), (by or "").removeprefix(INTERRUPT), grace_s)
            if not self._error:
                self._say_started()  # the client has nothing to wait for: there is a record of what ran
        elif self._app:
            self._wanted()

    def _wanted(self) -> bool:
        """Whether the app, not started yet, is to be started; else its end is recorded."""
        if self._ended:
            return False
        by, _ = rundir.cancelled_by(self._app_dir)
        if by is None and not self._told_by:
            return True
        self._record.add("stopping", why="cancel", by=(by or "").removeprefix(INTERRUPT))
        self._record.add("ended", state="cancelled", message=self._cancellation(by).message, code=None)
        self._ended = True
        self._leave()
        return False

    def _cancellation(self, by: str | None) -> Outcome:
        if by is None:
            return Outcome("cancelled", f"stopped by signal {self._told_by}")
        return cancellation(by)

    # -- leaving -------------------------------------------------------------------------------------------

    def _take_away(self) -> None:
        """Remove everything we made and tell the client why, if it is not its own doing."""
        self._preparation.unmake()
        if self._app_dir:
            rundir.remove(self._app_dir)
        if self._error:
            error = self._error
            self._answer({"error": str(error), "role": error.role, "k": error.k, "argv": error.argv})
        self._over = True

    def _leave(self) -> None:
        """End as soon as everything is recorded; on a full disk that may take its time."""
        if self._record.flush():
            self._record.close()
            self._over = True
        else:
            self._loop.after(RECORD_RETRY_S, self._leave)

    def _say_started(self) -> None:
        if not self._said_started:
            self._said_started = True
            self._answer({"ok": "started"})

    def _answer(self, message: dict[str, Any]) -> None:
        if self._control >= 0:
            send(self._control, message)

    def _close_control(self) -> None:
        if self._control >= 0:
            self._loop.remove(self._control)
            os.close(self._control)
            self._control = -1


def _role(given: Mapping[str, Any]) -> Role:
    replicas = given["replicas"]
    common = replicas[0]["env"] if replicas else {}
    role = Role(given["name"], given["max_retries"], given["retry_policy"], common)
    role.replicas = [
        Replica(role, k, pack(each, common), ReplicaLog(each["log_dir"])) for k, each in enumerate(replicas)
    ]
    return role


def main() -> None:
    for fd in (CONTROL_FD, LOCK_FD):
        os.set_inheritable(fd, False)  # a replica that held the lock would pass for us
    kernel.close_from(LOCK_FD + 1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    os.chdir("/")
    kernel.adopt_orphans()
    supervisor = Supervisor(CONTROL_FD)
    try:
        supervisor.run()
    finally:
        supervisor.kill_all()
    os._exit(0)
