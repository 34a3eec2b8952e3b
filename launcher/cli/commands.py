"""The commands by group, with a summary of each, and the text of `launcher --help`."""

from __future__ import annotations

from launcher.text import paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# (title, {command: summary}). A command is implemented by the module of its name, imported when it runs:
# HELP, USAGE, EXAMPLES, `add_arguments(parser)` and `run(args, console) -> exit code`.
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


ALIASES = {"show": "describe"}
"""Other names of commands, which the help does not list."""


def names() -> list[str]:
    """Every command, in the order of the help."""
    return [name for _, group in COMMANDS for name in group]


def command(name: str) -> Any:
    """Import and return the module of a command."""
    from importlib import import_module

    return import_module(f"launcher.cli.{name}")


_EXAMPLES = """\
  launcher apply examples/hello --yes --wait    run the first example, show output
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
    lines.append("`launcher COMMAND --help` explains a command; `launcher --version` prints the version.")
    return "\n".join(lines) + "\n"
