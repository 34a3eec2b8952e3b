"""A running app: starts its replicas, restarts them by policy, stops them and decides the outcome."""

from __future__ import annotations

import os

from launcher.schedulers import pids
from launcher.schedulers.last_line import last_line
from launcher.schedulers.local.outcome import AppOutcome, failure
from launcher.schedulers.local.replicas import ENDED, IDLE, Replica, Replicas
from launcher.schedulers.local.spawn import SpawnError
from launcher.schedulers.local.stderr_tail import stderr_tail
from launcher.schedulers.order import pause_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from launcher.schedulers.local.eventfile import EventFile
    from launcher.schedulers.local.logwriter import LogWriter
    from launcher.schedulers.local.loop import Loop
    from launcher.schedulers.local.probes import Prober
    from launcher.schedulers.local.replicas import RunningRole
    from launcher.schedulers.local.spawn import Spawner
    from launcher.schedulers.order import Order

STARTS_PER_TURN = 8  # then the loop looks at pipes and signals
TAKE_BACK_GRACE_S = 1.0


class RunningApp:
    """The replicas of one app, and the decisions about restarts and the outcome.

    Set the callbacks before `start`: `on_started` (every replica runs that waits for no other), `on_broken`
    (one of them cannot be started), `on_ended` (no process of the app is left, its logs are closed).
    `order`: of roles that wait for each other; None where all start at once and all must succeed.
    `secrets`: values that no event may hold.
    """

    def __init__(
        self,
        roles: Sequence[RunningRole],
        loop: Loop,
        spawner: Spawner,
        logs: LogWriter,
        record: EventFile,
        grace_s: float,
        order: Order | None = None,
    ) -> None:
        self.on_started: Callable[[], None]
        self.on_broken: Callable[[SpawnError], None]
        self.on_ended: Callable[[AppOutcome], None]
        self.secrets: tuple[str, ...] = ()
        self.started = False
        self._loop = loop
        self._record = record
        self._grace_s = grace_s
        self._processes = Replicas(loop, spawner, logs, self._replica_ended)
        self._roles = roles
        self._order = order
        self._prober = self._make_prober(spawner)
        self._all = [replica for role in roles for replica in role.replicas]
        self._restarts_possible = any(role.max_retries for role in roles)
        self._to_start: list[Replica] = []  # the next one last
        self._over: list[Replica] = []  # ended, not judged yet
        self._active = 0
        self._restarts = 0
        self._restarting: Replica | None = None  # whose failure restarts the whole app
        self._outcome: AppOutcome | None = None
        self._sweeping = False

    def start(self) -> None:
        if self._order is None:
            self._queue(self._all)
            return
        for replica in self._all:
            replica.state = IDLE
        self._order.begin()
        self._release()

    def stop(self, why: str, outcome: AppOutcome, by: str = "", grace_s: float | None = None) -> None:
        """Stop every replica and end with `outcome`. The first of several reasons to end counts.

        `grace_s` replaces the app's own grace period; it can shorten a stop that has begun.
        """
        if self._outcome:
            if grace_s is not None:
                self._processes.stop(self._all, grace_s)
            return
        # The outcome is recorded too: readers need it when the supervisor is killed during the stop.
        self._record.add(
            "stopping", why=why, by=by, state=outcome.state, message=outcome.message, code=outcome.code
        )
        self._halt(outcome, self._grace_s if grace_s is None else grace_s)

    def take_back(self) -> None:
        """Stop every replica and report no outcome: the submission is undone."""
        self._halt(AppOutcome(""), min(self._grace_s, TAKE_BACK_GRACE_S))

    def child_ended(self) -> None:
        """Handle SIGCHLD."""
        self._processes.reap()

    def kill_all(self) -> None:
        self._processes.kill_all()

    @property
    def busy(self) -> bool:
        """Whether `step` has work to do without waiting for an event."""
        return bool(self._to_start or self._over)

    def step(self) -> None:
        """Start a few replicas; once all are started, handle those that have ended."""
        if self._to_start:
            self._start_some()
            return
        over, self._over = self._over, []
        for replica in over:
            if replica.state == ENDED:  # or it is about to be restarted with others
                self._judge(replica)

    # -- starting ------------------------------------------------------------------------------------------

    def _queue(self, replicas: Iterable[Replica]) -> None:
        replicas = list(replicas)
        for replica in replicas:
            replica.state = IDLE
        self._to_start[:0] = reversed(replicas)

    def _release(self) -> None:
        """Start the roles that wait for nothing any more."""
        if self._order is None or self._outcome or self._restarting:
            return
        free = self._order.release()
        self._queue(replica for role in self._roles if role.name in free for replica in role.replicas)

    def _reach(self, replica: Replica, condition: str) -> None:
        if self._order is not None:
            self._order.reach(replica.role.name, replica.k, condition)

    def _make_prober(self, spawner: Spawner) -> Prober | None:
        if not any(role.probe for role in self._roles):
            return None
        from launcher.schedulers.local.probes import Prober

        return Prober(self._loop, spawner, self._processes, self._is_ready, self._is_late)

    def _is_ready(self, replica: Replica) -> None:
        replica.ready = True
        self._record.add("ready", role=replica.role.name, k=replica.k)
        self._reach(replica, "ready")
        self._release()

    def _is_late(self, replica: Replica, why: str) -> None:
        """Stop a replica that is not ready in time: it has failed."""
        replica.late = why
        self._processes.stop((replica,), self._grace_s)

    def _start_some(self) -> None:
        for replica in self._to_start[: -STARTS_PER_TURN - 1 : -1]:
            try:
                if self._prober and replica.role.probe:
                    self._prober.prepare(replica)
                self._processes.start(replica)
            except SpawnError as error:
                self._cannot_start(replica, error)
                return
            self._to_start.pop()
            self._active += 1
            replica.role.active += 1
            self._record.add(
                "spawn",
                role=replica.role.name,
                k=replica.k,
                pid=replica.pid,
                start=pids.start_time(replica.pid),
                restart=replica.restarts,
            )
            self._reach(replica, "started")
            if self._prober and replica.role.probe:
                self._prober.watch(replica)
            elif not self._restarts_possible:
                replica.packed = b""
        os.chdir("/")  # the supervisor must not keep a replica's directory busy
        self._release()
        if not self._to_start and not self.started:
            self.started = True
            self._record.add("started")
            self.on_started()

    def _cannot_start(self, replica: Replica, error: SpawnError) -> None:
        error.role, error.k = replica.role.name, replica.k
        self._to_start = []
        if self.started:
            again = " again" if replica.restarts else ""
            message = f"{replica.name} could not be started{again}: {error}"
            self.stop("peer", AppOutcome("failed", message), by=replica.name)
        else:
            self.on_broken(error)

    # -- ends and restarts ---------------------------------------------------------------------------------

    def _replica_ended(self, replica: Replica) -> None:
        self._active -= 1
        replica.role.active -= 1
        more: dict[str, Any] = {"oom": True} if replica.oom else {}
        if replica.late:
            more["late"] = replica.late
        elif replica.interrupted:
            more["stopped"] = True
        elif not replica.code:
            self._reach(replica, "succeeded")
        elif not replica.signal:
            tail, whole = stderr_tail(replica.log.folder, replica.log.segment)
            replica.said = last_line(tail, self.secrets, whole=whole)
            more |= {"said": replica.said} if replica.said else {}
        self._record.add(
            "exit",
            replica.ended_ns,
            role=replica.role.name,
            k=replica.k,
            code=replica.code,
            signal=replica.signal,
            **more,
        )
        self._over.append(replica)

    def _judge(self, replica: Replica) -> None:
        role = replica.role
        if self._outcome or self._restarting:
            self._go_on_when_all_ended()
        elif role.restarting:
            if role.active == 0:
                self._restart_role(role, replica)
        elif self._order is not None:
            self._judge_in_order(replica, self._order)
        elif replica.code:
            self._failed(replica)
        elif not self._active and all(each.state == ENDED and each.code == 0 for each in self._all):
            self._outcome = AppOutcome("succeeded", code=0)
            self._go_on_when_all_ended()

    def _judge_in_order(self, replica: Replica, order: Order) -> None:
        """Judge an end where roles wait for each other. A service that fails at the end does not count."""
        if order.is_done():
            self.stop("end", AppOutcome("succeeded", code=0))
        elif replica.code or replica.late:
            self._failed(replica)
        elif waiting := order.stuck_behind(replica.role.name, replica.k):
            message = f"{replica.name} ended before it was ready, and {waiting} waits for it"
            self.stop("peer", AppOutcome("failed", message, 0), by=replica.name)
        else:
            self._release()

    def _failed(self, replica: Replica) -> None:
        role = replica.role
        if role.retry_policy == "REPLICA" and replica.retries < role.max_retries:
            replica.retries += 1
            self._restart((replica,), "replica", replica, replica.retries)
        elif role.retry_policy == "ROLE" and role.restarts < role.max_retries:
            role.restarts += 1
            role.restarting = True
            self._stop_for_restart(role.replicas, role.active, replica)
            if role.active == 0:
                self._restart_role(role, replica)
        elif role.retry_policy == "APPLICATION" and self._restarts < role.max_retries:
            self._restarts += 1
            self._restarting = replica
            self._to_start = []
            self._stop_for_restart(self._all, self._active, replica)
            self._go_on_when_all_ended()
        else:
            code, oom, late, said = replica.code, replica.oom, replica.late, replica.said
            why = failure(replica.name, code, replica.signal, oom=oom, late=late, said=said)
            self.stop("peer", why, by=replica.name)

    def _stop_for_restart(self, replicas: Sequence[Replica], active: int, cause: Replica) -> None:
        if active:
            self._record.add("stopping", why="restart", by=cause.name)
            self._processes.stop(replicas, self._grace_s)

    def _restart_role(self, role: RunningRole, cause: Replica) -> None:
        role.restarting = False
        self._restart(role.replicas, "role", cause, role.restarts)

    def _restart(self, replicas: Sequence[Replica], scope: str, cause: Replica, count: int) -> None:
        delay_s = pause_s(cause.role.retry_delay, count)
        more = {"delay_s": delay_s} if delay_s else {}
        self._record.add("restart", scope=scope, role=cause.role.name, k=cause.k, n=count, **more)
        for replica in replicas:
            replica.restarts += 1
            if self._order is not None:
                self._order.restart(replica.role.name, replica.k)

        def again() -> None:
            if scope == "app":
                self.start()
            else:
                self._queue(replicas)

        if not delay_s:
            again()
            return
        rounds = [each.restarts for each in replicas]

        def resume() -> None:
            if self._outcome or self._restarting or cause.role.restarting:
                return  # the app stops, or they are started with others
            if rounds == [each.restarts for each in replicas]:
                again()

        self._loop.after(delay_s, resume)

    # -- the end -------------------------------------------------------------------------------------------

    def _halt(self, outcome: AppOutcome, grace_s: float) -> None:
        self._outcome = outcome
        self._to_start = []
        self._processes.stop(self._all, grace_s)
        self._go_on_when_all_ended()

    def _go_on_when_all_ended(self) -> None:
        if self._active == 0 and not self._sweeping:
            self._sweeping = True
            self._processes.sweep(self._swept)

    def _swept(self) -> None:
        """End the app or restart it, once no replica is running."""
        if self._outcome:
            self.on_ended(self._outcome)
        elif self._restarting:
            self._sweeping = False
            cause, self._restarting = self._restarting, None
            for role in self._roles:
                role.restarting = False
            self._restart(self._all, "app", cause, self._restarts)
