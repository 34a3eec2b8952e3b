"""`launcher runopts`: list the run options of schedulers."""

from __future__ import annotations

from json import dumps
from typing import Any

from launcher.cli.console import Console
from launcher.cli.render.values import wrapped
from launcher.errors import LauncherError
from launcher.schedulers.registry import get_scheduler, get_scheduler_factories
from launcher.specs.runopts import get_type_name
from launcher.text import paint

USAGE = "runopts [SCHEDULER] [--json]"
HELP = """\
List the run options of schedulers: the keys of `cfg:` in job files and of
`launcher run --cfg`."""
EXAMPLES = "  launcher runopts local_cwd\n  launcher runopts --json          of all schedulers"


def add_arguments(parser: Any) -> None:
    parser.add_argument("scheduler", metavar="SCHEDULER", nargs="?", help="a scheduler (default: all)")
    parser.option("--json", "print a JSON object: scheduler → option → details")


def run(args: Any, console: Console) -> int:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in [args.scheduler] if args.scheduler else get_scheduler_factories():
        try:
            found[name] = {
                option_name: {
                    "type": get_type_name(option.opt_type),
                    "required": option.is_required,
                    "default": option.default,
                    "help": option.help,
                    "of_role": option.is_of_role,
                }
                for option_name, option in get_scheduler(name, "launcher").run_opts()
            }
        except LauncherError as error:  # a broken plug-in must not hide the others
            if args.scheduler:
                raise
            console.warn(str(error))
    if args.json:
        console.json(found, ascii=True)
        return 0
    for number, (name, options) in enumerate(found.items()):
        if len(found) > 1:
            console.print(("\n" if number else "") + f"# {name}")
        console.print(_text(options, console.color, console.columns))
    return 0


def _text(options: dict[str, dict[str, Any]], color: bool, columns: int | None) -> str:
    """For each option a line with its name, type and default, and its help below, wrapped to `columns`."""
    lines = []
    for name, option in options.items():
        default = "" if option["default"] is None else f", default {dumps(option['default'])}"
        kind = f"{option['type']}{', required' if option['required'] else default}"
        kind += ", a role may set it" if option["of_role"] else ""
        text = wrapped(option["help"], columns - 4) if columns else [option["help"]]
        lines += [f"{paint(name, 'bold', color)} ({kind})", *(f"    {line}" for line in text)]
    return "\n".join(lines) or "no run options"
