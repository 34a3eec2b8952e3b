"""Render diagnostics as text, JSON, SARIF or GitHub annotations."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from launcher.cli.render.failures import ERROR_FIELDS, failure
from launcher.errors import JobFileError
from launcher.text import plural

if TYPE_CHECKING:
    from launcher.jobfile import Diagnostic

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_POSITION = {"type": "integer", "minimum": 1}


def findings_schema() -> dict[str, Any]:
    """The schema; the published file is this one, byte for byte. Later versions may add fields."""
    from launcher.jobfile.diagnostics.diagnostic import CODES

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:diagnostics-v1",
        "title": "launcher diagnostics",
        "description": "What is wrong with job files, every problem at once, in file order.",
        **object_schema(
            " ".join(ERROR_FIELDS),
            version={"const": VERSION},
            **ERROR_FIELDS,
            jobs={**_COUNT, "description": "The jobs of the files that are right."},
            errors=_COUNT,
            warnings=_COUNT,
            diagnostics={"type": "array", "items": {"$ref": "#/$defs/diagnostic"}},
        ),
        "$defs": {
            "diagnostic": object_schema(
                "label hint related",
                file={**_TEXT, "description": "The path as it was typed, or as it was found below one."},
                span={"anyOf": [{"$ref": "#/$defs/span"}, {"type": "null"}]},
                code={"enum": sorted(CODES), "description": "`launcher explain CODE` tells more."},
                severity={"enum": ["error", "warning"]},
                message={**_TEXT, "description": "What is wrong, in one sentence."},
                label={**_TEXT, "description": "The remedy in a few words."},
                hint={**_TEXT, "description": "More help."},
                related={"type": "array", "items": {"$ref": "#/$defs/related"}},
            ),
            "related": object_schema(
                file=_TEXT, span={"anyOf": [{"$ref": "#/$defs/span"}, {"type": "null"}]}, message=_TEXT
            ),
            "span": {
                "description": "Positions count from 1, columns in characters; the end is exclusive.",
                **object_schema(line=_POSITION, column=_POSITION, end_line=_POSITION, end_column=_POSITION),
            },
        },
    }


def object_schema(optional: str = "", /, **properties: Any) -> dict[str, Any]:
    required = [name for name in properties if name not in optional.split()]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


FORMATS = ("text", "json", "sarif", "github")
VERSION = "launcher.diagnostics/v1"
INVALID = 6


def findings(
    found: Sequence[Diagnostic], format: str, *, jobs: int = 0, color: bool = False, strict: bool = False
) -> str:
    """The diagnostics as text without a final newline; "" if there are none to print.

    Args:
        jobs, strict: for JSON: the number of jobs, and whether warnings are errors.
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
    from launcher.jobfile import render

    return render(found, color=color) + "\n"


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
        **{name: error[name] for name in ERROR_FIELDS if is_refused},
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
    """A summary of why job files were rejected: `2 problems in 1 file`."""
    wrong = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    files = plural(len({diagnostic.file for diagnostic in wrong or found}), "file")
    if wrong:
        return f"{plural(len(wrong), 'problem')} in {files}"
    return f"{counts(found)} in {files}; --strict treats warnings as errors"


def _count(found: Sequence[Diagnostic], severity: str) -> int:
    return sum(diagnostic.severity == severity for diagnostic in found)
