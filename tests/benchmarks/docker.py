"""P4, to start an app in containers and to list them; `docker_commands`: P4b, P7b; `docker_ends`: P5, P6."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.benchmarks.containers import THREADS, Containers, Ends, app_of, seconds
from tests.benchmarks.docker_commands import Commands
from tests.benchmarks.docker_ends import EndsAndLogs
from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.peers import peer
from tests.benchmarks.world import took, world
from tests.engines import tidy
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE


def rows(settings: Settings) -> Iterator[Row]:
    tidy.join()
    daemon, token = Daemon(), tidy.new_token()
    with world() as folder:
        bench = Starts(daemon, token, folder)
        label = {"launcher.session": token}
        daemon.ask("POST", "/networks/create", {"Name": bench.network, "Labels": label})
        ends = EndsAndLogs(daemon, token, folder)
        commands = Commands(daemon, token, folder, partial(_noticed, bench))
        try:
            for count in settings.sizes(10, 30):
                yield bench.started(settings, count)
                yield bench.finished(settings, count)
            yield from commands.followed(settings, settings.size(30))
            yield bench.listed(settings, settings.size(30))
            yield from commands.beside_many(settings, settings.size(1000))
            yield ends.noticed(settings)
            yield from ends.logs(settings)
        finally:
            bench.clear()
            daemon.remove(thing for thing in daemon.networks() if thing.name == bench.network)


def _noticed(bench: Starts, count: int) -> float:
    return bench.raw(count, ["true"], ends=count)


class Starts(Containers):
    """Measure the start of all containers, the end of all, and the list of them."""

    def started(self, settings: Settings, count: int) -> Row:
        return compare(
            f"{count} containers, to all started",
            floor=lambda: self.raw(count, ["sleep", "300"]),
            ours=lambda: self.ours(count, ["sleep", "300"], wait=False),
            peers={"ours by reserve, create, start": lambda: self.staged(count, ["sleep", "300"])}
            | self._loop(settings, count)
            | self._compose(settings, count),
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
        """Create and start by plain requests; each thread opens one connection after the other."""
        body = {
            "Image": SHELL_IMAGE,
            "Cmd": command,
            "Labels": {"launcher.session": self.token},
            "HostConfig": {"NetworkMode": self.network, "Init": True},
        }

        def create(_: int) -> str:
            return str(self.daemon.ask("POST", "/containers/create", body)["Id"])

        started = time.perf_counter()
        events = Ends(self.daemon, f"launcher.session={self.token}") if ends else None
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
            app = app_of(command, count)
            started = time.perf_counter()
            handle = runner.run(app, "local_docker", {"grace_s": 0.0})
            if wait:
                runner.wait(handle)
            elapsed = time.perf_counter() - started
            runner.cancel(handle)
        self.clear()
        return elapsed

    def staged(self, count: int, command: list[str]) -> float:
        """Measure the same app as an apply submits it."""
        from launcher.schedulers import StagedScheduler, get_scheduler
        from launcher.specs.canonical import digest, document_of
        from launcher.specs.jobkey import JobKey
        from tests.unit.state.attempts import attempt as made

        app, cfg = app_of(command, count), {"grace_s": 0.0}
        scheduler = get_scheduler("local_docker", self.token, detach=True)
        assert isinstance(scheduler, StagedScheduler)
        document = document_of(app, scheduler.run_opts().resolve(cfg), scheduler.backend)
        of_app = {"digest": digest(document), "document": document, "scheduler": scheduler.backend}
        attempt = made(JobKey(self.token, "default", f"bench-{secrets.token_hex(4)}"), **of_app)
        started = time.perf_counter()
        reservation = scheduler.reserve(attempt)
        scheduler.create(reservation, app, cfg)
        scheduler.start(reservation)
        elapsed = time.perf_counter() - started
        scheduler.cancel(attempt.app_id)
        scheduler.close()
        self.clear()
        return elapsed

    def _loop(self, settings: Settings, count: int) -> dict[str, Callable[[], float]]:
        if not settings.peers:
            return {}
        words = ["--pull", "never", "--init", "--network", self.network]
        words += ["--label", f"launcher.session={self.token}"]

        def run() -> float:
            elapsed = sum(
                took(["docker", "run", "-d", *words, SHELL_IMAGE, "sleep", "300"]) for _ in range(count)
            )
            self.clear()
            return elapsed

        return {"docker run -d": run}

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
        app_id = scheduler.submit(app_of(["sleep", "300"], count), {"grace_s": 0.0})
        query = {"all": 1, "filters": json.dumps({"label": ["launcher.app-id"]})}
        row = compare(
            f"list of {count} containers",
            floor=lambda: seconds(lambda: self.daemon.ask("GET", "/containers/json", **query)),
            ours=lambda: seconds(scheduler.list),
            target="<= 2",
            rounds=settings.more(5),
        )
        scheduler.cancel(app_id)
        scheduler.close()
        self.clear()
        return row
