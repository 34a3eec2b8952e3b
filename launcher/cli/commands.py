"""The commands: their groups, what each does in a few words, and the module that has it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# (title, {command: what it does}). A command lives in the module of its name, which is imported when it is
# wanted: it has HELP, USAGE and EXAMPLES, `add_arguments(parser)` and `run(args, console) -> exit code`.
COMMANDS: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "Job files",
        {
            "init": "begin: a first job file, and what goes with it",
            "fmt": "put job files into their canonical form",
            "validate": "check job files and show every problem in them",
            "compile": "show what job files come to, and where each value is from",
            "plan": "show what apply would do, and why",
            "apply": "make it so: start, replace, re-run what the plan says",
            "run": "run one job file or component attached to this terminal",
            "convert": "write the job file that does what a component does",
            "configure": "write a launcher.toml with the run options of schedulers",
        },
    ),
    (
        "Apps",
        {
            "list": "the newest apps and their states",
            "status": "one app: its replicas, exit codes, restarts",
            "describe": "one app: everything that is known of it",
            "logs": "what the replicas of an app have printed",
            "wait": "wait until apps have ended",
            "cancel": "stop apps",
            "gc": "remove what is left of apps that have ended",
        },
    ),
    (
        "Reference",
        {
            "explain": "what a code in a message means, with examples",
            "components": "functions that make apps, and their arguments",
            "schedulers": "what apps can run on",
            "runopts": "the run options of a scheduler",
            "schema": "the JSON Schema of job files and of saved plans",
            "completion": "a completion script for your shell",
            "version": "the version of launcher and of what it runs on",
        },
    ),
)


def names() -> list[str]:
    """Every command, in the order of the help."""
    return [name for _, group in COMMANDS for name in group]


def command(name: str) -> Any:
    """The module of a command."""
    from importlib import import_module

    return import_module(f"launcher.cli.{name}")
