"""A component and its arguments on a command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.cli.console import Console
from launcher.components import (
    Component,
    ComponentArgs,
    ComponentArgumentException,
    component_args_from_str,
    component_help,
    get_component,
)
from launcher.components.build import build
from launcher.components.command_line import ArgumentProblem, assign
from launcher.components.finder import is_registered
from launcher.errors import UsageError
from launcher.runner import Runner, config
from launcher.runner.config import component_defaults
from launcher.schedulers import get_default_scheduler_name
from launcher.specs import AppDef

OF_FILES = ("job", "target", "var", "var_file", "allow_dirty", "no_components", "no_env_vars", "strict")
OF_RUN = ("scheduler", "cfg", "dryrun", "detach", "workspace", "parent_run_id")


def words_of(
    words: Sequence[str], declared: Any, *, always: bool = False
) -> tuple[Sequence[str], Sequence[str] | None]:
    """The words up to the component and those behind it; all, and None, when the first name is none.

    Args:
        declared: the command's own options (`launcher.cli.arguments.Arguments`).
        always: whether the first name is a component whatever it looks like.
    """
    takes_value = {name for option in declared.declared if not option.is_flag for name in option.names}
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--" and position + 1 < len(words):
            own = [*words[:position], words[position + 1]]
            return (own, words[position + 2 :]) if always or is_component(own[-1]) else (words, None)
        if not word.startswith("-") or word == "-":
            own = [*words[: position + 1]]
            return (own, words[position + 1 :]) if always or is_component(word) else (words, None)
        position += 2 if word in takes_value else 1
    return words, None


def is_component(word: str) -> bool:
    """Whether a word means a component: it names no file there is, and none by its suffix.

    A single word is one only where a package has registered it: `launcher run train` may mistake a file.
    """
    if ".py:" in word or word.endswith(".py"):
        return True
    is_file = os.path.exists(word) or os.sep in word or word.endswith((".yaml", ".yml", ".toml", ".json"))
    if is_file or not all(part.isidentifier() for part in word.split(".")):
        return False
    if "." in word:
        return True
    return is_registered(word)


def refuse_options_of_files(args: Any) -> None:
    """Raises UsageError for an option that says something about a job file."""
    for name in OF_FILES:
        if getattr(args, name):
            option = name.replace("_", "-")
            hint = "a component has arguments; they stand behind its name"
            raise UsageError(f"--{option} is for job files, and {args.file} is a component", hint=hint)


def made(
    name: str, words: Sequence[str], console: Console, values: Mapping[str, Any] | None = None
) -> AppDef | None:
    """The app that a component makes of its words; None when they asked for help, which was printed.

    Args:
        values: parameter → value, for those that no word gives.

    Raises LauncherError: no such component, wrong arguments, or what the component says.
    """
    found = called(name, words, console, values)
    return build(*found) if found else None


def called(
    name: str, words: Sequence[str], console: Console, values: Mapping[str, Any] | None = None
) -> tuple[Component, ComponentArgs] | None:
    """A component and the arguments that its words are; None when they asked for help, which was printed.

    Args:
        values: as in `made`.

    Raises LauncherError: no such component, wrong arguments.
    """
    component = get_component(name)
    defaults = component_defaults().get(component.name)
    assigned = assign(words, component.parameters)
    if assigned.wants_help:
        console.print(component_help(name, component.fn, defaults, width=console.width()), end="")
        return None
    if assigned.repeated:
        raise UsageError(f"--{assigned.repeated[0]} is given twice", hint="give it once")
    try:
        arguments = component_args_from_str(component.fn, words, defaults, values)
    except ComponentArgumentException as error:
        problems = [_placed(problem) for problem in error.problems]
        raise ComponentArgumentException(component.name, problems) from None
    return component, arguments


def _placed(problem: ArgumentProblem) -> ArgumentProblem:
    """With the hint that an option of `run` stands in front of the component."""
    if problem.code != "unknown-field" or problem.name not in OF_RUN:
        return problem
    return problem._replace(hint=f"an option of `run` stands before the component: run --{problem.name} …")


def scheduler_and_options(args: Any, runner: Runner) -> tuple[str, dict[str, Any]]:
    """Where to run, and with which options: the command line, else configuration files, else our default."""
    configured = config.get_config("cli", "run", "scheduler")
    scheduler = args.scheduler or configured or get_default_scheduler_name()
    cfg = runner.cfg_from_str(scheduler, *args.cfg)
    config.apply(scheduler, cfg)
    return scheduler, cfg
