"""`launcher skill`: print a page for coding agents."""

from __future__ import annotations

from typing import Any

from launcher.cli.console import Console
from launcher.cli.render.skill_text import skill_page

USAGE = "skill"
HELP = """\
Print a page for coding agents, of less than 200 lines: the way from a job file
to an approved apply, what an agent must not do, and every command, exit code
and field of this version. It is a SKILL.md of the Agent Skills format, which
`launcher init --agents` writes to .agents/skills/launcher."""
EXAMPLES = """\
  launcher skill
  launcher skill >.claude/skills/launcher/SKILL.md   where agents find skills"""


def add_arguments(parser: Any) -> None:
    """It has no arguments."""


def run(args: Any, console: Console) -> int:
    console.print(skill_page(), end="")
    return 0
