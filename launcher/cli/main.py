"""List the commands; find one, parse its arguments, run it, and turn errors into exit codes.

The only place that catches errors for the user: a LauncherError is shown as `error: …` and sets the exit
code; a closed stdout ends the command silently; Ctrl-C gives 130 and SIGTERM 143. A command that prints JSON
writes the error object to stdout.
"""

from __future__ import annotations

import os
import sys

from launcher.cli.console import Console, OutputClosed
from launcher.errors import JobFileError, LauncherError, Terminated, UsageError
from launcher.text import paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


# (title, {command: summary}). A command is the module of its name, imported when it runs, or a class of a
# module: HELP, USAGE, EXAMPLES, `add_arguments(parser)` and `run(args, console) -> exit code`.
COMMANDS: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "Job files",
        {
            "init": "write a first job file; editor, agent and CI settings",
            "fmt": "format job files",
            "validate": "check job files and report every problem",
            "compile": "show the resolved jobs, and where each value comes from",
            "plan": "show what apply would do, and why",
            "apply": "start, replace and re-run jobs as planned",
            "synced": "show up to which commit a branch is applied",
            "run": "run one job file or component attached to this terminal",
            "convert": "print the job file of a script, compose file or component",
            "ci": "plan on a pull request, apply what was merged, report",
            "configure": "write a launcher.toml with run options of schedulers",
        },
    ),
    (
        "Apps",
        {
            "list": "list the newest apps and their states",
            "top": "watch and steer all jobs on one screen",
            "status": "show the running apps, or one app with its replicas",
            "describe": "show all details of an app",
            "history": "list the attempts of a job, and why each ran",
            "diff": "show what differs between two attempts",
            "verify": "check an attempt from its pull request to its outputs",
            "use": "compare what jobs asked for with what they used",
            "report": "write a page of what ran, what it used, why it failed",
            "logs": "show the output of an app's replicas",
            "grep": "search the logs of all attempts",
            "output": "print where a job's output folder is, or copy its files",
            "wait": "wait until apps have ended",
            "cancel": "stop apps",
            "queue": "show what apps hold of this machine, and who is in line",
            "start": "start apps in line at once",
            "metrics": "print metrics for Prometheus, or write them to a file",
            "gc": "remove logs, records and containers of ended apps",
        },
    ),
    (
        "Reference",
        {
            "explain": "explain a code in a message, with examples",
            "components": "list the components, or the arguments of one",
            "schedulers": "list the schedulers",
            "runopts": "list the run options of schedulers",
            "schema": "print the JSON Schema of job files, plans, events",
            "skill": "print a page for coding agents: plan, ask, apply",
            "completion": "print a completion script for your shell",
            "version": "print the versions of launcher and Python",
        },
    ),
)

_SHARED = {
    "status": ("status", "describe"),
    "app_actions": ("cancel", "start", "wait"),
    "schedulers": ("schedulers", "runopts", "configure"),
}
"""Module → the commands of which it has classes: `Runopts` for `runopts`."""

ALIASES = {"show": "describe"}
"""Other names of commands, which the help does not list."""

_ELSEWHERE = {
    "launcher list": ("ls", "ps", "jobs"),
    "launcher cancel APP": ("stop", "kill", "down", "abort", "terminate"),
    "launcher gc": ("rm", "delete", "remove", "prune", "clean"),
    "launcher apply FILE": ("up", "submit", "deploy", "sbatch"),
    "launcher apply FILE --rerun JOB": ("rerun", "retry", "restart", "resume"),
    "launcher describe APP": ("inspect", "info"),
    "launcher logs APP --follow": ("tail", "attach"),
    "launcher validate": ("check", "lint"),
    "launcher components": ("builtins",),
    "launcher output JOB": ("tracker", "artifacts"),
}
"""Command line → the words by which other tools call it."""

_OPTIONS_ELSEWHERE = {
    "launcher --log_level --loglevel --debug": "leave it out: messages go to stderr, all of them",
    "run --wait --log --follow -f": (
        "leave it out: `launcher run` waits and shows the output; --detach does neither"
    ),
    "run --tee_logs": "leave it out: the output is kept as well, and `launcher logs` shows it",
    "run --scheduler_args": "use --cfg, once for each option: --cfg KEY=VALUE",
    "run --buck-target": "use --workspace",
    "logs -t --tail": "to follow the output, use --follow; --tail N shows the last N lines",
    "status --roles": "leave it out: all roles are shown; `launcher logs APP/ROLE` shows the output of one",
    "components --print": "use --source",
    "list --running": "use --state running",
    "apply --dryrun --dry-run": "`launcher plan` shows what apply would do",
    "plan --dryrun --dry-run": "leave it out: a plan changes nothing",
    "apply --follow -f": "use --wait --logs, which shows the output of the jobs",
}
"""Command and the options by which other tools call something → advice."""


def option_elsewhere(command: str, name: str) -> str:
    """The advice for an option of other tools that this command lacks, or takes otherwise; "" for none."""
    known = ((advice, *words.split()) for words, advice in _OPTIONS_ELSEWHERE.items())
    return next((advice for advice, own, *names in known if own == command and name in names), "")


def names() -> list[str]:
    """Every command, in the order of the help."""
    return [name for _, group in COMMANDS for name in group]


def command(name: str) -> Any:
    """Import and return the module or the class of a command.

    `importlib`, which loads `warnings`, would take longer than the modules of `--help`.
    """
    shared = next((module for module, commands in _SHARED.items() if name in commands), "")
    module = __import__(f"launcher.cli.{shared or name}", fromlist=[name])
    return getattr(module, name.capitalize()) if shared else module


_EXAMPLES = """\
  launcher apply examples/hello --yes --wait    run the first example
  launcher plan jobs/ --out plan.json           save a plan, to apply it later
  launcher logs train --follow                  follow the output of a job
"""


def overview(color: bool) -> str:
    """The text of `launcher --help`, composed without argparse to start fast."""
    lines = ["Declare jobs in files, see what a change would do, apply it.", ""]
    lines += [paint("Usage:", "bold", color) + " launcher COMMAND [OPTIONS]", ""]
    for title, group in COMMANDS:
        lines.append(paint(f"{title}:", "bold", color))
        for name, summary in group.items():
            lines.append(f"  {paint(name.ljust(12), 'cyan', color)}  {summary}")
        lines.append("")
    lines += [paint("Examples:", "bold", color), _EXAMPLES]
    lines.append("`launcher COMMAND --help` explains a command.")
    return "\n".join(lines) + "\n"


CLOSED = 141  # the exit code with which a shell reports a program killed by SIGPIPE
INTERRUPTED = 130
TERMINATED = 143


def main(argv: Sequence[str]) -> int:
    """Run the command line `argv` (without the program's name) and return its exit code."""
    _terminate_with_exception()
    console = Console()
    try:
        code = dispatch(argv, console)
        console.flush()
    except LauncherError as error:
        code = report(error, console)
    except OutputClosed:
        code = CLOSED
    except OSError as error:
        if (known := _known(error)) is None:
            _print_json(error, console)
            raise
        code = report(known, console)
    except (KeyboardInterrupt, Terminated) as interrupt:
        code = TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
        _print_json(interrupt, console)
    except Exception as error:
        _print_json(error, console)
        raise
    return code


def _known(error: OSError) -> LauncherError | None:
    """The error for users where the system, and no fault of launcher, is its cause; else None."""
    from launcher.paths import of_state_folder

    if isinstance(error, FileNotFoundError) and error.filename is None:  # only os.getcwd() names no file
        return LauncherError(
            "the current directory no longer exists", hint="change to an existing directory and try again"
        )
    return of_state_folder(error)


def _check_umask() -> None:
    """Raise LauncherError for a umask by which not even this user could use the files that it makes."""
    mask = os.umask(0o077)  # the umask can only be read by setting it
    os.umask(mask)
    if mask & 0o700:
        problem = f"with the umask {mask:04o}, you could not use files of your own"
        raise LauncherError(problem, hint="umask 022")


def _terminate_with_exception() -> None:
    """Make SIGTERM raise Terminated in the main thread, so that `finally` blocks run."""
    import _signal  # type: ignore[import-not-found]  # `signal` loads enum

    def terminated(number: int, frame: object) -> NoReturn:
        raise Terminated

    try:
        _signal.signal(_signal.SIGTERM, terminated)
    except ValueError:  # a program runs this command line in another thread
        pass


def dispatch(argv: Sequence[str], console: Console) -> int:
    """Run the command that `argv` names."""
    if sys.platform == "win32":
        raise LauncherError("launcher runs on Linux and macOS", hint="on Windows, use it inside WSL")
    if not argv or argv[0] in ("-h", "--help", "help"):
        return _help(argv, console)
    if list(argv) == ["--version"]:
        from launcher import __version__

        console.print(f"launcher {__version__}")
        return 0
    name, words = ALIASES.get(argv[0], argv[0]), argv[1:]
    console.as_json = _ask_for_json(argv)
    if name not in names():
        raise unknown_command(name)
    _check_umask()
    module = command(name)
    from launcher.cli.arguments import Arguments, HelpRequested

    arguments = Arguments(f"launcher {name}", lambda option: option_elsewhere(name, option))
    module.add_arguments(arguments)
    rest = None
    if hasattr(module, "divide"):
        words, rest = module.divide(words, arguments)
        console.as_json = _ask_for_json(words)
    try:
        args: Any = arguments.parse(words)
    except HelpRequested:
        from launcher.cli.arguments import help_text

        console.print(help_text(module, arguments), end="")
        return 0
    args.component_args = rest
    console.as_json = getattr(args, "json", False) or getattr(args, "format", "") in _JSON
    try:
        code: int = module.run(args, console)
    finally:
        _warn_of_damage(name, console)
        _wake_senders(name)
    return code


_JSON = ("json", "jsonl")  # values of --format that mean JSON
_FOR_JSON = {"--json", *(f"--format={format}" for format in _JSON)}


def _ask_for_json(words: Sequence[str]) -> bool:
    """Whether the words of a command line, which may be wrong, ask for JSON."""
    own = [*words[: words.index("--")]] if "--" in words else [*words]
    pairs = [f"{own[n]}={own[n + 1]}" for n in range(len(own) - 1)]
    return not _FOR_JSON.isdisjoint([*own, *pairs])


def _warn_of_damage(command: str, console: Console) -> None:
    """Warn if a damaged ledger was found and replaced. Completion prints no warnings."""
    restore = sys.modules.get("launcher.state.restore")  # not loaded unless a damaged ledger was found
    if restore is not None and command != "completion":
        for text in restore.notices:
            console.warn(text)
        restore.notices.clear()


def _wake_senders(command: str) -> None:
    """Start the missing senders of outcomes. Most state folders have no outbox."""
    from launcher import paths

    if command != "completion" and os.path.isdir(paths.outbox()):
        from launcher.state import outbox

        outbox.wake()


def unknown_command(name: str) -> UsageError:
    from launcher.text import did_you_mean

    if name.startswith("-"):
        hint = option_elsewhere("launcher", name) or "options follow the command; see `launcher --help`"
        return UsageError(f"{name} is not an option of launcher", hint=hint)
    meant = next((line for line, words in _ELSEWHERE.items() if name in words), "")
    near = f"did you mean `{meant}`?" if meant else did_you_mean(name, names())
    return UsageError(f"`{name}` is not a command of launcher", hint=near or "see `launcher --help`")


def report(error: LauncherError, console: Console) -> int:
    """Show an error, with every diagnostic unless stdout gets them; return its exit code."""
    try:
        console.flush()  # so that output keeps its order where both streams are one terminal
    except (LauncherError, OutputClosed):
        console.silence()
    if isinstance(error, JobFileError) and error.diagnostics:
        from launcher.cli.render.findings import in_short, note

        if not console.as_json:
            note(error.diagnostics, console)
        error = JobFileError(in_short(error.diagnostics), diagnostics=error.diagnostics)
    _print_json(error, console)
    console.error(error)
    return error.exit_code


def _print_json(error: BaseException, console: Console) -> None:
    """Print the object of an error where JSON is asked for, on one line as `--format jsonl` wants it."""
    if not console.as_json:
        return
    from json import dumps

    from launcher.cli.render.findings import failure

    try:
        console.print(dumps(failure(error), ensure_ascii=False), flush=True)
    except (LauncherError, OutputClosed):
        console.silence()  # the error of the command counts, not that of its output


def _help(argv: Sequence[str], console: Console) -> int:
    if argv and argv[0] == "help" and len(argv) > 1:
        return dispatch([argv[1], "--help"], console)
    if argv:
        console.print(overview(console.color), end="")
        return 0
    console.note(overview(console.err_color).rstrip("\n"))
    return UsageError.exit_code
