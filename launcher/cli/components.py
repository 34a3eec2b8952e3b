"""`launcher components`: list the components, or show one."""

from __future__ import annotations

from typing import Any

from launcher.cli.console import Console
from launcher.cli.render.values import Cell, table
from launcher.components.finder import get_builtin_source, get_component, survey
from launcher.components.signature import component_help, parameters_of, type_name
from launcher.errors import UsageError
from launcher.runner.config import component_defaults

USAGE = "components [NAME] [--source] [--json]"
HELP = """\
List the components: those of installed packages (entry-point group
`launcher.components`) and the built-in ones. With NAME or file.py:function,
show the description and the arguments of one."""
EXAMPLES = """\
  launcher components
  launcher components dist.ddp
  launcher components utils.echo --source > mine.py      copy it"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="a component (default: list all)")
    parser.option("--source", "print its source code, with its imports")
    parser.option("--json", "print JSON")


def run(args: Any, console: Console) -> int:
    if args.name is None:
        if args.source:
            raise UsageError("--source needs a NAME", hint="see `launcher components`")
        found, mistaken, broken = survey()
        for line in broken:
            console.warn(line)
        for line in mistaken:
            console.warn(f"not a component: {line}")
        if args.json:
            console.json([_listed(component) for component in found.values()], ascii=True)
            return 0
        rows: list[list[Cell]]
        rows = [[(name, "bold"), each.description.split("\n", 1)[0]] for name, each in found.items()]
        console.print(table(["NAME", "DESCRIPTION"], rows, color=console.color, columns=console.columns))
        return 0
    component = get_component(args.name)
    if args.json:
        about = {**_listed(component), "arguments": _arguments(component.fn)}
        source = {"source": get_builtin_source(args.name)} if args.source else {}
        console.json({**about, **source}, ascii=True)
    elif args.source:
        console.data(get_builtin_source(args.name))
    else:
        defaults = component_defaults().get(component.name)
        text = component_help(args.name, component.fn, defaults, width=console.width())
        console.print(text, end="")
    return 0


def _listed(component: Any) -> dict[str, Any]:
    return {"name": component.name, "description": component.description, "file": component.path}


def _arguments(function: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": parameter.name,
            "type": type_name(parameter.type),
            "required": parameter.is_required,
            **({} if parameter.is_required else {"default": _plain(parameter.default)}),
            "help": parameter.text,
        }
        for parameter in parameters_of(function).values()
    ]


def _plain(value: Any) -> Any:
    """Return a default as a JSON value; values of other types become text."""
    return value if isinstance(value, str | int | float | list | dict) or value is None else str(value)
