"""`launcher skill`: print a page for coding agents."""

from __future__ import annotations

from json import dumps
from typing import Any

from launcher.cli.console import Console
from launcher.cli.render.skill_text import skill_page

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
    parser.add_argument("--json", action="store_true", help="print one JSON object with the text")


def run(args: Any, console: Console) -> int:
    text = skill_page()
    console.print(dumps({"text": text}, indent=2, ensure_ascii=False) + "\n" if args.json else text, end="")
    return 0
