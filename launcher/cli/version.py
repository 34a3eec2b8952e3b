"""`launcher version`: print versions and paths, for bug reports."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import Any

from launcher import __version__, paths
from launcher.cli.console import Console

USAGE = "version [--json]"
HELP = "Print the versions of launcher and Python, and the path of the state folder."
EXAMPLES = "  launcher version          for a bug report\n  launcher --version        one line, fast"


def add_arguments(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Any, console: Console) -> int:
    system = os.uname()
    facts = {
        "launcher": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "system": f"{system.sysname} {system.release} {system.machine}",
        "home": paths.home(),
    }
    if args.json:
        console.print(dumps(facts, indent=2))
    else:
        for name, value in facts.items():
            console.print(f"{name} {value}" if name == "launcher" else f"{name:<11} {value}")
    return 0
