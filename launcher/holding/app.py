"""Judge an app by its recorded events. Pure, and the only judge; Python >= 3.6.

Theory of operation
    An `App` takes events, one after the other, and gives decisions, which are events too. The process that
    holds an app appends each event to the app's record before `take` gets it. So the memory of the holder,
    the record and the view of every client agree: a client folds the same record, by `AppState`.

    Facts come from outside, through the driver: `starting`, `spawn`, `ready`, `late`, `exit`, `quiet`,
    `cancel`, `orphaned`, `requeued`, and `clock`: the clock was set, and no time has passed.
    `decide` returns what follows from them as `restart`, `stopping` or `ended`, one at a time; the holder
    records it, takes it and asks again, until there is none. `to_start`, `to_stop` and `wants_quiet` are the
    work that the driver then does; the results are facts again.

    A replica passes through pending → due → starting → running → ended; a restart makes it pending again. The
    driver starts the due replicas: all of a role, once each condition of the role holds. `decide` judges the
    ends of replicas in their order, each at once, even while other replicas have yet to start.

    Only decisions restart replicas and end the app. When a decision cannot be recorded, only its stops are
    carried out: an uncounted restart is never made, and an app ends when its end is recorded. The end of an
    app, and a restart of all of it, wait for `quiet`: then no process of the app is left.
"""

from launcher.holding.events import (
    NOTHING_LEFT,
    WITHDRAWN,
    cancelled,
    ended,
    needs_quiet,
    pause_s,
    restart,
    seconds,
    stop_for_restart,
    stopping,
)
from launcher.holding.replica import STARTING, Replica
from launcher.holding.state import ENDED_STATES as ENDED_STATES, AppState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    Event = dict[str, Any]


class App(AppState):
    """An app that decides what follows from its events."""

    @property
    def to_start(self) -> "dict[Replica, None]":
        """The replicas that are due, the next one first; `take_to_start` empties it."""
        return self.order.to_start

    def deadline(self) -> "Optional[float]":
        """The time at which `decide` has work even without an event, in epoch seconds; None for never."""
        due = [each.due_at for each in self.order.paused]
        if self.timeout_s and self.started_at and self.stop is None and self.state == "running":
            due.append(self.started_at + self.timeout_s + self.clock_s)
        return min(due) if due else None

    def take_to_start(self, most: int) -> "list[Replica]":
        """Remove and return the next replicas to start, at most `most`. The rest may yet be taken back."""
        if self.wants_quiet:
            return []
        found = self.order.take(most)
        for replica in found:
            replica.state = STARTING
            self._set_active(replica, 1)
        self.is_quiet = self.is_quiet and not found
        return found

    def decide(self, now: float) -> "Optional[Event]":
        """Return the next decision, if any; record and take it before the next call. `now`: epoch seconds."""
        if self.state != "running":
            return None if self.has_ended else self._decide_unstarted()
        decision = self._decide_running(now)
        if decision is not None and not self.is_quiet and needs_quiet(decision):
            self.wants_quiet = True
            return None
        return decision

    def _decide_unstarted(self) -> "Optional[Event]":
        if self.is_withdrawn:
            return ended("skipped", WITHDRAWN)
        if self.cancel is not None:
            return ended("cancelled", cancelled(self.cancel))
        if self.orphaned:
            return ended("cancelled", self.orphaned)
        return ended("skipped", self.unmet) if self.unmet else None

    def _decide_running(self, now: float) -> "Optional[Event]":
        if self.stop is None and not self.is_done:
            decision = self._decide_stop(now)
            if decision is not None:
                return decision
        while self._over:
            replica = next(iter(self._over))
            decision = self._judge(replica)
            if decision is not None:
                return decision
            del self._over[replica]
        if self.stop is not None:
            return None if self.active else ended(self.stop["state"], self.stop["message"], self.stop["code"])
        if self.is_done:
            return stopping("end", "succeeded", "", code=0) if self.active else ended("succeeded", "", 0)
        return self._decide_restart() or self._go_on(now)

    def _decide_stop(self, now: float) -> "Optional[Event]":
        if self.cancel is not None:
            by = self.cancel.get("by", "")
            return stopping("cancel", "cancelled", cancelled(self.cancel), by=by, grace_s=self.grace_s)
        if self.orphaned:
            return stopping("parent", "cancelled", self.orphaned)
        if self.out_of_order:
            return stopping("hand", "cancelled", self.out_of_order, by=self.out_of_order.partition(" ")[0])
        if self.broken is not None:
            return stopping("start", "failed", self.broken["why"], code=self.broken.get("code"))
        if self.timeout_s and self.started_at and now >= self.started_at + self.timeout_s + self.clock_s:
            return stopping("timeout", "failed", "timed out after " + seconds(self.timeout_s))
        return None

    def _decide_restart(self) -> "Optional[Event]":
        """Return the restart event once all of its replicas have been stopped."""
        if self.restarting is not None:
            return None if self.active else self._restart("app", self.restarting)
        for role in self.roles.values():
            if role.restarting is not None and not role.active:
                return self._restart("role", role.restarting)
        return None

    def _go_on(self, now: float) -> "Optional[Event]":
        self.order.resume(now)
        if self.order.waiting and not (self.active or self.to_start or self.order.paused):
            return stopping("peer", "failed", NOTHING_LEFT)
        return None

    def _judge(self, replica: Replica) -> "Optional[Event]":
        """The decision that follows from the end of a replica, if any; None while another one prevails."""
        restarting = self.restarting or replica.role.restarting
        if self.stop is not None or restarting is not None or self.is_done:
            return None
        if replica.code is None and not (replica.is_stopped or replica.why or replica.late):
            return stopping("lost", "lost", replica.lost or f"{replica.name} was lost", by=replica.name)
        if replica.has_failed:
            return self._judge_failure(replica)
        waiting = self.order.stuck_behind(replica)
        if waiting:
            why = f"{replica.name} ended before it was ready, and {waiting} waits for it"
            return stopping("peer", "failed", why, code=0, by=replica.name)
        return None

    def _judge_failure(self, replica: Replica) -> "Event":
        role = replica.role
        if replica.by_hand:
            return stopping("hand", "cancelled", f"{replica.name} was stopped by hand", by=replica.name)
        most = role.retries if self.may_restart and not replica.why else 0
        if most and replica.has_retries:
            return self._restart("replica", replica)
        if role.policy == "ROLE" and role.restarts < most:
            return stop_for_restart(replica.name) if role.active else self._restart("role", replica)
        if role.policy in ("APPLICATION", "") and self.restarts < most:
            return stop_for_restart(replica.name) if self.active else self._restart("app", replica)
        message = f"{replica.name} {replica.cause}"
        return stopping("peer", "failed", message, code=replica.code, by=replica.name)

    def _restart(self, scope: str, by: Replica) -> "Event":
        number = 1 + {"replica": by.retries, "role": by.role.restarts, "app": self.restarts}[scope]
        return restart(scope, by.role.name, by.k, number, pause_s(by.role.delay_s, number))
