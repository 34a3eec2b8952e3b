"""Render the page for coding agents: prose around the commands, exit codes and fields that there are."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from launcher.cli.commands import COMMANDS, command
from launcher.cli.exit_codes import EXIT_CODES
from launcher.jobfile.messages.collector import entry
from launcher.jobfile.model.base import Model
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.schema.parts import PARTS

_IN_FULL = (JobFile, RoleSpec)
"""The mappings whose fields have a line each; for other mappings, only the names are listed."""


def skill_page() -> str:
    """The text of a SKILL.md, the same on every machine."""
    page = files("launcher.cli").joinpath("skill.md").read_text(encoding="utf-8")
    for name, lines in (("commands", _commands()), ("exit codes", _exit_codes()), ("fields", _fields())):
        page = page.replace(f"<!-- {name} -->", "\n".join(lines))
    return page


def _commands() -> Iterator[str]:
    for _, group in COMMANDS:
        for name, summary in group.items():
            yield f"- `launcher {command(name).USAGE.splitlines()[0]}`: {summary}"


def _exit_codes() -> Iterator[str]:
    return (f"- {code}: {meaning}" for code, meaning in EXIT_CODES.items())


def _fields() -> Iterator[str]:
    others: dict[str, dict[str, None]] = {}  # place → the fields of all mappings that may stand there
    for _, where, cls in PARTS:
        if cls in _IN_FULL:
            yield from (f"{where}\n", *_lines(cls), "")
        else:
            others.setdefault(where.partition(". ")[0].rstrip("."), {}).update(
                dict.fromkeys(cls.model_fields)
            )
    yield "Fields below these:\n"
    yield from (f"- {where}: {', '.join(f'`{name}`' for name in names)}" for where, names in others.items())


def _lines(cls: type[Model]) -> Iterator[str]:
    for name, info in cls.model_fields.items():
        example = f"`{entry(name, info.examples[0], 'yaml')}`" if info.examples else f"`{name}`"
        yield f"- {example}: {info.description}"
