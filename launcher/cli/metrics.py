"""`launcher metrics`: write metrics of apps for a monitoring system, as a file for node-exporter."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from launcher import __version__
from launcher.cli.arguments import key_value, moment, positive
from launcher.cli.console import Console, write_text
from launcher.cli.queue import queue_json
from launcher.errors import UsageError
from launcher.inventory.metrics import Labels, Metric, metrics
from launcher.inventory.turns import Tables
from launcher.text import printable
from launcher.turns.machine import machine

_MOST = 1000
_STDOUT = "-"
_SUFFIX = ".prom"
_OURS = "project target scheduler state outcome job_name role mode source version"

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
    parser.option(
        "--textfile FILE",
        "write the file at once and readable for all; it ends in .prom (default: -, standard output)",
        default=_STDOUT,
    )
    parser.option(
        "--since TIME", "metrics of jobs that ended after this time, such as 7d", type=moment, default=0.0
    )
    parser.option(
        "-n, --limit N",
        f"metrics of the N jobs that ended last (default: {_MOST})",
        type=positive,
        default=_MOST,
    )
    parser.option(
        "--label NAME=VALUE",
        "add a label to every metric; tells users or state folders of one machine apart",
        repeats=True,
        type=label,
    )
    parser.option("--offline", "read records alone; ask no engine")
    parser.option("--json", "print one JSON object with the samples")


def label(text: str) -> tuple[str, str]:
    """Parse an additional label, `NAME=VALUE`."""
    name, value = key_value(text)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name.startswith("__"):
        raise ValueError(f"`{name}` is no name of a label: use letters, digits and `_`")
    if name in _OURS.split():
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
    # Without the families that have no sample.
    text = "".join(_family(each, labels) for each in found if each.samples)
    if args.textfile != _STDOUT:
        write_text(args.textfile, text, is_public=True)
    if args.json:
        console.json({"metrics": metrics_json(found, labels)})
    elif args.textfile == _STDOUT:
        console.print(text, end="")
    return 0


def _check(path: str) -> None:
    """Raise UsageError for a file that the collector would not read."""
    if os.path.isdir(path):
        place = os.path.join(path, f"launcher{_SUFFIX}")
        raise UsageError(f"{path} is a folder", hint=f"name a file in it: `--textfile {place}`")
    if not path.endswith(_SUFFIX):
        raise UsageError(
            f"node-exporter reads files that end in {_SUFFIX}, and {path} does not",
            hint=f"name it `{os.path.splitext(path)[0]}{_SUFFIX}`; `--textfile {_STDOUT}` prints the metrics",
        )


PREFIX = "launcher_"
_MiB = 1024 * 1024


def metrics_json(families: Iterable[Metric], labels: Labels = ()) -> list[dict[str, Any]]:
    """Return the metrics as JSON objects, one for each metric."""
    return [
        {
            "name": PREFIX + each.name,
            "kind": each.kind,
            "help": each.help,
            "samples": [
                {"labels": dict((*own, *labels)), "value": value} for own, value in each.samples.items()
            ],
        }
        for each in families
        if each.samples
    ]


def of_machine(queue: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics of this machine's shares that apps hold, from the JSON of `queue`."""
    cores, memory_mb, gpus = (queue["slots"][name] for name in ("cpu", "memory_mb", "gpus"))
    left = sum(each["is_left"] for each in queue["holders"])
    found = (
        ("queue_apps", "Apps in line for a share of this machine.", len(queue["line"])),
        ("queue_holders", "Apps that hold a share of this machine.", len(queue["holders"])),
        ("queue_holders_left", "Dead apps whose share is not free yet.", left),
        ("machine_cores", "Cores that apps share.", cores["total"]),
        ("machine_held_cores", "Cores that apps hold.", cores["held"]),
        ("machine_memory_bytes", "Memory that apps share.", memory_mb["total"] * _MiB),
        ("machine_held_memory_bytes", "Memory that apps hold.", memory_mb["held"] * _MiB),
        ("machine_gpus", "GPUs that apps share.", len(gpus)),
        ("machine_held_gpus", "GPUs that apps hold.", sum(bool(each["held_by"]) for each in gpus)),
    )
    return [Metric(name, about, {(): value}) for name, about, value in found]


def _family(family: Metric, labels: Labels) -> str:
    name = PREFIX + family.name
    samples = {
        _labels((*own, *labels)): repr(round(value, 3)) if isinstance(value, float) else str(value)
        for own, value in family.samples.items()
    }
    lines = [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
    return "\n".join([*lines, *(f"{name}{each} {value}" for each, value in samples.items()), ""])


def _labels(labels: Labels) -> str:
    """Return `{project="vision",target=""}`; quotes and newlines in names are escaped."""
    escaped = ((name, printable(value).replace("\\", "\\\\").replace('"', '\\"')) for name, value in labels)
    inside = ",".join(f'{name}="{value}"' for name, value in escaped)
    return f"{{{inside}}}" if inside else ""
