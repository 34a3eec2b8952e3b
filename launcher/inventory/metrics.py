"""Metrics of recorded apps: number by state, the last end of each job, and the resources that it used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from launcher.inventory import listing, recorded
from launcher.schedulers.registry import open_reader
from launcher.state.records import AppRecord

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
