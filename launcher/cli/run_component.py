"""Run the component of a command line, or of a request on standard input."""

from __future__ import annotations

import sys
from typing import Any

from launcher.cli.attached import run_attached
from launcher.cli.component_arguments import made, refuse_options_of_files, scheduler_and_options
from launcher.cli.component_words import OF_FILES, OF_RUN
from launcher.cli.console import Console
from launcher.cli.run_request import read_request
from launcher.errors import UsageError
from launcher.runner import config, get_runner
from launcher.workspace import Workspace


def run_component(args: Any, console: Console) -> int:
    """Run the component that the command line names."""
    refuse_options_of_files(args)
    app = made(args.file, args.component_args, console)
    if app is None:
        return 0
    with get_runner(detach=args.detach, queue=args.queue) as runner:
        scheduler, cfg = scheduler_and_options(args, runner)
        info = runner.dryrun(app, scheduler, cfg, _workspace_of_component(args), args.parent_run_id)
        return run_attached(info, app.name, args, runner, console)


def run_request(args: Any, console: Console) -> int:
    """Run the request on standard input, which other options may not modify."""
    given = [name for name in ("file", *OF_FILES, *OF_RUN) if getattr(args, name)]
    if given:
        word = args.file if given[0] == "file" else f"--{given[0].replace('_', '-')}"
        raise UsageError(f"{word} cannot be combined with --stdin", hint="put it into the JSON object")
    if sys.stdin is None:
        raise UsageError("--stdin reads standard input, but it is closed")
    request = read_request(sys.stdin.buffer.read())
    for name in ("dryrun", "detach", "queue", "workspace", "parent_run_id"):
        setattr(args, name, getattr(request, name))
    app = made(request.component_name, request.component_args_str, console, request.component_args)
    if app is None:
        return 0
    with get_runner(detach=args.detach, queue=args.queue) as runner:
        cfg = runner.scheduler_run_opts(request.scheduler).cfg_from_json_repr(request.options)
        config.apply(request.scheduler, cfg)
        info = runner.dryrun(app, request.scheduler, cfg, _workspace_of_component(args), args.parent_run_id)
        return run_attached(info, app.name, args, runner, console)


def _workspace_of_component(args: Any) -> object:
    """From the command line, else the configuration; "" for none."""
    if args.workspace is not None:
        return args.workspace
    given = config.get_config("cli", "run", "workspace")
    if not isinstance(given, dict):
        return given
    return Workspace(given)
