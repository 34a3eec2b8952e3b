"""P4, P5 and P6 with containers: to start an app, to list, to notice its end, to read its log back."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.peers import peer
from tests.benchmarks.wait import _fifo, _opener
from tests.benchmarks.world import launcher, took, world
from tests.engines import tidy
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE

THREADS = 4
NETWORK = "launcher-bench"


def rows(settings: Settings) -> Iterator[Row]:
    tidy.join()
    daemon, token = Daemon(), tidy.new_token()
    with world() as folder:
        label = {"launcher.session": token}
        daemon.ask("POST", "/networks/create", {"Name": NETWORK, "Labels": label})
        bench = Bench(daemon, token, folder)
        try:
            for replicas in (10, 30):
                count = settings.size(replicas)
                yield bench.started(settings, count)
                yield bench.finished(settings, count)
            yield bench.listed(settings, settings.size(30))
            yield bench.noticed(settings)
            yield from bench.logs(settings)
        finally:
            bench.clear()
            daemon.remove(thing for thing in daemon.networks() if thing.name == NETWORK)


class Bench:
    """What all figures share. Every measurement removes its containers before it returns, unmeasured."""

    def __init__(self, daemon: Daemon, token: str, folder: Path) -> None:
        self.daemon = daemon
        self.token = token
        self.folder = folder

    def clear(self) -> None:
        own = tidy.of_token(self.token, self.daemon.everything())
        self.daemon.remove(thing for thing in own if thing.kind in ("container", "volume"))

    # P4

    def started(self, settings: Settings, count: int) -> Row:
        return compare(
            f"{count} containers, to all started",
            floor=lambda: self.raw(count, ["sleep", "300"]),
            ours=lambda: self.ours(count, ["sleep", "300"], wait=False),
            peers=self._loop(settings, count) | self._sdk(settings, count) | self._compose(settings, count),
            target="<= 1.15",
            rounds=settings.rounds,
            note=f"floor: raw HTTP, {THREADS} threads, a network of its own",
        )

    def finished(self, settings: Settings, count: int) -> Row:
        return compare(
            f"{count} containers of `true`, to all finished and noticed",
            floor=lambda: self.raw(count, ["true"], ends=count),
            ours=lambda: self.ours(count, ["true"], wait=True),
            target="<= 1.15",
            rounds=settings.rounds,
        )

    def raw(self, count: int, command: list[str], *, ends: int = 0) -> float:
        """Create and start by plain requests, each thread on one connection of its own after the other."""
        body = {
            "Image": SHELL_IMAGE,
            "Cmd": command,
            "Labels": {"launcher.session": self.token},
            "HostConfig": {"NetworkMode": NETWORK, "Init": True},
        }

        def create(_: int) -> str:
            return str(self.daemon.ask("POST", "/containers/create", body)["Id"])

        started = time.perf_counter()
        events = _Ends(self.daemon, f"launcher.session={self.token}") if ends else None
        with ThreadPoolExecutor(THREADS) as pool:
            made = list(pool.map(create, range(count)))
            list(pool.map(lambda one: self.daemon.ask("POST", f"/containers/{one}/start"), made))
        for _ in range(ends):
            assert events
            events.next()
        elapsed = time.perf_counter() - started
        if events:
            events.close()
        self.clear()
        return elapsed

    def ours(self, count: int, command: list[str], *, wait: bool) -> float:
        from launcher.runner import get_runner

        with get_runner(self.token, detach=True) as runner:
            runner.scheduler_run_opts("local_docker")
            app = _app(command, count)
            started = time.perf_counter()
            handle = runner.run(app, "local_docker", {"grace_s": 0.0})
            if wait:
                runner.wait(handle)
            elapsed = time.perf_counter() - started
            runner.cancel(handle)
        self.clear()
        return elapsed

    def _loop(self, settings: Settings, count: int) -> dict[str, Callable[[], float]]:
        if not settings.peers:
            return {}
        words = [
            "--pull",
            "never",
            "--init",
            "--network",
            NETWORK,
            "--label",
            f"launcher.session={self.token}",
        ]

        def run() -> float:
            elapsed = sum(
                took(["docker", "run", "-d", *words, SHELL_IMAGE, "sleep", "300"]) for _ in range(count)
            )
            self.clear()
            return elapsed

        return {"docker run -d": run}

    def _sdk(self, settings: Settings, count: int) -> dict[str, Callable[[], float]]:
        if not settings.peers:
            return {}
        import docker

        client = docker.from_env()
        make = partial(
            client.containers.create,
            SHELL_IMAGE,
            ["sleep", "300"],
            init=True,
            network=NETWORK,
            labels={"launcher.session": self.token},
        )

        def run() -> float:
            started = time.perf_counter()
            for _ in range(count):
                make().start()
            elapsed = time.perf_counter() - started
            self.clear()
            return elapsed

        return {"SDK, 1 thread": run}

    def _compose(self, settings: Settings, count: int) -> dict[str, Callable[[], float]]:
        file = self.folder / "docker-compose.yml"
        file.write_text(
            f"version: '3'\nservices:\n  w:\n    image: {SHELL_IMAGE}\n    init: true\n"
            f"    command: sleep 300\n    labels: {{launcher.session: {self.token}}}\n"
        )
        up = ["docker-compose", "-p", self.token, "-f", str(file), "up", "-d", "--scale", f"w={count}"]

        def cleared(run: Callable[[], float]) -> float:
            elapsed = run()
            self.clear()
            return elapsed

        return {name: partial(cleared, run) for name, run in peer(settings, up).items()}

    def listed(self, settings: Settings, count: int) -> Row:
        from launcher.schedulers import get_scheduler

        scheduler = get_scheduler("local_docker", self.token, detach=True)
        app_id = scheduler.submit(_app(["sleep", "300"], count), {"grace_s": 0.0})
        query = {"all": 1, "filters": json.dumps({"label": ["launcher.app-id"]})}
        row = compare(
            f"list of {count} containers",
            floor=lambda: _seconds(lambda: self.daemon.ask("GET", "/containers/json", **query)),
            ours=lambda: _seconds(scheduler.list),
            target="<= 2",
            rounds=settings.rounds * 5,
        )
        scheduler.cancel(app_id)
        scheduler.close()
        self.clear()
        return row

    # P5

    def noticed(self, settings: Settings) -> Row:
        return compare(
            "exit of a container -> Scheduler.wait returns",
            floor=self._event,
            ours=self._wait,
            target="<= 1.3",
            rounds=settings.rounds * 2,
            note="floor: the event stream",
        )

    def _event(self) -> float:
        fifo = _fifo(self.folder)
        mount = [f"{self.folder}:{self.folder}"]
        body = {
            "Image": SHELL_IMAGE,
            "Cmd": ["sh", "-c", f"read x <{fifo}"],
            "Labels": {"launcher.session": self.token},
            "HostConfig": {"NetworkMode": NETWORK, "Init": True, "Binds": mount},
        }
        made = self.daemon.ask("POST", "/containers/create", body)["Id"]
        events = _Ends(self.daemon, f"launcher.session={self.token}")
        self.daemon.ask("POST", f"/containers/{made}/start")
        return self._age_of_end(fifo, events.next, events.close)

    def _wait(self) -> float:
        from launcher.schedulers import get_scheduler
        from launcher.specs import BindMount

        fifo = _fifo(self.folder)
        app = _app(["sh", "-c", f"read x <{fifo}"], 1)
        app.roles[0].mounts = [BindMount(str(self.folder), str(self.folder))]
        scheduler = get_scheduler("local_docker", self.token, detach=True)
        app_id = scheduler.submit(app, {})
        return self._age_of_end(fifo, lambda: scheduler.wait(app_id), scheduler.close)

    def _age_of_end(self, fifo: Path, wait: Callable[[], object], close: Callable[[], None]) -> float:
        """Another process opens the gate, and notes when."""
        opener = _opener(fifo)
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

    # P6

    def logs(self, settings: Settings) -> Iterator[Row]:
        for full in (4, 40):
            size = settings.size(full)
            line = "x" * 99
            name = f"log{full}"
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
                rounds=max(5, settings.rounds // 2),
            )


class _Ends:
    """The least that can follow the ends of containers: the event stream, a line of JSON each."""

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


def _app(command: list[str], replicas: int) -> Any:
    from launcher.specs import AppDef, Role

    role = Role("main", SHELL_IMAGE, entrypoint=command[0], args=command[1:], num_replicas=replicas)
    return AppDef("bench", [role])


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
