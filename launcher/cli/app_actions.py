"""`launcher cancel`, `start`, `wait`: commands that act on apps and go on with the others where one fails."""

from __future__ import annotations

from launcher.cli.arguments import add_apps, duration
from launcher.errors import NOT_SUCCEEDED, AppNotFoundError, BlockedError, LauncherError, UsageError
from launcher.state.records import WAITING
from launcher.text import FEW, plural, with_cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.render.findings import Problem
    from launcher.state.records import AppRecord


def _chosen(args: Any) -> tuple[list[AppRecord], set[str]]:
    """Return the apps of the command line, each once, and the handles of those of a matrix or a pattern."""
    from launcher.inventory.find import find_each

    found = find_each(args.apps, args.target)
    apps = {app.handle: app for each in found for app in each.apps}
    return [*apps.values()], {app.handle for each in found if each.is_group for app in each.apps}


def _print_result(
    apps: Sequence[AppRecord], problems: Sequence[Problem], code: int, console: Console
) -> None:
    from launcher.cli.render.findings import apps_result

    console.print(apps_result(apps, problems, code))


def _report(
    app: AppRecord,
    error: LauncherError,
    among: Sequence[AppRecord],
    problems: list[Problem],
    console: Console,
) -> None:
    """Report the error of one of several apps, so that the others go on. Raises the error of a single app."""
    if len(among) == 1:
        raise error
    console.error(error)
    problems.append((app.handle, error))


class Cancel:
    """`launcher cancel`: stop apps and every process that they started."""

    USAGE = "cancel APP… [-t TARGET] [--grace TIME] [--yes] [--json]"
    HELP = """\
Stop apps. Every replica and its child processes get SIGTERM, and SIGKILL after
the grace period. Returns when all of them have exited. A local supervisor that
does not respond is killed together with its replicas.

The name of a matrix selects all of its jobs; a quoted pattern selects the jobs
and app ids that it matches. If that is more than one running app, cancel lists
them and asks for confirmation; without a terminal, it fails with exit code 3
unless --yes is given.

Apps that have already ended are not changed. The next apply holds a cancelled
job until you re-run it (--rerun). If one of several apps cannot be stopped,
the others are stopped all the same, and the exit code is 1."""
    EXAMPLES = """\
  launcher cancel train
  launcher cancel train --grace 1m     give it a minute to clean up
  launcher cancel 'sweep-*' --yes
  launcher cancel train@3 local_cwd://default/eval-1-k3fwx"""

    @staticmethod
    def add_arguments(parser: Any) -> None:
        add_apps(parser)
        parser.option(
            "--grace TIME",
            "time between SIGTERM and SIGKILL: 0, 30s, 2m (default: the app's own, or 10s)",
            type=duration,
        )
        parser.option("-y, --yes", "stop several apps without asking")
        parser.option("--json", "print one JSON object when done")

    @staticmethod
    def run(args: Any, console: Console, *, always_asks: bool = False) -> int:
        """Cancel apps. `always_asks`: whether to ask also before a single app is stopped."""
        from launcher.inventory.listing import current

        apps, of_groups = _chosen(args)
        problems: list[Problem] = []
        seen = _inspected(apps, problems, console)
        live = [app for app in seen if app.is_live or _was_started_again(app)]
        _note_ended([app for app in seen if app not in live], of_groups, console)
        is_unclear = len(live) > 1 and not of_groups.isdisjoint(app.handle for app in live)
        if live and not args.yes and (is_unclear or always_asks):
            _ask_to_stop(live, console)
        _cancel_all(live, args.grace, problems, console)
        code = int(bool(problems))
        if args.json:
            _print_result(current(seen), problems, code, console)
        return code


def _was_started_again(app: AppRecord) -> bool:
    """Whether a replica of an ended app runs, which another program has started."""
    return app.has_ended and any(each.state == "running" for each in app.replicas)


def _note_ended(apps: Sequence[AppRecord], of_groups: set[str], console: Console) -> None:
    """Name the ended apps that were named themselves, and count the others."""
    for app in apps:
        if app.handle not in of_groups:
            console.note(f"{app.handle} had already ended: {app.state.upper()}")
    if left := [app for app in apps if app.handle in of_groups]:
        from launcher.cli.render.apps import in_short

        console.note(in_short(left, "had already ended"))


def _inspected(apps: Sequence[AppRecord], problems: list[Problem], console: Console) -> list[AppRecord]:
    """Return the current records of apps. Among several, apps that cannot be read are reported and left out.

    Args:
        problems: gets the errors.
    """
    from launcher.inventory.status import inspect

    if len(apps) > 1:
        from launcher.inventory.listing import current

        apps = current(apps)
    seen = []
    for app in apps:
        try:
            is_known = len(apps) > 1 and app.state != "unknown"
            seen.append(app if is_known else inspect(app))
        except LauncherError as error:
            _report(app, error, apps, problems, console)
    return seen


def _ask_to_stop(apps: Sequence[AppRecord], console: Console) -> None:
    """Raise BlockedError unless the user agrees."""
    if len(apps) > FEW:
        from launcher.cli.render.apps import in_short

        console.note(in_short(apps, "would be stopped"))
    else:
        for app in apps:
            console.note(f"{app.handle} {app.state.upper()}")
    console.agree(
        f"\nStop these {len(apps)} apps?" if len(apps) > 1 else "\nStop this app?",
        doing=f"before stopping {plural(len(apps), 'app')}",
        hint="pass --yes to stop them all",
        otherwise="nothing was stopped",
    )


def _cancel_all(
    apps: Sequence[AppRecord], grace_s: float | None, problems: list[Problem], console: Console
) -> None:
    """Stop apps together. Among several, an app that cannot be stopped is reported; many others are counted.

    Args:
        problems: gets the errors.
    """
    from launcher.inventory.listing import current
    from launcher.inventory.status import inspect, stop

    waiting: list[str] = []

    def waits(app_id: str, what: str) -> None:
        waiting.append(app_id)
        if len(waiting) <= FEW:
            console.note(f"waiting for {app_id} to stop: {what}")
        elif len(waiting) == FEW + 1:
            console.note("waiting for more apps to stop")

    stopped = []
    for app, error in stop(apps, grace_s, waits):
        try:
            if error is not None:
                raise error
            if len(apps) <= FEW:
                console.note(f"{app.handle} {inspect(app).state.upper()}")
            else:
                stopped.append(app)
        except AppNotFoundError:
            console.note(f"{app.handle} was removed: its client had died before it started the app")
        except LauncherError as found:
            _report(app, found, apps, problems, console)
    if stopped:
        from launcher.cli.render.apps import in_short

        console.note(in_short(current(stopped)))


_STARTED_S = 30.0  # seconds that an app in line may take to start
_LOOK_S = 0.05


class Start:
    """`launcher start`: start apps in line without waiting for their turns."""

    USAGE = "start APP… --now [-t TARGET] [--json]"
    HELP = """\
Start apps that are in line (`launcher queue`) at once: each leaves the line and
takes its cores, memory and GPUs, also where that is more than this machine has.
Those behind it keep their order. Returns when the apps have started.

Jobs that wait for other jobs cannot be started: what they need does not exist
yet. To start a job, or to run one again, use `launcher apply`.

The name of a matrix selects all of its jobs in line, a quoted pattern the jobs
and app ids that it matches."""
    EXAMPLES = """\
  launcher start train --now
  launcher start 'sweep-0p1-*' --now"""

    @staticmethod
    def add_arguments(parser: Any) -> None:
        add_apps(parser)
        parser.option("--now", "do not wait for their turns")
        parser.option("--json", "print one JSON object when done")

    @staticmethod
    def run(args: Any, console: Console, *, always_asks: bool = False) -> int:
        """Start apps. `always_asks`: whether to ask before apps are started."""
        if not args.now:
            raise UsageError(
                "start needs --now: an app in line starts by itself when its turn comes",
                hint="`launcher queue` shows the line; `launcher apply FILE` starts jobs",
            )
        apps, of_groups = _chosen(args)
        problems: list[Problem] = []
        seen = _seen(apps)
        asked = _start(seen, console, always_asks=always_asks)
        started = {app.app_id for app in asked}

        for app in seen:
            try:
                if app.app_id not in started:
                    _say_why_not(app, console, is_picked=app.handle not in of_groups)
            except LauncherError as error:
                _report(app, error, apps, problems, console)
        for app in _show_starts(asked, console.aside() if args.json else console):
            problem = f"{app.handle} has left the line and not started within {_STARTED_S:g} s"
            late = LauncherError(problem, hint=f"launcher status {app.app_id}")
            _report(app, late, apps, problems, console)
        code = int(bool(problems))
        if args.json:
            from launcher.inventory.listing import current

            _print_result(current(seen), problems, code, console)
        return code


def _start(seen: list[AppRecord], console: Console, *, always_asks: bool) -> list[AppRecord]:
    """Start the apps that are in line; return the apps that were asked to start. Raises BlockedError."""
    from launcher.inventory.turns import start_now

    in_line = [app for app in seen if app.state == "queued" and not app.abandoned]
    if not in_line:
        return []
    if always_asks:
        for app in in_line[:FEW]:
            console.note(f"{app.handle} {app.state.upper()}: {app.message}")
        if len(in_line) > FEW:
            console.note(f"and {plural(len(in_line) - FEW, 'more app')} in line")
        if not console.ask("\nStart them at once, also where that is more than this machine has?"):
            raise BlockedError("not approved; nothing was started")
    started = start_now(in_line)
    return [app for app in in_line if app.app_id in started]


def _seen(apps: list[AppRecord]) -> list[AppRecord]:
    """Return the present apps, with their places in line."""
    from launcher.inventory.listing import current, say_why_held
    from launcher.inventory.status import inspect

    if len(apps) == 1:
        return [inspect(apps[0])]
    seen = current(apps)
    say_why_held(seen)
    return seen


def _say_why_not(app: AppRecord, console: Console, *, is_picked: bool) -> None:
    """Print the state of an app that is not in line. Raises LauncherError for one that is still in line.

    Args:
        is_picked: whether the user named this app; raises LauncherError then, unless it has started.
    """
    from launcher.inventory.status import inspect

    found = inspect(app) if app.state == "queued" and not app.abandoned else app  # its turn may have come
    if found.state == "queued":
        raise _not_in_line(found)
    if found.is_live and found.state != "waiting":
        console.note(f"{found.handle} has already started: {found.state.upper()}")
    elif is_picked:
        raise _not_in_line(found)
    else:
        console.note(f"{found.handle} {found.state.upper()}: not in line")


def _show_starts(apps: list[AppRecord], console: Console) -> list[AppRecord]:
    """Print the apps when they leave the line; return the apps that have not started in time."""
    import time

    from launcher.inventory.listing import current

    deadline = time.monotonic() + _STARTED_S
    lines = {app.handle: app.message for app in apps}
    while apps and time.monotonic() < deadline:
        apps = current(apps)
        for app in apps:
            if app.state != "queued":
                console.print(f"{app.handle} {app.state.upper()}, was {lines[app.handle]}", flush=True)
        apps = [app for app in apps if app.state == "queued"]
        if apps:
            time.sleep(_LOOK_S)
    return apps


def _not_in_line(app: AppRecord) -> LauncherError:
    """Return the error that says why an app cannot be started, with the remedy."""
    if app.state == "waiting":
        why = f"{app.message}: what a job needs cannot be skipped"
        hint = "remove the job from `needs:` and apply again"
    elif app.state == "queued":
        other = "is in line, in a table or of a state folder that is not in use here"
        why = app.message if app.abandoned else other
        hint = (
            "set LAUNCHER_HOME and LAUNCHER_SLOTS as they were when the app was started;"
            " `launcher queue` names the table in use"
        )
    else:
        why = f"is not in line: it has ended, {app.state.upper()}"
        hint = f"launcher apply FILE{f' --rerun {app.job}' if app.job else ''}"
    return LauncherError(f"{app.handle} {why}", hint=hint)


_EXPLAINED = ("failed", "skipped", "lost", *WAITING)


class Wait:
    """`launcher wait`: wait until apps have ended."""

    USAGE = "wait APP… [-t TARGET] [--timeout TIME] [--json]"
    HELP = """\
Wait until apps have ended, and print the outcome of each, with the first error
of its replicas. The kernel or the engine wakes the command: it does not poll.

The name of a matrix selects all of its jobs, a quoted pattern the jobs and app
ids that it matches, as of now: it does not wait for jobs applied later.

Exit codes: 0 all have succeeded, 5 one has not, or has not ended in time,
1 one could not be waited for. Of several apps, the worst counts."""
    EXAMPLES = """\
  launcher wait train && launcher logs train --tail 1
  launcher wait 'sweep-*'
  launcher wait train eval --timeout 1h30m"""

    @staticmethod
    def add_arguments(parser: Any) -> None:
        add_apps(parser)
        parser.option("--timeout TIME", "stop waiting after this time: 90, 10s, 1h30m", type=duration)
        parser.option("--json", "print one JSON object when done")

    @staticmethod
    def run(args: Any, console: Console) -> int:
        from launcher import outages
        from launcher.inventory.status import wait_for, wait_for_all

        outages.report = console.note
        apps, _ = _chosen(args)
        shown = console.aside() if args.json else console
        seen: list[AppRecord] = []
        problems: list[Problem] = []
        if len(apps) == 1:
            seen = [wait_for(apps[0], args.timeout)]
            codes = {_show_end(seen[0], shown, in_full=True)}
        else:
            codes = set()
            for number, (app, error) in enumerate(wait_for_all(apps, args.timeout)):
                if error is not None:
                    console.error(error)
                    problems.append((app.handle, error))
                    codes.add(1)
                else:
                    seen.append(app)
                    codes.add(_show_end(app, shown, in_full=number < FEW and not app.is_held))
        code = min(codes - {0}, default=0)  # exit code 1 is worse than 5
        if args.json:
            _print_result(seen, problems, code, console)
        return code


def _show_end(app: AppRecord, console: Console, *, in_full: bool) -> int:
    """Print the outcome of an app, and keep its reason; returns the exit code.

    Args:
        in_full: whether to ask its scheduler for the first error of its replicas and its warnings.
    """
    from launcher.inventory.recorded import scheduler_of
    from launcher.inventory.status import inspect

    state, why, warnings = app.state, app.message, app.warnings
    if in_full and state in _EXPLAINED:
        found = inspect(app)
        app.message = why = with_cause(found.message, found.cause)
    shown = f": {why}" if why and state in _EXPLAINED else ""
    console.print(f"{app.handle} {state.upper()}{shown}", flush=True)
    for warning in scheduler_of(app).warnings(app.app_id) if in_full else warnings:
        console.warn(f"{app.app_id}: {warning}")
    return 0 if state == "succeeded" else NOT_SUCCEEDED
