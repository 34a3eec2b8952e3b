"""The JSON Schema of diagnostics, launcher.diagnostics/v1: what `validate --format json` prints."""

from __future__ import annotations

from typing import Any

from launcher.cli.render.findings import VERSION
from launcher.jobfile.diagnostics.diagnostic import CODES

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_POSITION = {"type": "integer", "minimum": 1}


def findings_schema() -> dict[str, Any]:
    """The schema; the published file is this one, byte for byte. Later versions may add fields."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:diagnostics-v1",
        "title": "launcher diagnostics",
        "description": "What is wrong with job files, every problem at once, in file order.",
        **_object(
            version={"const": VERSION},
            jobs={**_COUNT, "description": "The jobs of the files that are right."},
            errors=_COUNT,
            warnings=_COUNT,
            diagnostics={"type": "array", "items": {"$ref": "#/$defs/diagnostic"}},
        ),
        "$defs": {
            "diagnostic": _object(
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
            "related": _object(
                file=_TEXT, span={"anyOf": [{"$ref": "#/$defs/span"}, {"type": "null"}]}, message=_TEXT
            ),
            "span": {
                "description": "Positions count from 1, columns in characters; the end is exclusive.",
                **_object(line=_POSITION, column=_POSITION, end_line=_POSITION, end_column=_POSITION),
            },
        },
    }


def _object(optional: str = "", **properties: Any) -> dict[str, Any]:
    required = [name for name in properties if name not in optional.split()]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
