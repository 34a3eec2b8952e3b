"""An engine, its events, and a token of the containers, for the benchmarks with containers."""

import http.client
import json
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.engines import tidy
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE

THREADS = 4


class Containers:
    """Containers on an engine. Every measurement removes its containers before it returns, unmeasured."""

    def __init__(self, daemon: Daemon, token: str, folder: Path) -> None:
        self.daemon = daemon
        self.token = token
        self.folder = folder
        self.network = f"launcher-bench-{token}"

    def clear(self) -> None:
        own = tidy.of_token(self.token, self.daemon.everything())
        for kind in ("container", "volume"):
            with ThreadPoolExecutor(THREADS) as pool:
                things = [thing for thing in own if thing.kind == kind]
                list(pool.map(lambda thing: self.daemon.remove([thing]), things))
        # Else the apps of earlier rows would be listed with those of later ones, as lost.
        shutil.rmtree(os.path.join(os.environ["LAUNCHER_HOME"], "docker"), ignore_errors=True)


class Ends:
    """The least that can follow the ends of containers: read the event stream, a line of JSON each."""

    def __init__(self, daemon: Daemon, label: str) -> None:
        from urllib.parse import quote

        filters = quote(json.dumps({"label": [label], "type": ["container"], "event": ["die"]}))
        self._connection: http.client.HTTPConnection = daemon._connect()
        self._connection.request("GET", f"/events?filters={filters}")
        self._answer = self._connection.getresponse()

    def next(self) -> bytes:
        return self._answer.readline()

    def close(self) -> None:
        self._connection.close()


def app_of(command: list[str], replicas: int) -> Any:
    from launcher.specs import AppDef, Role

    role = Role("main", SHELL_IMAGE, entrypoint=command[0], args=command[1:], num_replicas=replicas)
    return AppDef("bench", [role])


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
