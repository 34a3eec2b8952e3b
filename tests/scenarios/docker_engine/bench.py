"""Containers on the real engine for tests of the client, all gone after each test."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.log_reader import LogReader
from launcher.schedulers.logs import LogPart
from tests.engines.images import SHELL_IMAGE
from tests.waiting import until


class Bench:
    """An engine and a test's own containers on it."""

    def __init__(self, token: str, engine: Engine) -> None:
        self.token = token
        self.engine = engine
        self.label = f"launcher.session={token}"

    def labels(self, **more: str) -> dict[str, str]:
        return {"launcher.session": self.token, **more}

    def name(self, k: int = 0) -> str:
        return f"{self.token}-main-{k}"

    def create(self, *command: str, k: int = 0, **config: Any) -> str:
        labels = self.labels(**config.pop("labels", {}))
        body = {"Image": SHELL_IMAGE, "Cmd": list(command), "Labels": labels, **config}
        body["HostConfig"] = {"NetworkMode": "none", **body.get("HostConfig", {})}
        return self.engine.create(self.name(k), body)

    def sh(self, script: str, k: int = 0, **config: Any) -> str:
        """Return a started container that runs a shell script."""
        made = self.create("sh", "-c", script, k=k, **config)
        self.engine.start(made)
        return made

    def up(self, script: str) -> str:
        """Return a started container whose script has said "up": before, a TERM meets runc and gives 2."""
        made = self.sh(script)
        with contextlib.closing(LogReader(self.engine, made, LogPart())) as reader:
            assert next(reader.read(follow=True)).data == b"up\n"
        return made

    def ended(self, container: str) -> Container:
        return self.until(container, lambda seen: seen.ended)

    def until(self, container: str, holds: Callable[[Container], bool]) -> Container:
        """Wait for a state of a container, and return the container."""

        def seen() -> Container | None:
            found = self.engine.inspect(container)
            assert found is not None, f"{container} is gone"
            return found if holds(found) else None

        found = until(seen, lambda: self.engine.inspect(container))
        assert found is not None
        return found

    def clear(self) -> None:
        for container in self.engine.containers(self.label):
            self.engine.remove(container.id, force=True)
        for network in self.engine.networks(self.label):
            self.engine.remove_network(network.id)
        for volume in self.engine.volumes(self.label):
            self.engine.remove_volume(volume.id)


@contextlib.contextmanager
def bench(token: str) -> Iterator[Bench]:
    engine = connect()
    found = Bench(token, engine)
    try:
        yield found
    finally:
        found.clear()
        engine.close()
