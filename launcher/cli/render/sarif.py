"""Render diagnostics as SARIF 2.1.0, the format of code scanning."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from launcher import __version__
from launcher.jobfile import Diagnostic, Related, Span
from launcher.jobfile.diagnostics.diagnostic import CODES, WARNINGS
from launcher.jobfile.diagnostics.explain import explanations

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
    driver = {
        "name": "launcher",
        "version": __version__,
        "rules": [_rule(code) for code in codes],
    }
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
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file, base)}
    if place.span is not None:
        physical["region"] = _region(place.span)
    return {"physicalLocation": physical}


def _artifact(file: str, base: str) -> dict[str, str]:
    """A URI relative to the root, or absolute for a file outside of it."""
    path = os.path.abspath(file)
    below = os.path.relpath(path, base).replace(os.sep, "/")
    if below.split("/")[0] == "..":
        return {"uri": "file://" + quote(path.replace(os.sep, "/"))}
    return {"uri": quote(below), "uriBaseId": ROOT}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
