"""Everything that needs argparse: `--help` of a command, usage errors, shell completion."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from launcher.cli.arguments import ArgumentTypeError
from launcher.cli.commands import COMMANDS, command, names
from launcher.cli.console import terminal_width
from launcher.errors import UsageError
from launcher.text import did_you_mean

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
"""Metavar, or command and metavar → the kind of names that shells complete (`completion_names.KINDS`)."""


class HelpRequested(Exception):
    """`--help` was given. Carries the text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Uses the terminal's width, and shows the metavar of an option once."""

    def __init__(self, prog: str, **_options: Any) -> None:
        import sys

        # Given a width, argparse does not import shutil to ask for it.
        super().__init__(prog, max_help_position=26, width=min(terminal_width(sys.stdout), 100) - 1)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, prefix or "Usage: ")

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """As it was laid out where it fits; else paragraphs are filled anew, tables and examples stay."""
        from textwrap import fill

        paragraphs = text.split("\n\n")
        return "\n\n".join(
            part if _fits(part, width) or "  " in part else fill(part, width) for part in paragraphs
        )

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper())
        return f"{', '.join(action.option_strings)} {value}"


def _fits(text: str, width: int) -> bool:
    return max(map(len, text.split("\n"))) <= width


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose help and errors are exceptions."""

    def __init__(self, **options: Any) -> None:
        super().__init__(add_help=False, allow_abbrev=False, formatter_class=_Formatter, **options)
        self._positionals.title = "Arguments"
        self._optionals.title = "Options"
        self.add_argument("-h", "--help", action="help", help="show this help")

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        _translate(options)
        return super().add_argument(*names, **options)

    def add_argument_group(self, *words: Any, **options: Any) -> argparse._ArgumentGroup:
        group = super().add_argument_group(*words, **options)
        plain = group.add_argument

        def add(*names: Any, **options: Any) -> argparse.Action:
            _translate(options)
            return plain(*names, **options)

        group.add_argument = add  # type: ignore[method-assign]
        return group

    def parse_args(self, words: list[str]) -> argparse.Namespace:  # type: ignore[override]
        """Raises HelpRequested, and UsageError with the nearest option."""
        args, unknown = self.parse_known_intermixed_args(words)
        if unknown:
            known = [text for action in self._actions for text in action.option_strings]
            word = next((word for word in unknown if word.startswith("-")), unknown[0])
            name = word.partition("=")[0]
            if word.startswith("-"):
                raise UsageError(f"{name} is not an option of {self.prog}", hint=self._hint(name, known))
            raise UsageError(f"unexpected argument `{word}`", hint=self._hint("", ()))
        return args

    def _hint(self, name: str, known: Any) -> str:
        """The option that was meant. A letter alone means the only long option that begins with it."""
        if len(name) == len("-o"):
            begun = [option for option in known if option.startswith(f"-{name}")]
            near = f"did you mean `{begun[0]}`?" if len(begun) == 1 else None
        else:
            near = did_you_mean(name, known)
        return near or f"see `{self.prog} --help`"

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "), hint=f"see `{self.prog} --help`")

    def print_help(self, file: Any = None) -> None:
        raise HelpRequested(self.format_help())

    def print_usage(self, file: Any = None) -> None:
        """Print nothing: argparse would print the usage before an error."""


def _translate(options: dict[str, Any]) -> None:
    """Convert options for argparse, which shows only the text of its own exception class and SUPPRESS."""
    if options.get("help") == argparse.SUPPRESS:
        options["help"] = argparse.SUPPRESS  # compared by identity
    kind = options.get("type")
    if kind is None:
        return

    def convert(text: str) -> Any:
        try:
            return kind(text)
        except ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    convert.__name__ = getattr(kind, "__name__", "value")
    options["type"] = convert


def parser(name: str) -> Parser:
    """The parser of one command."""
    module = command(name)
    made = Parser(**_texts(name, module))
    module.add_arguments(made)
    return made


def _texts(name: str, module: Any) -> dict[str, Any]:
    examples = f"Examples:\n{module.EXAMPLES}" if module.EXAMPLES else None
    return {
        "prog": f"launcher {name}",
        "usage": f"launcher {module.USAGE}",
        "description": module.HELP,
        "epilog": examples,
    }


def _offered(command: str, action: argparse.Action) -> Any:
    """The completion function for an argument, as shtab expects it; None without completion."""
    import shtab

    from launcher.cli.completion_names import SHELLS, function_of

    what = str(action.metavar)
    kind = _NAMES.get(f"{command} {what}") or _NAMES.get(what)
    if kind is not None:
        return dict.fromkeys(SHELLS, function_of(kind))
    return shtab.FILE if what in _PATHS else None


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands, from which shtab generates the completion script."""
    top = Parser(prog="launcher")
    top.add_argument("--version", action="store_true", help="show the version")
    commands = top.add_subparsers(metavar="COMMAND")
    summaries = {name: summary for _, group in COMMANDS for name, summary in group.items()}
    for name in names():
        module = command(name)
        texts = {**_texts(name, module), "help": summaries[name]}
        made = commands.add_parser(name, **texts)
        module.add_arguments(made)
        for action in made._actions:
            offered = _offered(name, action)
            if offered is not None:
                action.complete = offered  # type: ignore[attr-defined]  # shtab looks for it
    return top
