"""The text of `launcher COMMAND --help`."""

from __future__ import annotations

import sys
from textwrap import fill, wrap
from typing import Any

from launcher.cli.arguments import Argument, Arguments
from launcher.cli.console import terminal_width

_COLUMN = 26  # where help begins, at most


def help_text(module: Any, arguments: Arguments) -> str:
    """The usage of a command, its description, its arguments by group, and examples."""
    width = min(terminal_width(sys.stdout), 100) - 1
    shown = [argument for argument in arguments.declared if argument.help]
    shown.sort(key=lambda argument: argument.is_option)
    parts = [f"Usage: launcher {module.USAGE}", _filled(module.HELP, width)]
    column = min(max(len(_invocation(argument)) for argument in shown) + 4, _COLUMN)
    for group in dict.fromkeys(argument.group for argument in shown):
        rows = [_row(argument, column, width) for argument in shown if argument.group == group]
        parts.append("\n".join([f"{group}:", *rows]))
    if module.EXAMPLES:
        parts.append(_filled(f"Examples:\n{module.EXAMPLES}", width))
    return "\n\n".join(parts) + "\n"


def _filled(text: str, width: int) -> str:
    """The text with paragraphs filled anew where they are too wide; tables and examples stay."""
    return "\n\n".join(
        part if max(map(len, part.split("\n"))) <= width or "  " in part else fill(part, width)
        for part in text.split("\n\n")
    )


def _row(argument: Argument, column: int, width: int) -> str:
    name = f"  {_invocation(argument)}"
    first, *others = wrap(argument.help, max(width - column, 11))
    head = f"{name.ljust(column)}{first}" if len(name) <= column - 2 else f"{name}\n{' ' * column}{first}"
    return "\n".join([head, *(" " * column + line for line in others)])


def _invocation(argument: Argument) -> str:
    if not argument.is_option:
        return argument.metavar
    return ", ".join(argument.names) + (f" {argument.metavar}" if argument.metavar else "")
