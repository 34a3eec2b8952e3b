"""`launcher completion`: print a completion script for bash or zsh."""

from __future__ import annotations

import argparse
from typing import Any

import shtab

from launcher.cli.arguments import Argument, Arguments
from launcher.cli.completion_names import KINDS, SHELLS, function_of, names
from launcher.cli.console import Console
from launcher.cli.main import COMMANDS, command
from launcher.errors import UsageError

USAGE = "completion SHELL"
HELP = """\
Print a completion script for bash or zsh. It completes commands and options,
and the names of jobs, targets, schedulers, components and codes."""
EXAMPLES = """\
  eval "$(launcher completion bash)"             for this shell
  launcher completion bash >/etc/bash_completion.d/launcher
  launcher completion zsh >~/.zfunc/_launcher    a folder on your $fpath"""

_PATHS = ("DIR", "FILE", "PATH", "PLAN.JSON")  # metavars that shells complete with file names
_NAMES = {
    "APP": "apps",
    "JOB": "apps",
    "cancel APP": "live",
    "start APP": "live",
    "SCHEDULER": "schedulers",
    "COMPONENT": "components",
    "components NAME": "components",
    "run FILE": "runnable",
    "CODE": "codes",
    "TARGET": "targets",
}
"""Metavar, or command and metavar → the kind of names that shells complete (`completion_names.KINDS`)."""

# Runs the launcher that the user typed, which may not be the one on PATH, and prints none of its errors.
_ASK = {
    "bash": """\
_launcher_names() {
  local it="${COMP_WORDS[0]}"
  command -v "$it" >/dev/null || it=launcher
  compgen -W "$("$it" completion --names "$1" 2>/dev/null)" -- "$2"
}
""",
    "zsh": """\
_launcher_names() {
  local it="$words[1]"
  (( $+commands[$it] )) || [[ -x $it ]] || it=launcher
  compadd -- ${(f)"$($it completion --names $1 2>/dev/null)"}
}
""",
}
_FILES_TOO = {"bash": ' compgen -f -- "$1";', "zsh": " _files;"}


def add_arguments(parser: Any) -> None:
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help="bash or zsh")
    parser.add_argument("--names", metavar="OF")  # the completion script calls it


def run(args: Any, console: Console) -> int:
    if args.names is not None:
        console.print("\n".join(names(args.names)))
        return 0
    if args.shell is None:
        raise UsageError("completion needs a SHELL: bash or zsh", hint="see `launcher completion --help`")
    console.print(shtab.complete(_whole_parser(), shell=args.shell, preamble=_functions(args.shell)))
    return 0


def _functions(shell: str) -> str:
    text = _ASK[shell]
    for kind in KINDS:
        files = _FILES_TOO[shell] if kind == "runnable" else ""
        text += f'{function_of(kind)}() {{{files} _launcher_names {kind} "$1"; }}\n'
    return text


def _whole_parser() -> argparse.ArgumentParser:
    """The arguments of all commands as argparse knows them, for shtab."""
    top = argparse.ArgumentParser(prog="launcher", add_help=False)
    top.add_argument("-h", "--help", action="help", help="show this help")
    top.add_argument("--version", action="store_true", help="show the version")
    commands = top.add_subparsers(metavar="COMMAND")
    for name, summary in [each for _, group in COMMANDS for each in group.items()]:
        arguments = Arguments(f"launcher {name}")
        command(name).add_arguments(arguments)
        made = commands.add_parser(name, help=summary, add_help=False)
        for argument in arguments.declared:
            _declare(name, argument, made)
    return top


def _declare(command: str, argument: Argument, parser: argparse.ArgumentParser) -> None:
    action = "help" if argument.dest == "help" else argument.action
    options: dict[str, Any] = {"action": action, "help": argument.help or argparse.SUPPRESS}
    if not argument.is_flag:
        options |= {"choices": argument.choices or None, "metavar": argument.metavar}
    if argument.nargs:
        options["nargs"] = argument.nargs
    made = parser.add_argument(*argument.names, **options)
    kind = _NAMES.get(f"{command} {argument.metavar}") or _NAMES.get(argument.metavar)
    if kind is not None:
        made.complete = dict.fromkeys(SHELLS, function_of(kind))  # type: ignore[attr-defined]  # shtab looks for it
    elif argument.metavar in _PATHS:
        made.complete = shtab.FILE  # type: ignore[attr-defined]
