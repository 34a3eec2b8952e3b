"""Apps made on the real engine without the scheduler: containers with labels, a lock, a watcher."""

import json
import os
from collections.abc import Mapping

from launcher.schedulers.docker import record
from launcher.schedulers.docker.apps import inspect_app
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.status import DockerAppView
from launcher.schedulers.docker.watching.client import WatcherClient
from launcher.schedulers.owner import Owner, this_process
from tests.engines.images import SHELL_IMAGE
from tests.waiting import PATIENCE_S, until

SLEEP = "exec sleep 1000"
Retries = Mapping[str, tuple[int, str] | tuple[int, str, int]]


class RawApp:
    """One app: its scripts by role, its options, and the methods by which tests act on it."""

    def __init__(
        self,
        engine: Engine,
        token: str,
        roles: Mapping[str, list[str]],
        *,
        retries: Retries | None = None,
        timeout_s: int | None = None,
        grace_s: float = 0.0,
        owner: Owner | None = None,
        network: str = "none",
    ) -> None:
        self.engine = engine
        self.app_id = f"{token}-app"
        self.app_dir = record.folder(self.app_id)
        self.roles = roles
        self.network = network
        self.label = f"launcher.app-id={self.app_id}"
        self._labels = {
            "launcher.app-id": self.app_id,
            "launcher.session": token,
            "launcher.scheduler": "local_docker",
            "launcher.replicas": str(sum(map(len, roles.values()))),
            "launcher.retries": json.dumps({role: list(rule) for role, rule in (retries or {}).items()}),
            "launcher.grace-s": str(grace_s),
            "launcher.owner": (owner or this_process()).to_json(),
            **({"launcher.timeout-s": str(timeout_s)} if timeout_s else {}),
        }
        self.lock: record.RecordLock | None = None

    def create(self) -> list[str]:
        """Create every container, and start none of them."""
        return [self._create(role, k) for role, scripts in self.roles.items() for k in range(len(scripts))]

    def _create(self, role: str, k: int) -> str:
        labels = {"launcher.role": role, "launcher.replica": str(k), "launcher.part": "replica"}
        most, policy, *delay_s = json.loads(self._labels["launcher.retries"]).get(role, [0, ""])
        engines = policy == "REPLICA" and not delay_s
        restart = {"Name": "on-failure", "MaximumRetryCount": most} if engines else {}
        config = {
            "Image": SHELL_IMAGE,
            "Cmd": ["sh", "-c", self.roles[role][k]],
            "Labels": {**self._labels, **labels},
            "HostConfig": {"Init": True, "RestartPolicy": restart, "NetworkMode": self.network},
        }
        return self.engine.create(self.name(role, k), config)

    def name(self, role: str = "r", k: int = 0) -> str:
        return f"{self.app_id}-{role}-{k}"

    def claim(self) -> record.RecordLock:
        self.lock = record.claim(self.app_dir)
        return self.lock

    def spawn(self, *, attached: bool = False) -> WatcherClient:
        return WatcherClient.spawn(self.claim(), self.app_id, attached=attached)

    def release(self) -> None:
        """Give up our copy of the lock: from here on the watcher alone holds it."""
        self.lock.release()

    def start(self, *, attached: bool = False) -> WatcherClient:
        """Start the whole app, as a client would."""
        watcher = self.spawn(attached=attached)
        made = self.create()
        watcher.go()
        for container in made:
            self.engine.start(container)
        assert watcher.started()
        self.release()
        if not attached:
            watcher.close()
        return watcher

    def containers(self) -> list[Container]:
        return sorted(self.engine.containers(self.label), key=lambda each: each.name)

    def view(self) -> DockerAppView | None:
        return inspect_app(self.engine, self.app_id)[0]

    def states(self) -> list[str]:
        """Each replica's state: ["r/0 running", …]."""
        seen = self.view()
        return [f"{each.role}/{each.k} {each.state}" for each in (seen.replicas if seen else ())]

    def watcher_pid(self) -> int:
        """Return the pid of the watcher that holds the lock by now."""
        until(lambda: (held := record.holder(self.app_dir)) is not None and held.pid != os.getpid())
        holder = record.holder(self.app_dir)
        return holder.pid

    def end(self) -> DockerAppView:
        """Return how the app ended, once its watcher is gone."""
        from launcher.schedulers.docker.watching.client import wait_for_exit

        assert wait_for_exit(self.app_dir, PATIENCE_S), "the watcher lives on"
        seen = self.view()
        assert seen is not None
        return seen
