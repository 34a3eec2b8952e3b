"""Probe the replicas of an app within its supervisor, which loads this module only for apps with a probe."""

from __future__ import annotations

import os

from launcher.schedulers.local.replicas import RUNNING
from launcher.schedulers.local.spawn import SpawnError, unpack
from launcher.schedulers.probes import ProbedRun, taken_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from launcher.schedulers.local.replicas import Replica


class ReplicaProbes(ProbedRun):
    """The probes of one start of a replica, for the `Driver` of its app.

    Raises SpawnError when another process has the port of the probe.
    """

    __slots__ = ("_driver", "_pid_of_replica", "_replica")

    def __init__(self, replica: Replica, driver: Any) -> None:
        probe, is_first = replica.role.probe, not (replica.k or replica.restarts)
        if why := taken_port(probe["port"]) if is_first and "port" in probe else "":
            raise SpawnError(why)
        self._replica = replica
        self._driver = driver
        folder = unpack(replica.packed, replica.role.common)[2]
        super().__init__(probe, driver.loop, os.path.join(folder, probe.get("file", "")))

    def begin(self) -> None:
        self._pid_of_replica = self._replica.pid
        super().begin()

    def is_open(self) -> bool:
        it = self._replica
        return it.pid == self._pid_of_replica and it.state == RUNNING and not (it.stopped or it.ready)

    def on_ready(self) -> None:
        self._driver.is_ready(self._replica)

    def on_late(self, why: str) -> None:
        self._driver.is_late(self._replica, why)

    def start(self, argv: list[str], then: Callable[[int], None]) -> tuple[int, str]:
        it = self._replica
        try:
            pid = self._driver.spawner.run(it.packed, it.role.common, argv, it.restarts)
        except SpawnError as error:
            return 0, str(error)
        self._driver.processes.others[pid] = then
        return pid, ""
