"""The app of a component, which a command line or a request on standard input describes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launcher.cli.console import Console
from launcher.cli.jobs import OF_FILES
from launcher.cli.main import option_elsewhere
from launcher.components.call import (
    ArgumentProblem,
    ComponentArgs,
    ComponentArgumentException,
    assign,
    component_args_from_str,
)
from launcher.components.component import Component
from launcher.components.finder import get_component
from launcher.components.signature import component_help
from launcher.dataclass import dataclass, field, fields
from launcher.errors import UsageError
from launcher.runner import Runner, config
from launcher.runner.config import component_defaults
from launcher.schedulers.registry import get_default_scheduler_name
from launcher.text import name_hint
from launcher.workspace.api import Workspace

_OF_RUN = ("scheduler", "cfg", "dryrun", "detach", "queue", "workspace", "parent_run_id")


def submission(args: Any, console: Console) -> tuple[str, Callable[[Runner], Any]] | None:
    """Return the name of a component's app, and the function that makes the request for it.

    Component and options come from the command line or, with --stdin, from the JSON object on standard input.
    Returns None when the help of the component was printed instead.
    """
    asked = _on_stdin(args) if args.stdin else None
    if asked is not None:
        found = called(asked.component_name, asked.component_args_str, console, asked.component_args)
    elif of_files := next((name.replace("_", "-") for name in OF_FILES if getattr(args, name)), None):
        hint = "arguments of a component follow its name"
        raise UsageError(f"--{of_files} is only for job files, and {args.file} is a component", hint=hint)
    else:
        found = called(args.file, args.component_args, console)
    if found is None:
        return None
    app = found[0].build(found[1])

    def request(runner: Runner) -> Any:
        if asked is not None:
            scheduler = asked.scheduler
            cfg = runner.scheduler_run_opts(scheduler).cfg_from_json_repr(asked.options)
        else:
            configured = config.get_config("cli", "run", "scheduler")
            scheduler = args.scheduler or configured or get_default_scheduler_name()
            cfg = runner.cfg_from_str(scheduler, *args.cfg)
        config.apply(scheduler, cfg)
        workspace = args.workspace
        if workspace is None:
            given = config.get_config("cli", "run", "workspace")
            workspace = Workspace(given) if isinstance(given, dict) else given
        return runner.dryrun(app, scheduler, cfg, workspace, args.parent_run_id)

    return app.name, request


def _on_stdin(args: Any) -> RunRequest:
    """Read the request on standard input, which other options may not modify, and take its options."""
    given = [name for name in ("file", *OF_FILES, *_OF_RUN) if getattr(args, name)]
    if given:
        word = args.file if given[0] == "file" else f"--{given[0].replace('_', '-')}"
        raise UsageError(f"{word} cannot be combined with --stdin", hint="put it into the JSON object")
    if sys.stdin is None:
        raise UsageError("--stdin reads standard input, but it is closed")
    asked = read_request(sys.stdin.buffer.read())
    for name in ("dryrun", "detach", "queue", "workspace", "parent_run_id"):
        setattr(args, name, getattr(asked, name))
    return asked


def called(
    name: str, words: Sequence[str], console: Console, values: Mapping[str, Any] | None = None
) -> tuple[Component, ComponentArgs] | None:
    """Find a component and parse its arguments; None if the words ask for help, which is printed.

    Args:
        values: parameter → value, for parameters that the words do not set.

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
        problems = [problem._replace(hint=_hint(problem)) for problem in error.problems]
        raise ComponentArgumentException(component.name, problems) from None
    return component, arguments


def _hint(problem: ArgumentProblem) -> str | None:
    """Return the hint for a problem, which may be an option of `run` behind the component."""
    if problem.code == "unknown-field" and problem.name.replace("-", "_") in _OF_RUN:
        return f"options of `run` go before the component: run --{problem.name} …"
    return option_elsewhere("run", f"--{problem.name}") or problem.hint


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The fields of the object.

    Attributes:
        scheduler_args: run options; `scheduler_cfg` takes precedence.
        component_args: parameter → value; `component_args_str` takes precedence.
        dryrun, detach, queue: see the options with these names.
        workspace, parent_run_id: likewise; None if absent.
        wait, log, tee_logs: accepted and ignored: `run` waits and shows output unless it detaches.
    """

    component_name: str
    scheduler: str
    scheduler_args: Mapping[str, Any]
    scheduler_cfg: Mapping[str, Any] = field(default_factory=dict)
    component_args: Mapping[str, Any] = field(default_factory=dict)
    component_args_str: list[str] = field(default_factory=list)
    dryrun: bool = False
    detach: bool = False
    queue: bool = False
    workspace: str | None = None
    parent_run_id: str | None = None
    wait: bool = False
    log: bool = False
    tee_logs: bool = False

    @property
    def options(self) -> str:
        """The run options as JSON."""
        return json.dumps({**self.scheduler_args, **self.scheduler_cfg})


REQUIRED = ("component_name", "scheduler", "scheduler_args")
_FORMS = {"str": (str, "text"), "bool": (bool, "true or false"), "list": (list, "a list of texts")}
_FORMS["Mapping"] = (dict, "an object")
EXAMPLE = '{"component_name": "utils.echo", "scheduler": "local_cwd", "scheduler_args": {}}'


def read_request(text: str | bytes) -> RunRequest:
    """Parse a request. Raises UsageError that names missing, unknown or invalid fields.

    Bytes are UTF-8 in any locale, UTF-16 or UTF-32; they may begin with a byte order mark.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise UsageError(f"standard input is not JSON: {error}", hint=f"such as {EXAMPLE}") from None
    except RecursionError:
        raise UsageError("standard input is nested too deep", hint=f"such as {EXAMPLE}") from None
    if not isinstance(given, dict):
        raise UsageError("standard input is not a JSON object", hint=f"such as {EXAMPLE}")
    form_of = {each.name: str(each.type).partition("[")[0].partition(" ")[0] for each in fields(RunRequest)}
    missing = [name for name in REQUIRED if name not in given]
    if missing:
        named = " and ".join(f"`{name}`" for name in missing)
        raise UsageError(f"standard input lacks {named}", hint=f"such as {EXAMPLE}")
    for name, value in given.items():
        if name not in form_of:
            raise UsageError(f"unknown field `{name}` on standard input", hint=name_hint(name, form_of))
        form, wanted = _FORMS[form_of[name]]
        texts = not isinstance(value, list) or all(isinstance(each, str) for each in value)
        optional = value is None and name in ("workspace", "parent_run_id")
        if not optional and not (isinstance(value, form) and texts):
            raise UsageError(f"`{name}` must be {wanted}, got {json.dumps(value)}")
    return RunRequest(**given)
