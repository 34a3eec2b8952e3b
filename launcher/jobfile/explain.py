"""Explanations of all codes: reason, example and remedy. Read from `codes.md`, a page of the docs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

Explanation = Mapping[str, "Section"]
"""Title → section: "Why"; of a diagnostic "Wrong" and "Right", of a reason "Example" and "What to do"."""

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$\n*", re.DOTALL | re.MULTILINE)


class Section(NamedTuple):
    """One section of an explanation.

    Attributes:
        text: a paragraph, or "".
        files: name → content.
        commands: typed in a shell beside the files.
    """

    text: str
    files: Mapping[str, str]
    commands: tuple[str, ...]

    def __str__(self) -> str:
        """Every file under its name, then the commands."""
        shown = [f"# {name}\n{content}" for name, content in self.files.items()]
        return "\n".join([*shown, "".join(f"$ {line}\n" for line in self.commands)])


@cache
def explanations() -> Mapping[str, Explanation]:
    """Code → explanation: codes of diagnostics, then those of reasons."""
    page = files("launcher.jobfile").joinpath("codes.md").read_text(encoding="utf-8")
    found = {}
    for text in page.split("\n## ")[1:]:
        code, _, rest = text.partition("\n")
        first, *others = rest.split("\n### ")
        titled = [
            ("Why", first),
            *((title, body) for title, _, body in (each.partition("\n") for each in others)),
        ]
        found[code] = {title: _section(body) for title, body in titled}
    return found


def _section(text: str) -> Section:
    named: dict[str, str] = {}
    commands: list[str] = []
    for language, block in _FENCE.findall(text):
        if language == "sh":
            commands += block.splitlines()
        else:
            head, _, content = block.partition("\n")
            named[head.removeprefix("# ")] = content
    return Section(" ".join(_FENCE.sub("", text).split()), named, tuple(commands))
