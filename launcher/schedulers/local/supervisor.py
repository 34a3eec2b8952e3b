"""The supervisor process of one local app: it answers the client that started it, and ends with the app.

Run as `python -I -S -c '…; main()'` with the control socket at descriptor 3 and the app's lock at 4. It stays
small: no import here may pull in `signal`, `json`, `enum`, `typing` or `dataclasses`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os
import time

from launcher.holding.app import App
from launcher.holding.events import created
from launcher.holding.hold import decide, hold
from launcher.holding.journal import JournalWriter
from launcher.holding.order import made_by_others
from launcher.schedulers import pids
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import kernel, rundir
from launcher.schedulers.local.control import CONTROL_FD, LOCK_FD, Inbox, send
from launcher.schedulers.local.driver import Driver, Preparation
from launcher.schedulers.local.logwriter import FILES_PER_REPLICA, LogWriter, ReplicaLog
from launcher.schedulers.local.replicas import NO_PROBE, Replica, RunningRole
from launcher.schedulers.local.spawn import Spawner, SpawnError, pack
from launcher.schedulers.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from launcher.schedulers.local.comparison import Comparison
    from launcher.schedulers.local.hold import Hold

    Event = dict[str, Any]

VERSION = 1
MAX_OPEN_LOGS = 1024
RECORD_RETRY_S = 1.0
TAKE_BACK_GRACE_S = 1.0


class Left(Exception):
    """The supervisor is to leave at once: its app has ended, and only the record is not complete."""


class Supervisor:
    """Runs one app from the client's "create" and "go" to its end."""

    def __init__(self, control: int) -> None:
        self._control = control
        self._inbox = Inbox(control)
        self._loop = Loop((_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP))
        self._loop.on_signals = self._take_signals
        self._loop.watch(control, self._receive)
        self._over = False
        self._app = App()
        self._driver: Driver | None = None  # once the app is created
        self._going = False
        self.is_accepted = False  # as waiting or queued: no client waits for its start
        self._held: Hold | None = None  # of an app that needs others, or a share of this machine
        self.comparison: Comparison | None = None  # of its input files
        self._gpus: list[tuple[RunningRole, int]] = []  # how many each replica asks for
        self._error: SpawnError | None = None  # why the submission is undone
        self._reported_started = False
        self._closing = False  # it has succeeded, and its input files are being compared
        self._reported_loss = False
        self._reported_drop = False
        self.app_dir = ""
        self._output = ""  # the folder to make before the app starts; "" for none
        self._attached = False
        self._closed = False  # the client closed an attached app, rather than exiting
        self._grace_s = 0.0
        self._record: JournalWriter
        self._preparation: Preparation

    def run(self) -> None:
        try:
            while not (self._over or self._going):
                self._loop.turn()
            if self._going and self._driver:
                self._hold(self._driver)
            while not self._over:
                self._loop.turn()
        except Left:
            self._over = True

    def _hold(self, driver: Driver) -> None:
        try:
            self._preparation.make_output(self._output)
        except SpawnError as error:
            if not self.is_accepted:
                self._error = error
                self._undo()
                return
            self.note("broken", why=str(error))
        try:
            hold(self._app, self, driver)
        except SpawnError as error:
            self._error = error
            self._take_back(driver)
        else:
            self._leave()

    def kill_all(self) -> None:
        """Kill the app's processes when the supervisor itself fails."""
        if self._driver and not self._over:
            self._driver.processes.kill_all()

    def append(self, event: Event) -> None:
        """Record an event. A client that waits for the start gets its answer with the first final stop."""
        self._record.append(event)
        if event["e"] == "started":
            self._all_started()
        elif event["e"] == "stopping" and event.get("state"):
            self._report_started()

    def is_written(self) -> bool:
        """Whether all events are on the disk."""
        return self._record.is_written()

    @property
    def has_ended(self) -> bool:
        return self._app.has_ended

    def note(self, kind: str, **fields: Any) -> None:
        """Record an event of an app that has not been started, and what follows from it."""
        event = {"e": kind, **fields}
        self.append(event)
        self._app.take(event)
        decide(self._app, self, time.time())

    def _tell(self, kind: str, **fields: Any) -> None:
        """Report a fact to the loop that holds the app, or record it before there is one."""
        if self._going and self._driver:
            self._driver.add(kind, **fields)
        else:
            self.note(kind, **fields)

    # -- messages of the client ----------------------------------------------------------------------------

    def _receive(self) -> None:
        if not self._inbox.read():
            self._hung_up()
            return
        while (message := self._inbox.take()) is not None:
            if message["op"] == "create" and self._driver is None:
                self._create(message)
            elif message["op"] == "go" and self._driver and not self._going:
                self._prepare_start(message)
            elif message["op"] == "close":
                self._closed = True

    def _hung_up(self) -> None:
        self._close_control()
        if self._driver is None:
            self._over = True
        elif self._app.has_ended or self._closing:  # cancelled at the same moment, and recorded
            return
        elif not self._going and not self.is_accepted:  # the client died, or undoes the submission
            self._undo()
        elif self._attached:
            why = "its Runner was closed" if self._closed else "its parent process ended"
            self._tell("orphaned", why=why)
            self._leave_if_ended()

    def _logs(self, message: Mapping[str, Any], preparation: Preparation) -> LogWriter:
        return LogWriter(
            min(MAX_OPEN_LOGS, preparation.spare_files // FILES_PER_REPLICA),
            self._output_lost,
            separate=message["separate_streams"],
            max_bytes=message["log_max_bytes"],
            on_drop=self._output_dropped,
        )

    def _create(self, message: Mapping[str, Any]) -> None:
        self.app_dir = message["app_dir"]
        self._output = message.get("output", "")
        self._attached = message["attached"]
        self._grace_s = message["grace_s"]
        roles = [_role(each) for each in message["roles"]]
        counts = {each["name"]: each.get("gpus", 0) for each in message["roles"]}
        self._gpus = [(role, counts[role.name]) for role in roles if counts[role.name]]
        rules = {each["name"]: each["rules"] for each in message["roles"] if each.get("rules")}
        spawner = Spawner(message["env"])
        self._preparation = Preparation(
            [r for role in roles for r in role.replicas], spawner, made_by_others(rules)
        )
        try:
            self._begin_record(message["handle"])
            self._preparation.make(rundir.scratch(self.app_dir))
        except SpawnError as error:
            self._error = error
            self._undo()
            return
        self._driver = Driver(
            self._app,
            roles,
            self._loop,
            spawner,
            self._logs(message, self._preparation),
            grace_s=self._grace_s,
            secrets=message.get("secrets", ()),
        )
        self._driver.on_spawn_error = self._cannot_start
        self._driver.on_swept = self._swept
        self._declare(message, rules)
        if self._wanted():
            self._answer({"ok": "created"})

    def _declare(self, message: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]]) -> None:
        roles = [
            (each["name"], len(each["replicas"]), each["max_retries"], each["retry_policy"])
            for each in message["roles"]
        ]
        event = created(roles, rules, message["timeout_s"])
        self.append(event)
        self._app.take(event)

    def _begin_record(self, handle: str) -> None:
        try:
            self._record = JournalWriter.begin(rundir.events(self.app_dir), rundir.spare(self.app_dir))
        except FileExistsError as error:
            self.app_dir = ""  # the folder belongs to the app that was started in it
            raise SpawnError(f"{handle} was started before") from error
        except OSError as error:
            raise SpawnError(f"cannot write {self.app_dir}: {error.strerror}") from error
        start = pids.start_time(os.getpid())
        event: Event = {"v": VERSION, "e": "supervisor", "pid": os.getpid(), "start": start}
        self._record.append({**event, "boot": pids.boot_id(), "handle": handle, "attached": self._attached})

    # -- before the start ----------------------------------------------------------------------------------

    def _prepare_start(self, message: Mapping[str, Any]) -> None:
        """Start the app, or hold it as long as it waits."""
        if message.get("inputs"):
            from launcher.schedulers.local.comparison import Comparison

            self.comparison = Comparison(self._loop, message["inputs"])
        if message.get("needs") or message.get("turn"):
            from launcher.schedulers.local.hold import Hold

            self._held = Hold(self, self._loop, message.get("needs", ()), message.get("turn"))
            self._held.go_on()
        else:
            self.go()

    def accept(self, kind: str, **fields: Any) -> bool:
        """Record that the app waits, and let the client go; False where the app has ended.

        The client stays where the app is to end with it.
        """
        if not self._wanted():
            return False
        self.note(kind, **fields)
        self.is_accepted = self._reported_started = True
        kernel.trim_memory()
        self._answer({"ok": kind})
        if not self._attached:
            self._close_control()
        return True

    def end_unstarted(self, kind: str, **fields: Any) -> None:
        """Record a fact that ends an app before its start."""
        self.note(kind, **fields)
        self._leave_if_ended()

    def go(self) -> None:
        """Start the app, unless it was cancelled meanwhile."""
        if self._wanted():
            if self._held and self._gpus:
                self._held.deal(self._gpus)
            more: dict[str, Any] = {"inputs": True} if self.comparison else {}
            self.note("starting", **more)  # from here on readers must assume that replicas were started
            self._going = True

    # -- callbacks of the app ------------------------------------------------------------------------------

    def _all_started(self) -> None:
        self._preparation.keep()
        self._report_started()
        kernel.trim_memory()
        if not self._attached:
            self._close_control()

    def _cannot_start(self, error: SpawnError) -> None:
        """Undo the submission, while a client waits for the start. Else the error is a fact."""
        if not (self.is_accepted or self._reported_started):
            raise error

    def _swept(self) -> None:
        """No process of the app is left."""
        if self._app.stop is not None or self._app.is_done:
            self._give_up_place()
        if self.comparison and self._succeeds():
            self._closing = True
            self.comparison.begin(self._is_quiet)
        else:
            self._is_quiet()

    def _succeeds(self) -> bool:
        stop = self._app.stop
        return self._app.is_done if stop is None else bool(stop["state"] == "succeeded")

    def _is_quiet(self, inputs_changed: str = "") -> None:
        if inputs_changed and not self._app.inputs_changed:
            self._tell("inputs", changed=inputs_changed)
        self._tell("quiet")

    def _output_lost(self, log: ReplicaLog, error: OSError) -> None:
        """Record the first loss as a warning; the replicas continue."""
        if not self._reported_loss:
            self._reported_loss = True
            self._tell("warning", message=f"log output was lost: {log.folder}: {error.strerror}")

    def _output_dropped(self, log: ReplicaLog) -> None:
        """Record the first removal as a warning; the logs show each gap."""
        if not self._reported_drop:
            self._reported_drop = True
            self._tell("warning", message=f"log output is dropped beyond log_max_mb: {log.folder}")

    # -- reasons to stop -----------------------------------------------------------------------------------

    def _take_signals(self, numbers: list[int]) -> None:
        for signum in sorted(numbers):  # a stop before the ends that may follow from it
            if signum != _signal.SIGCHLD:
                self._stop_requested(signum)
            elif self._driver:
                self._driver.processes.reap()

    def _stop_requested(self, signum: int) -> None:
        if self._app.has_ended or self._over:
            raise Left  # the disk is full, and a second signal ends the supervisor without a record
        if self._closing and self.comparison:
            self.comparison.cut_short()
        elif self._going:
            cancel = self._cancel(signum)
            if self._app.cancel is None or "grace_s" in cancel:
                self._tell(**cancel)
        elif self._driver:
            self._wanted(signum)

    def _wanted(self, signum: int = 0) -> bool:
        """Whether the app is still to be started; else its end is recorded."""
        if self._app.has_ended:
            return False
        if self.is_accepted and rundir.decision(self.app_dir) == rundir.WITHDRAWN:
            self.note("withdrawn")
        elif cancel := self._cancel(signum):
            self.note(**cancel)
        return not self._leave_if_ended()

    def _cancel(self, signum: int) -> dict[str, Any]:
        """The cancellation of a client, or by a signal, as an event without its time; {} for none."""
        found = rundir.cancellation(self.app_dir)
        if found is None:
            return {"kind": "cancel", "by": "", "signal": signum} if signum else {}
        return {"kind": "cancel", **found}

    # -- leaving -------------------------------------------------------------------------------------------

    def _take_back(self, driver: Driver) -> None:
        """Stop every replica, and undo the submission when none is left."""
        left = [each for each in self._app.replicas if each.is_active]
        grace_s = min(self._grace_s, TAKE_BACK_GRACE_S)
        driver.stop([(each, grace_s) for each in left])
        while driver.processes.are_left:
            self._loop.turn()
        driver.processes.sweep(self._undo)

    def _undo(self) -> None:
        """Remove the app, and report the error, if any, to the client."""
        self._preparation.unmake()
        self._give_up_place()
        if self.app_dir:
            AppFolder(self.app_dir).remove()
        if self._error:
            error = self._error
            self._answer({"error": str(error), "role": error.role, "k": error.k, "argv": error.argv})
        self._over = True

    def _leave(self) -> None:
        """End as soon as every event is written, which may have to wait for disk space."""
        if self._over:
            return
        self._give_up_place()
        if self._record.is_written():
            self._record.close()
            self._over = True
        else:
            self._loop.after(RECORD_RETRY_S, self._leave)

    def _leave_if_ended(self) -> bool:
        if self._app.has_ended:
            self._leave()
        return self._app.has_ended

    def _give_up_place(self) -> None:
        if self._held:
            self._held.leave()

    def _report_started(self) -> None:
        if not self._reported_started:
            self._reported_started = True
            self._answer({"ok": "started"})

    def _answer(self, message: dict[str, Any]) -> None:
        if self._control >= 0:
            send(self._control, message)

    def _close_control(self) -> None:
        if self._control >= 0:
            self._loop.remove(self._control)
            os.close(self._control)
            self._control = -1


def _role(given: Mapping[str, Any]) -> RunningRole:
    replicas = given["replicas"]
    common = replicas[0]["env"] if replicas else {}
    role = RunningRole(given["name"], given["max_retries"], common)
    role.probe = given.get("rules", {}).get("ready", NO_PROBE)
    role.replicas = [
        Replica(role, k, pack(each, common), ReplicaLog(each["log_dir"])) for k, each in enumerate(replicas)
    ]
    return role


def main() -> None:
    for fd in (CONTROL_FD, LOCK_FD):
        os.set_inheritable(fd, False)  # a replica that held the lock would look like the supervisor
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
