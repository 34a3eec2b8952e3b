"""P5: the time from the end of a process until its waiter knows, and the cost of waiting meanwhile."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests import processes
from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.world import job, launcher, switches, took, world

IDLE_S = 5


def rows(settings: Settings) -> Iterator[Row]:
    with world() as folder:
        rounds = settings.more(3)
        yield compare(
            "exit of a replica -> Scheduler.wait returns",
            floor=lambda: _pidfd_of_a_stranger(folder),
            ours=lambda: _scheduler_wait(folder),
            target="ours <= 2 ms",
            rounds=rounds,
            note="both from the byte that lets the replica end",
        )
        yield compare(
            "exit of a replica -> process of `launcher wait` is gone",
            floor=lambda: _pidfd_of_a_stranger(folder),
            ours=lambda: _launcher_wait(folder),
            target="",
            rounds=rounds,
            note="includes the end of that Python process",
        )
        yield compare(
            "wakeups a second of supervisor and `launcher wait` while idle",
            floor=lambda: 1.0,
            ours=lambda: 1.0 + _idle_wakeups(folder, settings.size(IDLE_S)),
            target="1.00 (1 + wakeups)",
            rounds=1,
            unit="1/s",
        )


def _pidfd_of_a_stranger(folder: Path) -> float:
    """A shell that is not a child of this process waits on a pipe and ends; a pidfd reports its end."""
    fifo = _fifo(folder)
    script = f"(echo \"$(exec sh -c 'echo $PPID')\"; exec >&-; read x <{fifo}) & wait"
    parent = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    fd = os.pidfd_open(int(parent.stdout.readline()))
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    with open(fifo, "w") as gate:
        started = time.perf_counter()
        gate.write("go\n")
        gate.flush()
        poll.poll()
        elapsed = time.perf_counter() - started
    os.close(fd)
    parent.wait()
    parent.stdout.close()
    return elapsed


def _scheduler_wait(folder: Path) -> float:
    """Measure the wait of a scheduler; a process beside the waiting one opens the gate and notes the time."""
    from launcher.runner import get_runner
    from launcher.specs import AppDef, Role

    fifo = _fifo(folder)
    role = Role(name="main", image="", entrypoint="sh", args=["-c", f"read x <{fifo}"])
    with get_runner(detach=True) as runner:
        handle = runner.run(AppDef(name="bench", roles=[role]), "local_cwd", {})
        opener = _opener(fifo)
        assert opener.stdin
        assert opener.stdout
        opener.stdin.write("now\n")
        opener.stdin.flush()
        runner.wait(handle)
        ended = time.monotonic_ns()
        opened = int(opener.stdout.read())
        opener.communicate()
    return (ended - opened) / 1e9


def _opener(fifo: Path, pause_s: float = 0.05) -> subprocess.Popen[str]:
    """Start a process that holds the gate, waits a moment after a signal, notes the time and opens it."""
    script = (
        "import sys, time\n"
        f"gate = open({str(fifo)!r}, 'w')\n"
        "sys.stdin.readline()\n"
        f"time.sleep({pause_s})\n"  # by then the other side waits in the kernel
        "opened = time.monotonic_ns()\n"
        "gate.write('go\\n'); gate.flush()\n"
        "print(opened)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _launcher_wait(folder: Path) -> float:
    fifo = _fifo(folder)
    _apply(folder, f"read x <{fifo}")
    with open(fifo, "w") as gate:
        waiting = _waiting()
        started = time.perf_counter()
        gate.write("go\n")
        gate.flush()
        os.waitpid(waiting, 0)
        return time.perf_counter() - started


def _idle_wakeups(folder: Path, idle_s: int) -> float:
    fifo = _fifo(folder)
    _apply(folder, f"read x <{fifo}")
    with open(fifo, "w") as gate:
        waiting = _waiting()
        pids = [waiting, *processes.supervisors(os.environ["LAUNCHER_HOME"]).values()]
        before = switches(pids)
        time.sleep(idle_s)
        after = switches(pids)
        gate.write("go\n")
        gate.flush()
        os.waitpid(waiting, 0)
    return (after - before) / idle_s


def _fifo(folder: Path) -> Path:
    path = folder / f"gate-{time.monotonic_ns()}"
    os.mkfifo(path)
    return path


def _apply(folder: Path, script: str) -> None:
    (folder / "waited.launcher.yaml").write_text(job("waited", script))
    took(launcher("apply", "waited.launcher.yaml", "--yes"))


def _waiting() -> int:
    """Return the pid of a `launcher wait` that sleeps: its count of context switches does not grow."""
    argv = launcher("wait", "waited")
    pid = os.posix_spawnp(
        argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    )
    seen = -1
    while seen != (seen := switches([pid])) or _state(pid) != "S":
        time.sleep(0.1)
    return pid


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]
