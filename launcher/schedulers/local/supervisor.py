"""The supervisor process of one local app: it answers the client that started it, and ends with the app.

Run as `python -I -S -c '…; main()'` with the control socket at descriptor 3 and the app's lock at 4. It stays
small: no import here may pull in `signal`, `json`, `enum`, `typing` or `dataclasses`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os

from launcher.schedulers import pids
from launcher.schedulers.local import kernel, rundir
from launcher.schedulers.local.app import RunningApp
from launcher.schedulers.local.control import CONTROL_FD, LOCK_FD, Inbox, send
from launcher.schedulers.local.eventfile import EventFile
from launcher.schedulers.local.logwriter import FILES_PER_REPLICA, LogWriter, ReplicaLog
from launcher.schedulers.local.loop import Loop
from launcher.schedulers.local.outcome import INTERRUPT, WITHDRAWN, AppOutcome, cancellation
from launcher.schedulers.local.prepare import Preparation
from launcher.schedulers.local.replicas import NO_PROBE, Replica, RunningRole
from launcher.schedulers.local.spawn import Spawner, SpawnError, pack
from launcher.schedulers.order import Order, has_order, made_by_others, to_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from launcher.schedulers.local.comparison import Comparison
    from launcher.schedulers.local.needs import Needs
    from launcher.schedulers.local.turn import Turn

VERSION = 1
MAX_OPEN_LOGS = 1024
RECORD_RETRY_S = 1.0


class Supervisor:
    """Runs one app from the client's "create" and "go" to its end."""

    def __init__(self, control: int) -> None:
        self._control = control
        self._inbox = Inbox(control)
        self._loop = Loop()
        self._loop.watch(control, self._receive)
        self._loop.on_signal(_signal.SIGCHLD, self._child_ended)
        for signum in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
            self._loop.on_signal(signum, self._stop_requested)
        self._over = False
        self._stop_signal = 0  # the number of the signal that asked to stop; 0: none
        self._app: RunningApp | None = None
        self._going = False
        self._accepted = False  # as waiting or queued: no client waits for its start
        self._needs: Needs | None = None  # of an app that waits, or has waited
        self._ask: Mapping[str, Any] | None = None  # for its share of this machine
        self._turn: Turn | None = None
        self._comparison: Comparison | None = None  # of its input files
        self._inputs_changed: str | None = None  # while it waited; None: not compared yet
        self._gpus: list[tuple[RunningRole, int]] = []  # how many each replica asks for
        self._error: SpawnError | None = None  # why the submission is undone
        self._reported_started = False
        self._closing = False  # it has succeeded, and its input files are being compared
        self._ended = False
        self._reported_loss = False
        self._reported_drop = False
        self._app_dir = ""
        self._output = ""  # the folder to make before the app starts; "" for none
        self._attached = False
        self._closed = False  # the client closed an attached app, rather than exiting
        self._timeout_s: float | None = None
        self._record: EventFile
        self._preparation: Preparation

    def run(self) -> None:
        while not self._over:
            self._loop.turn(wait=not (self._app and self._app.busy))
            if self._app and self._app.busy:
                self._app.step()

    def kill_all(self) -> None:
        """Kill the app's processes when the supervisor itself fails."""
        if self._app and not self._over:
            self._app.kill_all()

    # -- messages of the client ----------------------------------------------------------------------------

    def _receive(self) -> None:
        if not self._inbox.read():
            self._hung_up()
            return
        while (message := self._inbox.take()) is not None:
            if message["op"] == "create" and self._app is None:
                self._create(message)
            elif message["op"] == "go" and self._app and not self._going:
                self._ask = message.get("turn")
                if message.get("inputs"):
                    from launcher.schedulers.local.comparison import Comparison

                    self._comparison = Comparison(self._loop, message["inputs"])
                if message.get("needs"):
                    self._wait_for(message["needs"])
                else:
                    self._take_turn()
            elif message["op"] == "close":
                self._closed = True

    def _hung_up(self) -> None:
        self._close_control()
        if self._app is None:
            self._over = True
        elif self._ended or self._closing:  # cancelled at the same moment, and recorded
            return
        elif not self._going and not self._accepted:  # the client died, or undoes the submission
            self._undo()
        elif self._attached:
            why = "its Runner was closed" if self._closed else "its parent process ended"
            if self._going:
                self._app.stop("parent", AppOutcome("cancelled", why))
            else:
                self._record.add("stopping", why="parent", by="", message=why)
                self._end_unstarted("cancelled", why)

    def _create(self, message: Mapping[str, Any]) -> None:
        self._app_dir = message["app_dir"]
        self._output = message.get("output", "")
        self._attached = message["attached"]
        self._timeout_s = message["timeout_s"]
        roles = [_role(each) for each in message["roles"]]
        counts = {each["name"]: each.get("gpus", 0) for each in message["roles"]}
        self._gpus = [(role, counts[role.name]) for role in roles if counts[role.name]]
        rules = {each["name"]: each["rules"] for each in message["roles"] if each.get("rules")}
        order = Order({role.name: len(role.replicas) for role in roles}, rules) if has_order(rules) else None
        spawner = Spawner(message["env"])
        self._preparation = Preparation(
            [r for role in roles for r in role.replicas], spawner, made_by_others(rules)
        )
        try:
            self._begin_record(message["handle"])
            self._preparation.make(rundir.scratch(self._app_dir))
        except SpawnError as error:
            self._error = error
            self._undo()
            return
        logs = LogWriter(
            min(MAX_OPEN_LOGS, self._preparation.spare_files // FILES_PER_REPLICA),
            self._output_lost,
            separate=message["separate_streams"],
            max_bytes=message["log_max_bytes"],
            on_drop=self._output_dropped,
        )
        self._app = RunningApp(roles, self._loop, spawner, logs, self._record, message["grace_s"], order)
        self._app.secrets = tuple(message.get("secrets", ()))
        self._app.on_started = self._all_started
        self._app.on_broken = self._cannot_start
        self._app.on_ended = self._all_ended
        more: dict[str, Any] = {"order": to_list(rules)} if order else {}
        self._record.add(
            "created",
            roles=[[role.name, len(role.replicas)] for role in roles],
            retries=[[role.max_retries, role.retry_policy] for role in roles],
            **more,
        )
        if self._wanted():
            self._answer({"ok": "created"})

    def _begin_record(self, handle: str) -> None:
        try:
            self._record = EventFile(rundir.events(self._app_dir), rundir.spare(self._app_dir))
        except FileExistsError as error:
            self._app_dir = ""  # the folder belongs to the app that was started in it
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
            if self._turn and self._gpus:
                self._turn.deal(self._gpus)
            more: dict[str, Any] = {"inputs": True} if self._comparison else {}
            self._record.add(
                "starting", **more
            )  # from here on readers must assume that replicas were started
            if self._timeout_s:
                self._loop.after(self._timeout_s, self._time_is_up)
            try:
                self._preparation.make_output(self._output)
            except SpawnError as error:
                self._cannot_start(error)
                return
            self._app.start()

    # -- waiting for other apps ----------------------------------------------------------------------------

    def _wait_for(self, needs: Sequence[tuple[str, str]]) -> None:
        """Hold the app until those in these folders have succeeded: (job, folder) of each."""
        if not self._wanted():
            return
        from launcher.schedulers.local.needs import Needs, why_skipped

        self._needs = Needs(self._loop, needs)
        self._needs.on_met = lambda job: self._record.add("met", job=job)
        self._needs.on_all = self._take_turn
        self._needs.on_failed = lambda job, state: self._end_unstarted("skipped", why_skipped(job, state))
        more: dict[str, Any] = {"for": [job for job, _ in needs]}
        self._record.add("waiting", **more)
        self._accept("waiting")
        self._needs.begin()

    def _accept(self, state: str) -> None:
        """Let the client go: it does not wait for the start. It stays where the app is to end with it."""
        self._accepted = self._reported_started = True
        kernel.trim_memory()
        self._answer({"ok": state})
        if not self._attached:
            self._close_control()

    # -- waiting for its share of the machine --------------------------------------------------------------

    def _take_turn(self) -> None:
        """Start the app when it has its share: at once where it asks for nothing, or that is free."""
        if self._ask is None:
            self._begin()
        elif self._wanted():
            from launcher.schedulers.local.turn import Turn

            self._turn = Turn(self._loop, self._ask, self._app_dir)
            self._turn.on_turn = self._begin
            self._turn.on_error = self._cannot_queue
            if self._turn.enter():
                self._begin()
            else:
                self._record.add("queued")
                self._accept("queued")

    def _cannot_queue(self, error: OSError) -> None:
        why = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        self._record.add("warning", message=f"cannot take its place in line, and tries again: {why}")

    def _begin(self) -> None:
        """Start the app, unless it was withdrawn after it had been accepted."""
        if self._ended:
            return
        if self._accepted and self._comparison and self._inputs_changed is None:
            self._comparison.begin(self._compared)
            return
        if self._accepted:
            try:
                decision = rundir.decide(self._app_dir, rundir.START)
            except OSError:  # the disk is full
                self._loop.after(RECORD_RETRY_S, self._begin)
                return
            if decision != rundir.START:
                self._end_unstarted("skipped", WITHDRAWN)
                return
        self._go()

    def _compared(self, changed: str) -> None:
        """Start the app, whose input files have been compared after it had waited."""
        self._inputs_changed = changed
        if changed and not self._ended:
            self._record.add("inputs", changed=changed)
        self._begin()

    def _end_unstarted(self, state: str, message: str) -> None:
        self._record.add("ended", state=state, message=message, code=None)
        self._ended = True
        self._leave()

    # -- callbacks of the app ------------------------------------------------------------------------------

    def _all_started(self) -> None:
        self._preparation.keep()
        self._report_started()
        kernel.trim_memory()
        if not self._attached:
            self._close_control()

    def _cannot_start(self, error: SpawnError) -> None:
        self._error = error
        if self._app:
            self._app.take_back()

    def _all_ended(self, outcome: AppOutcome) -> None:
        if not outcome.state and self._accepted:  # no client waits for its start: the error is its outcome
            outcome = AppOutcome("failed", _why(self._error))
        if not outcome.state:
            self._undo()
            return
        if outcome.state == "succeeded" and self._comparison:
            self._give_up_place()  # no process of the app is left
            self._closing = True
            self._comparison.begin(lambda changed: self._end(outcome, changed))
            return
        self._end(outcome)

    def _end(self, outcome: AppOutcome, inputs_changed: str = "") -> None:
        if inputs_changed and not self._inputs_changed:
            self._record.add("inputs", changed=inputs_changed)
        self._record.add("ended", state=outcome.state, message=outcome.message, code=outcome.code)
        self._ended = True
        self._leave()

    def _output_lost(self, log: ReplicaLog, error: OSError) -> None:
        """Record the first loss as a warning; the replicas continue."""
        if not self._reported_loss:
            self._reported_loss = True
            self._record.add("warning", message=f"log output was lost: {log.folder}: {error.strerror}")

    def _output_dropped(self, log: ReplicaLog) -> None:
        """Record the first removal as a warning; the logs show each gap."""
        if not self._reported_drop:
            self._reported_drop = True
            self._record.add("warning", message=f"log output is dropped beyond log_max_mb: {log.folder}")

    # -- reasons to stop -----------------------------------------------------------------------------------

    def _child_ended(self, signum: int) -> None:
        if self._app:
            self._app.child_ended()

    def _time_is_up(self) -> None:
        if self._app:
            self._app.stop("timeout", AppOutcome("failed", f"timed out after {self._timeout_s} s"))
            if not self._error:
                self._report_started()  # the client need not wait: the replicas are on record

    def _stop_requested(self, signum: int) -> None:
        self._stop_signal = signum
        if self._ended or self._over:
            self._over = True  # the disk is full, and a second signal ends the supervisor without a record
        elif self._closing and self._comparison:
            self._comparison.cut_short()
        elif self._app and self._going:
            by, grace_s = rundir.cancelled_by(self._app_dir)
            self._app.stop("cancel", self._cancellation(by), (by or "").removeprefix(INTERRUPT), grace_s)
            if not self._error:
                self._report_started()  # the client need not wait: the replicas are on record
        elif self._app:
            self._wanted()

    def _wanted(self) -> bool:
        """Whether the app is still to be started; else its cancellation is recorded."""
        if self._ended:
            return False
        if self._needs:
            self._needs.forget()
        if self._accepted and rundir.decision(self._app_dir) == rundir.WITHDRAWN:
            self._end_unstarted("skipped", WITHDRAWN)
            return False
        by, _ = rundir.cancelled_by(self._app_dir)
        if by is None and not self._stop_signal:
            return True
        self._record.add("stopping", why="cancel", by=(by or "").removeprefix(INTERRUPT))
        self._end_unstarted("cancelled", self._cancellation(by).message)
        return False

    def _cancellation(self, by: str | None) -> AppOutcome:
        if by is None:
            return AppOutcome("cancelled", f"stopped by signal {self._stop_signal}")
        return cancellation(by)

    # -- leaving -------------------------------------------------------------------------------------------

    def _undo(self) -> None:
        """Remove the app, and report the error, if any, to the client."""
        self._preparation.unmake()
        self._give_up_place()
        if self._app_dir:
            rundir.remove(self._app_dir)
        if self._error:
            error = self._error
            self._answer({"error": str(error), "role": error.role, "k": error.k, "argv": error.argv})
        self._over = True

    def _leave(self) -> None:
        """End as soon as every event is written, which may have to wait for disk space."""
        self._give_up_place()
        if self._record.flush():
            self._record.close()
            self._over = True
        else:
            self._loop.after(RECORD_RETRY_S, self._leave)

    def _give_up_place(self) -> None:
        if self._turn:
            self._turn.leave()

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
    role = RunningRole(given["name"], given["max_retries"], given["retry_policy"], common)
    rules = given.get("rules", {})
    role.retry_delay = rules.get("retry_delay", 0)
    role.probe = rules.get("ready", NO_PROBE)
    role.replicas = [
        Replica(role, k, pack(each, common), ReplicaLog(each["log_dir"])) for k, each in enumerate(replicas)
    ]
    return role


def _why(error: SpawnError | None) -> str:
    if error is None:
        return ""
    return f"cannot start {error.role}/{error.k}: {error}" if error.role else str(error)


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
