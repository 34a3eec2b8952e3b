"""Output for GitHub: annotations, the summary of a step, outputs for later steps; SARIF for code scanning."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from launcher import __version__
from launcher.cli.console import visible
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.values import text_of
from launcher.errors import LauncherError
from launcher.jobfile.diagnostic import CODES, WARNINGS, Diagnostic, Related, explanations, render
from launcher.plan.model import Plan
from launcher.text import fenced

MOST = 9  # GitHub shows 10 annotations of a severity per step, and drops the rest silently
_SUMMARY = 50  # the most diagnostics in a step's summary


def report(found: Sequence[Diagnostic]) -> str:
    """Annotations, followed by all diagnostics as text; "" without diagnostics."""
    if not found:
        return ""
    return "\n".join([*workflow_commands(found), shielded(render(found))])


def workflow_commands(found: Sequence[Diagnostic]) -> Iterator[str]:
    """Workflow commands: at most 9 of each severity, then one that counts the others."""
    for severity in ("error", "warning"):
        kind = [diagnostic for diagnostic in found if diagnostic.severity == severity]
        yield from (_annotation(diagnostic) for diagnostic in kind[:MOST])
        if len(kind) > MOST:
            yield f"::{severity} title=launcher::and {len(kind) - MOST} more: see the log of this step"


def annotation(severity: str, text: str) -> str:
    """A workflow command that annotates the run with a "warning", or with an "error" that makes it fail."""
    return f"::{severity} title=launcher::{_data(text)}"


def shielded(text: str) -> str:
    """Return `text` with workflow commands disabled: text of a job file must not control the runner."""
    word = token_hex(16)  # the word enables commands again, so it must be unguessable
    return f"::stop-commands::{word}\n{text}\n::{word}::"


def _annotation(diagnostic: Diagnostic) -> str:
    where: dict[str, object] = {}
    span = diagnostic.span
    if diagnostic.has_file:
        where["file"] = _in_workspace(diagnostic.file)
    if span is not None:
        where |= {"line": span.line, "endLine": span.end_line}
        if span.line == span.end_line:  # columns of a range over several lines are refused
            where |= {"col": span.column, "endColumn": span.end_column}
    where["title"] = diagnostic.code
    escaped = (
        (name, _data(str(value)).replace(":", "%3A").replace(",", "%2C")) for name, value in where.items()
    )
    shown = ",".join(f"{name}={value}" for name, value in escaped)
    return f"::{diagnostic.severity} {shown}::{_data(diagnostic.text)}"


def _in_workspace(file: str) -> str:
    """The path relative to the checkout, as GitHub expects it."""
    root = os.environ.get("GITHUB_WORKSPACE")
    below = os.path.relpath(os.path.abspath(file), root) if root else ".."
    outside = below.split(os.sep)[0] == ".."
    return (os.path.normpath(file) if outside else below).replace(os.sep, "/")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def outputs(plan: Plan) -> dict[str, str]:
    """The outputs of a planning step: `has_changes`, `plan_digest`, and a count for each action."""
    return {
        "has_changes": "false" if plan.is_empty else "true",
        "plan_digest": plan.plan_digest,
        **{kind: str(count) for kind, count in plan.counts().items()},
        "orphaned": str(len(plan.orphans)),
    }


def publish(plan: Plan, *, max_bytes: int, warning: str = "") -> None:
    """Append the plan to the step's summary and outputs, if the environment names their files.

    Args:
        warning: a paragraph to show above the plan in the summary.

    Raises LauncherError if a file cannot be written.
    """
    above = f"> [!WARNING]\n> {warning}\n\n" if warning else ""
    publish_text(above + plan_markdown(plan, max_bytes=max_bytes))
    _append("GITHUB_OUTPUT", "".join(f"{name}={text_of(value)}\n" for name, value in outputs(plan).items()))


def publish_refusal(found: Sequence[Diagnostic], in_short: str) -> None:
    """Append to the step's summary why planning failed. Raises LauncherError."""
    more = f"\n\nand {len(found) - _SUMMARY} more" if len(found) > _SUMMARY else ""
    publish_text(f"### No plan: {in_short}\n\n{fenced(render(found[:_SUMMARY]) + more, 'text')}\n")


def publish_text(markdown: str) -> None:
    """Append to the step's summary, if the environment names its file. Raises LauncherError."""
    _append("GITHUB_STEP_SUMMARY", markdown)


def _append(variable: str, text: str) -> None:
    path = os.environ.get(variable)
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(visible(text))
    except OSError as error:
        raise LauncherError(f"cannot write {path}: {error.strerror or error}") from error


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"  # the conventional name of the root of the checkout


def sarif_log(found: Sequence[Diagnostic], *, root: str | None = None) -> dict[str, Any]:
    """A log with one run.

    Args:
        root: folder that URIs are relative to; by default the workspace of the GitHub job, else the current
            directory.
    """
    base = os.path.abspath(root or os.environ.get("GITHUB_WORKSPACE") or os.getcwd())
    codes = sorted({diagnostic.code for diagnostic in found})
    driver = {"name": "launcher", "version": __version__, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the checkout."}}},
        "results": [_result(diagnostic, codes, base) for diagnostic in found],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    summary = CODES[code]
    rule: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": summary[:1].upper() + summary[1:]},
        "defaultConfiguration": {"level": "warning" if code in WARNINGS else "error"},
    }
    if found := explanations().get(code):
        why, right = found["Why"].text, str(found["Right"])
        rule["fullDescription"] = {"text": why}
        rule["help"] = {"text": f"{why}\n\n{right}", "markdown": f"{why}\n\n```\n{right}```\n"}
    return rule


def _result(diagnostic: Diagnostic, codes: Sequence[str], base: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": diagnostic.severity,
        "message": {"text": diagnostic.text},
        # An undeclared variable has no location.
        "locations": [_location(diagnostic, base)] if diagnostic.has_file else [],
    }
    if diagnostic.related:
        result["relatedLocations"] = [
            {"id": number, **_location(place, base), "message": {"text": place.message}}
            for number, place in enumerate(diagnostic.related, start=1)
        ]
    return result


def _location(place: Diagnostic | Related, base: str) -> dict[str, Any]:
    """The place of a finding. Its URI is relative to the root, or absolute for a file outside of it."""
    path = os.path.abspath(place.file)
    below = os.path.relpath(path, base).replace(os.sep, "/")
    is_outside = below.split("/")[0] == ".."
    uri = "file://" + quote(path.replace(os.sep, "/")) if is_outside else quote(below)
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": uri} if is_outside else {"uri": uri, "uriBaseId": ROOT}
    }
    if (span := place.span) is not None:
        physical["region"] = {
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.end_line,
            "endColumn": span.end_column,
        }
    return {"physicalLocation": physical}
