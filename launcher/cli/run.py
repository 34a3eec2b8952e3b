"""`launcher run`: run one job file or component, attached to this terminal.

Submits the app, shows its output, and cancels it on Ctrl-C.
"""

from __future__ import annotations

import signal
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from functools import partial
from json import dumps
from typing import Any

from launcher import outages
from launcher.cli import jobs
from launcher.cli.console import Console
from launcher.cli.live_display import LiveDisplay
from launcher.cli.log_reader import LogRequest, display, note, show
from launcher.cli.render.apps import status_json
from launcher.cli.render.log_lines import prefixes
from launcher.errors import NOT_SUCCEEDED, SchedulerError, Terminated, UsageError
from launcher.inventory.find import find
from launcher.inventory.logs import replicas_of
from launcher.inventory.recorded import scheduler_of
from launcher.inventory.status import inspect, wait_for
from launcher.runner.api import DEFAULT_SESSION
from launcher.runner.runner import Runner
from launcher.schedulers.registry import SchedulerFactories
from launcher.specs.jobkey import DEFAULT_TARGET, JobKey
from launcher.specs.launch import Launch
from launcher.state.records import AppRecord
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
    jobs.add_cfg(parser)
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


divide = jobs.words_of  # splits the command line into words for this command and for its component


def run(args: Any, console: Console) -> int:
    session: str | None = None
    if args.stdin or args.component_args is not None:
        from launcher.cli.run_component import submission

        made = submission(args, console)
    else:
        launch = _launch(args, console)
        session, made = launch.key.project, (launch.app.name, partial(_request, launch, args))
    if made is None:  # the component's help was printed
        return 0
    name, request = made
    schedulers = SchedulerFactories(guarded=True)
    with Runner(session or DEFAULT_SESSION, schedulers, detach=args.detach, queue=args.queue) as runner:
        return _submit(request(runner), name, args, runner, console)


def _request(launch: Launch, args: Any, runner: Runner) -> Any:
    scheduler = args.scheduler or launch.scheduler
    cfg = runner.cfg_from_str(scheduler, *args.cfg)
    return runner.dryrun_launch(launch, scheduler, cfg, args.parent_run_id)


def _launch(args: Any, console: Console) -> Launch:
    """Return the launch that FILE and --job select. Raises UsageError that lists names."""
    if args.file is None:
        raise UsageError("run needs FILE, COMPONENT or --stdin", hint="see `launcher run --help`")
    if args.workspace:
        raise UsageError("--workspace is only for components", hint="set `workspace:` in the job file")
    launches = jobs.launches([args.file], args, console)
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


SIGNALLED = 128
"""The exit code of a command that a signal has ended is this number plus the signal's number."""


def _submit(info: Any, name: str, args: Any, runner: Runner, console: Console) -> int:
    """Submit the request and show the output of the app until it has ended; returns the exit code.

    With `--dryrun` the request is only printed; with `--detach` the app is left running.
    """
    if args.dryrun:
        request = {"scheduler": info.scheduler, "request": repr(info)}
        console.print(dumps(request, indent=2, ensure_ascii=False) if args.json else repr(info))
        return 0
    try:
        handle, code = _run(info, name, args, runner, console.aside() if args.json else console)
    except (KeyboardInterrupt, Terminated):
        # Closing the runner cancels it, and waits until its processes have exited.
        console.note(f"cancelling {name}")
        raise
    if args.json and code > SIGNALLED:
        raise Terminated if code == SIGNALLED + signal.SIGTERM else KeyboardInterrupt
    if args.json:
        console.json(status_json(inspect(find(handle).app)))
    return code


def _run(info: Any, name: str, args: Any, runner: Runner, console: Console) -> tuple[str, int]:
    """Run the app to its end, or start it; return its handle and the exit code."""
    key = JobKey("", DEFAULT_TARGET, name)
    with LiveDisplay(console) as images:
        runner.on_progress = lambda _, kind, facts: images.image(key, kind, facts)
        handle = runner.schedule(info)
    if args.detach:
        console.print(handle)
        return handle, 0
    if args.queue:
        _show_place(handle, console)
    try:
        return handle, _follow(handle, console)
    except SchedulerError as error:
        runner.leave(handle)
        raise SchedulerError(
            f"cannot follow {handle}: {error}", hint=f"it runs on; to see it: launcher logs {handle} --follow"
        ) from error


def _follow(handle: str, console: Console) -> int:
    """Show the output of all replicas until the app has ended; return the exit code."""
    selected = find(handle)
    app = selected.app
    console.note(handle)
    request = LogRequest(replicas_of(selected))
    request.follow = True
    request.on_restart = lambda restart: note(request, console, str(restart))
    if len(request.replicas) > 1:
        request.prefixes = list(prefixes(request.replicas, console.color))
    display([(app, request)], console)
    outages.report = lambda text: note(request, console, text)
    with Attached(app, lambda text: note(request, console, text)) as attached:
        show([(app, request)], console)
        state = wait_for(app, None).state
    found = inspect(app)
    why = found.cause or found.message
    console.note(f"{app.app_id} {state.upper()}{': ' + why if why else ''}")
    for warning in scheduler_of(app).warnings(app.app_id):
        console.warn(f"{app.app_id}: {warning}")
    return attached.exit_code or (0 if state == "succeeded" else NOT_SUCCEEDED)


_FIRST_LOOK_S = 0.05
_LOOK_S = 1.0  # between two looks at the line


def _show_place(handle: str, console: Console) -> None:
    """Show the app's place in line until it is no longer there."""
    from launcher.inventory.turns import wait_in_line

    app, shown, pause_s = find(handle).app, "", _FIRST_LOOK_S
    try:
        while (seen := inspect(app)).state == "queued":
            if seen.message != shown and console.err_is_screen:
                console.note_in_place(f"{app.app_id} {seen.message}")
            elif not shown:
                console.note(f"{app.app_id} {seen.message}")
            shown = seen.message
            if not wait_in_line(app.app_id, _LOOK_S):
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LOOK_S)
    finally:
        if shown and console.err_is_screen:
            console.note_in_place("")


class Attached:
    """Cancels an app on Ctrl-C or SIGTERM, and kills it on the second signal. A context manager.

    The first two signals raise nothing, so that the caller follows the app to its end. An error of the
    cancellation is raised in the main thread; a third signal raises KeyboardInterrupt or Terminated.

    Attributes:
        exit_code: the exit code of the interrupted command; 0 if no signal was received.
    """

    def __init__(self, app: AppRecord, note: Callable[[str], None]) -> None:
        """`note` shows a message; it is called from other threads."""
        self.exit_code = 0
        self._app = app
        self._note = note
        self._count = 0
        self._error: BaseException | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Attached:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell starts background jobs
                self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _received(self, number: int, _frame: object) -> None:
        if self._error is not None:
            raise self._error
        self._count += 1
        self.exit_code = self.exit_code or 128 + number
        if self._count > 2:
            raise Terminated if number == 15 else KeyboardInterrupt
        # Not from `threading`: to start such a thread takes a lock that the main thread may hold.
        start_new_thread(self._cancel, (self._count > 1,))

    def _cancel(self, at_once: bool) -> None:
        name = self._app.app_id
        self._note(f"killing {name}" if at_once else f"cancelling {name}; Ctrl-C again kills it")
        try:
            scheduler = scheduler_of(self._app)
            scheduler.on_wait = lambda app_id, what: self._note(f"waiting for {app_id} to stop: {what}")
            scheduler.interrupt(self._app.app_id, *([0.0] if at_once else []))
        except BaseException as error:
            self._error = error
            # Wakes the main thread from a blocking call.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
