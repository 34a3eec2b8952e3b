"""`launcher ci report`: comment on pull requests how the jobs that their merges started have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.ci import report
from launcher.ci.forge import ForgeError
from launcher.cli.ci.common import StepRun, work_tree
from launcher.cli.render.values import asked_for, took
from launcher.errors import LauncherError
from launcher.inventory.find import find_app
from launcher.inventory.listing import current
from launcher.inventory.logs import tail_of
from launcher.inventory.results import results_of
from launcher.inventory.status import about, inspect
from launcher.state.records import AppRecord

_LINES = 20
"""How many lines of a failed job's output the comment shows."""


def report_ends(args: Any, run: StepRun) -> tuple[int, dict[str, Any]]:
    """Comment on pull requests how the jobs that their merges started ended. The result has the lines."""
    commits = [sha for sha, _ in work_tree().first_parents(report.MOST_COMMITS)]

    def look(entries: Sequence[Mapping[str, Any]]) -> Sequence[report.EndedJob]:
        return _all_ended(entries, hides_output=run.runner.is_public)

    refused: list[ForgeError] = []
    lines = report.report(run.forge, commits, look, refused.append)
    if lines:
        run.show("\n".join(lines))
    for error in refused[:1]:
        run.warn(f"{error}: the ends are in this log, and in no comment")
    return 0, {"reported": lines}


def _all_ended(entries: Sequence[Mapping[str, Any]], *, hides_output: bool) -> list[report.EndedJob]:
    """Return the states of the attempts that a check run names. Each engine is asked once for all of them."""
    found = [_named(entry) for entry in entries]
    seen = iter(current([app for app in found if isinstance(app, AppRecord)]))
    apps = [next(seen) if isinstance(app, AppRecord) else app for app in found]
    return [_ended(entry, app, hides_output) for entry, app in zip(entries, apps, strict=True)]


def _named(entry: Mapping[str, Any]) -> AppRecord | LauncherError:
    try:
        return find_app(str(entry["handle"]))
    except LauncherError as error:
        return error


def _ended(entry: Mapping[str, Any], app: AppRecord | LauncherError, hides_output: bool) -> report.EndedJob:
    """Return the state of one job. Asks its scheduler only for an app that failed or is not on record."""
    job, number = str(entry["job"]), int(entry["attempt"])
    try:
        if isinstance(app, LauncherError):
            raise app
        if app.state in ("failed", "unknown"):
            app = inspect(app)
        document = about(app).get("document", {})
        output = "" if hides_output or app.state != "failed" else _last_lines(app, document)
    except LauncherError as error:
        return report.EndedJob(job, number, "unknown", True, message=str(error))
    message = app.message.partition(": ")[0] if hides_output else app.message
    return report.EndedJob(
        job=job,
        attempt=number,
        state=app.state,
        has_ended=app.has_ended,
        took=took(app.started_at, app.ended_at) if app.has_ended else "",
        asked=asked_for(document),
        message=message,
        output=output,
        results=results_of(app) if app.has_ended else (),
        matrix=app.matrix,
    )


def _last_lines(app: AppRecord, document: Mapping[str, Any]) -> str:
    """The last lines of the replica that failed first, without secrets; "" where they cannot be read."""
    try:
        return "\n".join(tail_of(app, document, _LINES)[1])
    except LauncherError:  # the logs were removed, or a secret is not among those of this run
        return ""
