"""Hold an app from the client's request until its start, or until its end before the start.

A supervisor holds one app here, and goes on to run it; the holder of a line holds many apps, and has a
supervisor started for each when its time comes. No import here may load more than a supervisor has.
"""

import os
import time

from launcher.holding.app import App
from launcher.holding.events import created
from launcher.holding.hold import decide
from launcher.holding.journal import JournalWriter
from launcher.holding.replica import made_by_others
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from launcher.schedulers.local.driver import Preparation
from launcher.schedulers.local.logwriter import ReplicaLog
from launcher.schedulers.local.replicas import NO_PROBE, Replica, RunningRole
from launcher.schedulers.local.spawn import SpawnError
from launcher.schedulers.loop import Inbox, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from launcher.schedulers.local.comparison import Comparison, Readers
    from launcher.schedulers.local.spawn import Spawner
    from launcher.schedulers.local.waiting import Needed, Share
    from launcher.schedulers.loop import Loop

    Event = dict[str, Any]
    Message = Mapping[str, Any]

VERSION = 1
AGAIN_S = 1.0
"""The pause, in s, before the next try when the disk was full."""


class Keeper:
    """The process that holds an app, with its end of the socket to the app's client.

    `kind` is the kind of the event that names the process, at the beginning of the record.
    """

    kind = ""

    def __init__(self, loop: "Loop", control: int) -> None:
        self._loop = loop
        self._control = control  # -1 once the client has gone
        self._inbox = Inbox(control)
        if control >= 0:
            loop.watch(control, self._receive)

    def _receive(self) -> None:
        if not self._inbox.read():
            self._hung_up()
            return
        while (message := self._inbox.take()) is not None:
            self._obey(message)

    def _obey(self, message: "Message") -> None:
        """Obey a message of the client."""

    def _hung_up(self) -> None:
        """Go on without the client, which has closed its end."""

    def _close_control(self) -> None:
        if self._control >= 0:
            self._loop.remove(self._control)
            os.close(self._control)
            self._control = -1

    # -- requests of the app -------------------------------------------------------------------------------

    def answer(self, message: "Message") -> None:
        """Answer the client of the app, if it waits for an answer."""
        if self._control >= 0:
            send(self._control, message)

    def readers(self) -> "Readers":
        """The processes that compare the files of the app."""
        from launcher.schedulers.local.comparison import Readers

        return Readers(self._loop)

    def hold(self, app: "UnstartedApp", message: "Message") -> None:
        """Have the app wait for others, and for its share of the machine, as its "go" says."""

    def accepted(self, app: "UnstartedApp") -> None:
        """Let the client go: it knows that the app waits."""

    def start(self, app: "UnstartedApp") -> None:
        """Start an app that no longer has to wait."""

    def over(self, app: "UnstartedApp") -> None:
        """Forget an app that has ended, or was removed."""


class UnstartedApp:
    """One app, and the process that holds it.

    Args:
        message: the client's "create".

    Attributes:
        app: its state, folded from its events; `events`: the events before its start.
        roles, gpus: its roles; role → GPUs for each replica, where a role asks for any.
        is_created: its folders and its record are made.
        is_accepted: it waits or is in line, and no client waits for its start.
        share: the share of this machine that it has or is in line for; None for an app that takes no turn.
        comparison: the comparison of its input files; None where it has none.
    """

    def __init__(self, keeper: "Keeper", loop: "Loop", message: "Message", spawner: "Spawner") -> None:
        self._keeper = keeper
        self._loop = loop
        self.app = App()
        self.app_dir: str = message["app_dir"]
        self.is_attached: bool = message["attached"]
        self.is_created = self.is_accepted = self._is_over = self._has_failed = False
        self._is_folder_ours = True
        self.share: Share | None = None
        self.comparison: Comparison | None = None
        self.events: list[Event] = []
        self.spawner = spawner
        given = message["roles"]
        self.roles = [_role(each) for each in given]
        both = zip(self.roles, given, strict=True)
        self.gpus = [(role, each["gpus"]) for role, each in both if each.get("gpus")]
        self.rules = {each["name"]: each["rules"] for each in given if each.get("rules")}
        replicas = [replica for role in self.roles for replica in role.replicas]
        self.preparation = Preparation(replicas, spawner, made_by_others(self.rules))
        self.record: JournalWriter

    # -- its creation --------------------------------------------------------------------------------------

    def create(self, message: "Message") -> bool:
        """Begin the record, and prepare the app; False, with everything undone, where that fails."""
        try:
            self._begin_record(message["handle"])
            self.preparation.make(rundir.scratch(self.app_dir))
        except SpawnError as error:
            self.undo(error)
            return False
        self.is_created = True
        roles = [
            (each["name"], len(each["replicas"]), each["max_retries"], each["retry_policy"])
            for each in message["roles"]
        ]
        self._take(created(roles, self.rules, message["timeout_s"]))
        return True

    def _begin_record(self, handle: str) -> None:
        try:
            self.record = JournalWriter.begin(rundir.events(self.app_dir))
        except FileExistsError as error:
            self._is_folder_ours = False  # the folder belongs to the app that was started in it
            raise SpawnError(f"{handle} was started before") from error
        except OSError as error:
            raise SpawnError(f"cannot write {self.app_dir}: {error.strerror}") from error
        self.sign(handle)

    def sign(self, handle: str) -> None:
        """Name this process in the record, as the holder of the app."""
        start = pids.start_time(os.getpid())
        event: Event = {"v": VERSION, "e": self._keeper.kind, "pid": os.getpid(), "start": start}
        self.record.append({**event, "boot": pids.boot_id(), "handle": handle, "attached": self.is_attached})

    @classmethod
    def taken(cls, keeper: "Keeper", loop: "Loop", message: "Message", spawner: "Spawner") -> "UnstartedApp":
        """The app that another process has held, from that process's `to_hand_over` and the app's request."""
        app = cls(keeper, loop, message, spawner)
        app.events = list(message["events"])
        for event in app.events:
            app.app.take(event)
        app.record = JournalWriter.go_on(rundir.events(app.app_dir))
        app.preparation.made, app.preparation.log_folders = message["made"]
        app.is_created, app.is_accepted = True, message["is_accepted"]
        if message["inputs"]:
            app.compare_with(message["inputs"])
        return app

    def forget_replicas(self) -> None:
        """Free the values that the next process will make anew from the request."""
        self.roles, self.gpus = [], []
        self.preparation.replicas = ()

    def to_hand_over(self) -> "dict[str, Any]":
        """The values that the next holder of the app needs, beside the request."""
        return {
            "events": self.events,
            "made": (self.preparation.made, self.preparation.log_folders),
            "is_accepted": self.is_accepted,
            "inputs": self.comparison.asked if self.comparison else None,
        }

    # -- until its start -----------------------------------------------------------------------------------

    def prepare_start(self, message: "Message") -> None:
        """Start the app, or hold it as long as it waits, as `message`, the client's "go", says."""
        if message.get("inputs"):
            self.compare_with(message["inputs"])
        if message.get("needs") or message.get("turn"):
            self._keeper.hold(self, message)
        else:
            self.go()

    def compare_with(self, inputs: "Mapping[str, list[str]]") -> "Comparison":
        """Set the comparison of its input files with these; see `Comparison`."""
        from launcher.schedulers.local.comparison import Comparison

        self.comparison = Comparison(self._keeper.readers(), inputs)
        return self.comparison

    def note(self, kind: str, **fields: "Any") -> None:
        """Record an event, and the decisions that follow from it."""
        self._take({"e": kind, **fields})
        decide(self.app, self.record, time.time())

    def _take(self, event: "Event") -> None:
        self.record.append(event)
        self.app.take(event)
        self.events.append(event)

    def hold(self, needs: "Iterable[tuple[str, str]]", needed: "Needed") -> None:
        """Hold the app until its start by `launcher.holding.way`, for which this object is the `Holder`.

        `needs` are job and folder of each app that has to succeed first; `needed` follows them.
        """
        from launcher.holding.way import way_to_start

        self._needs, self._needed = dict(needs), needed
        self._way = way_to_start(list(self._needs), self)
        self._go_on()

    def _go_on(self, happened: "Any" = None) -> None:
        """Resume the generator of `hold` with the value that it waits for."""
        if self.app.has_ended:
            return
        try:
            self._way.send(happened)
        except StopIteration as over:
            if over.value:
                self.go()

    def accept(self, kind: str, **fields: "Any") -> bool:
        """Record that the app waits, and let its client go unless attached; False where the app has ended."""
        if not self.is_wanted():
            return False
        self.note(kind, **fields)
        self.is_accepted = True
        self._keeper.answer({"ok": kind})
        self._keeper.accepted(self)
        return True

    def follow_needs(self) -> None:
        for job, folder in self._needs.items():
            self._needed.follow(folder, lambda state, job=job: self._go_on((job, state)))  # type: ignore[misc]

    def ends_of_needs(self) -> "dict[str, str]":
        from launcher.schedulers.local.waiting import outcome

        return {job: outcome(folder) for job, folder in self._needs.items()}

    def give_up(self, why: str) -> None:
        if self.is_wanted():  # a client may have ended this app first, then the need
            self.end_unstarted("unmet", why=why)

    def has_share(self) -> bool:
        return self.share is None or self.share.has(self._go_on, self._cannot_queue)

    def _cannot_queue(self, error: "OSError") -> None:
        if not self._has_failed:
            self._has_failed = True
            why = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
            self.note("warning", message=f"cannot take its place in line, and tries again: {why}")

    def compare(self) -> bool:
        if self.comparison is None or not self.is_accepted:
            return False
        self.comparison.begin(self._go_on)
        return True

    def decide(self) -> "bool | None":
        if not self.is_accepted:
            return True
        try:
            decision = rundir.decide(self.app_dir, rundir.START)
        except OSError:  # the disk is full
            self._loop.after(AGAIN_S, self._go_on)
            return None
        if decision != rundir.START:
            self.end_unstarted("withdrawn")
        return decision == rundir.START

    def end_unstarted(self, kind: str, **fields: "Any") -> None:
        """Record a fact that ends an app before its start.

        The app leaves the line first: a client that reads the end may look at the line next.
        """
        self.give_up_place()
        self.note(kind, **fields)
        self.leave()

    def go(self) -> None:
        """Start the app, unless it was cancelled meanwhile."""
        if self.is_wanted():
            self._keeper.start(self)

    def is_wanted(self, signum: int = 0) -> bool:
        """Whether the app is still to be started; otherwise record its end."""
        if self.app.has_ended:
            return False
        if self.is_accepted and rundir.decision(self.app_dir) == rundir.WITHDRAWN:
            self.end_unstarted("withdrawn")
        elif cancel := self.cancellation(signum):
            self.end_unstarted("cancel", **cancel)
        return not self.app.has_ended

    def cancellation(self, signum: int) -> "dict[str, Any] | None":
        """The fields of a cancellation by a client or a signal; None for none."""
        return rundir.cancellation(self.app_dir) or ({"by": "", "signal": signum} if signum else None)

    # -- its end -------------------------------------------------------------------------------------------

    def undo(self, error: "SpawnError | None" = None) -> None:
        """Remove the app, and report the error, if any, to the client."""
        self.preparation.unmake()
        self.give_up_place()
        if self._is_folder_ours:
            from launcher.schedulers.appfolder import AppFolder

            AppFolder(self.app_dir).remove()
        if error:
            about = {"role": error.role, "k": error.k, "argv": error.argv}
            self._keeper.answer({"error": str(error), **about})
        self._be_over()

    def leave(self) -> None:
        """Release an app that has ended, once all events are written, which may have to wait for space."""
        if self._is_over or not self.app.has_ended:
            return
        self.give_up_place()
        if self.record.is_written():
            self.record.close()
            self._be_over()
        else:
            self._loop.after(AGAIN_S, self.leave)

    def give_up_place(self) -> None:
        if self.share:
            self.share.leave()

    def _be_over(self) -> None:
        self._is_over = True
        self._keeper.over(self)


def _role(given: "Mapping[str, Any]") -> "RunningRole":
    role = RunningRole(given["name"], given["env"])
    role.probe = given.get("rules", {}).get("ready", NO_PROBE)
    role.replicas = [
        Replica(role, k, packed, ReplicaLog(folder)) for k, (packed, folder) in enumerate(given["replicas"])
    ]
    return role
