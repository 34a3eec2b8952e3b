"""P6: writing logs through the supervisor, reading them back, following them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.world import job, launcher, took, world

LINE = b"x" * 94 + b" %04d\n"
WRITE = """
import os, time
block = b"".join({line!r} % (n % 10000) for n in range(10000))
started = time.monotonic()
for _ in range({blocks}):
    left = memoryview(block)
    while left:
        left = left[os.write(1, left):]
with open("written", "w") as file:
    file.write(str(time.monotonic() - started))
"""


def rows(settings: Settings) -> Iterator[Row]:
    blocks = settings.size(300)  # of a million bytes
    rounds = settings.fewer(5)
    with world() as folder:
        (folder / "write.py").write_text(WRITE.format(line=LINE, blocks=blocks))
        yield compare(
            f"a replica writes {blocks} MB as fast as it can, its own clock",
            floor=_directly,
            ours=lambda: _through_the_supervisor(folder),
            target="<= 2.5",
            rounds=rounds,
            note=f"supervisor at most {_peak_kb(folder) / 1024:.1f} MB",
        )
        yield compare(
            "bytes on disk for a byte of that output",
            floor=lambda: (folder / "direct").stat().st_size / 1e6,
            ours=lambda: _stored(folder) / 1e6,
            target="<= 1.01",
            rounds=1,
            unit="MB",
        )
        log, ours = str(folder / "direct"), ["logs", "writer", "--no-prefix"]
        searched = ["logs", "writer", "--timestamps", "--regex", "7$"]
        for what, floor, words, peers, target in (
            (f"logs of {blocks} MB to a file, plain", ["cat", log], ours, {}, "<= 2 + start-up"),
            (
                *("the same with a prefix on each line", [sys.executable, "-c", PREFIX, log], ours[:2]),
                *({"sed": ["sed", "s,^,main/0 ,", log]}, "<= 1.25"),
            ),
            (
                *(
                    "the same with --regex '7$'",
                    [sys.executable, "-c", SEARCH, log],
                    [*ours, "--regex", "7$"],
                ),
                *({"grep": ["grep", "7$", log]}, "<= 1.25"),
            ),
            (
                *("launcher grep '7$' over that log, with names and times", launcher(*searched)),
                *(["grep", "7$", "writer"], {"grep": ["grep", "-H", "7$", log]}, "<= 1.25"),
            ),
        ):
            yield compare(
                what,
                floor=partial(took, floor, stdout="read"),
                ours=partial(took, launcher(*words), stdout="read"),
                peers={name: partial(took, argv, stdout="read") for name, argv in peers.items()},
                target=target,
                rounds=rounds,
            )
        yield _follow_latency(folder, settings)


PREFIX = """
import sys
rest = b""
with open(sys.argv[1], "rb") as file:
    while chunk := file.read(1 << 20):
        whole, _, rest = (rest + chunk).rpartition(b"\\n")
        if whole:
            sys.stdout.buffer.write(b"main/0 " + whole.replace(b"\\n", b"\\nmain/0 ") + b"\\n")
"""
SEARCH = """
import re, sys
search = re.compile(rb"7$").search
with open(sys.argv[1], "rb") as file:
    sys.stdout.buffer.writelines(line for line in file if search(line))
"""


def _directly() -> float:
    """Write the file without a supervisor. It is truncated each time: fresh memory costs far more in a VM."""
    took([sys.executable, "write.py"], stdout="direct")
    return float(Path("written").read_text())


def _through_the_supervisor(folder: Path) -> float:
    (folder / "writer.launcher.yaml").write_text(
        f"version: 1\nname: writer\nroles: {{main: {{entrypoint: {sys.executable}, args: [write.py]}}}}\n"
    )
    again = ["--rerun", "writer"] if (folder / "l" / "ledger.db").exists() else []
    for log in folder.glob("l/local/apps/writer-*/logs/*/*/*.log"):
        os.truncate(log, 0)  # so that both sides write to memory that has been used before
    took(launcher("apply", "writer.launcher.yaml", "--yes", "--wait", *again))
    return float(Path("written").read_text())


def _stored(folder: Path) -> int:
    """Bytes in the files of the newest log of the job `writer`, its index included."""
    logs = sorted(folder.glob("l/local/apps/writer-*/logs/main/0"), key=lambda log: log.stat().st_mtime)
    return sum(path.stat().st_size for path in logs[-1].iterdir())


def _peak_kb(folder: Path) -> int:
    """Return the highest resident memory (VmHWM) of the live supervisor while a replica writes."""
    from tests import processes

    fifo = folder / "peak"
    os.mkfifo(fifo)
    script = f"{sys.executable} write.py; echo >{fifo}; read x <{fifo}.end"
    os.mkfifo(f"{fifo}.end")
    (folder / "peak.launcher.yaml").write_text(job("peak", script))
    took(launcher("apply", "peak.launcher.yaml", "--yes"))
    fifo.read_text()
    [pid] = processes.supervisors(os.environ["LAUNCHER_HOME"]).values()
    with open(f"/proc/{pid}/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    Path(f"{fifo}.end").write_text("go\n")
    took(launcher("wait", "peak"))
    return peak


TICK = "import os, sys, time\nfor _ in sys.stdin: os.write(1, b'%d\\n' % time.monotonic_ns())\n"


def _follow_latency(folder: Path, settings: Settings) -> Row:
    """Measure the delay of a line: a replica prints the time, and the reader compares it with the clock."""
    (folder / "tick.py").write_text(TICK)
    fifo = folder / "ticks"
    os.mkfifo(fifo)
    (folder / "ticker.launcher.yaml").write_text(job("ticker", f"exec {sys.executable} tick.py <{fifo}"))
    took(launcher("apply", "ticker.launcher.yaml", "--yes"))
    with open(fifo, "w") as gate:
        follower = subprocess.Popen(
            launcher("logs", "ticker", "--follow", "--no-prefix"),
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        with open(folder / "ticked", "w") as ticked:
            direct = subprocess.Popen(
                [sys.executable, "tick.py"], stdin=subprocess.PIPE, stdout=ticked, text=True, bufsize=1
            )
        assert follower.stdout
        assert direct.stdin
        inotify = _Inotify(folder / "ticked")

        def ours() -> float:
            gate.write("\n")
            gate.flush()
            assert follower.stdout
            return _age(follower.stdout.readline())

        def floor() -> float:
            assert direct.stdin
            direct.stdin.write("\n")
            return _age(inotify.line())

        row = compare(
            "line written -> line seen by `logs --follow`",
            floor=floor,
            ours=ours,
            target="ours <= 1 ms",
            rounds=settings.more(10),
        )
        direct.stdin.close()
        direct.wait()
    follower.communicate()
    return row


def _age(line: str | bytes) -> float:
    """Return the seconds since the time in a line."""
    return (time.monotonic_ns() - int(line)) / 1e9


class _Inotify:
    """The least that can follow a file: inotify on it, read what is new."""

    def __init__(self, path: Path) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_CLOEXEC)
        libc.inotify_add_watch(self.fd, str(path).encode(), 0x2)  # IN_MODIFY
        self.file = open(path, "rb")  # noqa: SIM115 - lives as long as the benchmark

    def line(self) -> bytes:
        while not (line := self.file.readline()):
            os.read(self.fd, 4096)
        return line
