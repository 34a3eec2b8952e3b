"""Fold the events of an app into its present state. No I/O."""

from __future__ import annotations

import json

from launcher.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.schedulers.order import Order
    from launcher.specs.attempt import AttemptState

VERSION = 1
ENDED = frozenset({"succeeded", "failed", "cancelled", "skipped", "lost"})
WAITS_FOR_TURN = "waits for its turn"
NOT_COMPARED = "its supervisor was killed before it compared the input files"
LOST = "its supervisor ended without a word (killed, or the machine was restarted)"


class ReplicaView:
    """One replica. `state`: pending, running, succeeded, failed, cancelled or lost. Times in seconds."""

    __slots__ = (
        "ended_at",
        "exit_code",
        "k",
        "message",
        "num_restarts",
        "oom",
        "pid",
        "role",
        "signal",
        "start",
        "started_at",
        "state",
    )

    def __init__(self, role: str, k: int) -> None:
        self.role = role
        self.k = k
        self.state = "pending"
        self.pid: int | None = None
        self.start: int | None = None
        self.exit_code: int | None = None
        self.signal = 0
        self.oom = False
        self.message = ""  # what it waits for, or why it was stopped
        self.num_restarts = 0
        self.started_at: float | None = None
        self.ended_at: float | None = None


class AppView:
    """The state of one app according to its events and its lock.

    Attributes:
        supervisor: (pid, start time, boot id) of its supervisor; None before there is one.
        owner: the client that is submitting a reserved or created app; "" when there is none.
        exit_code: of the replica that decided a failure.
        num_restarts: restarts of the app, of its roles and of single replicas, together.
        abandoned: its supervisor died before it recorded the end; processes of the app may be left.
        stop_why, stop_by: why it was or is being stopped (cancel, timeout, peer, parent, end, restart), and
            by whom.
        inputs_changed: its input files that changed while it waited or ran, as text; "" for none.
        stop_reason: that in a phrase: the message of each replica that was stopped.
        warnings: what went wrong without ending it, e.g. log output lost to a full disk.
    """

    __slots__ = (
        "abandoned",
        "created_at",
        "ended_at",
        "exit_code",
        "handle",
        "inputs_changed",
        "lock_held",
        "message",
        "num_restarts",
        "owner",
        "replicas",
        "started_at",
        "state",
        "stop_by",
        "stop_reason",
        "stop_why",
        "supervisor",
        "warnings",
    )

    def __init__(self) -> None:
        self.state: AttemptState = "reserved"
        self.supervisor: tuple[int, int, str] | None = None
        self.owner = ""
        self.lock_held = False
        self.handle = ""
        self.abandoned = False
        self.created_at: float | None = None
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.message = ""
        self.exit_code: int | None = None
        self.inputs_changed = ""
        self.num_restarts = 0
        self.stop_why = ""
        self.stop_by = ""
        self.stop_reason = ""
        self.replicas: list[ReplicaView] = []
        self.warnings: list[str] = []

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def end(self, state: AttemptState, message: str, exit_code: int | None, at: float | None = None) -> None:
        """Whether the app has ended. Replicas without an end event were stopped or never started."""
        self.state = state
        self.message = message
        self.exit_code = exit_code
        self.ended_at = at
        left = [each for each in self.replicas if each.state in ("pending", "running", "lost")]
        if left and state == "succeeded":
            from launcher.schedulers.order import STOPPED_AT_END

            message = STOPPED_AT_END
        for replica in left:
            replica.state = "cancelled"
            replica.message = self.stop_reason or message


def waits_for_jobs(jobs: list[str]) -> str:
    """What an app waits for, in a phrase."""
    return f"waits for {', '.join(jobs)}" if jobs else "is about to start"


def fold(record: bytes, *, locked: bool) -> AppView:
    """Fold a record (the bytes of events.jsonl) into a state, given whether the app is locked.

    Raises StateError for a record that a newer version wrote.
    """
    events = _events(record)
    view = _Fold(events).view
    view.lock_held = locked
    if view.state == "running" and not locked:
        from launcher.schedulers.local.implied import implied

        view.abandoned = True
        outcome = implied(events)
        if outcome and outcome.state:
            view.end(outcome.state, outcome.message, outcome.code, events[-1].get("t", 0) / 1e9)
            if outcome.state == "succeeded" and any(event.get("inputs") for event in events):
                view.inputs_changed = view.inputs_changed or NOT_COMPARED
            return view
        view.state = "lost"
        view.message = LOST
        for replica in view.replicas:
            if replica.state in ("pending", "running"):
                replica.state = "lost"
    return view


def _events(record: bytes) -> list[dict[str, Any]]:
    whole = record[: record.rfind(b"\n") + 1]  # ignore a line that is still being written
    try:
        found = json.loads(b"[" + whole[:-1].replace(b"\n", b",") + b"]")
    except ValueError:  # a crash of the machine can tear a line in the middle of the file
        found = [_line(line) for line in whole.splitlines()]
    return [event for event in found if isinstance(event, dict)]


def _line(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def is_restarted(event: dict[str, Any], role: str, k: int) -> bool:
    """Whether a restart event is about this replica."""
    scope = event["scope"]
    return bool(scope == "app" or (role == event["role"] and (scope == "role" or k == event["k"])))


def _reason(stopping: dict[str, Any]) -> str:
    """Why replicas are stopped; "" for a cancel before the start, which the end of the app explains."""
    message: str = stopping.get("message", "")
    if stopping["why"] == "end":
        from launcher.schedulers.order import STOPPED_AT_END

        return STOPPED_AT_END
    if stopping["why"] not in ("peer", "restart"):
        return message
    if stopping.get("code") == 0:  # that replica ended too early, which is no failure of its own
        return message.partition(",")[0]
    return f"{stopping['by']} failed"


class _Fold:
    """Folds the events one by one into `view`."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.view = AppView()
        self._known: dict[tuple[str, int], ReplicaView] = {}
        actions = {
            "spawn": self._spawn,
            "exit": self._exit,
            "supervisor": self._supervisor,
            "created": self._created,
            "waiting": self._waiting,
            "met": self._met,
            "queued": self._queued,
            "starting": self._starting,
            "started": self._started,
            "ready": self._ready,
            "restart": self._restart,
            "stopping": self._stopping,
            "inputs": self._inputs,
            "warning": self._warning,
            "ended": self._ended,
        }
        self._order: Order | None = None
        self._needs: list[str] = []
        for event in events:
            action = actions.get(event.get("e", ""))  # ignore the kinds that later versions add
            if action:
                action(event, event.get("t", 0) / 1e9)
        if self._order is not None and self.view.state in ("created", "running"):
            self._say_what_waits(self._order)

    def _say_what_waits(self, order: Order) -> None:
        from launcher.schedulers.order import waits_for

        for replica in self.view.replicas:
            if replica.state == "pending" and (missing := order.missing(replica.role)):
                replica.message = waits_for(missing)

    def _supervisor(self, event: dict[str, Any], at: float) -> None:
        if event["v"] > VERSION:
            raise StateError(
                f"{event['handle']} was started by a newer version of launcher (record version {event['v']})",
                hint="use the newer version for this app",
            )
        view = self.view
        view.supervisor = (event["pid"], event["start"], event["boot"])
        view.handle = event["handle"]

    def _created(self, event: dict[str, Any], at: float) -> None:
        self.view.state = "created"
        self.view.created_at = at
        for role, count in event.get("roles", ()):
            for k in range(count):
                self._replica(role, k)
        if "order" in event:
            from launcher.schedulers.order import Order, from_list

            self._order = Order(dict(event["roles"]), from_list(event["order"]))

    def _ready(self, event: dict[str, Any], at: float) -> None:
        self._reach(event, "ready")

    def _reach(self, event: dict[str, Any], condition: str) -> None:
        if self._order is not None:
            self._order.reach(event["role"], event["k"], condition)

    def _waiting(self, event: dict[str, Any], at: float) -> None:
        self.view.state = "waiting"
        self._needs = [*event["for"]]
        self.view.message = waits_for_jobs(self._needs)

    def _met(self, event: dict[str, Any], at: float) -> None:
        self._needs.remove(event["job"])
        self.view.message = waits_for_jobs(self._needs)

    def _queued(self, event: dict[str, Any], at: float) -> None:
        self.view.state = "queued"
        self.view.message = WAITS_FOR_TURN

    def _starting(self, event: dict[str, Any], at: float) -> None:
        self.view.message = ""
        self.view.state = "running"
        self.view.started_at = at

    def _started(self, event: dict[str, Any], at: float) -> None:
        self.view.state = "running"
        self.view.started_at = self.view.started_at or at  # records of version 0.1 have no "starting"

    def _spawn(self, event: dict[str, Any], at: float) -> None:
        self.view.state = "running"
        replica = self._replica(event["role"], event["k"])
        replica.state = "running"
        replica.pid = event["pid"]
        replica.start = event["start"]
        replica.num_restarts = event["restart"]
        replica.started_at = at
        replica.ended_at = replica.exit_code = None
        replica.signal = 0
        replica.oom = False
        replica.message = ""
        self._reach(event, "started")

    def _exit(self, event: dict[str, Any], at: float) -> None:
        replica = self._replica(event["role"], event["k"])
        code = event["code"]
        replica.exit_code = code
        replica.signal = event["signal"]
        replica.oom = bool(event.get("oom"))
        replica.ended_at = at
        if event.get("late"):
            replica.state = "failed"
            replica.message = event["late"]
        elif event.get("stopped"):  # its supervisor stopped it, so its exit code is not the program's
            replica.state = "cancelled"
            replica.message = self.view.stop_reason
        else:
            replica.state = "failed" if code else "succeeded"
            if not code:
                self._reach(event, "succeeded")

    def _restart(self, event: dict[str, Any], at: float) -> None:
        self.view.num_restarts += 1
        self.view.stop_why = self.view.stop_by = self.view.stop_reason = ""
        if self._order is not None and event["scope"] == "app":
            self._order.begin()
        if not event.get("delay_s") and self._order is None:
            return
        for replica in self.view.replicas:
            if is_restarted(event, replica.role, replica.k):
                replica.state = "pending"
                replica.message = ""
                if self._order is not None:
                    self._order.restart(replica.role, replica.k)

    def _stopping(self, event: dict[str, Any], at: float) -> None:
        self.view.stop_why = event["why"]
        self.view.stop_by = event.get("by", "")
        self.view.stop_reason = _reason(event)

    def _inputs(self, event: dict[str, Any], at: float) -> None:
        self.view.inputs_changed = event["changed"]

    def _warning(self, event: dict[str, Any], at: float) -> None:
        self.view.warnings.append(event["message"])

    def _ended(self, event: dict[str, Any], at: float) -> None:
        self.view.end(event["state"], event["message"], event["code"], at)

    def _replica(self, role: str, k: int) -> ReplicaView:
        found = self._known.get((role, k))
        if found is None:
            found = self._known[role, k] = ReplicaView(role, k)
            self.view.replicas.append(found)
        return found
