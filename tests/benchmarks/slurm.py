"""P9 and P14: apps on a Slurm cluster: what a plan of one costs, how often commands call Slurm, and arrays.

The cluster is that of `tests/engines/slurm`; TESTS_SLURM names its folder.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter

from launcher.jobfile.compile.matrix import MAX_JOBS
from launcher.schedulers.slurm.request import build_request
from launcher.specs import AppDef, Resource, Role
from launcher.specs.canonical import document_of
from tests.benchmarks.measure import Row, Settings, compare, once
from tests.benchmarks.world import launcher, took, world
from tests.engines.slurm import HERE, SlurmCluster

COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "sacct")
WAIT_S = 10.0
CELLS = MAX_JOBS
"""Jobs of one matrix, which are one array."""


def rows(settings: Settings) -> Iterator[Row]:
    if not os.environ.get(HERE):
        raise SystemExit(f"there is no Slurm cluster: {HERE} names the folder of `tests/engines/slurm up`")
    cluster = SlurmCluster(os.environ[HERE])
    with world() as folder:
        os.environ["SLURM_CONF"] = str(cluster.conf)
        bench = Slurm(folder)
        try:
            yield derived(settings)
            nodes("DRAIN")  # jobs that start would take the processors of this machine
            for count in sorted({1, settings.size(100), settings.size(1000)}):
                yield from bench.of_apps(count, settings)
        finally:
            bench.clear()
            nodes("RESUME")
            cluster.clear(below=str(folder))


def nodes(state: str) -> None:
    """Let all nodes start no job, or start jobs again."""
    subprocess.run(["scontrol", "update", "NodeName=ALL", f"State={state}", "Reason=bench"], check=True)


def derived(settings: Settings) -> Row:
    role = Role(
        "main", "", entrypoint="python", args=["train.py"], num_replicas=8, resource=Resource(2, 1, 4096)
    )
    app = AppDef("train", [role])
    times = settings.size(200)

    def each(work: Callable[[], str]) -> float:
        started = perf_counter()
        for _ in range(times):
            work()
        return (perf_counter() - started) / times

    return compare(
        "request and batch script of one app of 8 replicas",
        floor=lambda: each(lambda: json.dumps(document_of(app, {}, "slurm"))),
        ours=lambda: each(lambda: str(build_request(app, {}, session="bench"))),
        target="<= 50",
        rounds=settings.rounds,
        note="floor: its document as JSON",
    )


class Slurm:
    """Commands in a folder of job files, with every call of Slurm counted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls = folder / "calls"
        self._bin = folder / "bin"
        self._bin.mkdir()
        for name in COMMANDS:
            if there := shutil.which(name):
                script = self._bin / name
                script.write_text(f'#!/bin/sh\necho {name} >>{self._calls}\nexec {there} "$@"\n')
                script.chmod(0o755)

    def of_apps(self, count: int, settings: Settings) -> Iterator[Row]:
        """Submit so many apps that stay in the queue, look at them, and end them."""
        jobs = self._folder / f"jobs-{count}"
        jobs.mkdir()
        sizes = [min(CELLS, count - first) for first in range(0, count, CELLS)]
        for index, size in enumerate(sizes):
            self._write(jobs, index * CELLS, size)
        floor = sum(map(self._by_hand, sizes))
        planned = took(launcher("plan", str(jobs)), codes=(0, 2))
        seconds, calls = self._counted("apply", str(jobs), "--yes")
        counted = ", ".join(f"{number} {name}" for name, number in sorted(calls.items()))
        yield once(
            f"P14: submit {count} apps with one `apply`",
            ours=seconds,
            floor=floor,
            target="<= 2 s and 10 calls for 1,000",
            note=f"{planned:.1f} s of it to plan; {counted}; floor: {len(sizes)} arrays by hand",
        )
        for name, words in {
            "list": ["list", "-a"],
            "status": ["status", f"job-{count}-0-0"],
            "status of all": ["status", f"job-{count}-0"],
            "status --json of all": ["status", f"job-{count}-0", "--json"],
            "plan": ["plan", str(jobs)],
        }.items():
            seconds, calls = self._counted(*words)
            yield self._read(f"`{name}` with {count} apps in the queue", seconds, calls)
        waiting = launcher("wait", f"job-{count}-0-0", "--timeout", f"{WAIT_S:g}s")
        seconds, calls = self._counted_of(waiting, codes=(0, 1, 5, 6, 124))
        yield self._read(f"`wait` for one of {count} apps, {WAIT_S:g} s", seconds, calls)
        seconds, calls = self._counted("cancel", f"job-{count}-*", "--yes")
        yield self._read(f"`cancel` of {count} apps in the queue", seconds, calls)
        self.clear()

    def clear(self) -> None:
        """End the jobs of this folder, whatever they are."""
        # With their ends on record, no later command looks twice for jobs that have left the queue.
        subprocess.run(launcher("cancel", "job-*", "--yes"), capture_output=True, check=False)
        listed = subprocess.run(["squeue", "-h", "-o", "%i %Z"], capture_output=True, text=True, check=False)
        own = [line.split()[0] for line in listed.stdout.splitlines() if str(self._folder) in line]
        if own:
            subprocess.run(["scancel", *own], check=False)
        shutil.rmtree(Path(os.environ["LAUNCHER_HOME"]), ignore_errors=True)

    def _write(self, jobs: Path, first: int, count: int) -> None:
        name = f"{jobs.name.replace('jobs', 'job')}-{first}"
        role = {"entrypoint": "sleep", "args": ["1000"], "env": {"N": "$<matrix.n>"}}
        job = {"version": 1, "name": name, "scheduler": "slurm", "matrix": {"n": list(range(count))}}
        text = json.dumps({**job, "lifecycle": {"protect": False}, "roles": {"main": role}})
        (jobs / f"{name}.launcher.yaml").write_text(text)

    def _by_hand(self, count: int) -> float:
        script = self._folder / "by-hand.sh"
        script.write_text("#!/bin/sh\nexit 0\n")
        output = f"--output={self._folder}/by-hand.out"
        return took(["sbatch", "--hold", f"--array=0-{count - 1}", output, str(script)])

    def _read(self, what: str, seconds: float, calls: Mapping[str, int]) -> Row:
        named = ", ".join(f"{count} {name}" for name, count in sorted(calls.items()))
        return once(what, ours=seconds, floor=took(["squeue"]), target="", note=f"calls: {named or 'none'}")

    def _counted(self, *words: str) -> tuple[float, dict[str, int]]:
        return self._counted_of(launcher(*words))

    def _counted_of(self, argv: Sequence[str], codes: Sequence[int] = (0,)) -> tuple[float, dict[str, int]]:
        self._calls.write_text("")
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{self._bin}:{path}"
        try:
            seconds = took(argv, codes=codes)
        finally:
            os.environ["PATH"] = path
        names = self._calls.read_text().split()
        return seconds, {name: names.count(name) for name in names}
