"""`launcher schedulers`: list the schedulers."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from launcher.cli.console import Console
from launcher.cli.render.values import table
from launcher.errors import LauncherError
from launcher.schedulers.registry import (
    DEFAULT_SCHEDULERS,
    GROUP,
    get_default_scheduler_name,
    get_scheduler,
    get_scheduler_factories,
)
from launcher.schedulers.staged import StagedScheduler

USAGE = "schedulers [--json]"
HELP = """\
List the schedulers: the built-in ones, and those of installed packages
(entry-point group `launcher.schedulers`)."""
EXAMPLES = "  launcher schedulers\n  launcher runopts local_cwd      the run options of one"


def add_arguments(parser: Any) -> None:
    parser.option("--json", "print a JSON array")


def run(args: Any, console: Console) -> int:
    default = get_default_scheduler_name()
    found = [{"name": name, "default": name == default, **_about(name)} for name in get_scheduler_factories()]
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
