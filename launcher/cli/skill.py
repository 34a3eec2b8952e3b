"""`launcher skill`: print a page for coding agents."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from json import dumps
from typing import Any

from launcher.cli.console import Console
from launcher.cli.main import COMMANDS, command
from launcher.jobfile.messages.collector import entry
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.schema.words import PARTS

USAGE = "skill [--json]"
HELP = """\
Print a page for coding agents, of less than 200 lines: the way from a job file
to an approved apply, what an agent must not do, and every command, exit code
and field of this version. It is a SKILL.md of the Agent Skills format, which
`launcher init --agents` writes to .agents/skills/launcher."""
EXAMPLES = """\
  launcher skill
  launcher skill >.claude/skills/launcher/SKILL.md   where agents find skills"""


def add_arguments(parser: Any) -> None:
    parser.option("--json", "print one JSON object with the text")


def run(args: Any, console: Console) -> int:
    text = skill_page()
    console.print(dumps({"text": text}, indent=2, ensure_ascii=False) + "\n" if args.json else text, end="")
    return 0


EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "an error: of an engine, of files, or a job could not be applied; or `fmt --check` found "
    "a file to format, or `grep` no line that matches",
    2: "changes are pending (`plan --detailed-exitcode`, `synced`)",
    3: "blocked: approval is needed, a job is protected, the plan exceeds its budget, or `--fail-on` matched",
    4: "a saved plan is stale, expired, edited, or for another engine; or the plan is not the "
    "one of `--expect-digest`; or an attempt has started that apply was to withdraw",
    5: "applied, but an app did not succeed, or did not end in time (`apply --wait`, `wait`, "
    "`run`, `status --watch`)",
    6: "a job file is invalid; with `convert --strict`, something of the file has no place",
    7: "another apply held the lock for too long",
    8: "a link of an attempt is wrong, or missing with --strict (`verify`)",
    64: "wrong usage: an unknown command, option, scheduler, component or run option",
    130: "interrupted by Ctrl-C",
    141: "the reader of the output has exited, as in `launcher list | head -1`",
    143: "ended by SIGTERM",
}

_IN_FULL = (JobFile, RoleSpec)
"""The mappings whose fields have a line each; of other mappings, only the fields' names are listed."""


def skill_page() -> str:
    """The text of a SKILL.md, the same on every machine."""
    commands = (
        f"- `launcher {command(name).USAGE.splitlines()[0]}`: {summary}"
        for _, group in COMMANDS
        for name, summary in group.items()
    )
    codes = (f"- {code}: {meaning}" for code, meaning in EXIT_CODES.items())
    page = files("launcher.cli").joinpath("skill.md").read_text(encoding="utf-8")
    for name, lines in (("commands", commands), ("exit codes", codes), ("fields", _fields())):
        page = page.replace(f"<!-- {name} -->", "\n".join(lines))
    return page


def _fields() -> Iterator[str]:
    others: dict[str, dict[str, None]] = {}  # place → the fields of all mappings that are possible there
    for _, where, cls in PARTS:
        if cls in _IN_FULL:
            yield f"{where}\n"
            for name, info in cls.model_fields.items():
                example = f"`{entry(name, info.examples[0], 'yaml')}`" if info.examples else f"`{name}`"
                yield f"- {example}: {info.description}"
            yield ""
        else:
            others.setdefault(where.partition(". ")[0].rstrip("."), {}).update(
                dict.fromkeys(cls.model_fields)
            )
    yield "Fields below these:\n"
    yield from (f"- {where}: {', '.join(f'`{name}`' for name in names)}" for where, names in others.items())
