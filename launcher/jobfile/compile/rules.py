"""What the scheduler of a job refuses of its roles, reported with its line before planning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from launcher.jobfile.compile.build import as_written, code_of
from launcher.jobfile.diagnostics.diagnostic import WARNINGS, Severity
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import place_name
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.text.document import Path
from launcher.specs import AppDef, check_app
from launcher.specs.binding import bind
from launcher.specs.check import Problem
from launcher.specs.macros import MacroError

Rules = Callable[[str, AppDef, Mapping[str, Any], bool], Iterable[Problem]]
"""(scheduler, app with this machine's paths, its options, whether it has a workspace) → what is refused."""


_LABELS = {"missing-field": "add `{}`", "unpinned-image": "name a version"}


def check_rules(
    job: JobFile,
    app: AppDef,
    cfg: Mapping[str, Any],
    rules: Rules | None,
    folder: str,
    problems: Collector,
) -> None:
    """Note what the scheduler refuses, beside what every one of them does.

    Args:
        folder: of the job file.
    """
    if rules is None or problems.is_assumed(("scheduler",)):
        return
    try:
        bound = bind(app, directory=folder, home=os.path.expanduser("~"))
    except MacroError:
        return  # a text that has no spelling in this folder; submitting it reports that
    has_workspace = job.workspace is not None or problems.holds_assumed(("workspace",))
    refused = [*as_written(rules(job.scheduler, bound, cfg, has_workspace), job)]
    known = {found.path for found in as_written(check_app(app), job)} if refused else set()
    for found in refused:
        if found.path in known:
            continue
        if job.component is not None and found.path[0] == "roles":
            if found.code in WARNINGS:
                continue  # the author of the component chose it
            where = ".".join(map(str, found.path))
            message = f"component `{job.component}` makes an app that {job.scheduler} refuses: {where}: "
            problems.add(("component",), "invalid-value", message + found.message)
        elif not _is_open(found, problems):
            _note(found, problems)


def _is_open(found: Problem, problems: Collector) -> bool:
    """Whether a placeholder takes part in it. What fields do not agree on concerns the whole role."""
    part = found.path[:2] if found.code == "constraint" else found.path
    return problems.holds_assumed(part) or problems.holds_broken(found.path)


def _note(found: Problem, problems: Collector) -> None:
    path: Path = found.path
    severity: Severity = "warning" if found.code in WARNINGS else "error"
    at_key = found.code in ("missing-field", "unusable-name")
    message = found.message
    if found.code == "missing-field":
        message = f"{place_name(path[:-1])} has no `{path[-1]}`: {message}"
    problems.add(
        path,
        code_of(found),
        message,
        at="key" if at_key else "value",
        label=_LABELS.get(found.code, "").format(path[-1]),
        severity=severity,
    )
