"""`launcher configure`: write a launcher.toml with run options of schedulers."""

from __future__ import annotations

import io
from typing import Any

from launcher.cli.console import Console
from launcher.errors import LauncherError
from launcher.runner.config import CONFIG_FILE, dump

USAGE = "configure [-s NAME,…] [-a] [--print] [--json]"
HELP = """\
Write ./launcher.toml with a table for each scheduler: its required options, or
with --all every option and its default. An existing file is not changed."""
EXAMPLES = "  launcher configure\n  launcher configure -s local_cwd --all --print"


def add_arguments(parser: Any) -> None:
    parser.option("-s, --schedulers NAME,…", "only these schedulers (default: all)")
    parser.option("-a, --all", "write every option, not only the required ones")
    parser.option("--print", "print the file instead of writing it")
    parser.option("--json", "print one JSON object")


def run(args: Any, console: Console) -> int:
    text = io.StringIO()
    chosen = [name.strip() for name in args.schedulers.split(",")] if args.schedulers else None
    dump(text, chosen, required_only=not args.all)  # a misspelt name is found before a file is touched
    if not args.print:
        try:
            with open(CONFIG_FILE, "x", encoding="utf-8") as file:
                file.write(text.getvalue())
        except FileExistsError:
            hint = "print the new content with --print"
            raise LauncherError(f"{CONFIG_FILE} already exists", hint=hint) from None
        except OSError as error:
            raise LauncherError(f"cannot write {CONFIG_FILE}: {error.strerror}") from error
        console.note(f"wrote {CONFIG_FILE}")
    if args.json:
        value = {"file": CONFIG_FILE, "written": not args.print, "text": text.getvalue()}
        console.json(value)
    elif args.print:
        console.print(text.getvalue(), end="")
    return 0
