"""`python -m tests.benchmarks [NAME …]`: measure, and print a table per benchmark."""

import argparse
import os
import platform
import sys
from importlib import import_module

from tests.benchmarks import peers
from tests.benchmarks.measure import Settings, table

BENCHMARKS = {
    "start": "P1  start of commands, whole processes",
    "plan": "P2  validate, compile and plan 1,000 job files",
    "sharing": "P2  validate and plan 1,000 job files with parents and a launcher.toml",
    "launch": "P3  local apps of 1, 100 and 1,000 replicas",
    "wait": "P5  from the exit of a process to the end of the wait",
    "logs": "P6  logs: written, read back, followed",
    "ledger": "P7  a durable record; list with many recorded apps",
    "memory": "P8  memory of a supervisor",
    "many": "P10  commands from many processes at once",
    "turns": "P11, P12  many jobs in line for the cores of this machine",
    "bulk": "P13  commands on many queued apps, and a matrix of many jobs",
    "slurm": "P9, P14  apps on a Slurm cluster",
    "unchanged": "P15  job files that have not changed",
    "estimates": "     estimates of plans: the share of attempts within the printed range, and their cost",
    "watchers": "P12b  watchers of many apps in containers",
    "docker": "P4 to P7  containers: started, listed, finished, noticed, read back, followed",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(BENCHMARKS)} (all)")
    parser.add_argument(
        "--rounds", type=int, default=9, help="rounds of each comparison, at least 5 for a figure"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="shrink sizes for a quick look, as 0.1")
    parser.add_argument(
        "--peers", action="store_true", help="measure other tools too; installs them in build/peers"
    )
    args = parser.parse_args()
    unknown = set(args.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    if args.peers:
        peers.install()
    settings = Settings(rounds=args.rounds, scale=args.scale, peers=args.peers)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.platform()}"
    print(f"{machine}, {args.rounds} rounds")
    for name in args.names or BENCHMARKS:
        print(f"\n{BENCHMARKS[name]}", flush=True)
        print(table(list(import_module(f"tests.benchmarks.{name}").rows(settings))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
