"""Probe whether a replica is ready, in its wrapper. Python >= 3.6, the standard library alone."""

import os
import socket
from functools import lru_cache
from typing import Any, Iterator, Tuple

from launcher.schedulers.probes import HOSTS, ProbedRun
from launcher.schedulers.slurm.site.node import CannotStart, become, find_executable, raw, start_child


class WorkerProbes(ProbedRun):
    """The probes of one start of a worker's replica, which has this environment and working directory."""

    def __init__(self, worker: Any, probe: dict, env: dict, cwd: bytes) -> None:
        ProbedRun.__init__(self, probe, worker.loop, os.path.join(cwd, raw(probe.get("file", ""))))
        self.worker = worker
        self.env = env
        self.cwd = cwd

    def is_open(self) -> bool:
        it = self.worker
        return it.probed is self and it.status is None and not (it.is_stopped or it.is_ready or it.late)

    def on_ready(self) -> None:
        self.worker.ready()

    def on_late(self, why: str) -> None:
        self.worker.is_late(why)

    def start(self, argv: list, then: Any) -> Tuple[int, str]:
        words = [raw(each) for each in argv]
        try:
            path = find_executable(words[0], self.env.get(b"PATH", os.defpath.encode()), self.cwd)
            pid = os.fork()
        except (CannotStart, OSError) as error:
            return 0, str(error)
        if not pid:
            null = os.open(os.devnull, os.O_WRONLY)
            start_child(lambda: become(path, words, self.env, self.cwd, null, null))
        self.worker.others[pid] = then
        return pid, ""

    def hosts(self) -> Iterator[Tuple[int, str]]:
        """Localhost, then this node by its name."""
        yield from HOSTS
        for address in _addresses():
            yield socket.AF_INET, address


@lru_cache(maxsize=None)  # a name server may take long to answer
def _addresses() -> Tuple[str, ...]:
    try:
        return (socket.gethostbyname(socket.gethostname()),)
    except OSError:
        return ()
