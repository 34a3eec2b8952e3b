"""P11, P12: many jobs in line for the cores of one machine: run one after the other, and only held."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests import processes
from tests.benchmarks.measure import Row, Settings, compare, once
from tests.benchmarks.memory import memory_mb
from tests.benchmarks.peers import peer
from tests.benchmarks.world import launcher, matrix, switches, took, world

JOBS = 1_000
HELD = 10_000
IDLE_S = 10
CORES = len(os.sched_getaffinity(0))


def rows(settings: Settings) -> Iterator[Row]:
    yield _run(settings, settings.size(JOBS))
    yield from _held(settings.size(HELD), settings.size(IDLE_S))


def _run(settings: Settings, count: int) -> Row:
    """Jobs of `true`, with one core each, from the job file to the end of the last one."""
    numbers = "".join(f"{number}\n" for number in range(count))
    with world():
        Path("numbers").write_text(numbers)
        path = matrix("many", count, "entrypoint: 'true', resource: {cpu: 1}")

        began = time.perf_counter()
        took(launcher("apply", "--yes", "--wait", path))
        first = time.perf_counter() - began
        parallel = ["parallel", "-a", "numbers", "-j", str(CORES), "true #"]
        return compare(
            f"{count} jobs of `true`, one core each in turn; floor: xargs -P {CORES}",
            floor=lambda: took(["xargs", "-a", "numbers", "-P", str(CORES), "-n", "1", "true"]),
            ours=lambda: took(launcher("apply", "--yes", "--wait", "--rerun", "many", path)),
            peers=peer(settings, parallel),
            target="<= 5 ms a job; ahead of GNU parallel",
            rounds=settings.fewer(3),
            note=f"{first / count * 1000:.1f} ms a job at first",
        )


def _held(count: int, idle_s: int) -> Iterator[Row]:
    """Measure jobs in line behind a job that holds all cores."""
    with world():
        first = matrix("first", 1, f"entrypoint: sleep, args: ['100000'], resource: {{cpu: {CORES}}}")
        took(launcher("apply", "--yes", first))
        path = matrix("many", count, "entrypoint: 'true', resource: {cpu: 1}")
        accepted = took(launcher("apply", "--yes", path))
        home = os.environ["LAUNCHER_HOME"]
        held = [pid for app, pid in processes.supervisors(home).items() if not app.startswith("first")]
        pids = [pid for pid in processes.of_home(home) if processes.parent(pid) in held or pid in held]
        yield once(
            f"{count} jobs accepted and in line",
            ours=accepted / count,
            floor=0.003,
            target="<= 3 ms a job",
            note=f"{len(held)} of them in line, {len(set(held))} processes hold them",
        )
        yield once(
            f"memory of all processes that hold {count} jobs in line",
            ours=sum(memory_mb(pid)[0] for pid in {*pids}),
            floor=300.0,
            unit="MB",
            target="<= 300 MB",
        )
        settle(pids)
        before = switches(pids)
        time.sleep(idle_s)
        yield once(
            f"wake-ups of the same in {idle_s} s",
            ours=switches(pids) - before,
            floor=1.0,
            unit="",
            target="0",
        )
        subprocess.run(launcher("cancel", "--yes", "many", "first"), capture_output=True, check=False)


def settle(pids: list[int]) -> None:
    """Wait until none of the processes runs any more."""
    seen = -1
    while seen != (seen := switches(pids)):
        time.sleep(0.3)
