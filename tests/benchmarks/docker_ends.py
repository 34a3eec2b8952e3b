"""P5 and P6 with containers: to notice the end of a container, and to read its log back."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.benchmarks.containers import Containers, Ends, app_of
from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.wait import _fifo, _opener
from tests.benchmarks.world import launcher, took
from tests.engines import tidy
from tests.engines.images import SHELL_IMAGE


class EndsAndLogs(Containers):
    """Each end is noted by the process that causes it, in time of the machine."""

    def noticed(self, settings: Settings) -> Row:
        return compare(
            "exit of a container -> Scheduler.wait returns",
            floor=self._event,
            ours=self._wait,
            target="<= 1.3",
            rounds=settings.more(2),
            peers={"the engine says it has ended": self._ended, "docker wait": self._docker_wait},
            note="floor: the event stream, which tells it before the engine has given back network and ports",
        )

    def _event(self) -> float:
        return self._raw_end(lambda _, events: events.next())

    def _ended(self) -> float:
        """Measure until the lists of the engine show the end, too."""

        def wait(container: str, events: Ends) -> None:
            events.next()
            assert self.daemon.inspect(container)["State"]["Status"] == "exited"

        return self._raw_end(wait)

    def _docker_wait(self) -> float:
        def wait(container: str, _: Ends) -> None:
            took(["docker", "wait", container])

        return self._raw_end(wait)

    def _raw_end(self, wait: Callable[[str, Ends], object]) -> float:
        fifo = _fifo(self.folder)
        mount = [f"{self.folder}:{self.folder}"]
        body = {
            "Image": SHELL_IMAGE,
            "Cmd": ["sh", "-c", f"read x <{fifo}"],
            "Labels": {"launcher.session": self.token},
            "HostConfig": {"NetworkMode": self.network, "Init": True, "Binds": mount},
        }
        made = str(self.daemon.ask("POST", "/containers/create", body)["Id"])
        events = Ends(self.daemon, f"launcher.session={self.token}")
        self.daemon.ask("POST", f"/containers/{made}/start")
        return self._age_of_end(fifo, partial(wait, made, events), events.close)

    def _wait(self) -> float:
        from launcher.schedulers import get_scheduler
        from launcher.specs import BindMount

        fifo = _fifo(self.folder)
        app = app_of(["sh", "-c", f"read x <{fifo}"], 1)
        app.roles[0].mounts = [BindMount(str(self.folder), str(self.folder))]
        scheduler = get_scheduler("local_docker", self.token, detach=True)
        app_id = scheduler.submit(app, {})
        return self._age_of_end(fifo, lambda: scheduler.wait(app_id), scheduler.close)

    def _age_of_end(self, fifo: Path, wait: Callable[[], object], close: Callable[[], None]) -> float:
        """Return how old the end is when it is noticed: another process opens the gate and notes the time."""
        opener = _opener(fifo, 0.5)  # a client has started by then
        assert opener.stdin
        assert opener.stdout
        opener.stdin.write("now\n")
        opener.stdin.flush()
        wait()
        ended = time.monotonic_ns()
        opened = int(opener.stdout.read())
        opener.communicate()
        close()
        self.clear()
        return (ended - opened) / 1e9

    def logs(self, settings: Settings) -> Iterator[Row]:
        for size in settings.sizes(4, 40):
            line = "x" * 99
            name = f"log{size}"
            script = f"yes {line} | head -n {size * 10_000}"
            (self.folder / "launcher.toml").write_text(f'project = "{self.token}"\n')
            (self.folder / f"{name}.launcher.yaml").write_text(
                f"version: 1\nname: {name}\nscheduler: local_docker\n"
                f"roles:\n  main:\n    image: {SHELL_IMAGE}\n"
                f"    entrypoint: sh\n    args: [-c, {json.dumps(script)}]\n"
            )
            took(launcher("apply", f"{name}.launcher.yaml", "--yes", "--wait"))
            own = tidy.of_token(self.token, self.daemon.containers())
            container = next(thing.name for thing in own if thing.name.startswith(f"{name}-"))
            read, ours = str(self.folder / "read"), launcher("logs", name, "--no-prefix")
            yield compare(
                f"the log of a finished container, {size} MB, to a file",
                floor=partial(took, ["docker", "logs", container], stdout=read),
                ours=partial(took, ours, stdout=read),
                target="<= 1",
                rounds=settings.fewer(5),
            )
