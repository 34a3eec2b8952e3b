"""Call a component with typed and checked arguments from a command line, a document and configuration.

A command line wins over a document (`config`), that over defaults from configuration files
(`cmpnt_defaults`), and those over the defaults of the signature. On a command line: `--name value` and
`--name=value`; a unique prefix of a name suffices; parameters of one letter also as `-x value`. The first
bare word and all words behind it are for `*args`, as are all words behind `--`.
"""

from __future__ import annotations

from argparse import Namespace
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from launcher.components.signature import (
    EMPTY,
    Parameter,
    Parameters,
    Spelt,
    WrongValueException,
    component_help,
    from_text,
    from_value,
    parameters_of,
    type_name,
)
from launcher.dataclass import dataclass, field
from launcher.errors import LauncherError, UsageError
from launcher.specs.app import AppDef
from launcher.text import dotted, name_hint

Component = Callable[..., Any]

_HELP = "--help"


class ArgumentProblem(NamedTuple):
    """A problem of the arguments of a component.

    Attributes:
        name: the parameter, or the text in place of a parameter's name.
        code: `unknown-field`, `missing-field` or `wrong-type`.
        path: of a wrong value in a document, from the parameter on: ("env", "LR").
    """

    name: str
    code: str
    message: str
    hint: str | None = None
    path: tuple[str | int, ...] = ()


class ComponentArgumentException(UsageError, ValueError):
    """Arguments of a component are wrong; the message names each.

    Attributes:
        problems: all problems found.
    """

    def __init__(self, component: str, problems: Sequence[ArgumentProblem]) -> None:
        hints = [problem.hint for problem in problems if problem.hint]
        lines = [problem.message for problem in problems]
        text = lines[0] if len(lines) == 1 else "\n  " + "\n  ".join(lines)
        super().__init__(f"component `{component}`: {text}", hint=hints[0] if hints else None)
        self.problems = tuple(problems)


class ComponentResultException(LauncherError, TypeError):
    """A component did not return an AppDef."""


class ComponentArgs(NamedTuple):
    """Arguments ready for the call: `fn(*positional_args.values(), *var_args, **kwargs)`."""

    positional_args: dict[str, Any]
    var_args: list[Any]
    kwargs: dict[str, Any]


def materialize_appdef(
    cmpnt_fn: Component,
    cmpnt_args: Sequence[str],
    cmpnt_defaults: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> AppDef:
    """The app that a component makes of its command-line arguments: `["--msg", "hi"]`.

    Args:
        cmpnt_defaults: parameter → value, from configuration files; text may stand for any type.
        config: parameter → value, from a document; text may stand for any type.

    Raises ComponentArgumentException, ComponentSignatureException; ComponentResultException, a TypeError,
    for a result that is no AppDef; and the component's own exceptions. `--help` prints the help and raises
    SystemExit.
    """
    return call(cmpnt_fn, component_args_from_str(cmpnt_fn, cmpnt_args, cmpnt_defaults, config))


def component_args_from_str(
    cmpnt_fn: Component,
    cmpnt_args: Sequence[str],
    cmpnt_args_defaults: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> ComponentArgs:
    """The command-line arguments of a component as arguments of the call. See `materialize_appdef`."""
    return _parsed(cmpnt_fn, cmpnt_args, cmpnt_args_defaults, config).for_call()


def parse_args(
    cmpnt_fn: Component,
    cmpnt_args: Sequence[str],
    cmpnt_defaults: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Namespace:
    """The command-line arguments of a component by parameter, each of its type. See `materialize_appdef`."""
    return Namespace(**_parsed(cmpnt_fn, cmpnt_args, cmpnt_defaults, config).values)


def call(cmpnt_fn: Component, arguments: ComponentArgs, name: str | None = None) -> AppDef:
    """The app that a component makes; messages name it `name`, else by its function.

    Raises ComponentResultException, and the component's own exceptions.
    """
    positional, rest, kwargs = map(_own, arguments)
    app = cmpnt_fn(*positional.values(), *rest, **kwargs)
    if not isinstance(app, AppDef):
        name = name or getattr(cmpnt_fn, "__name__", "component")
        raise ComponentResultException(
            f"component `{name}` returned {type(app).__name__}, not an AppDef",
            hint="AppDef is to be imported from launcher.specs",
        )
    return app


def from_document(parameters: Parameters, given: Mapping[str, Any], spelt: Spelt) -> CallArguments:
    """Arguments from a document, whose values are typed: text is never a number there.

    Where text is expected, a number becomes its text in the document. A mapping of texts may hold references
    to secrets, `{"secret": "env:NAME"}`; the component gets a `Secret`, for the `env` of a role.

    Args:
        spelt: path and value of a number or truth value → its text in the document.
    """
    found = CallArguments(parameters)
    found.take_values(given, spelt)
    found.complete()
    return found


def _parsed(
    function: Component,
    words: Sequence[str],
    defaults: Mapping[str, Any] | None,
    config: Mapping[str, Any] | None,
) -> CallArguments:
    name = getattr(function, "__name__", "component")
    found = CallArguments(parameters_of(function))
    is_list = isinstance(words, Sequence) and not isinstance(words, str)
    if not is_list or not all(isinstance(word, str) for word in words):
        hint = 'for example ["--msg", "hello"]; the Runner also takes a dict, a value for each argument'
        message = f"arguments are a list of words, got {words!r}"
        raise ComponentArgumentException(name, [ArgumentProblem("", "wrong-type", message, hint)])
    assigned = assign(words, found.parameters)
    if assigned.wants_help:
        print(component_help(name, function, defaults), end="")
        raise SystemExit(0)
    found.problems = assigned.problems
    found.take_values(config or {})
    configured: dict[str, Any] = {}
    for defaulted, value in (defaults or {}).items():
        if defaulted not in found.parameters:
            found.add_unknown(defaulted, ", and configuration sets it")
        elif defaulted not in assigned.texts and defaulted not in found.values:
            configured[defaulted] = value
    found.take_values(configured)
    found.take_texts(assigned.texts)
    found.complete()
    if found.problems:
        raise ComponentArgumentException(name, found.problems)
    return found


@dataclass(slots=True)
class CallArguments:
    """The arguments of one call: a value for each parameter when they are complete. Collects problems.

    Attributes:
        values: an unreadable value is None.
    """

    parameters: Parameters
    values: dict[str, Any] = field(default_factory=dict)
    problems: list[ArgumentProblem] = field(default_factory=list)

    def take_values(self, given: Mapping[str, Any], spelt: Spelt | None = None) -> None:
        def read(parameter: Parameter, value: Any) -> Any:
            if not parameter.is_rest:
                return from_value(value, parameter.type, spelt, (parameter.name,))
            words = value.split() if spelt is None and isinstance(value, str) else value
            item: Any = str if parameter.type is EMPTY else parameter.type
            return from_value(words, list[item], spelt, (parameter.name,))

        self._take(given, read)

    def take_texts(self, given: Mapping[str, Any]) -> None:
        def read(parameter: Parameter, text: Any) -> Any:
            if not parameter.is_rest:
                return from_text(text, parameter.type)
            return [from_text(word, parameter.type) for word in text]

        self._take(given, read)

    def _take(self, given: Mapping[str, Any], read: Callable[[Parameter, Any], Any]) -> None:
        for name, value in given.items():
            parameter = self.parameters.get(name)
            if parameter is None:
                self.add_unknown(name)
                continue
            self.values[name] = None
            try:
                self.values[name] = read(parameter, value)
            except WrongValueException as error:
                hint = error.hint or parameter.text or None
                message = f"`{dotted(error.path)}`: {error}"
                self.problems.append(ArgumentProblem(name, "wrong-type", message, hint, error.path))
            except ValueError as error:
                hint = parameter.text or None
                self.problems.append(ArgumentProblem(name, "wrong-type", f"`{name}`: {error}", hint, (name,)))

    def add_unknown(self, name: str, where: str = "") -> None:
        message = f"there is no argument `{name}`{where}"
        hint = name_hint(name, self.parameters)
        self.problems.append(ArgumentProblem(name, "unknown-field", message, hint))

    def complete(self) -> None:
        """Give each parameter a value, in the order of the signature: the given one, else its default."""
        named = {problem.name for problem in self.problems}
        given, self.values = self.values, {}
        for name, parameter in self.parameters.items():
            is_missing = parameter.is_required and name not in given
            if is_missing and name not in named:
                message = f"`{name}` ({type_name(parameter.type)}) is required and was not given"
                self.problems.append(ArgumentProblem(name, "missing-field", message, parameter.text or None))
            self.values[name] = None if is_missing else given.get(name, _own(parameter.default))

    def for_call(self) -> ComponentArgs:
        """The complete arguments in the form of a call."""
        found = ComponentArgs({}, [], {})
        for name, parameter in self.parameters.items():
            if parameter.is_rest:
                found.var_args.extend(self.values[name])
            elif parameter.is_keyword_only:
                found.kwargs[name] = self.values[name]
            else:
                found.positional_args[name] = self.values[name]
        return found


def _own(value: Any) -> Any:
    """Copy lists and mappings for one call: a component may change its arguments without harm to others."""
    if type(value) is dict:
        return {key: _own(inner) for key, inner in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(map(_own, value))
    return value


@dataclass(slots=True)
class CommandLine:
    """The words of a command line, by parameter.

    Attributes:
        texts: parameter → text, the last one if it is given twice; of `*args` the words.
        repeated: the parameters that are given twice.
    """

    texts: dict[str, str | list[str]] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)
    wants_help: bool = False
    problems: list[ArgumentProblem] = field(default_factory=list)


def assign(words: Sequence[str], parameters: Parameters) -> CommandLine:
    """Assign each word to its parameter. Problems are collected, not raised."""
    found = CommandLine()
    rest = next((parameter.name for parameter in parameters.values() if parameter.is_rest), None)
    options = [name for name in parameters if name != rest]
    queue = deque(words)
    while queue:
        word = queue.popleft()
        if word == _HELP and "help" not in options:
            found.wants_help = True
        elif word.startswith("-") and word not in ("-", "--"):
            _take_option(word, queue, options, found)
        else:
            left = [*queue] if word == "--" else [word, *queue]
            if rest is not None:
                found.texts[rest] = left
            elif left:
                message, hint = f"`{left[0]}` belongs to no argument", _listed(options)
                if word == "--" and _is_option(left[0], options):
                    hint = "leave out `--`: the words behind it are no arguments with names"
                found.problems.append(ArgumentProblem(left[0], "unknown-field", message, hint))
            break
    return found


def _take_option(word: str, queue: deque[str], options: list[str], found: CommandLine) -> None:
    name, value = _split(word, options)
    meant = _meant(name, options)
    if len(meant) != 1:
        message = f"there is no argument `{word.partition('=')[0]}`"
        hint = name_hint(name, options)
        if meant:
            message, hint = f"`--{name}` fits more than one argument", _listed(meant)
        found.problems.append(ArgumentProblem(name, "unknown-field", message, hint))
        # The word after an unknown option is treated as its value.
        if value is None and queue and not queue[0].startswith("-"):
            queue.popleft()
        return
    option = meant[0]
    if value is None:
        if not queue or queue[0] == "--" or _is_option(queue[0], options):
            message, hint = f"`--{option}` needs a value", f"--{option}=VALUE"
            found.problems.append(ArgumentProblem(option, "missing-field", message, hint))
            return
        value = queue.popleft()
    if option in found.texts:
        found.repeated.append(option)
    found.texts[option] = value


def _split(word: str, options: list[str]) -> tuple[str, str | None]:
    """("name", "value") of `--name=value`, `-x=value` and `-xvalue`; the value is None when it follows."""
    if not word.startswith("--") and word[1] in options and len(word) > 2:
        return word[1], word[2:].removeprefix("=")
    name, equals, value = word.lstrip("-").partition("=")
    return name, value if equals else None


def _meant(name: str, options: list[str]) -> list[str]:
    """Return the options that a name or prefix may mean, with `-` for `_` too."""
    spelt = name.replace("-", "_")
    for exact in (name, spelt):
        if exact in options:
            return [exact]
    return [option for option in options if spelt and option.startswith(spelt)]


def _is_option(word: str, options: list[str]) -> bool:
    """Whether a word is the full name of a parameter, and so no value. A negative number is a value."""
    if word == _HELP and "help" not in options:
        return True
    name = word.partition("=")[0]
    if name.startswith("--"):
        return name[2:] in options
    return len(name) == 2 and name[0] == "-" and name[1] in options


def _listed(options: list[str]) -> str:
    if not options:
        return "the component takes no arguments"
    return f"its arguments: {', '.join('--' + option for option in options)}"
