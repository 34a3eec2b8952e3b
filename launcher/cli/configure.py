"""`launcher configure`: a launcher.toml with the run options of schedulers."""

from __future__ import annotations

import io
from typing import Any

from launcher.cli.console import Console
from launcher.errors import LauncherError
from launcher.runner.config import CONFIG_FILE, dump

USAGE = "configure [-s NAME,…] [-a] [--print]"
HELP = """\
Write ./launcher.toml with a table for each scheduler: what must be filled in,
and with --all every option with its default. A file that is there stays."""
EXAMPLES = "  launcher configure\n  launcher configure -s local_cwd --all --print"


def add_arguments(parser: Any) -> None:
    parser.add_argument("-s", "--schedulers", metavar="NAME,…", help="of these schedulers; of all without it")
    parser.add_argument("-a", "--all", action="store_true", help="every option, not only what is required")
    parser.add_argument("--print", action="store_true", help="print it, and write nothing")


def run(args: Any, console: Console) -> int:
    text = io.StringIO()
    chosen = [name.strip() for name in args.schedulers.split(",")] if args.schedulers else None
    dump(text, chosen, required_only=not args.all)  # a misspelt name is found before a file is touched
    if args.print:
        console.print(text.getvalue(), end="")
        return 0
    try:
        with open(CONFIG_FILE, "x", encoding="utf-8") as file:
            file.write(text.getvalue())
    except FileExistsError:
        hint = "see what it would hold with --print"
        raise LauncherError(f"{CONFIG_FILE} is there already, and stays as it is", hint=hint) from None
    except OSError as error:
        raise LauncherError(f"cannot write {CONFIG_FILE}: {error.strerror}") from error
    console.note(f"wrote {CONFIG_FILE}")
    return 0
