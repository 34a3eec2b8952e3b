"""P4b and P7b: following the output of containers, and commands beside many finished ones."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from tests.benchmarks.containers import THREADS, Containers
from tests.benchmarks.measure import Row, Settings, compare, quartiles
from tests.benchmarks.world import launcher, took
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE


class Commands(Containers):
    """Args:
    raw: seconds that so many containers of `true` take by plain requests, until all have ended.
    """

    def __init__(self, daemon: Daemon, token: str, folder: Path, raw: Callable[[int], float]) -> None:
        super().__init__(daemon, token, folder)
        self._raw = raw

    def followed(self, settings: Settings, count: int) -> Iterator[Row]:
        """`run`, and `apply` with the output of all replicas, against starting and noticing alone."""
        file = self._job("true", count)
        ours = {
            "run": ["run", file],
            "apply --wait --logs": ["apply", file, "--yes", "--wait", "--logs", "--rerun", "bench"],
        }
        for name, words in ours.items():
            yield compare(
                f"{count} containers of `true`: `{name}`, whole process",
                floor=lambda: self._raw(count),
                ours=partial(self._cleared, words),
                peers={"apply --wait": partial(self._cleared, ["apply", file, "--yes", "--wait"])},
                target="<= 1.15",
                rounds=settings.rounds,
                note=f"floor: raw HTTP, {THREADS} threads, no output read",
            )

    def beside_many(self, settings: Settings, count: int) -> Iterator[Row]:
        """Commands beside many apps that have ended; half of them have a record here, half are of others.

        The floor, the same beside none, cannot be measured in turn with it: it is measured before and after.
        """
        took(launcher("run", self._job("true", 1)))
        [made] = [one for one in self.daemon.containers() if one.labels.get("launcher.session") == self.token]
        app_id = made.labels["launcher.app-id"]
        commands = {
            "list": ["list"],
            "status": ["status", f"local_docker://{self.token}/{app_id}"],
            "gc --dry-run": ["gc", "--dry-run", "--older-than", "0"],
        }
        alone, beside = Times(settings.rounds), Times(settings.rounds)
        alone.measure(commands)
        others = self._multiply(app_id, dict(made.labels), count)
        beside.measure(commands)
        self._remove(others)
        alone.measure(commands)
        self.clear()
        for name in commands:
            floor, ours = median(alone.of[name]), beside.of[name]
            yield Row(
                what=f"`{name}` beside {count} finished containers",
                unit="s",
                floor=floor,
                ours=median(ours),
                ratio=quartiles([each / floor for each in ours]),
                peers={},
                target="<= 1.2",
                note="floor: the same beside none, before and after",
            )

    def _job(self, script: str, count: int) -> str:
        file = self.folder / f"bench-{count}.json"
        role = {"image": SHELL_IMAGE, "entrypoint": script, "num_replicas": count}
        job = {"version": 1, "project": self.token, "name": "bench", "scheduler": "local_docker"}
        file.write_text(json.dumps({**job, "roles": {"main": role}}))
        file = file.rename(file.with_suffix(".yaml"))
        return str(file)

    def _cleared(self, words: list[str]) -> float:
        elapsed = took(launcher(*words))
        self.clear()
        for database in Path(os.environ["LAUNCHER_HOME"]).glob("ledger.db*"):
            database.unlink()
        return elapsed

    def _multiply(self, app_id: str, labels: dict[str, str], count: int) -> list[tuple[str, str]]:
        """Make so many apps like this one, every second with a record here; (app, container) ids."""
        records = Path(os.environ["LAUNCHER_HOME"]) / "docker" / "apps"

        def one(number: int) -> tuple[str, str]:
            other = f"{app_id[:-6]}{number:06}"
            named = {key: value.replace(app_id, other) for key, value in labels.items()}
            body = {
                "Image": SHELL_IMAGE,
                "Cmd": ["true"],
                "Labels": named,
                "HostConfig": {"NetworkMode": "none"},
            }
            made = self.daemon.ask("POST", "/containers/create", body, name=f"{other}-main-0")["Id"]
            self.daemon.ask("POST", f"/containers/{made}/start")
            if number % 2:
                shutil.copytree(records / app_id, records / other)
                for file in (records / other).iterdir():
                    file.write_text(file.read_text().replace(app_id, other))
            return other, str(made)

        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(one, range(count)))

    def _remove(self, apps: list[tuple[str, str]]) -> None:
        records = Path(os.environ["LAUNCHER_HOME"]) / "docker" / "apps"

        def one(app: tuple[str, str]) -> None:
            self.daemon.ask("DELETE", f"/containers/{app[1]}", force="1")
            shutil.rmtree(records / app[0], ignore_errors=True)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(one, apps))


class Times:
    """The seconds that commands took, in turn."""

    def __init__(self, rounds: int) -> None:
        self.of: dict[str, list[float]] = {}
        self._rounds = rounds

    def measure(self, commands: Mapping[str, Sequence[str]]) -> None:
        for _ in range(self._rounds):
            for name, words in commands.items():
                self.of.setdefault(name, []).append(took(launcher(*words)))
