"""Find the component of a command line, and parse its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.cli.component_words import OF_FILES, OF_RUN
from launcher.cli.console import Console
from launcher.components import (
    Component,
    ComponentArgs,
    ComponentArgumentException,
    component_args_from_str,
    component_help,
    get_component,
)
from launcher.components.call import ArgumentProblem, assign
from launcher.errors import UsageError
from launcher.runner import Runner, config
from launcher.runner.config import component_defaults
from launcher.schedulers import get_default_scheduler_name
from launcher.specs import AppDef


def refuse_options_of_files(args: Any) -> None:
    """Raises UsageError for an option that applies only to job files."""
    for name in OF_FILES:
        if getattr(args, name):
            option = name.replace("_", "-")
            hint = "arguments of a component follow its name"
            raise UsageError(f"--{option} is only for job files, and {args.file} is a component", hint=hint)


def made(
    name: str, words: Sequence[str], console: Console, values: Mapping[str, Any] | None = None
) -> AppDef | None:
    """Call a component and return its app; None if the words ask for help, which is printed.

    Args:
        values: parameter → value, for parameters that the words do not set.

    Raises LauncherError: unknown component, invalid arguments, or an error of the component.
    """
    found = called(name, words, console, values)
    return found[0].build(found[1]) if found else None


def called(
    name: str, words: Sequence[str], console: Console, values: Mapping[str, Any] | None = None
) -> tuple[Component, ComponentArgs] | None:
    """Find a component and parse its arguments; None if the words ask for help, which is printed.

    Args:
        values: as in `made`.

    Raises LauncherError: unknown component, invalid arguments.
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
    """Add the hint that options of `run` go before the component."""
    if problem.code != "unknown-field" or problem.name not in OF_RUN:
        return problem
    return problem._replace(hint=f"options of `run` go before the component: run --{problem.name} …")


def scheduler_and_options(args: Any, runner: Runner) -> tuple[str, dict[str, Any]]:
    """The scheduler and its run options: of the command line, configuration files or defaults."""
    configured = config.get_config("cli", "run", "scheduler")
    scheduler = args.scheduler or configured or get_default_scheduler_name()
    cfg = runner.cfg_from_str(scheduler, *args.cfg)
    config.apply(scheduler, cfg)
    return scheduler, cfg
