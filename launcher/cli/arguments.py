"""Declare the arguments of a command in argparse's way, parse a command line, and write the help.

argparse is not used: it takes longer to load than the quickest commands run. The tests compare both parsers.
"""

from __future__ import annotations

import time

from launcher.cli.console import terminal_width
from launcher.errors import UsageError
from launcher.text import DURATION_EXAMPLES, did_you_mean, duration_meant, is_number, seconds_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_MOST_MEANT = 3
_LAST = 253_402_214_400.0  # the end of the year 9999, the last one of calendars


class HelpRequested(Exception):
    """The command line has `-h` or `--help`."""


class Values:
    """The arguments of a command line, one attribute each."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


class Argument:
    """One declared argument.

    Attributes:
        group: the title of the section of the help.
        dest: the attribute of `Values` that gets the value.
        help: "" hides the argument.
    """

    __slots__ = ("action", "choices", "default", "dest", "group", "help", "metavar", "names", "nargs", "type")

    def __init__(
        self,
        group: str,
        names: tuple[str, ...],
        *,
        action: str = "store",
        nargs: str | None = None,
        default: Any = None,
        type: Callable[[str], Any] = str,
        choices: Sequence[str] = (),
        metavar: str = "",
        help: str = "",
    ) -> None:
        self.names, self.action, self.nargs, self.metavar, self.help = names, action, nargs, metavar, help
        long = next((name for name in names if name.startswith("--")), names[0])
        self.dest = long.lstrip("-").replace("-", "_")
        self.group = group or ("Options" if self.is_option else "Arguments")
        self.type = one_of(*choices) if choices and type is str else type
        self.choices = choices
        self.default = False if self.is_flag else [] if nargs == "*" and default is None else default

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")

    @property
    def is_flag(self) -> bool:
        return self.action == "store_true"


class ArgumentGroup:
    """A section of the help of a command; "" is the title of the arguments outside of sections."""

    def __init__(self, declared: list[Argument], title: str) -> None:
        self.declared, self.title = declared, title

    def add_argument(self, *names: str, **options: Any) -> None:
        self.declared.append(Argument(self.title, names, **options))

    def option(self, usage: str, help: str, *, repeats: bool = False, **more: Any) -> None:
        """Declare an option.

        Args:
            usage: the option as the help shows it: `-n, --limit N`. One without a metavar is a flag.
            repeats: whether the option may be repeated; its value is then a list.
        """
        *names, last = usage.split(", ")
        name, _, metavar = last.partition(" ")
        action = "append" if repeats else "store" if metavar else "store_true"
        if repeats:
            more.setdefault("default", [])
        self.add_argument(*names, name, action=action, metavar=metavar, help=help, **more)


class Arguments(ArgumentGroup):
    """The arguments of one command.

    Attributes:
        command: the command as typed, with `launcher`.
        elsewhere: returns the advice for an option of another tool; "" for none.
    """

    def __init__(self, command: str, elsewhere: Callable[[str], str] = lambda name: "") -> None:
        super().__init__([], "")
        self.command, self.elsewhere = command, elsewhere
        self.option("-h, --help", "show this help")

    def add_argument_group(self, title: str) -> ArgumentGroup:
        """Begin a section of the help."""
        return ArgumentGroup(self.declared, title)

    def parse(self, words: Sequence[str]) -> Values:
        """Return the values that a command line gives. Raises HelpRequested, UsageError."""
        options = {name: argument for argument in self.declared for name in argument.names if name[0] == "-"}
        values: dict[str, Any] = {argument.dest: argument.default for argument in self.declared}
        positional: list[str] = []
        unknown: list[str] = []
        left = list(words)
        while left:
            word = left.pop(0)
            if word == "--":
                positional += left
                break
            if not _is_option(word, options):
                positional.append(word)
                continue
            name, equals, text = word.partition("=")
            if not {name, f"-{name}"} & options.keys() and word[:2] in options:  # -n5 or -fa, but no -cfg
                name, equals, text = word[:2], "", word[2:]
            argument = options.get(name)
            if argument is None:
                unknown.append(word)
            elif not argument.is_flag:
                value = self._converted(
                    argument, text if equals or text else self._next(argument, left, options)
                )
                if argument.action == "append":
                    value = [*values[argument.dest], value]
                values[argument.dest] = value
            elif equals or (text and f"-{text[0]}" not in options):
                raise self._wrong(argument, f"ignored explicit argument '{text}'")
            elif argument.dest == "help":
                raise HelpRequested
            else:
                values[argument.dest] = True
                if text:
                    left.insert(0, f"-{text}")
        self._place(positional, values, unknown)
        if unknown:
            raise self._unknown(next((word for word in unknown if word.startswith("-")), unknown[0]), options)
        return Values(values)

    def _place(self, words: list[str], values: dict[str, Any], unknown: list[str]) -> None:
        """Give the words to the positional arguments, and add those left over to `unknown`."""
        takers = [argument for argument in self.declared if not argument.is_option]
        missing = [taker for taker in takers[len(words) :] if taker.nargs in (None, "+")]
        if missing:
            named = (f"{each.metavar} ({each.help})" if each.choices else each.metavar for each in missing)
            hint = f"see `{self.command} --help`"
            raise UsageError(f"the following arguments are required: {', '.join(named)}", hint=hint)
        for taker in takers[: len(words)]:
            taken = len(words) if taker.nargs in ("*", "+") else 1
            converted = [self._converted(taker, word) for word in words[:taken]]
            values[taker.dest] = converted if taker.nargs in ("*", "+") else converted[0]
            words = words[taken:]
        unknown += words

    def _converted(self, argument: Argument, text: str) -> Any:
        try:
            return argument.type(text)
        except ValueError as error:
            raise self._wrong(argument, str(error)) from None

    def _next(self, argument: Argument, left: list[str], options: dict[str, Argument]) -> str:
        """Take the value of an option from the words that are left."""
        if not left or _is_option(left[0], options):
            want = f"one of {', '.join(argument.choices)}" if argument.choices else "one argument"
            raise self._wrong(argument, f"expected {want}")
        return left.pop(0)

    def _wrong(self, argument: Argument, problem: str) -> UsageError:
        name = "/".join(argument.names) if argument.is_option else argument.metavar
        advice = next(filter(None, map(self.elsewhere, argument.names)), "")
        return UsageError(f"{name}: {problem}", hint=advice or f"see `{self.command} --help`")

    def _unknown(self, word: str, options: dict[str, Argument]) -> UsageError:
        """Return the error with the nearest option; for one letter, the only option that begins with it."""
        see = f"see `{self.command} --help`"
        if not word.startswith("-"):
            return UsageError(f"unexpected argument `{word}`", hint=see)
        name = word.partition("=")[0]
        if advice := self.elsewhere(name):
            return UsageError(f"{name} is not an option of {self.command}", hint=advice)
        if len(name) == len("-o"):
            begun = [option for option in options if option.startswith(f"-{name}")]
            meant = " or ".join(f"`{option}`" for option in begun)
            near = f"did you mean {meant}?" if 0 < len(begun) <= _MOST_MEANT else None
        else:
            near = did_you_mean(name, options)
        return UsageError(f"{name} is not an option of {self.command}", hint=near or see)


def _is_option(word: str, options: dict[str, Argument]) -> bool:
    """Whether a word looks like an option. Negative numbers are values.

    A text with blanks is one, too, unless a known option begins it: `--var=greeting=good morning`.
    """
    if not word.startswith("-") or word == "-":
        return False
    is_known = word.partition("=")[0] in options or word[:2] in options
    return is_known or not (" " in word or is_number(word[1:]))


_COLUMN = 26  # the largest column in which help begins


def help_text(module: Any, arguments: Arguments) -> str:
    """Return the help of a command: usage, description, arguments by group, and examples."""
    import sys

    width = min(terminal_width(sys.stdout), 100) - 1
    shown = [argument for argument in arguments.declared if argument.help]
    shown.sort(key=lambda argument: argument.is_option)
    parts = [f"Usage: launcher {module.USAGE}", _filled(module.HELP, width)]
    column = min(max(len(_invocation(argument)) for argument in shown) + 4, _COLUMN)
    for group in dict.fromkeys(argument.group for argument in shown):
        rows = [_row(argument, column, width) for argument in shown if argument.group == group]
        parts.append("\n".join([f"{group}:", *rows]))
    if module.EXAMPLES:
        parts.append(_filled(f"Examples:\n{module.EXAMPLES}", width))
    return "\n\n".join(parts) + "\n"


def _filled(text: str, width: int) -> str:
    """Refill the paragraphs of a text that are too wide; tables and examples stay."""
    from textwrap import fill

    return "\n\n".join(
        part if max(map(len, part.split("\n"))) <= width or "  " in part else fill(part, width)
        for part in text.split("\n\n")
    )


def _row(argument: Argument, column: int, width: int) -> str:
    from textwrap import wrap

    name = f"  {_invocation(argument)}"
    first, *others = wrap(argument.help, max(width - column, 11))
    head = f"{name.ljust(column)}{first}" if len(name) <= column - 2 else f"{name}\n{' ' * column}{first}"
    return "\n".join([head, *(" " * column + line for line in others)])


def _invocation(argument: Argument) -> str:
    if not argument.is_option:
        return argument.metavar
    return ", ".join(argument.names) + (f" {argument.metavar}" if argument.metavar else "")


def add_project(parser: Arguments) -> None:
    """Declare --project, for commands that list jobs."""
    parser.option("--project PROJECT", "only jobs of this project")


def add_app(parser: Arguments, metavar: str = "APP") -> None:
    """Declare the app of a command, and its --target."""
    parser.add_argument("app", metavar=metavar, help="[PROJECT/]JOB, JOB@ATTEMPT, app id or handle")
    add_target(parser)


def add_apps(parser: Arguments) -> None:
    """Declare the apps of a command, and their --target."""
    help = "[PROJECT/]JOB, JOB@ATTEMPT, app id, handle or pattern"
    parser.add_argument("apps", metavar="APP", nargs="+", help=help)
    add_target(parser)


def add_target(parser: Arguments, *names: str) -> None:
    """Declare --target, for commands that take apps."""
    parser.add_argument(
        *names or ("-t", "--target"),
        metavar="TARGET",
        default="",
        help="target of the job, if it runs in several",
    )


def choose_format(args: Any) -> None:
    """Let --json choose the format of a command that has several. Raises UsageError for another --format."""
    if args.json and args.format not in ("text", "json"):
        raise UsageError(
            f"--json and --format {args.format} cannot be combined", hint="leave one of them out"
        )
    args.format = "json" if args.json else args.format
    args.json = args.format == "json"


def refuse(args: Any, dests: Sequence[str], problem: str, hint: str) -> None:
    """Raise UsageError for the first option that was given among those with these attributes of `Values`."""
    for dest in dests:
        if getattr(args, dest):
            raise UsageError(f"--{dest.replace('_', '-')} {problem}", hint=hint)


# Functions for `type=`. Each raises ValueError with a text for the user.


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a type that accepts one of these words; its error suggests the nearest one."""

    def word(text: str) -> str:
        if text in allowed:
            return text
        near = did_you_mean(text, allowed)
        raise ValueError(f"`{text}` is not one of {', '.join(allowed)}{'; ' + near if near else ''}")

    return word


def several_of(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """Return a type that accepts a comma-separated list of these words."""
    single = one_of(*allowed)

    def words(text: str) -> tuple[str, ...]:
        return tuple(single(word.strip()) for word in text.split(","))

    return words


_MOST = 10**9
"""The highest count, which every database and buffer accepts; no command needs a higher one."""


def count(text: str) -> int:
    """Parse a whole number, 0 or more; numbers above `_MOST` become `_MOST`."""
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"expected a whole number, got `{text}`")
    return min(int(text), _MOST)


def positive(text: str) -> int:
    """Parse a whole number, 1 or more."""
    number = count(text)
    if number < 1:
        raise ValueError(f"expected at least 1, got `{text}`")
    return number


def attempts(text: str) -> tuple[tuple[int, int], ...]:
    """Return the first and the last number of each range in `3`, `1,3`, `1..5`, `3..` (from 3 on)."""
    found = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        numbers = (first, last or first) if not dots else (first, last or str(_MOST))
        if not all(each.isascii() and each.isdigit() and len(each) <= len("1000000000") for each in numbers):
            raise ValueError(f"expected numbers of attempts such as 3, 1,3, 1..5 or 3.., got `{text}`")
        low, high = map(int, numbers)
        if low < 1:
            raise ValueError(f"attempts are numbered from 1, got `{text}`")
        if high < low:
            raise ValueError(f"`{part.strip()}` ends before it begins: did you mean `{high}..{low}`?")
        found.append((low, high))
    return tuple(found)


_SIZES = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "MB": 10**6, "GB": 10**9}
_SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def size(text: str) -> int:
    """Parse a size into bytes: `60000`, `500kB`, `5MB`, `2MiB`."""
    digits = text.rstrip("BGKMik ")
    unit = text[len(digits) :].strip()
    if not is_number(digits) or unit not in _SIZES:
        raise ValueError(f"expected a size such as 500kB, 5MB or 2MiB, got `{text}`")
    return int(float(digits) * _SIZES[unit])


def key_value(text: str) -> tuple[str, str]:
    """Parse `KEY=VALUE`; the value may be empty and may contain further `=`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"expected KEY=VALUE, got `{text}`")
    return key, value


def duration(text: str) -> float:
    """Parse a duration into seconds: `90`, `1.5`, `250ms`, `10s`, `2m`, `1h30m`, `7d`."""
    seconds = float(text) if is_number(text) else seconds_in(text)
    if seconds is None:
        meant = duration_meant(text)
        hint = f"; did you mean `{meant}`?" if meant else ""
        raise ValueError(f"expected a duration such as {DURATION_EXAMPLES}, got `{text}`{hint}")
    return seconds


def _with_colon(stamp: str) -> str:
    """Put a colon into the zone, for Python 3.10; launcher prints zones without one."""
    zone = stamp[-5:]
    return (
        f"{stamp[:-2]}:{zone[3:]}"
        if zone[:1] in ("+", "-") and zone[1:].isdigit() and "T" in stamp
        else stamp
    )


def moment(text: str) -> float:
    """Seconds since the epoch, from a duration before now, a local date and time, or `@SECONDS`.

    `10m` is ten minutes ago; `2025-03-01`, `2025-03-01T12:30`, `2025-03-01 12:30:05+02:00`, `12:30` (today).
    """
    number = text[1:]
    if text.startswith("@") and is_number(number):
        return min(float(number), _LAST)
    ago = float(text) if is_number(text) else seconds_in(text)
    if ago is not None:
        return max(0.0, time.time() - ago)
    stamp = _with_colon(text[:-1] + "+0000" if text.endswith("Z") else text)
    if ":" in text and "-" not in text:
        stamp = f"{time.strftime('%Y-%m-%d')}T{stamp}"
    try:
        from datetime import datetime

        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(
            f"expected a time such as 10m (ago), 12:30, 2025-03-01T12:30 or @1740832200, got `{text}`"
        ) from None
