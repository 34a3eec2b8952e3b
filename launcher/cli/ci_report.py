"""`launcher ci report`: read the ends of the jobs that check runs name, and comment on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from launcher.ci import report
from launcher.ci.approvals import Forge
from launcher.ci.forge import ForgeError
from launcher.cli.render.values import asked_for, took
from launcher.errors import AppNotFoundError, LauncherError
from launcher.git import MOST_COMMITS, Repository
from launcher.inventory.find import find_app
from launcher.inventory.listing import current
from launcher.inventory.logs import tail_of
from launcher.inventory.outputs import results_of
from launcher.inventory.status import about, inspect
from launcher.specs.launch import JobKey, attempt_id
from launcher.state.records import AppRecord

_LINES = 20
"""How many lines of a failed job's output the comment shows."""


def reported(
    tree: Repository, forge: Forge, warn: Callable[[str], object], *, hides_output: bool
) -> list[str]:
    """Write the comments that are due, on jobs of the commit checked out and of its first parents.

    Returns a line for each. `warn` gets the reasons why jobs are left out, or have no comment.
    """
    commits = [sha for sha, _ in tree.first_parents()]
    if len(commits) < MOST_COMMITS and tree.is_shallow():
        warn(f"jobs of merges that this clone lacks are not reported: {tree.why_missing('')}")
    refused: list[ForgeError] = []
    look = partial(all_ended, warn=warn, hides_output=hides_output)
    lines = report.report(forge, commits, look, refused.append)
    for error in refused[:1]:
        warn(f"{error}: the ends are in this log, and in no comment")
    return lines


def all_ended(
    entries: Sequence[Mapping[str, Any]], warn: Callable[[str], object], *, hides_output: bool
) -> list[report.EndedJob]:
    """Return the states of the attempts that a check run names. Each engine is asked once for all of them.

    An engine that does not answer may tell the ends of its jobs later; `warn` gets the reason.
    """
    found: list[AppRecord | LauncherError] = []
    for entry in entries:
        try:
            found.append(find_app(str(entry["handle"])))
        except LauncherError as error:
            found.append(error)
    seen = iter(current([app for app in found if isinstance(app, AppRecord)]))
    apps = [next(seen) if isinstance(app, AppRecord) else app for app in found]
    jobs = [_ended(entry, app, hides_output) for entry, app in zip(entries, apps, strict=True)]
    for why in dict.fromkeys(job.message for job in jobs if job.state == "unknown" and not job.has_ended):
        warn(f"{why}: a later report tells the ends of its jobs")
    return jobs


def _ended(entry: Mapping[str, Any], app: AppRecord | LauncherError, hides_output: bool) -> report.EndedJob:
    """Return the state of one job. Asks its scheduler only for an app that failed or is not on record."""
    job, number = str(entry["job"]), int(entry["attempt"])
    try:
        if isinstance(app, LauncherError):
            raise app
        if app.state in ("failed", "unknown"):
            app = inspect(app)
        document = about(app).get("document", {})
    except LauncherError as error:
        is_gone = isinstance(error, AppNotFoundError)
        return report.EndedJob(job, number, "unknown", has_ended=is_gone, message=str(error))
    output, message = "", app.message.partition(": ")[0] if hides_output else app.message
    if app.state == "failed" and not hides_output:
        with suppress(LauncherError):  # the logs were removed, or a secret is not among those of this run
            output = "\n".join(tail_of(app, document, _LINES)[1])
    return report.EndedJob(
        job=job,
        attempt=number,
        state=app.state,
        has_ended=app.has_ended,
        took=took(app.started_at, app.ended_at) if app.has_ended else "",
        asked=asked_for(document),
        message=_successor(app) or message,
        output=output,
        results=results_of(app) if app.has_ended else (),
        matrix=app.matrix,
    )


def _successor(app: AppRecord) -> str:
    """Return `replaced by train@3` for an app that was cancelled for the next attempt of its job; else ""."""
    if app.state != "cancelled" or app.number is None:
        return ""
    key, number = JobKey(*app.key), app.number + 1
    try:
        later = find_app(f"{app.scheduler}://{key.session}/{attempt_id(key, number)}")
    except LauncherError:
        return ""
    if later.created_at is None or app.ended_at is None or later.created_at > app.ended_at:
        return ""  # an apply creates the new attempt before it stops the old one
    return f"replaced by {key.job}@{number}"
