"""YAML text → plain values with positions, in one pass over the parser's events.

The tree is built by us (`yaml_tree`) rather than by ruamel: it bounds aliases and merge keys (a 22-line chain
of them takes the library's own constructors seconds), resolves scalars by YAML 1.2, and knows where every key
stands. The C parser is 15 times faster and refuses everyday text such as `{image: python:3.12}`; so it goes
first where it agrees with the pure one, and the pure parser has the last word on every error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, YAMLError

from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.text.document import Document, Spot
from launcher.jobfile.text.source import Source
from launcher.jobfile.text.yaml_syntax import describe_syntax
from launcher.jobfile.text.yaml_tree import TreeBuilder

try:
    from _ruamel_yaml import CParser  # type: ignore[import-not-found]
except ImportError:  # no C library on this platform: only slower
    CParser = None

# Where the C parser is known to differ from the pure one without an error: tabs, the exotic line breaks,
# directives, anchors with a colon.
_PURE_ONLY = re.compile(r"[\t\x85\u2028\u2029\ufeff]|^%|[&*][^\s,\[\]{}]*:", re.MULTILINE)


def parse_yaml(source: Source) -> Document:
    """Parse one YAML document. Never raises: what is wrong is among the document's problems."""
    if CParser is not None and not _PURE_ONLY.search(source.text):
        try:
            return TreeBuilder(source, CParser(source.text).get_event).document()
        except (YAMLError, UnicodeError):
            pass
    return parse_pure(source)


def parse_pure(source: Source) -> Document:
    """Parse with the pure parser, the judge of what is YAML."""
    builder = TreeBuilder(source, _pure_events(source.text).__next__)
    try:
        return builder.document()
    except MarkedYAMLError as error:
        builder.problems.append(describe_syntax(source, error))
    except (YAMLError, ValueError) as error:
        builder.problems.append(_unparsable(source, error))
    return Document(source, None, lambda: Spot(0, 0), builder.problems)


def _pure_events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML

    events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)
    return events


def _unparsable(source: Source, error: Exception) -> Diagnostic:
    """An error without a mark: a character that YAML does not allow."""
    at = getattr(error, "position", None)
    start = at if isinstance(at, int) and at < len(source.text) else 0
    char = source.text[start : start + 1]
    message = (
        f"the character U+{ord(char):04X} cannot stand in YAML" if at is not None and char else "no YAML"
    )
    return source.diagnostic(start, start + 1, "yaml-syntax", message)
