"""Read plain command lines without argparse, from declarations that argparse would take.

Every command declares its arguments once, with `add_argument` as argparse knows it. `Arguments` takes these
declarations and reads a command line that holds nothing unusual in microseconds. Whatever else comes
(`--help`, an unknown option, a missing or a wrong value) it leaves alone by answering None: then
`launcher.cli.help` builds the real parser from the same declarations, and argparse explains.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

REMAINDER = "..."  # argparse.REMAINDER, without importing it


class ArgumentTypeError(ValueError):
    """What `type=` functions raise. argparse shows the text of its own class only; `help` translates."""


class Values:
    """The parsed arguments, one attribute each."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"Values({self.__dict__!r})"


class Argument:
    """One `add_argument`: what it was given, and where its value goes."""

    __slots__ = ("action", "const", "default", "dest", "names", "nargs", "options")

    def __init__(self, names: tuple[str, ...], options: dict[str, Any]) -> None:
        self.names = names
        self.options = options
        self.action: str = options.get("action", "store")
        self.nargs: str | None = options.get("nargs")
        self.dest: str = options.get("dest") or _destination(names)
        self.const = True if self.action == "store_true" else options.get("const")
        self.default = options.get("default", False if self.action == "store_true" else None)

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")

    @property
    def is_flag(self) -> bool:
        return self.action in ("store_true", "store_const")

    def convert(self, text: str) -> Any:
        """Raises ValueError when `text` is not of the argument's type or choices."""
        kind: Callable[[str], Any] | None = self.options.get("type")
        value = text if kind is None else kind(text)
        choices = self.options.get("choices")
        if choices is not None and value not in choices:
            raise ValueError(text)
        return value


def add_target(parser: Any, *names: str) -> None:
    """Declare --target, for commands that take apps."""
    parser.add_argument(
        *names or ("-t", "--target"),
        metavar="TARGET",
        default="",
        help="target of the job, if it runs in several",
    )


class Unusual(Exception):
    """This command line is for argparse to read."""


class Arguments:
    """Collects declarations; `parse` reads a command line by them."""

    def __init__(self) -> None:
        self.declared: list[Argument] = []

    def add_argument(self, *names: str, **options: Any) -> None:
        self.declared.append(Argument(names, options))

    def add_argument_group(self, title: str, description: str | None = None) -> Arguments:
        """Groups only matter for `--help`."""
        return self

    def parse(self, words: Sequence[str]) -> Values | None:
        """The values, or None where argparse has to look."""
        try:
            return self._parse(words)
        except (Unusual, ValueError, OverflowError):
            return None

    def _parse(self, words: Sequence[str]) -> Values:
        by_name = {name: arg for arg in self.declared if arg.is_option for name in arg.names}
        values = {arg.dest: arg.default for arg in self.declared}
        given: set[str] = set()
        positional: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                raise Unusual
            if not word.startswith("-") or word == "-":
                positional.append(word)
                continue
            name, equals, attached = word.partition("=")
            arg = by_name.get(name)
            if arg is None or (not equals and len(word) > 2 and word[1] != "-" and word not in by_name):
                raise Unusual
            _store(arg, attached if equals else None, rest, values, seen=arg.dest in given)
            given.add(arg.dest)
        if any(arg.options.get("required") and arg.dest not in given for arg in self.declared):
            raise Unusual
        _place([arg for arg in self.declared if not arg.is_option], positional, values)
        return Values(values)


def _destination(names: tuple[str, ...]) -> str:
    long = next((name for name in names if name.startswith("--")), names[0])
    return long.lstrip("-").replace("-", "_")


def _store(arg: Argument, attached: str | None, rest: Any, values: dict[str, Any], *, seen: bool) -> None:
    if arg.is_flag:
        if attached is not None:
            raise Unusual
        values[arg.dest] = arg.const
        return
    text = attached if attached is not None else next(rest, None)
    if arg.nargs is not None or text is None or (attached is None and text.startswith("-") and text != "-"):
        raise Unusual
    value = arg.convert(text)
    if arg.action == "append":
        value = [*(values[arg.dest] if seen else arg.default or ()), value]
    elif arg.action != "store":
        raise Unusual
    values[arg.dest] = value


def _place(takers: Sequence[Argument], words: Sequence[str], values: dict[str, Any]) -> None:
    """Hand positional words to the arguments that take them; only the last one may take several."""
    left = list(words)
    for arg in takers:
        many = arg.nargs in ("*", "+")
        if many and arg is not takers[-1]:
            raise Unusual
        if not left:
            if arg.nargs in (None, "+"):
                raise Unusual
            if arg.nargs == "*":
                values[arg.dest] = arg.default if arg.default is not None else []
            continue
        taken, left = (left, []) if many else (left[:1], left[1:])
        converted = [arg.convert(word) for word in taken]
        values[arg.dest] = converted if many else converted[0]
    if left:
        raise Unusual
