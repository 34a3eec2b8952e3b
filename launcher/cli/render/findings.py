"""Render diagnostics as text, JSON, SARIF or GitHub annotations, and errors as JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from json import dumps
from typing import TYPE_CHECKING, Any

from launcher.errors import JobFileError, LauncherError, Terminated
from launcher.state.records import AppRecord
from launcher.text import plural

if TYPE_CHECKING:
    from launcher.cli.console import Console
    from launcher.jobfile.diagnostic import Diagnostic

Problem = tuple[str, LauncherError]
"""The subject of an error (a handle, a file or an engine), and the error."""

_INTERRUPTS: dict[type[BaseException], tuple[str, str, int]] = {
    KeyboardInterrupt: ("interrupted", "interrupted by Ctrl-C", 130),
    Terminated: ("terminated", "ended by SIGTERM", 143),
}
_LEFT = "apps that have started keep running, except that of `launcher run`: `launcher status` shows them"


def failure(error: BaseException) -> dict[str, Any]:
    """The object of an error or an interrupt, as `launcher schema error` describes it.

    The text of an error that launcher did not expect may be anything, so it is left out.
    """
    if interrupt := _INTERRUPTS.get(type(error)):
        return {"code": interrupt[0], "message": interrupt[1], "hint": _LEFT, "exit": interrupt[2]}
    if not isinstance(error, LauncherError):
        message = f"launcher has failed unexpectedly: {type(error).__name__}"
        return {"code": "internal", "message": message, "hint": "the traceback is on stderr", "exit": 1}
    found = error.diagnostics if isinstance(error, JobFileError) else ()
    codes = [each.code for each in found if each.severity == "error"] or [each.code for each in found]
    hint = f"launcher explain {codes[0]}" if codes else error.hint
    return {
        "code": error.code,
        "message": str(error),
        "hint": hint or None,
        "exit": error.exit_code,
        **({"diagnostics": [each.to_json() for each in found]} if found else {}),
    }


def problems_json(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Return the errors of a command that went on after them, each with its subject."""
    return [{"what": what, **failure(error)} for what, error in problems]


def apps_result(apps: Iterable[AppRecord], problems: Iterable[Problem], exit_code: int) -> str:
    """Return the result of a command that acts on apps: the outcome for each app."""
    from launcher.cli.render.apps import app_json

    found = list(map(app_json, apps))
    value = {"exit": exit_code, "apps": found, "problems": problems_json(problems)}
    return dumps(value, indent=2, ensure_ascii=False)


FORMATS = ("text", "json", "sarif", "github")
VERSION = "launcher.diagnostics/v1"
INVALID = 6


def note(found: Sequence[Diagnostic], console: Console) -> None:
    """Print diagnostics and an empty line on stderr."""
    from launcher.jobfile.diagnostic import render

    console.note(render(found, color=console.err_color, columns=console.err_columns) + "\n")


def findings(
    found: Sequence[Diagnostic],
    format: str,
    *,
    jobs: int = 0,
    color: bool = False,
    columns: int | None = None,
    strict: bool = False,
) -> str:
    """The diagnostics as text without a final newline; "" if there are none to print.

    Args:
        jobs, strict: for JSON: the number of jobs, and whether warnings are errors.
        columns: of the terminal; None does not wrap.
    """
    if format == "json":
        return _json(envelope(found, jobs, strict=strict))
    if format == "sarif":
        from launcher.cli.render.github import sarif_log

        return _json(sarif_log(found))
    if format == "github":
        from launcher.cli.render.github import report

        return report(found)
    if not found:
        return ""
    from launcher.jobfile.diagnostic import render

    return render(found, color=color, columns=columns) + "\n"


def _json(value: object) -> str:
    """JSON text, written piece by piece: `dumps` would hold all pieces in memory."""
    from json import dump

    out = StringIO()
    dump(value, out, indent=2, ensure_ascii=False)
    return out.getvalue()


def envelope(found: Sequence[Diagnostic], jobs: int, *, strict: bool = False) -> dict[str, object]:
    """The JSON document: the error, if files are wrong; counts, and every diagnostic in file order."""
    is_refused = exit_code(found, strict=strict) != 0
    error = failure(JobFileError(in_short(found), diagnostics=found)) if is_refused else {}
    return {
        "version": VERSION,
        **{name: error[name] for name in ("code", "message", "hint", "exit") if is_refused},
        "jobs": jobs,
        "errors": _count(found, "error"),
        "warnings": _count(found, "warning"),
        "diagnostics": [diagnostic.to_json() for diagnostic in found],
    }


def exit_code(found: Sequence[Diagnostic], *, strict: bool = False) -> int:
    """6 if there is an error or, with `--strict`, a warning; else 0."""
    return INVALID if _count(found, "error") or (strict and found) else 0


def counts(found: Sequence[Diagnostic]) -> str:
    """`2 errors, 1 warning`; "" for none."""
    numbers = ((_count(found, word), word) for word in ("error", "warning"))
    return ", ".join(plural(number, word) for number, word in numbers if number)


def in_short(found: Sequence[Diagnostic]) -> str:
    """Return a summary of why job files were rejected: `2 problems in 1 file`."""
    wrong = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    files = plural(len({diagnostic.file for diagnostic in wrong or found}), "file")
    if wrong:
        return f"{plural(len(wrong), 'problem')} in {files}"
    return f"{counts(found)} in {files}; --strict treats warnings as errors"


def _count(found: Sequence[Diagnostic], severity: str) -> int:
    return sum(diagnostic.severity == severity for diagnostic in found)
