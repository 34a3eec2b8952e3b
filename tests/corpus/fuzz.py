"""Damage files of the corpus and validate the results: no traceback, no hang, little memory.

`python -m tests.corpus.fuzz --seconds 600 --seed 1` prints the figures as JSON; every finding is kept as a
file in the folder that `--keep` names. The exit code is 1 when there was one.
"""

import argparse
import contextlib
import io
import json
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from launcher.cli.main import main
from tests.corpus.words import BAD, GOOD

CODES = {0, 6}  # right, wrong: `validate` knows nothing else of a file that can be read
SLOW_S = 10.0
PIECES = [
    b"\t", b"\n", b"\r\n", b"\r", b"  ", b"- ", b": ", b"[", b"]", b"{", b"}", b'"', b"'", b"&a ", b"*a",
    b"<<: *a",
]  # fmt: skip
PIECES += [
    b"!!str ", b"!x ", b"|", b">",
    b"#",
    b"%",
    b"@",
    b"`",
    b"?",
    b"$<var.epochs>",
    b"$<app_id>",
    b"$$<x>",
    b"${",
]  # fmt: skip
PIECES += [
    b"null", b"1e999", b'"\\0"', b"= ", b'"""', b"[[a]]\n", b"[a.b]\n", b"2020-01-01", b"9" * 5000, b"\x00",
]  # fmt: skip
PIECES += [
    b"\xff", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"---\n", b"...\n", b"{range: [0, 999999999]}",
]  # fmt: skip
PIECES += [b"[" * 200, b"{a: " * 70, b"- " * 100, b"$<" * 500, b"a." * 500 + b"= 1\n", b"targets: {a: {}}\n"]


def damaged(chance: random.Random, seeds: list[bytes]) -> bytes:
    """Return a file of the corpus with pieces cut out, put in, doubled, or taken from another file."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        start = chance.randint(0, len(data))
        end = min(len(data), start + chance.choice([0, 0, 1, 4, 16, 64]))
        kind = chance.randrange(6)
        if kind == 0:
            data[start:end] = b""
        elif kind == 1:
            data[start:end] = chance.choice(PIECES)
        elif kind == 2:
            data[start:start] = data[start:end] * chance.choice([2, 10, 1000])
        elif kind == 3:
            other = chance.choice(seeds)
            at = chance.randint(0, len(other))
            data[start:end] = other[at : at + chance.choice([8, 40, 400])]
        elif kind == 4:
            data[start:end] = chance.randbytes(chance.randint(1, 8))
        elif data:
            at = chance.randrange(len(data))
            data[at] ^= 1 << chance.randrange(8)
    return bytes(data)


def peak_mb() -> float:
    """Return the most memory that this process has used so far.

    On Linux not from getrusage(2): its figure is at least the one of the process that forked this one.
    """
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    with open("/proc/self/status", encoding="ascii") as status:
        (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def validated(path: Path, style: str) -> str:
    """Run `launcher validate` on the file; return its traceback or its undocumented exit code, else ""."""
    printed, noted = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(noted):
            code = main(["validate", "--format", style, str(path)])
    except BaseException:  # SystemExit too: a file is no reason to leave
        return traceback.format_exc()
    if code not in CODES:
        return f"exit code {code}\n{noted.getvalue()}"
    return noted.getvalue() if "Traceback" in noted.getvalue() else ""


def inputs(seed: int) -> Iterator[tuple[bytes, str, str]]:
    """Bytes, the suffix of the file that holds them, and the format of the answer; without end."""
    chance = random.Random(seed)
    seeds = [path.read_bytes() for path in (*GOOD, *BAD)]
    while True:
        data = damaged(chance, seeds)
        suffix = chance.choice(["yaml", "toml"])
        yield data, suffix, chance.choice(["text", "text", "json", "sarif", "github"])


def fuzz(seconds: float, seed: int, keep: Path | None) -> dict[str, object]:
    """Return the figures of a run: inputs, findings, the slowest input, the peak of memory."""
    findings: list[str] = []
    count, slowest = 0, 0.0
    before = peak_mb()
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for data, suffix, style in inputs(seed):
            path = Path(folder, f"job.launcher.{suffix}")
            path.write_bytes(data)
            began = time.monotonic()
            output = validated(path, style)
            took = time.monotonic() - began
            if took > SLOW_S:
                output += f"took {took:.1f} s"
            if output:
                findings.append(output)
                if keep is not None:
                    (keep / f"{count}.launcher.{suffix}").write_bytes(data)
                    (keep / f"{count}.txt").write_text(output)
            if took > slowest and keep is not None:
                (keep / f"slowest.launcher.{suffix}").write_bytes(data)
            count, slowest = count + 1, max(slowest, took)
            if time.monotonic() > end:
                break
    return {
        "inputs": count, "findings": len(findings), "first": findings[:3], "slowest_s": round(slowest, 3),
        "peak_mb": round(peak_mb(), 1), "start_mb": round(before, 1),
    }  # fmt: skip


def run() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.fuzz")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    figures = fuzz(args.seconds, args.seed, args.keep)
    print(json.dumps(figures, indent=2))
    return 1 if figures["findings"] else 0


if __name__ == "__main__":
    sys.exit(run())
