"""Evaluate the booth function: `python -m launcher.apps.utils.booth_main --x1 1 --x2 3`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence


def booth(x1: float, x2: float) -> float:
    """Return the value of the booth function, which is 0 at (1, 3), its only minimum."""
    return (x1 + 2 * x2 - 7) ** 2 + (2 * x1 + x2 - 5) ** 2


def main(argv: Sequence[str] | None = None) -> int:
    """Print the value and write it to TRACKER_BASE/TRIAL_IDX as JSON. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="booth_main", description="Evaluate the booth function.")
    parser.add_argument("--x1", type=float, required=True)
    parser.add_argument("--x2", type=float, required=True)
    parser.add_argument("--trial_idx", type=int, default=0, help="number of the trial")
    parser.add_argument("--tracker_base", help="folder of the results; without it nothing is written")
    parser.add_argument("--dryrun", action="store_true", help="evaluate, but write nothing")
    args = parser.parse_args(argv)
    result = booth(args.x1, args.x2)
    print(f"booth({args.x1}, {args.x2}) = {result}")
    if not args.dryrun and args.tracker_base:
        try:
            _write(os.path.join(args.tracker_base, str(args.trial_idx)), {"booth_eval": result})
        except OSError as error:
            print(f"error: cannot write the result: {error}", file=sys.stderr)
            return 1
    return 0


def _write(path: str, result: dict[str, float]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(part, path)


if __name__ == "__main__":
    sys.exit(main())
