"""P8: the memory of the supervisor of one app, against that of a bare interpreter."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests import processes
from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.world import job, launcher, took, world


def rows(settings: Settings) -> Iterator[Row]:
    figures: dict[int, float] = {}
    for replicas in (1, settings.size(1000)):
        with world() as folder:
            row = compare(
                f"resident memory of a supervisor of {replicas} running replicas; floor: python -I -S",
                floor=lambda: _bare_interpreter()[0],
                ours=lambda folder=folder, replicas=replicas: _supervisor(folder, replicas)[0],
                target="ours <= 10 MB" if replicas == 1 else "<= 2 kB a replica more",
                rounds=min(3, settings.rounds),
                unit="MB",
            )
        figures[replicas] = row.ours
        yield row
    with world() as folder:
        yield compare(
            "memory of its own (private pages) of a supervisor of 1 replica",
            floor=lambda: _bare_interpreter()[1],
            ours=lambda: _supervisor(folder, 1)[1],
            target="ours <= 4 MB",
            rounds=min(3, settings.rounds),
            unit="MB",
            note=_per_replica(figures),
        )


def _per_replica(figures: dict[int, float]) -> str:
    (_, few), (many, most) = min(figures.items()), max(figures.items())
    return f"{(most - few) * 1024 / max(1, many - 1):.2f} kB a replica"


def _bare_interpreter() -> tuple[float, float]:
    return memory_of([sys.executable, "-I", "-S", "-c", "import os; os.write(1, b'x'); os.read(0, 1)"])


def memory_of(argv: Sequence[str]) -> tuple[float, float]:
    """(resident, private) MB of a program that writes a byte when it is ready, and then reads one."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.read(1)
    found = memory_mb(process.pid)
    process.communicate(b"x")
    return found


_made = 0


def _supervisor(folder: Path, replicas: int) -> tuple[float, float]:
    """(resident, private) MB of the supervisor of `replicas` shells that wait."""
    global _made
    _made += 1
    name = f"sleepers{_made}"
    gate = folder / name
    os.mkfifo(gate)
    (folder / f"{name}.launcher.yaml").write_text(job(name, f"read x <{gate}", replicas=replicas))
    took(launcher("apply", f"{name}.launcher.yaml", "--yes"))
    [pid] = processes.supervisors(os.environ["LAUNCHER_HOME"]).values()
    found = memory_mb(pid)
    took(launcher("cancel", name))
    return found


def memory_mb(pid: int) -> tuple[float, float]:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        sizes = {words[0]: int(words[1]) for line in file if (words := line.split()) and words[-1] == "kB"}
    return sizes["Rss:"] / 1024, (sizes["Private_Clean:"] + sizes["Private_Dirty:"]) / 1024
