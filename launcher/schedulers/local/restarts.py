"""The restarts of a local app, from the events of its supervisor: read, and put between the output."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from launcher.holding.phrases import cause
from launcher.schedulers.local import rundir
from launcher.schedulers.restarts import Restart

Where = tuple[str, int]

_KINDS = (b'{"e":"created"', b'{"e":"exit"', b'{"e":"restart"', b'{"e":"spawn"')
_CHUNK = 1 << 18


class RestartReader:
    """Reads the restarts of an app as they are recorded: each `read` continues where the last one ended."""

    def __init__(self, app_dir: str) -> None:
        self._path = rundir.events(app_dir)
        self._offset = 0
        self._rest = b""
        self._retries: dict[str, int] = {}
        self._exits: dict[Where, dict[str, Any]] = {}
        self._possible = True

    def is_over(self) -> bool:
        """Whether there will be no restart: no role of the app has retries."""
        return not self._possible

    def read(self) -> Iterator[Restart]:
        if self.is_over():
            return
        for event in self.events():
            if event["e"] == "created":
                names = [name for name, _ in event["roles"]]
                self._retries = dict(zip(names, (most for most, _ in event.get("retries", ())), strict=False))
                self._possible = not self._retries or any(self._retries.values())
                if self.is_over():
                    return  # the rest of the record is of no interest
            elif event["e"] == "exit":
                self._exits[event["role"], event["k"]] = event
            elif event["e"] == "restart":
                yield self._restart(event)

    def _restart(self, event: dict[str, Any]) -> Restart:
        role, k = event["role"], event["k"]
        end = self._exits.get((role, k), {})
        names = ("signal", "oom", "late", "why", "said")
        return Restart(
            role=role,
            k=k,
            scope=event["scope"],
            number=event["n"],
            most=self._retries.get(role, event["n"]),
            delay_s=event.get("delay_s", 0),
            cause=cause(end.get("code", 0), **{name: end[name] for name in names if name in end}),
            at=event["t"] / 1e9,
        )

    def events(self) -> Iterator[dict[str, Any]]:
        """The new events of the kinds that count. A line that is still being written waits."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            while data := os.pread(fd, _CHUNK, self._offset):
                self._offset += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    if line.startswith(_KINDS):
                        try:
                            yield json.loads(line)
                        except ValueError:  # torn by a crash of the machine
                            continue
        finally:
            os.close(fd)


def run_starts(app_dir: str, replicas: Iterable[Where]) -> dict[Where, list[tuple[int, float]]]:
    """(number of the restart, epoch seconds) of each run of each replica, in order; the first run is 0."""
    starts: dict[Where, list[tuple[int, float]]] = {where: [] for where in replicas}
    for event in RestartReader(app_dir).events():
        if event["e"] == "spawn" and (event["role"], event["k"]) in starts:
            starts[event["role"], event["k"]].append((event["restart"], event["t"] / 1e9))
    return starts


class RestartNotes:
    """Reports the restarts of replicas that are followed, each between the outputs that it separates.

    Args:
        report: called with each restart, once.
        names: the replicas that are followed.
        since: restarts before this time (epoch seconds) are not reported.
    """

    def __init__(
        self,
        app_dir: str,
        report: Callable[[Restart], None],
        names: Collection[Where],
        since: float | None = None,
    ) -> None:
        self._reader = RestartReader(app_dir)
        self._report = report
        self._names = set(names)
        self._roles = {role for role, _ in names}
        self._since = since
        self._pending: dict[tuple[str, ...], deque[Restart]] = {}  # by what is restarted

    def look(self) -> float:
        """Read what is new; the time of the last restart that is not reported yet, 0.0 for none."""
        self._read()
        return max((queue[-1].at for queue in self._pending.values()), default=0.0)

    def _read(self) -> None:
        for restart in self._reader.read():
            if self._concerns(restart) and (self._since is None or restart.at >= self._since):
                self._pending.setdefault(_scope(restart), deque()).append(restart)

    def waiting(self) -> set[Where]:
        """The followed replicas that restarts not reported yet are about."""
        single = {(scope[1], int(scope[2])) for scope in self._pending if scope[0] == "replica"}
        roles = {scope[1] for scope in self._pending if scope[0] == "role"}
        if ("all", "app") in self._pending:
            roles = self._roles
        return single | {(role, k) for role, k in self._names if role in roles} if roles else single

    def before(self, role: str, k: int, time_ns: int) -> None:
        """Report the restarts that come before the output of a replica that was restarted at `time_ns`."""
        self._read()
        self._flush([("replica", role, str(k)), ("role", role), ("all", "app")], time_ns / 1e9)

    def flush(self, until: float) -> None:
        """Report the restarts up to a time."""
        self._flush([*self._pending], until)

    def _flush(self, scopes: Iterable[tuple[str, ...]], until: float) -> None:
        due = []
        for scope in scopes:
            queue = self._pending.get(scope)
            while queue and queue[0].at <= until:
                due.append(queue.popleft())
            if queue is not None and not queue:
                del self._pending[scope]
        for restart in sorted(due, key=lambda each: each.at):
            self._report(restart)

    def _concerns(self, restart: Restart) -> bool:
        if restart.scope == "replica":
            return (restart.role, restart.k) in self._names
        return restart.scope == "app" or restart.role in self._roles


def _scope(restart: Restart) -> tuple[str, ...]:
    """What is restarted: ("replica", ROLE, K), ("role", ROLE) or ("all", "app")."""
    if restart.scope == "replica":
        return ("replica", restart.role, str(restart.k))
    return ("role", restart.role) if restart.scope == "role" else ("all", "app")
