"""Metrics of recorded apps: how many are in which state, how each job ended last, and what that used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from launcher.inventory import listing, recorded
from launcher.schedulers.appstore import open_reader
from launcher.state.records import AppRecord

FINAL = ("succeeded", "failed", "cancelled", "skipped")
"""The end states that do not change again; "lost" may."""

Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """The samples of one metric.

    Attributes:
        name: with its unit, as Prometheus wants it.
        samples: the labels of each sample → its value.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: Mapping[Labels, float]


def families(
    *, limit: int, since: float = 0.0, offline: bool, warn: Callable[[str], None]
) -> Iterator[Family]:
    """The metrics of all recorded apps.

    Args:
        limit: how many jobs have metrics of their own, at most: those that ended last.
        since: seconds since the epoch; jobs that ended before have none of their own.
        offline: whether to take the recorded state of live apps; otherwise schedulers are asked, and ends
            that no command has seen yet are recorded.
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
    yield Family("apps", "gauge", "Apps that have not ended, or are lost, by state.", states)
    yield Family("attempts_total", "counter", "Attempts of jobs that ended, by outcome.", outcomes)
    yield Family(
        "jobs_left_out",
        "gauge",
        "Jobs that have no metrics of their own, being too many.",
        {(): jobs - len(last)},
    )
    of_jobs = [app for app, _ in last]
    yield from (*_of_jobs(of_jobs), *_used(of_jobs))
    yield Family(
        "job_last_success_timestamp_seconds",
        "gauge",
        "When the job succeeded last.",
        {_job(app): success for app, success in last if success},
    )


def _of_jobs(last: list[AppRecord]) -> Iterator[Family]:
    """The metrics of the last ended attempts of jobs."""
    yield Family(
        "job_last_outcome",
        "gauge",
        "How the last ended attempt of the job ended; always 1.",
        {(*_job(app), ("outcome", str(app.state))): 1 for app in last},
    )
    yield Family(
        "job_last_attempt",
        "gauge",
        "The number of the last ended attempt of the job.",
        {_job(app): app.number or 0 for app in last},
    )
    yield Family(
        "job_last_exit_code",
        "gauge",
        "The exit code that decided a failure of the last ended attempt.",
        {_job(app): app.exit_code for app in last if app.exit_code is not None},
    )
    yield Family(
        "job_last_end_timestamp_seconds",
        "gauge",
        "When the last ended attempt of the job ended.",
        {_job(app): app.ended_at for app in last if app.ended_at},
    )
    yield Family(
        "job_last_duration_seconds",
        "gauge",
        "How long the last ended attempt of the job ran.",
        {
            _job(app): max(0.0, app.ended_at - app.started_at)
            for app in last
            if app.ended_at and app.started_at
        },
    )


def _used(last: list[AppRecord]) -> Iterator[Family]:
    """What the last ended attempts of jobs have used, where that is recorded."""
    uses = [((*_job(app), ("role", role)), use) for app in last for role, use in app.used.items()]
    yield Family(
        "job_last_cpu_seconds",
        "gauge",
        "CPU time of the last ended attempt, of all runs of a role.",
        {
            (*labels, ("mode", mode)): value
            for labels, use in uses
            for mode, value in (("user", use.user_s), ("system", use.system_s))
        },
    )
    yield Family(
        "job_last_run_seconds",
        "gauge",
        "How long the runs of a role took in the last ended attempt, summed.",
        {labels: use.wall_s for labels, use in uses},
    )
    yield Family(
        "job_last_memory_bytes",
        "gauge",
        "Memory of the largest run of a role in the last ended attempt, by how it was measured.",
        {(*labels, ("source", use.source)): use.memory for labels, use in uses if use.memory},
    )


def _place(project: str, target: str, scheduler: str, name: str, value: str) -> Labels:
    return ("project", project), ("target", target), ("scheduler", scheduler), (name, value)


def _job(app: AppRecord) -> Labels:
    """Not `job`: Prometheus sets that label to the name of the scrape."""
    return ("project", app.project or ""), ("target", app.target or ""), ("job_name", app.job or "")
