"""`launcher output`: print where a job's output folder is, or copy its files here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launcher.cli.arguments import add_app
from launcher.inventory.find import find_app
from launcher.inventory.outputs import copy_output, output_of
from launcher.text import plural

if TYPE_CHECKING:
    from launcher.cli.console import Console

USAGE = "output JOB [-t TARGET] [--copy DIR] [--json]"
HELP = """\
Print where the output folder of a job is: a path on this machine, on Docker the
name of a volume, on Slurm a path on the cluster. The attempts of one edition of
a job share a folder.

--copy copies its files into DIR, from any engine. DIR must be new or empty, and
is there only once every file is. A folder with links that leave it, or with
devices, is not copied.

A local job always has an output folder. On other engines a job has one when its
roles speak of it ($<output_dir> or LAUNCHER_OUTPUT_DIR), or when its file says
`output: true`."""
EXAMPLES = """\
  cd "$(launcher output train)"
  launcher output train@3 --json | jq -r .output
  launcher output train --copy results/train"""

_UNITS = ("B", "kB", "MB", "GB", "TB")


def add_arguments(parser: Any) -> None:
    add_app(parser, "JOB")
    parser.option("--copy DIR", "copy its files into DIR, which is new or empty")
    parser.option("--json", "print one JSON object")


def run(args: Any, console: Console) -> int:
    app = find_app(args.app, args.target)
    found = output_of(app)
    attempt = found.attempt
    facts: dict[str, Any] = {
        "project": attempt.key.project,
        "target": attempt.key.target,
        "job": attempt.key.job,
        "attempt": attempt.number,
        "edition": attempt.edition,
        "handle": attempt.handle,
        "output": found.address,
    }
    if args.copy is not None:
        files, size = copy_output(app, found, args.copy)
        facts["copied"] = {"folder": args.copy, "files": files, "bytes": size}
        console.note(f"copied {plural(files, 'file')}, {_amount(size)}, to {args.copy}")
    elif found.unseen:
        console.warn(f"it is not known whether it is there: {found.unseen}")
    if args.json:
        console.json(facts)
    elif args.copy is None:
        console.print(found.address)
    return 0


def _amount(size: float) -> str:
    """`3 B`, `1.5 MB`."""
    power = next((n for n in range(len(_UNITS) - 1, 0, -1) if size >= 1000**n), 0)
    return f"{size / 1000**power:.{1 if power else 0}f} {_UNITS[power]}"
