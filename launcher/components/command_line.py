"""Assign the command-line arguments of a component to its parameters.

`--name value` and `--name=value`; a unique prefix of a name suffices; parameters of one
letter also as `-x value`. The first bare word, and all behind it, are for `*args`; so is all behind `--`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from launcher.components.signature import Parameters
from launcher.text import name_hint

HELP = "--help"


class ArgumentProblem(NamedTuple):
    """A problem of the arguments of a component.

    Attributes:
        name: the parameter, or the text in its place.
        code: `unknown-field`, `missing-field` or `wrong-type`.
        path: of a wrong value in a document, from the parameter on: ("env", "LR").
    """

    name: str
    code: str
    message: str
    hint: str | None = None
    path: tuple[str | int, ...] = ()


@dataclass(slots=True)
class CommandLine:
    """Attributes:
    texts: parameter → text, the last one if it is given twice.
    rest: the words for `*args`; None when there are none.
    repeated: the parameters that are given twice.
    """

    texts: dict[str, str] = field(default_factory=dict)
    rest: list[str] | None = None
    repeated: list[str] = field(default_factory=list)
    wants_help: bool = False
    problems: list[ArgumentProblem] = field(default_factory=list)


def assign(words: Sequence[str], parameters: Parameters) -> CommandLine:
    """Assign each word to its parameter. Problems are collected, not raised."""
    found = CommandLine()
    rest = next((parameter.name for parameter in parameters.values() if parameter.is_rest), None)
    options = [name for name in parameters if name != rest]
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == HELP and "help" not in options:
            found.wants_help = True
        elif word == "--" or not word.startswith("-") or word == "-":
            _take_rest(queue if word == "--" else [word, *queue], rest, options, found)
            return found
        else:
            _take_option(word, queue, options, found)
    return found


def _take_rest(words: list[str], rest: str | None, options: list[str], found: CommandLine) -> None:
    if rest is not None:
        found.rest = words
    elif words:
        message = f"`{words[0]}` belongs to no argument"
        found.problems.append(ArgumentProblem(words[0], "unknown-field", message, _all(options)))


def _take_option(word: str, queue: list[str], options: list[str], found: CommandLine) -> None:
    name, value = _split(word, options)
    meant = _meant(name, options)
    if len(meant) != 1:
        found.problems.append(_unknown(word, name, meant, options))
        # The word after an unknown option is taken for its value.
        if value is None and queue and not queue[0].startswith("-"):
            queue.pop(0)
        return
    if value is None:
        if not queue or queue[0] == "--" or _is_option(queue[0], options):
            message = f"`--{meant[0]}` needs a value"
            found.problems.append(ArgumentProblem(meant[0], "missing-field", message, f"--{meant[0]}=VALUE"))
            return
        value = queue.pop(0)
    if meant[0] in found.texts:
        found.repeated.append(meant[0])
    found.texts[meant[0]] = value


def _split(word: str, options: list[str]) -> tuple[str, str | None]:
    """("name", "value") of `--name=value`, `-x=value` and `-xvalue`; the value is None when it follows."""
    if not word.startswith("--") and word[1] in options and len(word) > 2:
        return word[1], word[2:].removeprefix("=")
    name, equals, value = word.lstrip("-").partition("=")
    return name, value if equals else None


def _meant(name: str, options: list[str]) -> list[str]:
    spelt = name.replace("-", "_")
    for exact in (name, spelt):
        if exact in options:
            return [exact]
    return [option for option in options if spelt and option.startswith(spelt)]


def _is_option(word: str, options: list[str]) -> bool:
    """Whether a word is the full name of a parameter, so no value. A negative number is a value."""
    if word == HELP and "help" not in options:
        return True
    name = word.partition("=")[0]
    if name.startswith("--"):
        return name[2:] in options
    return len(name) == 2 and name[0] == "-" and name[1] in options


def _unknown(word: str, name: str, meant: list[str], options: list[str]) -> ArgumentProblem:
    if meant:
        message = f"`--{name}` fits more than one argument"
        return ArgumentProblem(name, "unknown-field", message, _all(meant))
    message = f"there is no argument `{word.partition('=')[0]}`"
    return ArgumentProblem(name, "unknown-field", message, name_hint(name, options))


def _all(options: list[str]) -> str:
    if not options:
        return "the component takes no arguments"
    return f"its arguments: {', '.join('--' + option for option in options)}"
