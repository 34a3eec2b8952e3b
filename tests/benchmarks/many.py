"""P10: commands from eight processes at once on one state folder, and a soak of mixed ones."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.world import launcher, world
from tests.soak import WORKERS

RUNS = 120
OPERATIONS = 1000
CPUS = min(os.cpu_count() or 1, WORKERS)


def rows(settings: Settings) -> Iterator[Row]:
    """Seconds of all the commands; the floor is one after the other, divided by the number of CPUs.

    Raises SystemExit when a command of a soak did what it would not do alone, or left the state unsound.
    """
    runs = settings.size(RUNS)
    with world():
        yield compare(
            f"{runs} launcher run utils.echo, {WORKERS} at once",
            floor=lambda: _runs(runs, 1) / CPUS,
            ours=lambda: _runs(runs, WORKERS),
            target="<= 1.3, none fails",
            rounds=settings.rounds,
        )
    seeds = iter(range(10**6))
    operations = settings.size(OPERATIONS)
    yield compare(
        f"soak of {operations} commands, {WORKERS} at once",
        floor=lambda: _soak(max(1, operations // 10), 1, next(seeds)) * 10 / CPUS,
        ours=lambda: _soak(operations, WORKERS, next(seeds)),
        target="none fails",
        rounds=settings.rounds,
    )


def _runs(count: int, at_once: int) -> float:
    command = ["xargs", "-P", str(at_once), "-I{}", *launcher("run", "utils.echo", "--msg", "{}")]
    numbers = "".join(f"{number}\n" for number in range(count))
    started = time.perf_counter()
    done = subprocess.run(command, input=numbers, text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"a command of {count} failed: {done.stderr[-2000:]}")
    return time.perf_counter() - started


def _soak(operations: int, workers: int, seed: int) -> float:
    """In a process of its own: the commands are forked from it, with all that it has loaded."""
    with world() as folder:
        started = time.perf_counter()
        command = [sys.executable, "-c", SOAK, str(folder), str(operations), str(seed), str(workers)]
        done = subprocess.run(command, check=False)
        if done.returncode:
            raise SystemExit(f"the soak with seed {seed} found problems")
        return time.perf_counter() - started


SOAK = """
import os, sys
from pathlib import Path
from tests.soak import soak

folder, operations, seed, workers = sys.argv[1:]
home = Path(os.environ["LAUNCHER_HOME"])
found = soak(Path(folder) / "jobs", home, operations=int(operations), seed=int(seed), workers=int(workers))
for where, what in found:
    print(where, what, sep=": ", file=sys.stderr)
sys.exit(bool(found))
"""
