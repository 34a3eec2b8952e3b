"""`launcher completion`: print a completion script for bash or zsh, and the names that it asks for, fast."""

from __future__ import annotations

import re

from launcher.cli.arguments import Argument, Arguments
from launcher.cli.main import COMMANDS, command
from launcher.errors import UsageError
from launcher.files import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from launcher.cli.console import Console

SHELLS = ("bash", "zsh")

USAGE = "completion SHELL"
HELP = """\
Print a completion script for bash or zsh. It completes commands and options,
and the names of jobs, targets, schedulers, components and codes."""
EXAMPLES = """\
  eval "$(launcher completion bash)"             for this shell
  launcher completion bash >/etc/bash_completion.d/launcher
  launcher completion zsh >~/.zfunc/_launcher    a folder on your $fpath"""

_PATHS = ("DIR", "FILE", "PATH", "PLAN.JSON")  # metavars that shells complete with file names
_NAMES = {
    "APP": "apps",
    "JOB": "apps",
    "cancel APP": "live",
    "start APP": "live",
    "SCHEDULER": "schedulers",
    "COMPONENT": "components",
    "components NAME": "components",
    "run FILE": "runnable",
    "CODE": "codes",
    "TARGET": "targets",
}
"""Metavar, or command and metavar → the kind of names that shells complete (`KINDS`)."""

# Runs the launcher that the user typed, which may not be the one on PATH, and prints none of its errors.
_ASK = {
    "bash": """\
_launcher_names() {
  local it="${COMP_WORDS[0]}" name
  command -v "$it" >/dev/null || it=launcher
  while IFS= read -r name; do
    [[ "$name" == "$2"* ]] && printf '%s\\n' "$name"
  done < <("$it" completion --names "$1" 2>/dev/null)
}
_launcher() {  # bash would insert the name of a file as it is, and run what the name holds
  local found
  _shtab_launcher
  for found in "${COMPREPLY[@]}"; do
    [[ "$found" == *[!A-Za-z0-9_.:@=+,%-]* ]] && compopt -o filenames && return
  done
  return 0
}
""",
    "zsh": """\
_launcher_names() {
  local it="$words[1]"
  (( $+commands[$it] )) || [[ -x $it ]] || it=launcher
  compadd -- ${(f)"$($it completion --names $1 2>/dev/null)"}
}
""",
}
_FILES_TOO = {"bash": ' compgen -f -- "$1";', "zsh": " _files;"}


def add_arguments(parser: Any) -> None:
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help="bash or zsh")
    parser.option("--names OF", "")  # the completion script calls it


def run(args: Any, console: Console) -> int:
    if args.names is not None:
        console.print("\n".join(names(args.names)))
        return 0
    if args.shell is None:
        raise UsageError("completion needs a SHELL: bash or zsh", hint="see `launcher completion --help`")
    import shtab

    script = shtab.complete(_whole_parser(), shell=args.shell, preamble=_functions(args.shell))
    console.print(script.replace(" -F _shtab_launcher launcher", " -F _launcher launcher"))
    return 0


def _functions(shell: str) -> str:
    text = _ASK[shell]
    for kind in KINDS:
        files = _FILES_TOO[shell] if kind == "runnable" else ""
        text += f'_launcher_{kind}() {{{files} _launcher_names {kind} "$1"; }}\n'
    return text


def _whole_parser() -> argparse.ArgumentParser:
    """Return the arguments of all commands as an argparse parser, for shtab."""
    import argparse

    top = argparse.ArgumentParser(prog="launcher", add_help=False)
    top.add_argument("-h", "--help", action="help", help="show this help")
    top.add_argument("--version", action="store_true", help="show the version")
    commands = top.add_subparsers(metavar="COMMAND")
    for name, summary in [each for _, group in COMMANDS for each in group.items()]:
        arguments = Arguments(f"launcher {name}")
        command(name).add_arguments(arguments)
        made = commands.add_parser(name, help=summary, add_help=False)
        for argument in arguments.declared:
            _declare(name, argument, made)
    return top


def _declare(command: str, argument: Argument, parser: argparse.ArgumentParser) -> None:
    import argparse

    import shtab

    action = "help" if argument.dest == "help" else argument.action
    options: dict[str, Any] = {"action": action, "help": argument.help or argparse.SUPPRESS}
    if not argument.is_flag:
        options |= {"choices": argument.choices or None, "metavar": argument.metavar}
    if argument.nargs:
        options["nargs"] = argument.nargs
    made = parser.add_argument(*argument.names, **options)
    kind = _NAMES.get(f"{command} {argument.metavar}") or _NAMES.get(argument.metavar)
    if kind is not None:
        made.complete = dict.fromkeys(SHELLS, f"_launcher_{kind}")  # type: ignore[attr-defined]  # shtab looks for it
    elif argument.metavar in _PATHS:
        made.complete = shtab.FILE  # type: ignore[attr-defined]


_MOST = 1000  # newest apps whose names are completed
_MOST_BYTES = 1 << 20  # of a job file
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@=+,%-]+").fullmatch


def names(kind: str) -> list[str]:
    """Return the names of a kind of `KINDS`; empty on any error, since completion cannot show errors.

    Some are keys of job files, so names that a shell would not take literally are left out.
    """
    try:
        return sorted(name for name in set(KINDS[kind]()) if _PLAIN(name))
    except Exception:
        return []


def _apps(*, is_live: bool = False) -> list[str]:
    """Jobs of the current directory's projects: those with a recorded attempt, or with a running one."""
    from launcher.inventory import recorded
    from launcher.inventory.project import projects_here

    projects = {*projects_here()}
    apps = recorded.live() if is_live else recorded.newest(_MOST)
    return [app.name for app in apps if app.project in projects]


def _schedulers() -> Iterable[str]:
    from launcher.schedulers.registry import get_scheduler_factories

    return get_scheduler_factories()


def _components() -> Iterable[str]:
    from launcher.components.finder import survey

    return survey([]).components


def _codes() -> Iterable[str]:
    from launcher.jobfile.diagnostic import CODES
    from launcher.plan.step import REASONS

    return [*CODES, *map(str, REASONS)]


def _targets() -> list[str]:
    """Yield targets of the job files here and one folder below, by a scan of lines: parsing is too slow."""
    found: list[str] = []
    from glob import iglob

    suffixes = ("yaml", "yml", "toml")
    patterns = [f"{folder}*.launcher.{suffix}" for suffix in suffixes for folder in ("", "*/")]
    for path in (path for pattern in patterns for path in iglob(pattern)):
        try:
            lines = read_regular(path, _MOST_BYTES).decode().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        found += _targets_of_toml(lines) if path.endswith(".toml") else _targets_of_yaml(lines)
    return found


def _targets_of_yaml(lines: list[str]) -> Iterator[str]:
    """The keys directly below `targets:`."""
    inside, column = False, 0
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        if not indent:
            inside, column = text.partition(":")[0] == "targets", 0
        elif inside and indent == (column := column or indent) and ":" in text:
            yield text.partition(":")[0].strip("\"'")


def _targets_of_toml(lines: list[str]) -> Iterator[str]:
    """The tables `[targets.NAME]` and below."""
    for line in lines:
        table = line.strip().strip("[]").split(".")
        if line.strip().startswith("[") and table[0] == "targets" and len(table) > 1:
            yield table[1].strip().strip("\"'")


KINDS: dict[str, Callable[[], Iterable[str]]] = {
    "apps": _apps,
    "live": lambda: _apps(is_live=True),
    "schedulers": _schedulers,
    "components": _components,
    "runnable": _components,
    "codes": _codes,
    "targets": _targets,
}
"""Kind → function that returns its names. `runnable` is completed together with file names."""
