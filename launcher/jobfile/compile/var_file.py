"""Files with values of variables (`--var-file`): YAML, JSON or TOML, one mapping of names to values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.jobfile.diagnostics.diagnostic import Diagnostic, Related
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got, listing, suggest
from launcher.jobfile.text.parse import parse
from launcher.jobfile.text.source import read_source


@dataclass(frozen=True, slots=True)
class FileValue:
    """A value out of such a file.

    Attributes:
        text: how it is written there.
        place: where, for problems that it causes; the place's message says so.
        origin: the same in a few words: "v.yaml:3".
    """

    value: Any
    text: str
    place: Related
    origin: str


@dataclass(slots=True)
class VarFiles:
    """The values of all such files; of two files with one name the later one counts.

    Attributes:
        problems: by file, in the order of the files.
    """

    values: dict[str, FileValue] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    is_readable: bool = True

    def undeclared(self, known: Sequence[str]) -> list[Diagnostic]:
        """Values for variables that no job file declares."""
        return [
            Diagnostic(
                file=given.place.file,
                span=given.place.span,
                code="unknown-variable",
                message=f"no variable `{name}` is declared, and this file gives it a value",
                label=suggest(name, known),
                hint=listing("declared", known),
                source_line=given.place.source_line,
            )
            for name, given in self.values.items()
            if name not in known
        ]


def read_var_files(files: Sequence[str], cwd: str) -> VarFiles:
    """Read them all; what is wrong is among the problems."""
    out = VarFiles()
    for file in files:
        source = read_source(file, os.path.abspath(os.path.join(cwd, file)))
        if isinstance(source, Diagnostic):
            out.problems.append(source)
            out.is_readable = False
            continue
        document = parse(source)
        problems = Collector(document, document.problems)
        for name, value in (document.value or {}).items():
            if value is None or isinstance(value, dict | list):
                message = f"a variable has one value, not {got(value)}"
                problems.add((name,), "wrong-type", message, label="write a text, a number or a truth value")
                continue
            out.values[name] = _file_value(name, value, problems)
        out.is_readable = out.is_readable and document.value is not None
        out.problems += problems.found
    return out


def _file_value(name: str, value: Any, problems: Collector) -> FileValue:
    place = problems.place((name,), f"variable `{name}` gets its value here", at="value")
    origin = f"{place.file}:{place.span.line}" if place.span else place.file
    if isinstance(value, str):
        return FileValue(value, value, place, origin)
    text = problems.document.raw((name,))
    # What is neither is a date of TOML: text, as it is in YAML.
    return FileValue(value if isinstance(value, bool | int | float) else text, text, place, origin)
