"""P12: apps in line for the cores of one machine: how long the line takes, and what each costs meanwhile."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from launcher.schedulers.local.scheduler import LocalScheduler
from launcher.specs import AppDef, Resource, Role
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import digest, document
from launcher.specs.jobkey import JobKey, attempt_id
from launcher.specs.launch import Launch
from launcher.turns.asking import ask_of
from launcher.turns.machine import Machine
from launcher.turns.table import draw
from tests import processes
from tests.benchmarks.measure import Row, Settings, once
from tests.benchmarks.memory import memory_mb
from tests.benchmarks.world import world

APPS = 200
CORES = 2
EACH_S = 0.2
IDLE_S = 10.0


def rows(settings: Settings) -> Iterator[Row]:
    """The line is built behind an app that has all cores, and its time counts from the end of that one."""
    count = settings.size(APPS)
    with world() as folder:
        gate = folder / "gate"
        os.mkfifo(gate)
        scheduler = LocalScheduler("s", detach=True)
        submit(scheduler, "holder", f"read x <{gate}", cpu=CORES)
        names = [f"job-{number:03}" for number in range(count)]
        for name in names:
            submit(scheduler, name, f"echo {name} >>{folder}/ran; exec sleep {EACH_S}")
        pids = [
            pid for app, pid in processes.supervisors(os.environ["LAUNCHER_HOME"]).items() if "job" in app
        ]
        settle(pids)
        yield once(
            f"memory of its own (private pages) of each of {count} supervisors in line",
            ours=sum(memory_mb(pid)[1] for pid in pids) / len(pids),
            floor=4.0,
            unit="MB",
            target="<= 4 MB",
        )
        before = switches(pids)
        time.sleep(IDLE_S * min(1.0, settings.scale))
        woken = switches(pids) - before
        yield once(
            f"wake-ups of {count} apps in line in {IDLE_S:g} s", ours=woken, floor=1.0, unit="", target="0"
        )
        gate.write_text("go\n")
        started = time.perf_counter()
        for name in names:
            scheduler.wait(attempt_id(key(name), 1))
        took = time.perf_counter() - started
        if sorted((folder / "ran").read_text().split()) != names:
            raise SystemExit("not every app has run once")
        scheduler.close()
    floor = count * EACH_S / CORES
    yield once(
        f"{count} apps of one core and {EACH_S} s on {CORES} cores; floor: the sum / {CORES}",
        ours=took,
        floor=floor,
        unit="s",
        target="<= 1.1, plus 10 ms an app",
        note=f"{(took - floor) / count * 1000:.1f} ms an app more",
    )


def key(name: str) -> JobKey:
    return JobKey("p", "default", name)


def submit(scheduler: LocalScheduler, name: str, script: str, *, cpu: int = 1) -> None:
    role = Role(name="r", image="", entrypoint="sh", args=["-c", script], resource=Resource(cpu, 0, -1))
    app = AppDef(name, [role])
    made = document(Launch(key=key(name), app=app, scheduler="local_cwd", root="/", file="f", origin="o"))
    attempt = Attempt(
        key=key(name),
        number=1,
        app_id=attempt_id(key(name), 1),
        scheduler="local_cwd",
        digest=digest(made),
        document=made,
    )
    reservation = scheduler.reserve(attempt)
    reservation.turn = ask_of(app, attempt.app_id, Machine(CORES, 1 << 20))
    reservation.turn.number = draw(reservation.turn.tables, 1)
    scheduler.create(reservation, app, {})
    scheduler.start(reservation)


def settle(pids: list[int]) -> None:
    """Wait until none of the processes runs any more."""
    seen = -1
    while seen != (seen := switches(pids)):
        time.sleep(0.3)


def switches(pids: list[int]) -> int:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
