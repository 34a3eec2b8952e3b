"""`launcher completion`: print a completion script for bash or zsh."""

from __future__ import annotations

from typing import Any

from launcher.cli.argument_types import one_of
from launcher.cli.completion_names import KINDS, SHELLS, function_of, names
from launcher.cli.console import Console
from launcher.cli.help import whole_parser
from launcher.errors import UsageError

USAGE = "completion SHELL"
HELP = """\
Print a completion script for bash or zsh. It completes commands and options,
and the names of jobs, targets, schedulers, components and codes."""
EXAMPLES = """\
  eval "$(launcher completion bash)"             for this shell
  launcher completion bash >/etc/bash_completion.d/launcher
  launcher completion zsh >~/.zfunc/_launcher    a folder on your $fpath"""

SUPPRESS = "==SUPPRESS=="  # argparse.SUPPRESS, without importing it

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
    parser.add_argument(
        "shell", metavar="SHELL", nargs="?", type=one_of(*SHELLS), choices=SHELLS, help="bash or zsh"
    )
    parser.add_argument("--names", metavar="OF", help=SUPPRESS)  # used by the script


def run(args: Any, console: Console) -> int:
    if args.names is not None:
        console.print("\n".join(names(args.names)))
        return 0
    if args.shell is None:
        raise UsageError("completion needs a SHELL: bash or zsh", hint="see `launcher completion --help`")
    import shtab

    preamble = _functions(args.shell)
    console.print(shtab.complete(whole_parser(), shell=args.shell, preamble=preamble))
    return 0


def _functions(shell: str) -> str:
    text = _ASK[shell]
    for kind in KINDS:
        files = _FILES_TOO[shell] if kind == "runnable" else ""
        text += f'{function_of(kind)}() {{{files} _launcher_names {kind} "$1"; }}\n'
    return text
