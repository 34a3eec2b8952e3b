"""The help of a component: its usage, its description and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from textwrap import fill
from typing import Any

from launcher.components.docstring import parse_docstring
from launcher.components.signature import Parameter, parameters_of
from launcher.components.types import type_name

_INDENT = " " * 6
_WIDTH = 100


def get_fn_docstring(fn: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """(description, parameter → text). A parameter without a text has " "."""
    description, texts = parse_docstring(fn.__doc__)
    name = getattr(fn, "__name__", "component")
    tip = f"{name} TIP: improve this help string: add a docstring\nin Google's style, with a section Args:"
    names = list(parameters_of(fn))
    return description or tip, {parameter: texts.get(parameter) or " " for parameter in names}


def component_help(
    name: str,
    function: Callable[..., object],
    defaults: Mapping[str, Any] | None = None,
    *,
    width: int = _WIDTH,
) -> str:
    """The help of a component as text, each argument with its type and default, ends in a newline.

    Args:
        defaults: parameter → value from configuration; they stand in the place of the signature's.
        width: columns that lines are to fit in; of more than 100 the rest is not used.
    """
    columns = min(width, _WIDTH)
    description, _ = get_fn_docstring(function)
    parameters = parameters_of(function).values()
    # Behind the first bare word all is the rest's.
    words = sorted(parameters, key=lambda parameter: parameter.is_rest)
    lines = [*_usage_lines(name, list(map(_usage, words)), columns), "", _wrapped(description, columns)]
    if parameters:
        lines += ["", "arguments:"]
    for parameter in parameters:
        lines += _entry(parameter, (defaults or {}).get(parameter.name), columns)
    return "\n".join(lines) + "\n"


def _usage_lines(name: str, words: list[str], width: int) -> list[str]:
    """Lines are broken between arguments, never in one."""
    lines = [f"usage: launcher run {name}"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append(_INDENT + word)
        else:
            lines[-1] += f" {word}"
    return lines


def _wrapped(text: str, width: int) -> str:
    """Lines that are too long broken; what fits, such as an example, stays as it was laid out."""
    return "\n".join(line if len(line) <= width else fill(line, width) for line in text.split("\n"))


def _usage(parameter: Parameter) -> str:
    if parameter.is_rest:
        return f"[{parameter.name.upper()} …]"
    word = f"--{parameter.name} {parameter.name.upper()}"
    return word if parameter.is_required else f"[{word}]"


def _entry(parameter: Parameter, default: Any, width: int) -> list[str]:
    dashes = "" if parameter.is_rest else "-" if len(parameter.name) == 1 else "--"
    both = f"-{parameter.name}, --{parameter.name}" if dashes == "-" else dashes + parameter.name
    lines = [f"  {both} {type_name(parameter.type)}{_default(parameter, default)}"]
    if parameter.text:
        lines.append(fill(parameter.text, width, initial_indent=_INDENT, subsequent_indent=_INDENT))
    return lines


def _default(parameter: Parameter, default: Any) -> str:
    if default is not None:
        return f" (default: {shown_default(default)})"
    if parameter.is_required:
        return " (required)"
    if parameter.is_rest or parameter.default is None:
        return ""
    if isinstance(parameter.default, (dict, list, tuple)) and not parameter.default:
        return " (default: empty)"
    return f" (default: {shown_default(parameter.default)})"


def shown_default(value: Any) -> str:
    """A default as it would be written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={inner}" for key, inner in value.items())
    return str(value) if value != "" else "''"
