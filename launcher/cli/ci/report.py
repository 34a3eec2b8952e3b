"""`launcher ci report`: tell pull requests what became of the jobs that their merges have started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from launcher.ci import report
from launcher.ci.github import GitHub
from launcher.ci.runner import Runner
from launcher.cli.ci.common import work_tree
from launcher.cli.console import Console
from launcher.cli.render.github import shielded
from launcher.cli.render.values import asked_for, took
from launcher.errors import LauncherError
from launcher.inventory.find import find_app
from launcher.inventory.recorded import scheduler_of
from launcher.inventory.results import results_of
from launcher.inventory.status import about, inspect, root_cause
from launcher.schedulers.last_line import last_lines
from launcher.secrets import resolve
from launcher.specs.secret import SHORTEST_LITERAL, is_sensitive, reference_in
from launcher.state.records import AppRecord

_LINES = 20
"""Of the output of a failed job."""


def report_ends(args: Any, runner: Runner, console: Console) -> tuple[int, dict[str, Any]]:
    """Tell pull requests what became of the jobs that their merges have started. The result has the lines."""
    github = GitHub(runner.api_url, runner.repository, runner.token)
    commits = [sha for sha, _ in work_tree().first_parents(report.MOST_COMMITS)]

    def look(entry: Mapping[str, Any]) -> report.Ended:
        return _ended(entry, hides_output=runner.is_public)

    lines = report.report(github, commits, look)
    for line in lines:
        console.print(shielded(line))
    return 0, {"reported": lines}


def _ended(entry: Mapping[str, Any], *, hides_output: bool) -> report.Ended:
    """How the attempt stands that a check run names."""
    job, number = str(entry["job"]), int(entry["attempt"])
    try:
        app = inspect(find_app(str(entry["handle"])))
        document = about(app).get("document", {})
        output = "" if hides_output or app.state != "failed" else _last_lines(app, document)
    except LauncherError as error:
        return report.Ended(job, number, "unknown", True, message=str(error))
    message = app.message.partition(": ")[0] if hides_output else app.message
    return report.Ended(
        job=job,
        attempt=number,
        state=app.state,
        has_ended=app.has_ended,
        took=took(app.started_at, app.ended_at) if app.has_ended else "",
        asked=asked_for(document),
        message=message,
        output=output,
        results=results_of(app) if app.has_ended else (),
    )


def _last_lines(app: AppRecord, document: Mapping[str, Any]) -> str:
    """The last lines of the replica that failed first, without secrets; "" where a secret cannot be read."""
    if not app.replicas:
        return ""
    failed = [each for each in app.replicas if each.state == "failed"]
    first = root_cause(app) or (failed or app.replicas)[0]
    try:
        chunks = scheduler_of(app).log_chunks(app.app_id, [(first.role, first.k)], tail=_LINES)
        lines = last_lines(b"".join(data for _, _, data in chunks), _LINES, tuple(_secrets(document)))
    except LauncherError:  # the logs were removed, or a secret is not among those of this run
        return ""
    return "\n".join(lines)


def _secrets(document: Mapping[str, Any]) -> Iterator[str]:
    """The values that output may not repeat, of the job and of this run. Raises SecretError."""
    envs = [os.environ, *(role.get("env", {}) for role in document.get("roles", ()))]
    for name, value in chain.from_iterable(env.items() for env in envs):
        if (reference := reference_in(value)) is not None:
            yield resolve(reference)
        elif is_sensitive(name) and len(value) >= SHORTEST_LITERAL:
            yield value
