"""`launcher metrics`: write metrics of apps for a monitoring system, as a file for node-exporter."""

from __future__ import annotations

import os
import re
from json import dumps
from typing import Any

from launcher import __version__
from launcher.cli.arguments import key_value, moment, positive
from launcher.cli.console import Console
from launcher.cli.plan_file import write_text
from launcher.cli.render.metrics_text import metrics_json, metrics_text, of_machine
from launcher.cli.render.queue_text import queue_json
from launcher.errors import UsageError
from launcher.inventory.metrics import Metric, metrics
from launcher.inventory.turns import Tables
from launcher.turns.machine import machine

_MOST = 1000
_STDOUT = "-"
_SUFFIX = ".prom"
_OURS = (
    "project",
    "target",
    "scheduler",
    "state",
    "outcome",
    "job_name",
    "role",
    "mode",
    "source",
    "version",
)

USAGE = "metrics [--textfile FILE] [OPTIONS]"
HELP = """\
Print metrics in the text format of Prometheus, or write them to a file that the
textfile collector of node-exporter reads: apps by project, target, scheduler
and state, how each job ended last, when, after how long and what it used, who is
in line, and what apps hold of this machine. Run it from a timer, as the user whose apps they
are.

It looks at live apps as `launcher list` does, so that ends are recorded which
no command has seen yet. An engine that does not answer leaves the recorded
state of its apps, with a warning. --offline reads the records alone."""
EXAMPLES = """\
  launcher metrics
  launcher metrics --textfile /var/lib/node_exporter/launcher.prom
  launcher metrics --since 7d --limit 200 --label user=me --offline"""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "--textfile",
        metavar="FILE",
        default=_STDOUT,
        help="write the file at once and readable for all; it ends in .prom (default: -, standard output)",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=moment,
        default=0.0,
        help="metrics of jobs that ended after this time, such as 7d",
    )
    parser.add_argument(
        "-n",
        "--limit",
        metavar="N",
        type=positive,
        default=_MOST,
        help=f"metrics of the N jobs that ended last (default: {_MOST})",
    )
    parser.add_argument(
        "--label",
        metavar="NAME=VALUE",
        type=label,
        action="append",
        default=[],
        help="add a label to every metric; tells users or state folders of one machine apart",
    )
    parser.add_argument("--offline", action="store_true", help="read records alone; ask no engine")
    parser.add_argument("--json", action="store_true", help="print one JSON object with the samples")


def label(text: str) -> tuple[str, str]:
    """Parse a further label, `NAME=VALUE`."""
    name, value = key_value(text)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name.startswith("__"):
        raise ValueError(f"`{name}` is no name of a label: use letters, digits and `_`")
    if name in _OURS:
        raise ValueError(f"launcher sets the label `{name}`; use another name")
    return name, value


def run(args: Any, console: Console) -> int:
    if args.textfile != _STDOUT:
        _check(args.textfile)
    found = [
        Metric("build_info", "The version of launcher; always 1.", {(("version", __version__),): 1}),
        *metrics(limit=args.limit, since=args.since, offline=args.offline, warn=console.warn),
        *of_machine(queue_json(machine(with_gpus=True), Tables.read(), {})),
    ]
    labels = tuple(dict(args.label).items())
    text = metrics_text(found, labels)
    if args.textfile != _STDOUT:
        write_text(args.textfile, text, is_public=True)
    if args.json:
        console.print(dumps({"metrics": metrics_json(found, labels)}, indent=2, ensure_ascii=False))
    elif args.textfile == _STDOUT:
        console.print(text, end="")
    return 0


def _check(path: str) -> None:
    """Raises UsageError for a file that the collector would not read."""
    if os.path.isdir(path):
        place = os.path.join(path, f"launcher{_SUFFIX}")
        raise UsageError(f"{path} is a folder", hint=f"name a file in it: `--textfile {place}`")
    if not path.endswith(_SUFFIX):
        raise UsageError(
            f"node-exporter reads files that end in {_SUFFIX}, and {path} does not",
            hint=f"name it `{os.path.splitext(path)[0]}{_SUFFIX}`; `--textfile {_STDOUT}` prints the metrics",
        )
