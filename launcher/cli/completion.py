"""`launcher completion`: a script that teaches a shell our commands and options."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console

USAGE = "completion SHELL"
HELP = "Print a completion script for bash or zsh."
EXAMPLES = """\
  eval "$(launcher completion bash)"             for this shell
  launcher completion bash >/etc/bash_completion.d/launcher
  launcher completion zsh >~/.zfunc/_launcher    a folder of your $fpath"""

SHELLS = ("bash", "zsh")


def add_arguments(parser: Any) -> None:
    from launcher.cli.kinds import one_of

    parser.add_argument("shell", metavar="SHELL", type=one_of(*SHELLS), choices=SHELLS, help="bash or zsh")


def run(args: Any, console: Console) -> int:
    import shtab

    from launcher.cli.help import whole_parser

    console.print(shtab.complete(whole_parser(), shell=args.shell))
    return 0
