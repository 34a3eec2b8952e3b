"""P12b: the memory of the watchers of many Docker apps, and the number of event streams that they read."""

import os
import sys
from collections.abc import Iterator
from typing import Any

from launcher.schedulers import get_scheduler
from launcher.specs.app import AppDef, Role
from tests import processes
from tests.benchmarks.measure import Row, Settings, once
from tests.benchmarks.memory import memory_mb, memory_of
from tests.benchmarks.world import world
from tests.engines import tidy
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.engines.proxy import Proxy, everything

_FOLLOWER = """
import os
from launcher.schedulers.docker.client.engine import connect
with connect(readonly=True).events() as events:
    os.write(1, b"x")
    os.read(0, 1)
"""


def rows(settings: Settings) -> Iterator[Row]:
    tidy.join()
    count = settings.size(200)
    with world() as folder, Proxy(folder / "p.sock", everything) as proxy:
        os.environ["DOCKER_HOST"] = proxy.host
        follower, _ = memory_of(
            [sys.executable, "-c", _FOLLOWER]
        )  # it reads the event stream, and that is all
        scheduler: Any = get_scheduler("local_docker", tidy.new_token(), detach=True)
        role = Role("r", SHELL_IMAGE, entrypoint="sleep", args=["10000"])
        apps = [scheduler.submit(AppDef("app", [role]), {}) for _ in range(count)]
        watchers = processes.watchers(os.environ["LAUNCHER_HOME"])
        yield once(
            f"memory of what watches {count} Docker apps; floor: a client that reads the event stream",
            ours=sum(memory_mb(pid)[0] for pid in watchers),
            floor=follower,
            target="ours <= 80 MB, one event stream",
            unit="MB",
            note=f"{len(watchers)} watchers, {sum(map(proxy.streams, watchers))} event streams",
        )
        for each in apps:
            scheduler.cancel(each, grace_s=0)
        scheduler.close()
    Daemon().remove(tidy.of_token(scheduler.session_name, Daemon().everything()))
