"""Output for GitHub Actions: annotations, the summary of a step, outputs for later steps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex

from launcher.cli.console import visible
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.tables import text_of
from launcher.errors import LauncherError
from launcher.jobfile import Diagnostic, render
from launcher.plan.model import Plan
from launcher.text import fenced

MOST = 9  # GitHub shows 10 annotations of a severity per step, and drops the rest silently
_SUMMARY = 50  # diagnostics in a step's summary


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


def warning(text: str) -> str:
    """A workflow command that annotates the run."""
    return f"::warning title=launcher::{_data(text)}"


def error(text: str) -> str:
    """As `warning`, for an error that makes the run fail."""
    return f"::error title=launcher::{_data(text)}"


def shielded(text: str, token: str | None = None) -> str:
    """Return `text` with workflow commands disabled: text of a job file must not control the runner.

    `token` re-enables them, so it must be unguessable.
    """
    word = token or token_hex(16)
    return f"::stop-commands::{word}\n{text}\n::{word}::"


def _annotation(diagnostic: Diagnostic) -> str:
    where: dict[str, object] = {}
    span = diagnostic.span
    if diagnostic.has_file:
        where["file"] = _in_workspace(diagnostic.file)
    if span is not None:
        where |= {"line": span.line, "endLine": span.end_line}
        if span.line == span.end_line:  # columns of a range over lines are refused
            where |= {"col": span.column, "endColumn": span.end_column}
    where["title"] = diagnostic.code
    shown = ",".join(f"{name}={_property(str(value))}" for name, value in where.items())
    return f"::{diagnostic.severity} {shown}::{_data(diagnostic.text)}"


def _in_workspace(file: str) -> str:
    """The path relative to the checkout, as GitHub expects it."""
    root = os.environ.get("GITHUB_WORKSPACE")
    below = os.path.relpath(os.path.abspath(file), root) if root else ".."
    outside = below.split(os.sep)[0] == ".."
    return (os.path.normpath(file) if outside else below).replace(os.sep, "/")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def outputs(plan: Plan) -> dict[str, str]:
    """The outputs of a planning step: `has_changes`, `plan_digest`, and a count for each action."""
    return {
        "has_changes": "false" if plan.is_empty else "true",
        "plan_digest": plan.plan_digest,
        **{kind: str(count) for kind, count in plan.counts().items()},
        "orphaned": str(len(plan.orphans)),
    }


def publish(
    plan: Plan, *, max_bytes: int, warning: str = "", environ: Mapping[str, str] | None = None
) -> None:
    """Append the plan to the step's summary and outputs, if the environment names their files.

    Args:
        warning: a paragraph to show above the plan in the summary.

    Raises LauncherError if a file cannot be written.
    """
    env = os.environ if environ is None else environ
    above = f"> [!WARNING]\n> {warning}\n\n" if warning else ""
    _append(env.get("GITHUB_STEP_SUMMARY"), above + plan_markdown(plan, max_bytes=max_bytes))
    _append(
        env.get("GITHUB_OUTPUT"),
        "".join(f"{name}={text_of(value)}\n" for name, value in outputs(plan).items()),
    )


def publish_refusal(
    found: Sequence[Diagnostic], in_short: str, *, environ: Mapping[str, str] | None = None
) -> None:
    """Append to the step's summary why planning failed. Raises LauncherError."""
    env = os.environ if environ is None else environ
    more = f"\n\nand {len(found) - _SUMMARY} more" if len(found) > _SUMMARY else ""
    _append(
        env.get("GITHUB_STEP_SUMMARY"),
        f"### No plan: {in_short}\n\n{fenced(render(found[:_SUMMARY]) + more, 'text')}\n",
    )


def publish_text(markdown: str, *, environ: Mapping[str, str] | None = None) -> None:
    """Append to the step's summary, if the environment names its file. Raises LauncherError."""
    _append((os.environ if environ is None else environ).get("GITHUB_STEP_SUMMARY"), markdown)


def _append(path: str | None, text: str) -> None:
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(visible(text))
    except OSError as error:
        raise LauncherError(f"cannot write {path}: {error.strerror or error}") from error
