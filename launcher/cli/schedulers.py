"""`launcher schedulers`, `runopts`, `configure`: schedulers, their options, and a file that sets these."""

from __future__ import annotations

import io
from importlib import import_module
from importlib.metadata import entry_points
from json import dumps
from typing import Any

from launcher.cli.console import Console
from launcher.cli.render.values import table
from launcher.errors import LauncherError
from launcher.runner import config
from launcher.schedulers.registry import (
    DEFAULT_SCHEDULERS,
    GROUP,
    get_default_scheduler_name,
    get_scheduler,
    get_scheduler_factories,
)
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.runopts import get_type_name
from launcher.text import paint, wrapped


class Schedulers:
    """`launcher schedulers`: list the schedulers."""

    USAGE = "schedulers [--json]"
    HELP = """\
List the schedulers: the built-in ones, and those of installed packages
(entry-point group `launcher.schedulers`)."""
    EXAMPLES = "  launcher schedulers\n  launcher runopts local_cwd      the run options of one"

    @staticmethod
    def add_arguments(parser: Any) -> None:
        parser.option("--json", "print a JSON array")

    @staticmethod
    def run(args: Any, console: Console) -> int:
        default = get_default_scheduler_name()
        names = get_scheduler_factories()
        found = [{"name": name, "default": name == default, **_about(name)} for name in names]
        if args.json:
            console.json(found, ascii=True)
            return 0
        rows = [
            [
                (row["name"], "bold"),
                "default" if row["default"] else "",
                "yes" if row["apply"] else "run only",
                row["about"],
            ]
            for row in found
        ]
        headings = ["NAME", "", "PLAN AND APPLY", "DESCRIPTION"]
        console.print(table(headings, rows, color=console.color, columns=console.columns))
        return 0


def _about(name: str) -> dict[str, Any]:
    """Return whether plan and apply support a scheduler, and its description or the error of loading it."""
    try:
        scheduler = get_scheduler(name, "launcher")
    except LauncherError as error:  # a broken plug-in must not hide the others
        return {"apply": False, "about": str(error)}
    lines = (_factory_doc(name) or type(scheduler).__doc__ or "").strip().splitlines()
    return {"apply": isinstance(scheduler, StagedScheduler), "about": lines[0] if lines else ""}


def _factory_doc(name: str) -> str | None:
    """The docstring of the factory: one class may serve several names, each with its own factory."""
    module, _, function = DEFAULT_SCHEDULERS.get(name, "").partition(":")
    if module:
        factory = getattr(import_module(module), function)
    else:
        *_, point = entry_points(group=GROUP, name=name)
        loaded = point.load()
        factory = getattr(loaded, "create_scheduler", loaded)
    doc: str | None = factory.__doc__
    return doc


class Runopts:
    """`launcher runopts`: list the run options of schedulers."""

    USAGE = "runopts [SCHEDULER] [--json]"
    HELP = """\
List the run options of schedulers: the keys of `cfg:` in job files and of
`launcher run --cfg`."""
    EXAMPLES = "  launcher runopts local_cwd\n  launcher runopts --json          of all schedulers"

    @staticmethod
    def add_arguments(parser: Any) -> None:
        parser.add_argument("scheduler", metavar="SCHEDULER", nargs="?", help="a scheduler (default: all)")
        parser.option("--json", "print a JSON object: scheduler → option → details")

    @staticmethod
    def run(args: Any, console: Console) -> int:
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for name in [args.scheduler] if args.scheduler else get_scheduler_factories():
            try:
                found[name] = _options(name)
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


def _options(scheduler: str) -> dict[str, dict[str, Any]]:
    """Return name → details of the run options of a scheduler."""
    return {
        name: {
            "type": get_type_name(option.opt_type),
            "required": option.is_required,
            "default": option.default,
            "help": option.help,
            "of_role": option.is_of_role,
        }
        for name, option in get_scheduler(scheduler, "launcher").run_opts()
    }


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


class Configure:
    """`launcher configure`: write a launcher.toml with run options of schedulers."""

    USAGE = "configure [-s NAME,…] [-a] [--print] [--json]"
    HELP = """\
Write ./launcher.toml with a table for each scheduler: its required options, or
with --all every option and its default. An existing file is not changed."""
    EXAMPLES = "  launcher configure\n  launcher configure -s local_cwd --all --print"

    @staticmethod
    def add_arguments(parser: Any) -> None:
        parser.option("-s, --schedulers NAME,…", "only these schedulers (default: all)")
        parser.option("-a, --all", "write every option, not only the required ones")
        parser.option("--print", "print the file instead of writing it")
        parser.option("--json", "print one JSON object")

    @staticmethod
    def run(args: Any, console: Console) -> int:
        text = io.StringIO()
        chosen = [name.strip() for name in args.schedulers.split(",")] if args.schedulers else None
        # a misspelt name is found before a file is touched
        config.dump(text, chosen, required_only=not args.all)
        if not args.print:
            _write_new(config.CONFIG_FILE, text.getvalue())
            console.note(f"wrote {config.CONFIG_FILE}")
        if args.json:
            console.json({"file": config.CONFIG_FILE, "written": not args.print, "text": text.getvalue()})
        elif args.print:
            console.print(text.getvalue(), end="")
        return 0


def _write_new(path: str, text: str) -> None:
    """Write a file that is not there yet. Raises LauncherError."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise LauncherError(f"{path} already exists", hint="print the new content with --print") from None
    except OSError as error:
        raise LauncherError(f"cannot write {path}: {error.strerror}") from error
