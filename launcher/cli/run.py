"""`launcher run`: run one job file or component attached to this terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.cli import jobs
from launcher.cli.attached import run_attached
from launcher.cli.console import Console
from launcher.errors import UsageError
from launcher.runner import get_runner
from launcher.specs.launch import Launch
from launcher.text import did_you_mean

USAGE = "run FILE [OPTIONS]\n       launcher run [OPTIONS] COMPONENT [ARGUMENTS]\n       launcher run --stdin"
HELP = """\
Run one job file or component now, without planning, and show its output. The
app is cancelled when this command ends: by Ctrl-C, or by closing the terminal.
Output is shown until the app has stopped; a second Ctrl-C kills it.

A component is a name (`launcher components`) or file.py:function. All
arguments after it belong to the component; its own --help lists them.

Every run starts a new app, whatever has run before. It takes the cores, memory
and GPUs that it asks for at once; with --queue it waits in line for them, behind
the apps of `launcher queue`."""
EXAMPLES = """\
  launcher run jobs/train.launcher.yaml --var epochs=1
  launcher run train.launcher.yaml --dryrun        show the request only
  launcher run train.launcher.yaml --cfg grace_s=30
  launcher run -s local_cwd utils.sh --num_replicas 2 -- echo hello
  launcher run train.launcher.yaml --queue         wait in line for a free GPU
  launcher run ./train.py:train --help
  launcher run -s local_docker --workspace . dist.ddp --script train.py
  launcher wait $(launcher run train.launcher.yaml --detach)
  echo '{"component_name": "utils.echo", "scheduler": "local_cwd",
         "scheduler_args": {}}' | launcher run --stdin

Exit codes: 0 succeeded, 5 did not succeed, 130 interrupted."""

_SHOWN = 8  # the most names in a message


def add_arguments(parser: Any) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="job file or component")
    parser.option("--stdin", "read component, scheduler and options as a JSON object from standard input")
    jobs.add_variables(parser)
    parser.option("--job JOB", "job to run, if FILE has a matrix or is a directory")
    parser.option("-s, --scheduler SCHEDULER", "scheduler to use instead of the one in the file")
    parser.option(
        "-c, --cfg KEY=VALUE",
        "run option of the scheduler (see `launcher runopts`); may be repeated",
        repeats=True,
    )
    parser.option("--workspace FOLDER", "workspace of a component: a folder, or {FROM: TO, …} for several")
    parser.option("--parent-run-id ID", "value of LAUNCHER_PARENT_RUN_ID in replicas")
    parser.option("--dryrun", "show the request to the scheduler, run nothing")
    parser.option("-d, --detach", "start the app, print its handle and exit")
    parser.option(
        "--queue",
        "wait in line for the cores, memory and GPUs that the app asks for (default: take them at once)",
    )
    text = "print the app as JSON, as `launcher status` does, when it has ended; its output goes to stderr"
    parser.option("--json", text)


divide = jobs.words_of  # splits the words of this command from those of its component


def run(args: Any, console: Console) -> int:
    if args.stdin or args.component_args is not None:
        from launcher.cli.run_component import run_component, run_request

        return run_request(args, console) if args.stdin else run_component(args, console)
    if args.file is None:
        raise UsageError("run needs FILE, COMPONENT or --stdin", hint="see `launcher run --help`")
    if args.workspace:
        raise UsageError("--workspace is only for components", hint="set `workspace:` in the job file")
    launch = _one(jobs.launches([args.file], args, console), args)
    scheduler = args.scheduler or launch.scheduler
    with get_runner(launch.key.project, detach=args.detach, queue=args.queue) as runner:
        cfg = runner.cfg_from_str(scheduler, *args.cfg)
        info = runner.dryrun_launch(launch, scheduler, cfg, args.parent_run_id)
        return run_attached(info, launch.app.name, args, runner, console)


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
