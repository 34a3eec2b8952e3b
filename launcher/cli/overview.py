"""`launcher --help`: every command on one line. Composed by hand, so that it costs no argparse."""

from __future__ import annotations

from launcher.cli.commands import COMMANDS
from launcher.text import paint

_EXAMPLES = """\
  launcher apply examples/hello --yes --wait    run the first example, follow it
  launcher plan jobs/ --out plan.json           what would change? keep the answer
  launcher logs train --follow                  read along
"""


def overview(color: bool) -> str:
    """The text, with a newline at its end."""
    lines = ["Declare jobs in files, see what a change means, apply it.", ""]
    lines += [paint("Usage:", "bold", color) + " launcher COMMAND [OPTIONS]", ""]
    for title, group in COMMANDS:
        lines.append(paint(f"{title}:", "bold", color))
        for name, summary in group.items():
            lines.append(f"  {paint(name.ljust(12), 'cyan', color)}  {summary}")
        lines.append("")
    lines += [paint("Examples:", "bold", color), _EXAMPLES]
    lines.append("`launcher COMMAND --help` explains a command; `launcher --version` shows the version.")
    return "\n".join(lines) + "\n"
