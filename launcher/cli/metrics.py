"""`launcher metrics`: write metrics of apps for a monitoring system, as a file for node-exporter.

Metrics of recorded apps: number by state, the last end of each job, and the resources that it used.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from launcher import __version__
from launcher.cli.arguments import key_value, moment, positive
from launcher.cli.console import Console, write_text
from launcher.cli.queue import queue_json
from launcher.errors import UsageError
from launcher.inventory import listing, recorded
from launcher.inventory.turns import Tables
from launcher.schedulers.registry import open_reader
from launcher.state.records import AppRecord
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
and state, how each job ended last, when, after how long and what it used, who
is in line, and what apps hold of this machine. Run it from a timer, as the user
whose apps they are.

It looks at live apps as `launcher list` does, so that ends are recorded which
no command has seen yet. An engine that does not answer leaves the recorded
state of its apps, with a warning. --offline reads the records alone."""
EXAMPLES = """\
  launcher metrics
  launcher metrics --textfile /var/lib/node_exporter/launcher.prom
  launcher metrics --since 7d --limit 200 --label user=me --offline"""

FINAL = ("succeeded", "failed", "cancelled", "skipped")
"""The end states that never change; "lost" may change."""

_MODES = ("user", "system")

Labels = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """The samples of one metric, labels → value; a counter where the name, with its unit, ends in `_total`,
    else a gauge."""

    name: str
    help: str
    samples: Mapping[Labels, float]

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


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


def metrics(
    *, limit: int, since: float = 0.0, offline: bool, warn: Callable[[str], None]
) -> Iterator[Metric]:
    """The metrics of all recorded apps.

    Args:
        limit, since: the most jobs with metrics of their own: those that ended last, and not before (epoch,
            s).
        offline: whether to take the recorded state of live apps; else schedulers are asked, and ends
            recorded.
        warn: called with a message if an engine cannot be reached.
    """
    live = recorded.live() if offline else listing.live(warn=warn)
    with open_reader() as store:
        ends, (last, jobs) = store.end_counts(), store.last_ends(limit, since)
    states: Counter[Labels] = Counter()
    outcomes: dict[Labels, float] = {}
    for app in live:
        states[_place(app.project or "", app.target or "", app.scheduler, "state", app.state)] += 1
    for project, target, scheduler, state, count in ends:
        if state in FINAL:
            outcomes[_place(project, target, scheduler, "outcome", state)] = count
        else:
            states[_place(project, target, scheduler, "state", state)] += count
    yield Metric("apps", "Apps that have not ended, or are lost, by state.", states)
    yield Metric("attempts_total", "Attempts of jobs that ended, by outcome.", outcomes)
    about = "Jobs that have no metrics of their own, being too many."
    yield Metric("jobs_left_out", about, {(): jobs - len(last)})
    yield from _of_jobs({_job(app): app for app, _ in last})
    successes = {_job(app): success for app, success in last if success}
    yield Metric("job_last_success_timestamp_seconds", "When the job succeeded last.", successes)


def _of_jobs(last: Mapping[Labels, AppRecord]) -> Iterator[Metric]:
    """The metrics of the last ended attempts of jobs."""
    outcomes = {(*job, ("outcome", str(app.state))): 1 for job, app in last.items()}
    yield Metric("job_last_outcome", "How the last ended attempt of the job ended; always 1.", outcomes)
    numbers = {job: app.number or 0 for job, app in last.items()}
    yield Metric("job_last_attempt", "The number of the last ended attempt of the job.", numbers)
    codes = {job: app.exit_code for job, app in last.items() if app.exit_code is not None}
    about = "The exit code that decided a failure of the last ended attempt."
    yield Metric("job_last_exit_code", about, codes)
    ends = {job: app.ended_at for job, app in last.items() if app.ended_at}
    yield Metric("job_last_end_timestamp_seconds", "When the last ended attempt of the job ended.", ends)
    took = {job: max(0.0, end - start) for job, end in ends.items() if (start := last[job].started_at)}
    yield Metric("job_last_duration_seconds", "How long the last ended attempt of the job ran.", took)
    used = {(*job, ("role", role)): use for job, app in last.items() for role, use in app.used.items()}
    cpu = {(*of, ("mode", mode)): getattr(use, f"{mode}_s") for of, use in used.items() for mode in _MODES}
    yield Metric("job_last_cpu_seconds", "CPU time of the last ended attempt, of all runs of a role.", cpu)
    walls = {of: use.wall_s for of, use in used.items()}
    about = "How long the runs of a role took in the last ended attempt, summed."
    yield Metric("job_last_run_seconds", about, walls)
    memory = {(*of, ("source", use.source)): use.memory for of, use in used.items() if use.memory}
    about = "Memory of the largest run of a role in the last ended attempt, by how it was measured."
    yield Metric("job_last_memory_bytes", about, memory)


def _place(project: str, target: str, scheduler: str, name: str, value: str) -> Labels:
    return ("project", project), ("target", target), ("scheduler", scheduler), (name, value)


def _job(app: AppRecord) -> Labels:
    """The label is not `job`, which Prometheus sets to the name of the scrape."""
    return ("project", app.project or ""), ("target", app.target or ""), ("job_name", app.job or "")


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
