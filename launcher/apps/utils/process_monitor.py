"""Run a program until a timeout or until a file exists: `process_monitor --timeout 60 -- PROGRAM ARGS…`."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

_GRACE_S = 10.0
_EVERY_S = 1.0  # network file systems do not report changes


def main(argv: Sequence[str] | None = None) -> int:
    """Return the program's exit code; 0 when it was stopped by the timeout or because the file exists."""
    parser = argparse.ArgumentParser(prog="process_monitor", description="Run a program for a while.")
    parser.add_argument("--timeout", type=float, required=True, help="how long at most, in seconds")
    parser.add_argument("--start_on_file", default="", help="wait for this file before starting")
    parser.add_argument("--exit_on_file", default="", help="stop when this file is there")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    until = time.monotonic() + args.timeout
    while args.start_on_file and not os.path.exists(args.start_on_file):
        if time.monotonic() > until:
            return 0
        time.sleep(_EVERY_S)
    return _run(args.command, until, args.exit_on_file)


def _run(command: list[str], until: float, exit_on_file: str) -> int:
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        print(f"error: cannot run {command[0]}: {error}", file=sys.stderr)
        return 127
    try:
        while time.monotonic() < until and not (exit_on_file and os.path.exists(exit_on_file)):
            try:
                code = process.wait(min(_EVERY_S, max(until - time.monotonic(), 0)))
            except subprocess.TimeoutExpired:
                continue
            return code if code >= 0 else 128 - code
        return 0
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
