"""`launcher top`: a full-screen view of all jobs. The modules of this package need Textual."""

from __future__ import annotations

import gc
from importlib.util import find_spec
from typing import Any

from launcher.cli.arguments import Arguments
from launcher.cli.console import Console
from launcher.cli.status import Status
from launcher.errors import LauncherError

USAGE = "top [WORD…]"
HELP = """\
Show all jobs on one screen: those that run and wait, with the reasons, and
those that have ended, for as long as they are recorded. Below the list are
replicas, output, use against asked, and the turns of this machine. `c` cancels,
`r` re-runs and `s` starts jobs at once: each shows what it would do, and asks.
`?` lists the keys. Quitting leaves the jobs running.

With words, only jobs are shown that have each of them in their name, project,
target, state or reason.

It needs Textual: pip install 'launcher-jobs[top]'. Without it, `launcher status
--watch` is shown."""
EXAMPLES = """\
  launcher top
  launcher top vision failed     failed jobs of the project `vision`"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("words", metavar="WORD", nargs="*", help="show only jobs that have these words")


def run(args: Any, console: Console) -> int:
    if console.cannot_ask or not console.is_screen:
        why = "this one cannot move its cursor (TERM)" if console.is_terminal else "stdout is not one"
        raise LauncherError(
            f"top needs a terminal: {console.cannot_ask or why}",
            hint="`launcher list` and `launcher status` print the jobs",
        )
    if find_spec("textual") is None:
        console.note("top needs Textual: pip install 'launcher-jobs[top]'; this is `launcher status --watch`")
        arguments = Arguments("launcher status")
        Status.add_arguments(arguments)
        return Status.run(arguments.parse(["--watch"]), console)
    gc.disable()  # otherwise collections take a tenth of the start
    from launcher.cli.top.app import Top

    gc.freeze()
    gc.enable()
    top = Top(args.words)
    top.run()
    return top.return_code or 0
