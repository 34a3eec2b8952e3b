"""A component and its arguments on a command line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.runner import Runner
    from launcher.specs import AppDef

_OF_FILES = ("job", "target", "var", "var_file", "allow_dirty", "strict")


def divide(words: Sequence[str], declared: Any) -> tuple[Sequence[str], Sequence[str] | None]:
    """The words up to the component and those behind it; all, and None, when the first name is none.

    Args:
        declared: the command's own options (`launcher.cli.arguments.Arguments`).
    """
    takes_value = {name for option in declared.declared if not option.is_flag for name in option.names}
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--" and position + 1 < len(words):
            own = [*words[:position], words[position + 1]]
            return (own, words[position + 2 :]) if is_component(own[-1]) else (words, None)
        if not word.startswith("-") or word == "-":
            return (words[: position + 1], words[position + 1 :]) if is_component(word) else (words, None)
        position += 2 if word in takes_value else 1
    return words, None


def is_component(word: str) -> bool:
    """Whether a word means a component: it names no file there is, and none by its suffix."""
    import os

    if ".py:" in word:
        return True
    is_file = os.path.exists(word) or os.sep in word or word.endswith((".yaml", ".yml", ".toml", ".json"))
    return not is_file and all(part.isidentifier() for part in word.split(".")) and "." in word


def refuse_options_of_files(args: Any) -> None:
    """Raises UsageError for an option that says something about a job file."""
    from launcher.errors import UsageError

    for name in _OF_FILES:
        if getattr(args, name):
            option = name.replace("_", "-")
            hint = "a component has arguments; they stand behind its name"
            raise UsageError(f"--{option} is for job files, and {args.file} is a component", hint=hint)


def made(name: str, words: Sequence[str], console: Console) -> AppDef | None:
    """The app that a component makes of its words; None when they asked for help, which was printed.

    Raises LauncherError: no such component, wrong arguments, or what the component says.
    """
    from launcher.components import (
        ComponentArgumentException,
        component_args_from_str,
        component_help,
        get_component,
    )
    from launcher.components.build import build
    from launcher.components.signature import parameters_of
    from launcher.components.words import assign
    from launcher.errors import UsageError
    from launcher.runner.config import component_defaults

    component = get_component(name)
    defaults = component_defaults().get(component.name)
    assigned = assign(words, parameters_of(component.fn))
    if assigned.wants_help:
        console.print(component_help(name, component.fn, defaults), end="")
        return None
    if assigned.repeated:
        raise UsageError(f"--{assigned.repeated[0]} is given twice", hint="give it once")
    try:
        arguments = component_args_from_str(component.fn, words, defaults)
    except ComponentArgumentException as error:
        raise ComponentArgumentException(component.name, error.problems) from None
    return build(component, arguments)


def scheduler_and_options(args: Any, runner: Runner) -> tuple[str, dict[str, Any]]:
    """Where to run, and with which options: the command line, else configuration files, else our default."""
    from launcher.runner import config
    from launcher.schedulers import get_default_scheduler_name

    configured = config.get_config("cli", "run", "scheduler")
    scheduler = args.scheduler or configured or get_default_scheduler_name()
    cfg = runner.cfg_from_str(scheduler, *args.cfg)
    config.apply(scheduler, cfg)
    return scheduler, cfg
