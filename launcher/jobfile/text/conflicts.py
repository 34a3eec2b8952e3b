"""Merge conflicts that git left in a job file."""

from __future__ import annotations

import re

from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.text.source import Source

_BEGINS = re.compile(r"^<{7}(?: .*)?$", re.MULTILINE)


def conflict(source: Source) -> Diagnostic | None:
    """The first merge conflict of a text that could not be parsed; None where there is none."""
    found = _BEGINS.search(source.text)
    if found is None:
        return None
    code = "toml-syntax" if source.format == "toml" else "yaml-syntax"
    label = "keep one side or both, and delete the lines of `<`, `=` and `>`"
    return source.diagnostic(*found.span(), code, "a merge conflict begins here", label=label)
