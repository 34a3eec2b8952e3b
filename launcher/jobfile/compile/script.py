"""The command of a role: its `entrypoint` and `args`, or what its script `run` comes to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.wording_fields import missing_field
from launcher.jobfile.text.document import Path

UNKNOWN = "unknown"
"""Stands for the program of a role whose program is missing or wrong."""

_COMMANDS: Mapping[str, Sequence[str]] = {
    "sh": ("sh", "-euc"),
    "bash": ("bash", "-euo", "pipefail", "-c"),
}


def command(text: str, shell: str) -> tuple[str, ...]:
    """The entrypoint and the arguments that run a script."""
    return (*_COMMANDS[shell], text)


def script_of(entrypoint: str, args: Sequence[str]) -> dict[str, str] | None:
    """The fields `run` and `shell` that come to a command; None where it is not that of a script."""
    for shell, words in _COMMANDS.items():
        if (entrypoint, *args[:-1]) == words and args[-1:]:
            return {"run": args[-1], **({"shell": shell} if shell != "sh" else {})}
    return None


def check_commands(value: Mapping[str, Any], problems: Collector) -> None:
    """Note the roles that have no program, or two of them."""
    roles = value.get("roles")
    for name, role in roles.items() if isinstance(roles, dict) else ():
        if isinstance(role, dict):
            _check_command(("roles", name), role, problems)


def _check_command(at: Path, role: Mapping[str, Any], problems: Collector) -> None:
    if "run" in role:
        _check_script(at, role, problems)
    elif "entrypoint" not in role:
        missing_field(at, "entrypoint", problems)
        problems.assumed.add((*at, "entrypoint"))


def _check_script(at: Path, role: Mapping[str, Any], problems: Collector) -> None:
    for field in ("entrypoint", "args"):
        if field in role:
            first = problems.place((*at, "run"), "the script is here")
            message = f"a role with `run` has no `{field}`: the script is all that it runs"
            label = "keep one of them"
            path = (*at, field)
            problems.add(path, "conflicting-fields", message, at="key", label=label, related=(first,))
    text, shell = role["run"], role.get("shell", "sh")
    words = text[2:].split("\n")[0].split() if isinstance(text, str) and text.startswith("#!") else []
    program = (
        os.path.basename(words[1] if words[0].endswith("/env") and words[1:] else words[0]) if words else ""
    )
    if program and program != shell:
        message = f"`{shell}` runs the script, and its first line names `{program}`"
        is_shell = program in _COMMANDS
        label = f"add `{problems.entry('shell', program)}`" if is_shell else "take the line away"
        hint = "" if is_shell else f"or keep it in a file, and name `{program}` in `entrypoint`"
        problems.add((*at, "run"), "constraint", message, label=label, hint=hint)
