"""Simulate many jobs on many nodes: planner, ledger and table of turns are real, the engine is not.

`scripts/simulate [JOBS …]` prints, for each number of jobs, what each part costs for one job and in all. The
time is that of the processor: other work on the machine does not count. The engine has 1,000 nodes for one
job each, and runs a job for one step of its clock. The table is that of one machine with 64 cores, in whose
line all jobs wait.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from launcher.apply.observe import merge
from launcher.plan.model import Plan
from launcher.plan.reconcile import reconcile
from launcher.plan.snapshot import Snapshot
from launcher.specs import AppDef, Resource, Role
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import JobKey, attempt_id
from launcher.specs.launch import Launch
from launcher.state.records import of_attempt
from launcher.state.store import Store
from launcher.turns.line import Ask, Limit
from launcher.turns.queue import Queue

NODES, CORES = 1_000, 64
SIZES = (1_000, 10_000, 100_000)
ENGINE = "slurm"
T = TypeVar("T")


class Costs:
    """Seconds of each part, in the order in which they were measured: of the processor, and by the clock."""

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}

    def of(self, part: str, work: Callable[[], T]) -> T:
        cpu, clock = time.process_time(), time.perf_counter()
        found = work()
        so_far = self.seconds.get(part, (0.0, 0.0))
        self.seconds[part] = so_far[0] + time.process_time() - cpu, so_far[1] + time.perf_counter() - clock
        return found


def jobs(count: int) -> list[Launch]:
    """The jobs of one matrix."""
    found = []
    for number in range(count):
        role = Role("main", image="", entrypoint="train", args=[f"--n={number}"], resource=Resource(1, 0, -1))
        app = AppDef(f"sweep-{number}", [role])
        key = JobKey("simulated", "default", app.name)
        found.append(Launch(key=key, app=app, scheduler=ENGINE, root="/", file="sweep.yaml", origin="o"))
    return found


def attempts(plan: Plan) -> list[Attempt]:
    return [
        Attempt(
            key=step.key,
            number=1,
            app_id=attempt_id(step.key, 1),
            scheduler=ENGINE,
            digest=step.digest,
            document=step.document,
            origin="o",
            state="created",
        )
        for step in plan.steps
    ]


def run(store: Store, made: list[Attempt], costs: Costs) -> int:
    """Run all attempts on the nodes; returns how many steps of the clock that takes."""
    steps = 0
    for at in range(0, len(made), NODES):
        running = [replace(each, state="running", started_at=float(steps)) for each in made[at : at + NODES]]
        costs.of("record starts", lambda running=running: store.record_all(running))
        steps += 1
        over = [replace(each, state="succeeded", ended_at=float(steps)) for each in running]
        costs.of("record ends", lambda over=over: store.end_all(map(of_attempt, over)))
    return steps


def take_turns(count: int, table: str) -> None:
    """Let all jobs have their share of one machine, one after the other."""
    queue, limit, running = Queue(), Limit(cpu=CORES), []
    for number in range(count):
        if queue.join(Ask(f"sweep-{number}", number=number, table=table, cpu=1, limits=[limit])):
            running += queue.look()
    while running:
        for place in running:
            place.leave()
        running = queue.look()


def _opened(path: Path) -> Store:
    return Store(str(path), readonly=False, durable=True, source=None)


def simulate(count: int) -> None:
    costs = Costs()
    with tempfile.TemporaryDirectory() as folder, _opened(Path(folder, "ledger.db")) as store:
        launches = jobs(count)
        plan = costs.of("plan all new", lambda: reconcile(launches, Snapshot(home="h")))
        made = costs.of("make attempts", lambda: attempts(plan))
        costs.of("record submissions", lambda: store.record_all(made))
        steps = run(store, made, costs)
        table = Path(folder, "table")
        table.mkdir()
        costs.of("take turns on one machine", lambda: take_turns(count, str(table)))
        known = costs.of("read the ledger", lambda: store.latest([launch.key for launch in launches]))
        seen = merge(ledger=known.values(), engines=(), fingerprints={})
        again = costs.of("plan all unchanged", lambda: reconcile(launches, seen))
        if any(step.has_effects for step in again.steps) or len(known) != count:
            raise SystemExit("the simulation went wrong: a job that has succeeded is to run again")
        size = sum(each.stat().st_size for each in Path(folder).glob("ledger.db*"))
    print(f"\n{count:,} jobs on {NODES:,} nodes: {steps} steps of the clock")
    print(f"  {'ledger':<26}  {size / count:8.0f} bytes a job")
    for part, (cpu, clock) in costs.seconds.items():
        print(f"  {part:<26}  {cpu / count * 1e6:8.1f} µs a job  {cpu:8.2f} s, {clock:.2f} s by the clock")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  {'memory at most':<26}  {peak * 1024 / count:8.1f} kB a job  {peak:8.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("jobs", nargs="*", type=int, metavar="JOBS", help=f"numbers of jobs ({SIZES})")
    for count in parser.parse_args().jobs or SIZES:
        simulate(count)


if __name__ == "__main__":
    main()
