"""Several state folders race one job on one engine: `Race.run` starts the clients and judges the outcome.

Every replica adds a line to a file when it begins to run. The engine's containers and that file tell how
often the job was started, each state folder's ledger what its owner was told.
"""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.engines import tidy
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.engines.proxy import Delay, Proxy, at_once, everything

CREATE_S, INSPECT_S = 1.0, 2.5
_INSPECT = re.compile(r"/containers/[^/]+/json")
TIMEOUT_S = 180.0


def slow_to_create(_method: str, path: str) -> float:
    return CREATE_S if "/containers/create" in path else 0.0


def slow_to_inspect(method: str, path: str) -> float:
    return INSPECT_S if method == "GET" and _INSPECT.search(path) else 0.0


PLAIN: Sequence[Delay] = (at_once,) * 6
SLOW: Sequence[Delay] = (slow_to_create, *(slow_to_inspect,) * 3, at_once, at_once)


class Race:
    """One job in `folder`, applied at the same time from one state folder per entry of `delays`."""

    def __init__(self, folder: Path, token: str, delays: Sequence[Delay], *, replicas: int = 4) -> None:
        self.folder = folder
        self.token = token
        self.delays = delays
        self.replicas = replicas
        self.starts = folder / "starts"
        self._write_job()

    def _write_job(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.starts.touch()
        self.starts.chmod(0o666)
        (self.folder / "launcher.toml").write_text(f'project = "{self.token}"\n')
        script = f"echo $LAUNCHER_JOB_ID >>{self.starts}; sleep 0.3"
        (self.folder / "job.launcher.yaml").write_text(
            "version: 1\nname: job\nscheduler: local_docker\nlifecycle: {on_lost: rerun}\n"
            f"roles:\n  main:\n    image: {SHELL_IMAGE}\n    num_replicas: {self.replicas}\n"
            f"    entrypoint: sh\n    args: [-c, {json.dumps(script)}]\n"
            f"    mounts: [{{type: bind, src: {self.folder}, dst: {self.folder}}}]\n"
        )

    def homes(self) -> list[Path]:
        return [self.folder / f"home{k}" for k in range(len(self.delays))]

    def run(self) -> list[str]:
        """Return the faults as texts; [] when every client exits 0 and the job was started once."""
        with self._sockets() as hosts:
            clients = [self._apply(home, host) for home, host in zip(self.homes(), hosts, strict=True)]
            ends = [client.communicate(timeout=TIMEOUT_S) for client in clients]
        wrong = [
            f"home{k} exits {client.returncode}: {(out + err).strip()[-600:]}"
            for k, (client, (out, err)) in enumerate(zip(clients, ends, strict=True))
            if client.returncode
        ]
        return [*wrong, *self._of_engine(), *self._of_ledgers()]

    @contextlib.contextmanager
    def _sockets(self) -> Iterator[list[str]]:
        """The engine's address for each client, through a proxy where it is to be slow."""
        with contextlib.ExitStack() as stack:
            yield [
                Daemon().host
                if delay is at_once
                else stack.enter_context(Proxy(self.folder / f"{k}.sock", everything, delay)).host
                for k, delay in enumerate(self.delays)
            ]

    def _apply(self, home: Path, host: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "launcher", "apply", "job.launcher.yaml", "--yes", "--wait"]
        command += ["--lock-timeout", "10m"]  # however long a busy engine takes to start the job for another
        env = {**os.environ, "LAUNCHER_HOME": str(home), "DOCKER_HOST": host}
        return subprocess.Popen(
            command, cwd=self.folder, env=env, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def _of_engine(self) -> list[str]:
        started = self.starts.read_text().split()
        wrong = []
        if len(started) != self.replicas or len(set(started)) != 1:
            wrong.append(f"{len(started)} replicas of {sorted(set(started))} began to run")
        own = tidy.of_token(self.token, Daemon().containers())
        if len(own) != self.replicas:
            wrong.append(f"on the engine: {', '.join(map(str, own))}")
        return wrong

    def _of_ledgers(self) -> list[str]:
        wrong = []
        for home in self.homes():
            with contextlib.closing(sqlite3.connect(f"file:{home}/ledger.db?mode=ro", uri=True)) as store:
                rows = store.execute("SELECT number, state FROM attempts").fetchall()
            if rows != [(1, "succeeded")]:
                wrong.append(f"{home.name} has on record {rows}")
        return wrong
