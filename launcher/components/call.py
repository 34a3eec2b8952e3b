"""Call a component with arguments from a command line, a document and configuration: all typed and checked.

A command line wins over a document (`config`), that over defaults from configuration files
(`cmpnt_defaults`), and those over the defaults of the signature.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from launcher.components.command_line import ArgumentProblem, assign
from launcher.components.help import component_help
from launcher.components.signature import EMPTY, Parameter, Parameters, parameters_of
from launcher.components.types import (
    Spelt,
    WrongValueException,
    from_text,
    from_value,
    type_name,
)
from launcher.errors import LauncherError, UsageError
from launcher.specs.app import AppDef
from launcher.text import dotted, name_hint

Component = Callable[..., Any]


class ComponentArgumentException(UsageError, ValueError):
    """Arguments of a component are wrong; the message names each.

    Attributes:
        problems: all that was found.
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


class DocumentArguments(NamedTuple):
    """A value for every parameter, or the problems."""

    values: dict[str, Any]
    problems: list[ArgumentProblem]


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
    parameters = parameters_of(cmpnt_fn)
    return arranged(parameters, _parsed(cmpnt_fn, parameters, cmpnt_args, cmpnt_args_defaults, config))


def parse_args(
    cmpnt_fn: Component,
    cmpnt_args: Sequence[str],
    cmpnt_defaults: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Namespace:
    """The command-line arguments of a component by parameter, each of its type. See `materialize_appdef`."""
    return Namespace(**_parsed(cmpnt_fn, parameters_of(cmpnt_fn), cmpnt_args, cmpnt_defaults, config))


def from_document(parameters: Parameters, values: Mapping[str, Any], spelt: Spelt) -> DocumentArguments:
    """Arguments from a document, whose values are typed: text is never a number there.

    Where text is expected, a number becomes its text in the document. A mapping of texts may hold references
    to secrets, `{"secret": "env:NAME"}`; the component gets a `Secret`, for the `env` of a role.

    Args:
        spelt: path and value of a number or truth value → its text in the document.
    """
    problems: list[ArgumentProblem] = []
    taken = _from_values(parameters, values, problems, spelt)
    return DocumentArguments(_completed(parameters, taken, problems), problems)


def call(cmpnt_fn: Component, arguments: ComponentArgs, name: str | None = None) -> AppDef:
    """The app that a component makes. Raises ComponentResultException, and the component's own exceptions.

    Args:
        name: what messages call it; else the function's name.
    """
    positional, rest, kwargs = (
        _own(arguments.positional_args),
        _own(arguments.var_args),
        _own(arguments.kwargs),
    )
    app = cmpnt_fn(*positional.values(), *rest, **kwargs)
    if not isinstance(app, AppDef):
        name = name or getattr(cmpnt_fn, "__name__", "component")
        raise ComponentResultException(
            f"component `{name}` returned {type(app).__name__}, not an AppDef",
            hint="AppDef is to be imported from launcher.specs",
        )
    return app


def arranged(parameters: Parameters, values: Mapping[str, Any]) -> ComponentArgs:
    """Values by parameter, in the form of a call."""
    found = ComponentArgs({}, [], {})
    for name, parameter in parameters.items():
        if parameter.is_rest:
            found.var_args.extend(values[name])
        elif parameter.is_keyword_only:
            found.kwargs[name] = values[name]
        else:
            found.positional_args[name] = values[name]
    return found


def _parsed(
    function: Component,
    parameters: Parameters,
    words: Sequence[str],
    defaults: Mapping[str, Any] | None,
    config: Mapping[str, Any] | None,
) -> dict[str, Any]:
    name = getattr(function, "__name__", "component")
    assigned = assign(_checked_words(name, words), parameters)
    if assigned.wants_help:
        print(component_help(name, function, defaults), end="")
        raise SystemExit(0)
    problems = assigned.problems
    values = _from_values(parameters, config or {}, problems)
    texts: dict[str, str | list[str]] = {**assigned.texts}
    if assigned.rest is not None:
        texts.update({p.name: assigned.rest for p in parameters.values() if p.is_rest})
    configured: dict[str, Any] = {}
    for defaulted, value in (defaults or {}).items():
        if defaulted not in parameters:
            problems.append(_unknown(defaulted, parameters, ", and configuration sets it"))
        elif defaulted not in texts and defaulted not in values:
            configured[defaulted] = value
    values.update(_from_values(parameters, configured, problems))
    values.update(_from_texts(parameters, texts, problems))
    completed = _completed(parameters, values, problems)
    if problems:
        raise ComponentArgumentException(name, problems)
    return completed


def _checked_words(component: str, words: Sequence[str]) -> Sequence[str]:
    """Check that the arguments are a list of texts; a text itself is a sequence of letters and refused."""
    if (
        isinstance(words, Sequence)
        and not isinstance(words, str)
        and all(isinstance(word, str) for word in words)
    ):
        return words
    hint = 'for example ["--msg", "hello"]; the Runner also takes a dict, a value for each argument'
    message = f"arguments are a list of words, got {words!r}"
    raise ComponentArgumentException(component, [ArgumentProblem("", "wrong-type", message, hint)])


def _from_values(
    parameters: Parameters,
    given: Mapping[str, Any],
    problems: list[ArgumentProblem],
    spelt: Spelt | None = None,
) -> dict[str, Any]:
    def read(parameter: Parameter, value: Any) -> Any:
        if not parameter.is_rest:
            return from_value(value, parameter.type, spelt, (parameter.name,))
        words = value.split() if spelt is None and isinstance(value, str) else value
        return from_value(words, _rest_type(parameter), spelt, (parameter.name,))

    return dict(_each(parameters, given, problems, read))


def _from_texts(
    parameters: Parameters, texts: Mapping[str, str | list[str]], problems: list[ArgumentProblem]
) -> dict[str, Any]:
    def read(parameter: Parameter, text: Any) -> Any:
        if not parameter.is_rest:
            return from_text(text, parameter.type)
        words = text.split() if isinstance(text, str) else text
        return [from_text(word, parameter.type) for word in words]

    return dict(_each(parameters, texts, problems, read))


def _each(
    parameters: Parameters,
    given: Mapping[str, Any],
    problems: list[ArgumentProblem],
    read: Callable[[Parameter, Any], Any],
) -> Iterator[tuple[str, Any]]:
    """Name and value of every argument. An unreadable value is None, and a problem says why."""
    for name, value in given.items():
        if name not in parameters:
            problems.append(_unknown(name, parameters))
            continue
        hint = parameters[name].text or None
        try:
            yield name, read(parameters[name], value)
        except WrongValueException as error:
            message = f"`{dotted(error.path)}`: {error}"
            problems.append(ArgumentProblem(name, "wrong-type", message, error.hint or hint, error.path))
            yield name, None
        except ValueError as error:
            problems.append(ArgumentProblem(name, "wrong-type", f"`{name}`: {error}", hint, (name,)))
            yield name, None


def _unknown(name: str, parameters: Parameters, where: str = "") -> ArgumentProblem:
    message = f"there is no argument `{name}`{where}"
    return ArgumentProblem(name, "unknown-field", message, name_hint(name, parameters))


def _completed(
    parameters: Parameters, values: Mapping[str, Any], problems: list[ArgumentProblem]
) -> dict[str, Any]:
    """A value for every parameter: the given one, else the default of the signature."""
    named = {problem.name for problem in problems}
    for name, parameter in parameters.items():
        if parameter.is_required and name not in values and name not in named:
            message = f"`{name}` ({type_name(parameter.type)}) is required and was not given"
            problems.append(ArgumentProblem(name, "missing-field", message, parameter.text or None))
    return {
        name: values[name] if name in values else None if parameter.is_required else _own(parameter.default)
        for name, parameter in parameters.items()
    }


def _own(value: Any) -> Any:
    """Lists and mappings for one call: a component that changes its arguments changes those of no other."""
    if type(value) is dict:
        return {key: _own(inner) for key, inner in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(map(_own, value))
    return value


def _rest_type(parameter: Parameter) -> Any:
    return list[str] if parameter.type is EMPTY else list[parameter.type]  # type: ignore[name-defined]
