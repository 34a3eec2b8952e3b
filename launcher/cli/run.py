"""`launcher run`: run one job file or component attached to this terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from launcher.cli import jobs
from launcher.cli.component_arguments import (
    OF_FILES,
    OF_RUN,
    made,
    refuse_options_of_files,
    scheduler_and_options,
    words_of,
)
from launcher.cli.console import Console
from launcher.cli.image_progress import ImageProgress
from launcher.cli.interrupts import Attached, Terminated, terminate_with_exception
from launcher.cli.log_reader import LogRequest, display, note, show
from launcher.cli.render.log_lines import prefixes
from launcher.cli.run_request import read_request
from launcher.errors import NOT_SUCCEEDED, UsageError
from launcher.inventory.find import find
from launcher.inventory.installed import scheduler_of
from launcher.inventory.logs import replicas_of
from launcher.inventory.status import cause, inspect, wait_for
from launcher.runner import Runner, config, get_runner
from launcher.specs import Launch
from launcher.text import did_you_mean
from launcher.workspace import Workspace

USAGE = "run FILE [OPTIONS]\n       launcher run [OPTIONS] COMPONENT [ARGUMENTS]\n       launcher run --stdin"
HELP = """\
Run one job file or component now, without planning, and show its output. The
app is cancelled when this command ends: by Ctrl-C, or by closing the terminal.
Output is shown until the app has stopped; a second Ctrl-C kills it.

A component is a name (`launcher components`) or file.py:function. All
arguments after it belong to the component; its own --help lists them.

Every run starts a new app, whatever has run before."""
EXAMPLES = """\
  launcher run jobs/train.launcher.yaml --var epochs=1
  launcher run train.launcher.yaml --dryrun        show the request only
  launcher run train.launcher.yaml --cfg grace_s=30
  launcher run -s local_cwd utils.sh --num_replicas 2 -- echo hello
  launcher run ./train.py:train --help
  launcher run -s local_docker --workspace . dist.ddp --script train.py
  launcher wait $(launcher run train.launcher.yaml --detach)
  echo '{"component_name": "utils.echo", "scheduler": "local_cwd",
         "scheduler_args": {}}' | launcher run --stdin

Exit codes: 0 succeeded, 5 did not succeed, 130 interrupted."""

_SHOWN = 8  # names in a message


def add_arguments(parser: Any) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="job file or component")
    parser.add_argument(
        "--stdin",
        action="store_true",
        help="read component, scheduler and options as a JSON object from standard input",
    )
    jobs.add_variables(parser)
    parser.add_argument("--job", metavar="JOB", help="job to run, if FILE has a matrix or is a directory")
    parser.add_argument(
        "-s", "--scheduler", metavar="SCHEDULER", help="scheduler to use instead of the one in the file"
    )
    parser.add_argument(
        "-c",
        "--cfg",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="run option of the scheduler (see `launcher runopts`); may be repeated",
    )
    parser.add_argument(
        "--workspace",
        metavar="FOLDER",
        help="workspace of a component: a folder, or {FROM: TO, …} for several",
    )
    parser.add_argument("--parent-run-id", metavar="ID", help="value of LAUNCHER_PARENT_RUN_ID in replicas")
    parser.add_argument(
        "--dryrun", action="store_true", help="show the request to the scheduler, run nothing"
    )
    parser.add_argument(
        "-d", "--detach", action="store_true", help="start the app, print its handle and exit"
    )


def divide(words: Sequence[str], declared: Any) -> tuple[Sequence[str], Sequence[str] | None]:
    """Split the command line into the words of this command and those of its component, None without one."""
    return words_of(words, declared)


def run(args: Any, console: Console) -> int:
    if args.stdin:
        return _run_request(args, console)
    if args.file is None:
        raise UsageError("run needs FILE, COMPONENT or --stdin", hint="see `launcher run --help`")
    if args.component_args is not None:
        return _run_component(args, console)
    if args.workspace:
        raise UsageError("--workspace is only for components", hint="set `workspace:` in the job file")
    launch = _one(jobs.launches([args.file], args, console), args)
    scheduler = args.scheduler or launch.scheduler
    with get_runner(launch.key.project, detach=args.detach) as runner:
        cfg = runner.cfg_from_str(scheduler, *args.cfg)
        info = runner.dryrun_launch(launch, scheduler, cfg, args.parent_run_id)
        return _attached(info, launch.app.name, args, runner, console)


def _run_component(args: Any, console: Console) -> int:
    refuse_options_of_files(args)
    app = made(args.file, args.component_args, console)
    if app is None:
        return 0
    with get_runner(detach=args.detach) as runner:
        scheduler, cfg = scheduler_and_options(args, runner)
        info = runner.dryrun(app, scheduler, cfg, _workspace_of_component(args), args.parent_run_id)
        return _attached(info, app.name, args, runner, console)


def _run_request(args: Any, console: Console) -> int:
    """Run the request on standard input, which other options may not modify."""
    given = [name for name in ("file", *OF_FILES, *OF_RUN) if getattr(args, name)]
    if given:
        word = args.file if given[0] == "file" else f"--{given[0].replace('_', '-')}"
        raise UsageError(f"{word} cannot be combined with --stdin", hint="put it into the JSON object")
    if sys.stdin is None:
        raise UsageError("--stdin reads standard input, but it is closed")
    request = read_request(sys.stdin.buffer.read())
    for name in ("dryrun", "detach", "workspace", "parent_run_id"):
        setattr(args, name, getattr(request, name))
    app = made(request.component_name, request.component_args_str, console, request.component_args)
    if app is None:
        return 0
    with get_runner(detach=args.detach) as runner:
        cfg = runner.scheduler_run_opts(request.scheduler).cfg_from_json_repr(request.options)
        config.apply(request.scheduler, cfg)
        info = runner.dryrun(app, request.scheduler, cfg, _workspace_of_component(args), args.parent_run_id)
        return _attached(info, app.name, args, runner, console)


def _workspace_of_component(args: Any) -> object:
    """From the command line, else the configuration; "" for none."""
    if args.workspace is not None:
        return args.workspace
    given = config.get_config("cli", "run", "workspace")
    if not isinstance(given, dict):
        return given
    return Workspace(given)


def _attached(info: Any, name: str, args: Any, runner: Runner, console: Console) -> int:
    if args.dryrun:
        console.print(repr(info))
        return 0
    terminate_with_exception()
    try:
        return _run(info, name, args, runner, console)
    except (KeyboardInterrupt, Terminated):
        console.note(
            f"cancelling {name}"
        )  # closing the runner cancels it, and waits until its processes have exited
        raise


def _one(launches: Sequence[Launch], args: Any) -> Launch:
    """The launch selected by --job, or the only one. Raises UsageError that lists names."""
    named = [launch for launch in launches if args.job in (None, launch.key.job)]
    if len(named) == 1:
        return named[0]
    names = [launch.key.job for launch in launches]
    some = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    if args.job is not None and not named:
        hint = did_you_mean(args.job, names) or f"its jobs: {some}"
        raise UsageError(f"{args.file} has no job `{args.job}`", hint=hint)
    raise UsageError(
        f"{args.file} has {len(launches)} jobs, but run takes one", hint=f"choose one with --job: {some}"
    )


def _run(info: Any, name: str, args: Any, runner: Runner, console: Console) -> int:
    with ImageProgress(name, console) as progress:
        runner.on_progress = progress
        handle = runner.schedule(info)
    if args.detach:
        console.print(handle)
        return 0
    return _follow(handle, console)


def _follow(handle: str, console: Console) -> int:
    """Show the output of all replicas until the app has ended; return the exit code."""
    selected = find(handle)
    app = selected.app
    console.note(handle)
    request = LogRequest(replicas_of(selected))
    request.follow = True
    request.on_restart = lambda _, restart: note(request, console, str(restart))
    if len(request.replicas) > 1:
        request.prefixes = list(prefixes(request.replicas, console.color))
    display([(app, request)], console)
    with Attached(app, lambda text: note(request, console, text)) as attached:
        show([(app, request)], console)
        state = wait_for(app, None)
    found = inspect(app)
    why = cause(found) or found.message
    console.note(f"{app.app_id} {state.upper()}{': ' + why if why else ''}")
    for warning in scheduler_of(app).warnings(app.app_id):
        console.warn(f"{app.app_id}: {warning}")
    return attached.exit_code or (0 if state == "succeeded" else NOT_SUCCEEDED)
