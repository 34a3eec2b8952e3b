"""The state of an app, folded from its recorded events. Pure; Python >= 3.6. `app.py` adds decisions."""

from launcher.holding.events import (
    IN_LINE,
    STOPPED_AT_END,
    started_by_hand,
    stop_reason,
    waits_for_jobs,
    waits_for_roles,
)
from launcher.holding.replica import ENDED, PENDING, RUNNING, Order, Replica, Role
from launcher.holding.use import Use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Optional

    Event = dict[str, Any]

ENDED_STATES = frozenset(["succeeded", "failed", "cancelled", "skipped", "lost"])


class AppState:
    """An app, as its events have made it.

    Attributes:
        state: reserved, created, waiting, queued, running or one of ENDED_STATES.
        message: why it waits, or how it ended; "" otherwise.
        code: exit code of the replica that decided the end.
        needs: the jobs that the app still waits for.
        roles: name → role, in the order of the app.
        order: the replicas that have yet to start.
        stop: the first final `stopping` event; None while there is none.
        stop_reason: why the last `stopping` event stopped replicas; "" for none.
        out_of_order: the start by another program of a replica whose role waits, as a sentence; "" for none.
        clock_s: seconds by which the clock of the events was set ahead since the start; negative for back.
        num_restarts: restarts of the app, of its roles and of single replicas, together.
        inputs_changed: its input files that changed while it waited or ran, as text.
        output_digest: the digest of its output folder at its end, or why there is none; "" for none.
        used_by_rest: the use of processes that outlived their replica; None where nothing is known.
        active: number of replicas that are starting or running.
        to_stop: replicas to stop → grace period in s, None for the app's own; the holder empties it. Folded
            from a record, it has the replicas that were asked to stop and still run.
        wants_quiet: the driver is to end the rest of the app, and to report `quiet`.
    """

    def __init__(self) -> None:
        self.roles = {}  # type: dict[str, Role]
        self.order = Order(self.roles)
        self.state = "reserved"
        self.message = ""
        self.code = None  # type: Optional[int]
        self.needs = []  # type: list[str]
        self.warnings = []  # type: list[str]
        self.inputs_changed = self.output_digest = ""
        self.used_by_rest = None  # type: Optional[Use]
        self.created_at = self.started_at = self.ended_at = None  # type: Optional[float]
        self.last_at = self.clock_s = 0.0
        self.timeout_s = None  # type: Optional[float]
        self.num_restarts = 0
        self.restarts = 0  # restarts of the whole app
        self.restarting = None  # type: Optional[Replica]
        self.may_restart = True
        self.stop = None  # type: Optional[Event]
        self.stop_reason = ""
        self.cancel = self.broken = self.grace_s = None  # type: Any
        self.orphaned = self.unmet = self.out_of_order = ""
        self.is_withdrawn = False
        self.active = 0
        self.to_stop = {}  # type: dict[Replica, Optional[float]]
        self.wants_quiet = self.is_quiet = False
        self._over = {}  # type: dict[Replica, None]
        self._left = self._counted = 0  # numbers of replicas, those of services aside: yet to succeed; all

    # -- the view ------------------------------------------------------------------------------------------

    @property
    def replicas(self) -> "list[Replica]":
        """Every replica, in the order of the app."""
        return [each for role in self.roles.values() for each in role.replicas]

    @property
    def used(self) -> "dict[str, Use]":
        """Role → the use of its ended runs; "" → the use of processes that outlived their replica."""
        known = {role.name: role.used for role in self.roles.values() if role.used is not None}
        return known if self.used_by_rest is None else {**known, "": self.used_by_rest}

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED_STATES

    @property
    def is_done(self) -> bool:
        """Whether every replica has succeeded, those of services aside."""
        return self._counted > 0 and not self._left

    @property
    def succeeds(self) -> bool:
        """Whether the app has succeeded, or will once nothing of it is left."""
        return self.is_done if self.stop is None else bool(self.stop["state"] == "succeeded")

    def shown(self, replica: Replica) -> "tuple[str, str]":
        """State and message of a replica: pending, running, succeeded, failed, cancelled or lost."""
        if replica.state == ENDED:
            return replica.shown_end
        if self.state == "lost":
            return "lost", ""
        if self.has_ended:  # it was stopped, or never started
            at_end = STOPPED_AT_END if self.state == "succeeded" else self.message
            return "cancelled", self.stop_reason or at_end
        if replica.state == RUNNING:
            return "running", ""
        is_waiting = replica.role in self.order.waiting and self.state in ("created", "running")
        return "pending", waits_for_roles(self.order.missing(replica.role)) if is_waiting else ""

    def unasked(self, replica: Replica) -> str:
        """Return the kind of a new run of the replica that no event asks for: `restart`, or `early` where its
        role waits; "" for a run that has no such meaning.
        """
        is_stopping = self.stop is not None or self.restarting is not None
        if self.state != "running" or is_stopping or replica.role.restarting is not None:
            return ""
        if replica.state in (RUNNING, ENDED):
            return "restart"
        is_first = replica.state == PENDING and not replica.restarts
        waits = replica.role in self.order.waiting and self.order.missing(replica.role)
        return "early" if is_first and waits else ""

    # -- events --------------------------------------------------------------------------------------------

    def take(self, event: "Event") -> None:
        """Take the next event of the record. Kinds that this version does not know are ignored."""
        do = getattr(self, "_on_{}".format(event.get("e")), None)
        if do is not None:
            at = event.get("t", 0) / 1e9
            self.last_at = at or self.last_at
            do(event, at)

    def _on_created(self, event: "Event", at: float) -> None:
        self.state, self.created_at, self.timeout_s = "created", at, event.get("timeout")
        self.roles = {name: Role(name, count) for name, count in event.get("roles", ())}
        for role, (most, policy) in zip(self.roles.values(), event.get("retries", ())):
            role.retries, role.policy = most, policy
        for role, delay_s in zip(self.roles.values(), event.get("delays", ())):
            role.delay_s = delay_s
        for name, is_service, conditions in event.get("order", ()):
            self.roles[name].is_service, self.roles[name].depends_on = is_service, dict(conditions)
        self.order = Order(self.roles)
        self._counted = self._left = sum(len(r.replicas) for r in self.order.waiting if not r.is_service)

    def _on_waiting(self, event: "Event", at: float) -> None:
        self.state, self.needs = "waiting", list(event["for"])
        self.message = waits_for_jobs(self.needs)

    def _on_met(self, event: "Event", at: float) -> None:
        self.needs = [each for each in self.needs if each != event["job"]]
        self.message = waits_for_jobs(self.needs)

    def _on_unmet(self, event: "Event", at: float) -> None:
        self.unmet = event["why"]

    def _on_queued(self, event: "Event", at: float) -> None:
        self.state, self.message = "queued", IN_LINE

    def _on_starting(self, event: "Event", at: float) -> None:
        self.state, self.message, self.started_at, self.clock_s = "running", "", at, 0.0
        self._release()

    def _on_started(self, event: "Event", at: float) -> None:
        self.state, self.started_at = "running", self.started_at or at  # version 0.1 has no `starting`

    def _on_broken(self, event: "Event", at: float) -> None:
        self.broken = self.broken or event

    def _on_spawn(self, event: "Event", at: float) -> None:
        replica = self.replica(event)
        if not self.has_ended:
            self.state, self.is_quiet = "running", False
        if event.get("hand") and not self.out_of_order:
            self.out_of_order = started_by_hand(replica.name, self.order.missing(replica.role))
        self.order.drop([replica])
        if replica.state in (RUNNING, ENDED):  # no line of the record says that it was restarted
            self._reset(replica)
            self._over.pop(replica, None)
        if not replica.is_active:
            self._set_active(replica, 1)
        replica.begin()
        self.to_stop.pop(replica, None)
        replica.state, replica.started_at = RUNNING, at
        replica.restarts = event.get("restart", replica.restarts)
        replica.run = event.get("id", event.get("pid")), event.get("start")
        replica.host = event.get("host", "")
        if replica.role in self.order.waiting:
            self.order.release_role(replica.role)
        if not replica.has_started:
            replica.has_started = True
            self._reach(replica, "started")

    def _on_ready(self, event: "Event", at: float) -> None:
        replica = self.replica(event)
        if replica.state == RUNNING and not replica.is_ready:
            replica.is_ready = True
            self._reach(replica, "ready")

    def _on_late(self, event: "Event", at: float) -> None:
        replica = self.replica(event)
        if replica.state == RUNNING:
            replica.late = event["why"]
            self.to_stop[replica] = None

    def _on_exit(self, event: "Event", at: float) -> None:
        replica = self.replica(event)
        self.order.drop([replica])
        if replica.is_active:
            self._set_active(replica, -1)
        if event.get("ready"):
            self._on_ready(event, at)
        replica.end(event, at, self.stop_reason)
        self.to_stop.pop(replica, None)
        if replica.has_succeeded:
            self._left -= not replica.role.is_service
            self._reach(replica, "succeeded")
        self._over[replica] = None

    def _on_quiet(self, event: "Event", at: float) -> None:
        self.is_quiet, self.wants_quiet = True, False
        if event.get("use"):
            self.used_by_rest = self.used_by_rest or Use(runs=0)
            self.used_by_rest.add(Use(event["use"]))

    def _on_cancel(self, event: "Event", at: float) -> None:
        self.cancel = self.cancel or event
        if event.get("grace_s") is not None:
            self.grace_s = event["grace_s"]
            if self.stop is not None:
                self._stop(self.replicas, self.grace_s)

    def _on_orphaned(self, event: "Event", at: float) -> None:
        self.orphaned = event["why"]

    def _on_withdrawn(self, event: "Event", at: float) -> None:
        self.is_withdrawn = True

    def _on_requeued(self, event: "Event", at: float) -> None:
        """Begin anew, as before the first start: the scheduler runs the whole app again. No retry counts."""
        self.state, self.num_restarts = "created", self.num_restarts + 1
        self.restarts, self.restarting, self._over, self.to_stop = 0, None, {}, {}
        self.order.drop(self.replicas)
        for replica in self.replicas:
            if replica.state != PENDING:
                self._reset(replica)
            replica.retries = replica.role.restarts = 0
        self.order.begin()

    def _on_clock(self, event: "Event", at: float) -> None:
        """Move the times that are waited for with the clock, which was set: no time has passed."""
        self.clock_s += event["by"]
        for pause in self.order.paused:
            pause.due_at += event["by"]

    def _on_adopted(self, event: "Event", at: float) -> None:
        self.may_restart = False

    def _on_inputs(self, event: "Event", at: float) -> None:
        self.inputs_changed = self.inputs_changed or event["changed"]

    def _on_output(self, event: "Event", at: float) -> None:
        self.output_digest = event["digest"]

    def _on_warning(self, event: "Event", at: float) -> None:
        self.warnings.append(event["message"])

    def _on_restart(self, event: "Event", at: float) -> None:
        scope, number, role = event["scope"], event["n"], self.roles[event["role"]]
        self.num_restarts += 1
        self.stop_reason = ""
        if scope == "app":
            self.restarts, self.restarting, again = number, None, self.replicas
        elif scope == "role":
            role.restarts, role.restarting, again = number, None, role.replicas
        else:
            again = [self.replica(event)]
            again[0].retries = number
        self.order.drop(again)
        for replica in again:
            self._reset(replica)
            self._over.pop(replica, None)
        if scope == "app":
            self.order.begin()
        self.order.pause(again, at + event.get("delay_s", 0), of_app=scope == "app")
        self.order.resume(at)

    def _on_stopping(self, event: "Event", at: float) -> None:
        self.stop_reason = stop_reason(event)
        if event["why"] == "restart":
            name, _, k = event["by"].rpartition("/")
            by = self.roles[name].replicas[int(k)]
            if by.role.policy == "ROLE":
                by.role.restarting, these = by, by.role.replicas
            else:
                self.restarting, these = by, self.replicas
        elif self.stop is None and event.get("state"):
            self.stop, these = event, self.replicas
        else:
            return
        self.order.drop(these)
        self._stop(these, event.get("grace_s"))

    def _on_ended(self, event: "Event", at: float) -> None:
        self.state, self.message, self.code = event["state"], event["message"], event["code"]
        self.ended_at = at
        self.order.drop(self.replicas)
        self.wants_quiet = False

    # -- consequences of events ----------------------------------------------------------------------------

    def replica(self, event: "Event") -> Replica:
        """The replica that an event names, created where no event has declared it."""
        name, k = event["role"], event["k"]
        if name not in self.roles:  # a crash of the machine has torn the line with the roles
            self.roles[name] = Role(name, 0)
        role = self.roles[name]
        role.replicas += [Replica(role, each) for each in range(len(role.replicas), k + 1)]
        return role.replicas[k]

    def _set_active(self, replica: Replica, change: int) -> None:
        self.active += change
        replica.role.active += change

    def _reset(self, replica: Replica) -> None:
        """Prepare a replica for its next start: conditions that its last run reached count no longer."""
        if replica.is_active:  # its engine restarted it, and reports the end of the last run later or never
            self._set_active(replica, -1)
        replica.role.reached["ready"] -= replica.is_ready
        replica.role.reached["succeeded"] -= replica.has_succeeded
        self._left += replica.has_succeeded and not replica.role.is_service
        replica.is_ready = replica.has_succeeded = False
        replica.state, replica.restarts = PENDING, replica.restarts + 1

    def _reach(self, replica: Replica, condition: str) -> None:
        if self.order.reach(replica, condition):
            self._release()

    def _release(self) -> None:
        if self.stop is None and self.restarting is None:
            self.order.release()

    def _stop(self, replicas: "Iterable[Replica]", grace_s: "Optional[float]") -> None:
        self.to_stop.update((each, grace_s) for each in replicas if each.is_active)
