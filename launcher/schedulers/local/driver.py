"""Drive the processes of an app for the loop of `launcher.holding.hold`: what happens to them, as facts."""

from __future__ import annotations

import os
import time

from launcher.holding.replica import Replica as HeldReplica
from launcher.schedulers import pids
from launcher.schedulers.last_line import last_line
from launcher.schedulers.local.logwriter import stderr_tail
from launcher.schedulers.local.replicas import Replica, Replicas
from launcher.schedulers.local.spawn import SpawnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from launcher.holding.app import App
    from launcher.schedulers.local.logwriter import LogWriter
    from launcher.schedulers.local.replicas import RunningRole
    from launcher.schedulers.local.spawn import Spawner
    from launcher.schedulers.loop import Loop

    Event = dict[str, Any]

CANNOT_RUN = 127
"""The exit code of a replica that could not be started, as a shell gives it."""


class Driver:
    """The processes of one app.

    Args:
        grace_s: how long replicas may take to stop, where the stop does not say it.
        secrets: values that no event may hold.

    Attributes:
        facts: the events that `wait` returns next.
        has_started: every replica was started that waits for no other.
        on_spawn_error: called when a replica cannot be started; may raise, to undo the submission.
        on_swept: called when no process is left; it is to lead to the fact `quiet`.
    """

    def __init__(
        self,
        app: App,
        roles: Sequence[RunningRole],
        loop: Loop,
        spawner: Spawner,
        logs: LogWriter,
        *,
        grace_s: float,
        secrets: Sequence[str],
    ) -> None:
        self.facts: list[Event] = []
        self.has_started = False
        self.on_spawn_error: Callable[[SpawnError], None]
        self.on_swept: Callable[[], None]
        self.processes = Replicas(loop, spawner, logs, self._ended)
        self._app = app
        self._roles = {role.name: role for role in roles}
        self.loop = loop
        self.spawner = spawner
        self._grace_s = grace_s
        self._secrets = tuple(secrets)
        self._keeps_requests = any(role.max_retries for role in roles)
        self._alarm_at = 0.0

    # -- the work of the loop ------------------------------------------------------------------------------

    def now(self) -> float:
        return time.time()

    def start(self, replicas: Sequence[HeldReplica]) -> None:
        """Start these; see `launcher.holding.hold.Driver`."""
        for held in replicas:
            replica = self._process(held)
            replica.restarts = held.restarts
            try:
                self._start(replica)
            except SpawnError as error:
                error.role, error.k = replica.role.name, replica.k
                self.on_spawn_error(error)
                self.add("exit", role=error.role, k=error.k, code=CANNOT_RUN, signal=0, why=str(error))
        os.chdir("/")  # the supervisor must not keep a replica's directory busy
        if not self._app.to_start and not self.has_started:
            self.has_started = True
            self.add("started")

    def _start(self, replica: Replica) -> None:
        probed = None
        if replica.role.probe:
            from launcher.schedulers.local.probes import Run

            probed = Run(replica, self)
        self.processes.start(replica)
        pid = replica.pid
        start, number = pids.start_time(pid), replica.restarts
        self.add("spawn", role=replica.role.name, k=replica.k, pid=pid, start=start, restart=number)
        if probed:
            probed.begin()
        elif not self._keeps_requests:
            replica.packed = b""

    def stop(self, replicas: Sequence[tuple[HeldReplica, float | None]]) -> None:
        """Stop these; see `launcher.holding.hold.Driver`."""
        by_grace: dict[float, list[Replica]] = {}
        for held, grace_s in replicas:
            by_grace.setdefault(self._grace_s if grace_s is None else grace_s, []).append(self._process(held))
        for grace_s, processes in by_grace.items():
            self.processes.stop(processes, grace_s)

    def quiet(self) -> None:
        self.processes.sweep(self.on_swept)

    def wait(self, deadline: float | None) -> list[Event]:
        """The facts since the last call; waits for one until `deadline`, unless there is work to do."""
        if deadline is not None and deadline != self._alarm_at:
            self._alarm_at = deadline
            self.loop.after(deadline - time.time(), _wake)
        is_busy = self.facts or self._app.to_start or self._app.to_stop
        self.loop.turn(0.0 if is_busy else None)
        facts, self.facts = self.facts, []
        return facts

    # -- facts ---------------------------------------------------------------------------------------------

    def add(self, kind: str, at_ns: int = 0, **fields: Any) -> None:
        """Report a fact, as of now or of `at_ns`."""
        self.facts.append({"e": kind, "t": at_ns or time.time_ns(), **fields})

    def _ended(self, replica: Replica) -> None:
        role, k = replica.role.name, replica.k
        more: Event = {"oom": True} if replica.oom else {}
        if replica.late:
            more["late"] = replica.late
        elif replica.interrupted:
            more["stopped"] = True
        elif replica.code and not replica.signal:
            tail, is_whole = stderr_tail(replica.log.folder, replica.log.segment)
            if said := last_line(tail, self._secrets, whole=is_whole):
                more["said"] = said
        self.add("exit", replica.ended_ns, role=role, k=k, code=replica.code, signal=replica.signal, **more)

    def is_ready(self, replica: Replica) -> None:
        replica.ready = True
        self.add("ready", role=replica.role.name, k=replica.k)

    def is_late(self, replica: Replica, why: str) -> None:
        replica.late = why
        self.add("late", role=replica.role.name, k=replica.k, why=why)

    def _process(self, held: HeldReplica) -> Replica:
        return self._roles[held.role.name].replicas[held.k]


def _wake() -> None:
    """End the wait of the loop: a deadline has come."""
