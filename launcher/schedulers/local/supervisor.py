"""The supervisor process of one local app: it serves the client that started it, and ends with the app.

Run as `python -I -S -c '…; main()'` with the control socket at descriptor 3 and the app's lock at 4. It stays
small: no import here may pull in `signal`, `json`, `enum`, `typing`, `dataclasses` or `__future__`.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os

from launcher.holding.hold import hold
from launcher.schedulers.local import kernel
from launcher.schedulers.local.driver import Driver
from launcher.schedulers.local.held import Keeper, UnstartedApp
from launcher.schedulers.local.logwriter import FILES_PER_REPLICA, LogWriter, ReplicaLog
from launcher.schedulers.local.spawn import Spawner, SpawnError
from launcher.schedulers.loop import CONTROL_FD, LOCK_FD, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Event = dict[str, Any]

MAX_OPEN_LOGS = 1024
TAKE_BACK_GRACE_S = 1.0
NO_INPUTS: "Mapping[str, list[str]]" = {"args": [], "env": []}


class Left(Exception):
    """Raised to exit at once: the app has ended, and only its record is incomplete."""


class Supervisor(Keeper):
    """Runs one app from the client's "create" and "go" to its end, or from `take`."""

    kind = "supervisor"

    def __init__(self, control: int) -> None:
        super().__init__(Loop((_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)), control)
        self._loop.on_signals = self._take_signals
        self._over = False
        self._held: UnstartedApp  # once there is a driver
        self._driver: Driver | None = None  # once the app is created
        self._going = False
        self._reported_started = False
        self._closing = False  # the app has succeeded, and its files are being read
        self._reported_loss = self._reported_drop = False
        self._output = ""  # the folder to make before the app starts; "" for none
        self._closed = False  # the client of an attached app closed the app on purpose
        self._grace_s = 0.0

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

    def _hold(self, driver: "Driver") -> None:
        try:
            self._held.preparation.make_output(self._output)
        except SpawnError as error:
            if not self._held.is_accepted:
                self._held.undo(error)
                return
            self._held.note("broken", why=str(error))
        try:
            hold(self._held.app, self, driver)
        except SpawnError as error:
            self._take_back(driver, error)
        else:
            self._held.leave()

    def _take_back(self, driver: "Driver", why: "SpawnError") -> None:
        """Stop every replica, and undo the submission when none is left."""
        left = [each for each in self._held.app.replicas if each.is_active]
        grace_s = min(self._grace_s, TAKE_BACK_GRACE_S)
        driver.stop([(each, grace_s) for each in left])
        while driver.processes.are_left:
            self._loop.turn()
        driver.processes.sweep(lambda: self._held.undo(why))

    def kill_all(self) -> None:
        """Kill the app's processes when the supervisor itself fails."""
        if self._driver and not self._over:
            self._driver.processes.kill_all()

    def append(self, event: "Event") -> None:
        """Record an event. The first final stop also answers a client that waits for the start."""
        self._held.record.append(event)
        if event["e"] == "started":
            self._held.preparation.keep()
            self._report_started()
            kernel.trim_memory()
            if not self._held.is_attached:
                self._close_control()
        elif event["e"] == "stopping" and event.get("state"):
            self._report_started()

    def is_written(self) -> bool:
        return self._held.record.is_written()

    def _report_started(self) -> None:
        if not self._reported_started:
            self._reported_started = True
            self.answer({"ok": "started"})

    def _tell(self, kind: str, **fields: "Any") -> None:
        """Report a fact to the loop that holds the app, or record it before there is one."""
        if self._going and self._driver:
            self._driver.add(kind, **fields)
        else:
            self._held.note(kind, **fields)

    # -- messages of the client ----------------------------------------------------------------------------

    def _obey(self, message: "Mapping[str, Any]") -> None:
        if message["op"] == "create" and self._driver is None:
            self._create(message)
        elif message["op"] == "go" and self._driver and not self._going:
            self._held.prepare_start(message)
        elif message["op"] == "close":
            self._closed = True
        elif message["op"] == "leave":
            self._held.is_attached = False

    def _hung_up(self) -> None:
        self._close_control()
        if self._driver is None:
            self._over = True
        elif self._held.app.has_ended or self._closing:  # a cancellation at the same moment is recorded
            return
        elif not self._going and not self._held.is_accepted:  # the client died, or undoes the submission
            self._held.undo()
        elif self._held.is_attached:
            why = "its Runner was closed" if self._closed else "its parent process ended"
            self._tell("orphaned", why=why)
            self._held.leave()

    def _create(self, message: "Mapping[str, Any]") -> None:
        held = UnstartedApp(self, self._loop, message, Spawner(message["env"]))
        if held.create(message):
            self._drive(held, message)
            if held.is_wanted():
                self.answer({"ok": "created"})

    def _drive(self, held: "UnstartedApp", message: "Mapping[str, Any]") -> None:
        self._held = held
        self._output = message.get("output", "")
        self._grace_s = message["grace_s"]
        logs = LogWriter(
            min(MAX_OPEN_LOGS, held.preparation.spare_files // FILES_PER_REPLICA),
            self._output_lost,
            separate=message["separate_streams"],
            max_bytes=message["log_max_bytes"],
            on_drop=self._output_dropped,
        )
        self._driver = Driver(
            held.app,
            held.roles,
            self._loop,
            held.spawner,
            logs,
            grace_s=self._grace_s,
            secrets=message.get("secrets", ()),
        )
        self._driver.on_spawn_error = self._cannot_start
        self._driver.on_swept = self._swept

    def take(self, message: "Mapping[str, Any]", fds: "list[int]", taken: "Callable[[], object]") -> None:
        """Take over an app from the holder of a line, and start it.

        Args:
            message: the app's "create", and the values of `UnstartedApp.to_hand_over`.
            fds: the descriptors of its share: bells, then proofs.
            taken: called once the record names this process.
        """
        held = UnstartedApp.taken(self, self._loop, message, Spawner(message["env"]))
        self._reported_started = held.is_accepted
        if message.get("turn"):
            from launcher.schedulers.local.waiting import OwnPlace

            held.share = OwnPlace.taken(self._loop, message["turn"], fds)
        self._drive(held, message)
        held.sign(message["handle"])
        taken()
        held.go()

    # -- requests of the app to its holder -----------------------------------------------------------------

    def hold(self, app: "UnstartedApp", message: "Mapping[str, Any]") -> None:
        from launcher.schedulers.local.waiting import Needed, OwnPlace

        if message.get("turn"):
            app.share = OwnPlace.new(self._loop, message["turn"], app.app_dir)
        app.hold(message.get("needs", ()), Needed(self._loop))

    def accepted(self, app: "UnstartedApp") -> None:
        self._reported_started = True
        kernel.trim_memory()
        if not app.is_attached:
            self._close_control()

    def start(self, app: "UnstartedApp") -> None:
        if app.share and app.share.place:
            from launcher.schedulers.local.waiting import deal

            app.share.place.bequeath()
            deal(app.share.place, app.gpus)
        more: dict[str, Any] = {"inputs": True} if app.comparison and app.comparison.asked["args"] else {}
        app.note("starting", **more)  # from now on readers must assume that replicas were started
        if self._driver is not None:
            self._driver.begin()
        self._going = True

    def over(self, app: "UnstartedApp") -> None:
        self._over = True

    # -- callbacks of the driver ---------------------------------------------------------------------------

    def _cannot_start(self, error: "SpawnError") -> None:
        """Undo the submission if a client waits for the start. Otherwise the error is an event."""
        if not self._reported_started:
            raise error

    def _swept(self) -> None:
        """Go on when no process of the app is left. After a success, files are compared and hashed."""
        held = self._held
        if held.app.stop is not None or held.app.is_done:
            held.give_up_place()
        try:
            with os.scandir(self._output) as found:  # a list of all names may be long
                output = self._output if next(found, None) else ""
        except OSError:
            output = ""
        if held.app.succeeds and (held.comparison or output):
            self._closing = True
            comparison = held.comparison or held.compare_with(NO_INPUTS)
            comparison.begin(self._is_quiet, output, since=held.app.started_at)
        else:
            self._is_quiet()

    def _is_quiet(self, inputs_changed: str = "") -> None:
        if inputs_changed and not self._held.app.inputs_changed:
            self._tell("inputs", changed=inputs_changed)
        if self._held.comparison and (digest := self._held.comparison.output_digest):
            self._tell("output", digest=digest)
        rest = self._driver.processes.take_rest() if self._driver else ()
        more: dict[str, Any] = {"use": rest} if rest else {}
        self._tell("quiet", **more)

    def _output_lost(self, log: "ReplicaLog", error: "OSError") -> None:
        """Record the first loss of output as a warning; the replicas continue."""
        if not self._reported_loss:
            self._reported_loss = True
            self._tell("warning", message=f"log output was lost: {log.folder}: {error.strerror}")

    def _output_dropped(self, log: "ReplicaLog") -> None:
        """Record the first removal of output as a warning; the logs show each gap."""
        if not self._reported_drop:
            self._reported_drop = True
            self._tell("warning", message=f"log output is dropped beyond log_max_mb: {log.folder}")

    # -- reasons to stop -----------------------------------------------------------------------------------

    def _take_signals(self, numbers: "list[int]") -> None:
        for signum in sorted(numbers):  # a stop comes before the ends that it causes
            if signum != _signal.SIGCHLD:
                self._stop_requested(signum)
            elif self._driver:
                self._driver.processes.reap()

    def _stop_requested(self, signum: int) -> None:
        if self._over or (self._driver and self._held.app.has_ended):
            raise Left  # the disk is full, and a second signal ends the supervisor without a record
        if not self._driver:
            return
        if self._closing and self._held.comparison:
            self._held.comparison.cut_short()
        elif self._going:
            cancel = self._held.cancellation(signum) or {}
            if self._held.app.cancel is None or "grace_s" in cancel:
                self._tell("cancel", **cancel)
        else:
            self._held.is_wanted(signum)


def main() -> None:
    for fd in (CONTROL_FD, LOCK_FD):
        os.set_inheritable(fd, False)  # a replica with the lock would look like the supervisor
    kernel.close_from(LOCK_FD + 1)
    begin()
    supervise(Supervisor(CONTROL_FD))


def begin() -> None:
    """Detach this process, so that it can hold apps: no input or output, and folder `/`."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    os.chdir("/")


def supervise(supervisor: "Supervisor") -> None:
    """Run a supervisor, and exit."""
    kernel.adopt_orphans()
    try:
        supervisor.run()
    finally:
        supervisor.kill_all()
    os._exit(0)
