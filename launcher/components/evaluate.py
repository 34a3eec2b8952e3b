"""Evaluate a component with the arguments of a document: the app, or every problem, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from launcher.components.call import ArgumentProblem, ComponentArgs, from_document
from launcher.components.component import (
    Component,
    ComponentNotFoundException,
    ComponentValidationException,
)
from launcher.components.signature import ComponentSignatureException, type_name
from launcher.errors import LauncherError
from launcher.specs.app import AppDef
from launcher.specs.appdata import first_difference, from_json, plain, to_json
from launcher.specs.check import check_app
from launcher.specs.mounts import InvalidMountException, parse_mounts


class Call(NamedTuple):
    """The call of a component in a document.

    Attributes:
        folder: a relative component file is relative to it.
        spelt: the text of each number and truth value in `args`, by its path.
        is_called: False if some arguments are unknown; the known ones are then only checked.
    """

    component: str
    folder: str
    args: Mapping[str, Any]
    spelt: Mapping[tuple[str | int, ...], str]
    is_called: bool = True

    def to_json(self) -> dict[str, Any]:
        spelt = [[list(path), text] for path, text in self.spelt.items()]
        return {**self._asdict(), "args": dict(self.args), "spelt": spelt}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Call:
        return cls(**{**value, "spelt": {tuple(path): text for path, text in value["spelt"]}})


class ComponentFault(NamedTuple):
    """A problem of the component itself; `code` is that of a diagnostic."""

    code: str
    message: str
    label: str = ""
    hint: str = ""


class Evaluation(NamedTuple):
    """Attributes:
    types: the component's parameters, in their order, with the names of their types.
    app: None when there is a fault or a problem, or the component was not to be called.
    """

    name: str
    types: Mapping[str, str] = {}
    problems: tuple[ArgumentProblem, ...] = ()
    faults: tuple[ComponentFault, ...] = ()
    app: AppDef | None = None

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "app": to_json(self.app) if self.app is not None else None}

    @classmethod
    def from_json(cls, value: Any) -> Evaluation:
        """Raises ValueError, TypeError or KeyError for anything that `to_json` does not make."""
        faults = tuple(ComponentFault(*map(_text, fault)) for fault in value["faults"])
        app = from_json(value["app"]) if value["app"] is not None else None
        if app is not None:
            faults += tuple(_unsound(_text(value["name"]), app))
        problems = tuple(
            ArgumentProblem(_text(name), _text(code), _text(message), hint and _text(hint), tuple(path))
            for name, code, message, hint, path in value["problems"]
        )
        types = {_text(name): _text(kind) for name, kind in value["types"].items()}
        return cls(_text(value["name"]), types, problems, faults, None if faults else app)


def failed(name: str, code: str, message: str, *, label: str = "", hint: str = "") -> Evaluation:
    """A result with one fault."""
    return Evaluation(name, faults=(ComponentFault(code, message, label, hint),))


def evaluate(find: Callable[[], Component], call: Call) -> Evaluation:
    """Find a component, check its arguments and call it twice; its output goes to stderr."""
    name = call.component
    try:
        component = find()
    except ComponentNotFoundException as error:
        return failed(name, "unknown-variant", str(error), label=error.hint or "")
    except ComponentValidationException as error:
        return failed(name, "invalid-value", f"`{name}` is no component: {error}")
    try:
        parameters = component.parameters
    except (ComponentNotFoundException, ComponentSignatureException) as error:
        return failed(name, "invalid-value", str(error), hint=error.hint or "")
    arguments = from_document(parameters, call.args, lambda path, value: call.spelt[path])
    types = {name: type_name(parameter.type) for name, parameter in parameters.items()}
    answer = Evaluation(component.name, types, tuple(arguments.problems))
    if arguments.problems or not call.is_called:
        return answer
    try:
        return _called(answer, component, arguments.for_call())
    except LauncherError as error:
        refused = _refused_mounts(call.args, error)
        if refused is not None:
            return answer._replace(problems=(refused,))
        return answer._replace(faults=(ComponentFault("invalid-value", str(error), hint=error.hint or ""),))


def _refused_mounts(args: Mapping[str, Any], error: LauncherError) -> ArgumentProblem | None:
    """Return the argument whose texts are not mounts, if such texts made the component fail."""
    texts = args.get("mounts")
    if not isinstance(error, InvalidMountException) or not isinstance(texts, list):
        return None
    one_each = [n for n, text in enumerate(texts) if "," in text and _is_refused(text)]
    message = f"`mounts`: {error}"
    return ArgumentProblem("mounts", "invalid-value", message, error.hint, ("mounts", *one_each[:1]))


def _is_refused(text: str) -> bool:
    try:
        parse_mounts([text])
    except InvalidMountException:
        return True
    return False


def _called(answer: Evaluation, component: Component, arguments: ComponentArgs) -> Evaluation:
    """Return the answer with the app. Raises the LauncherError that the component raises."""
    app = component.build(arguments)
    first = plain(app)
    changes = first_difference(first, plain(component.build(arguments)))
    if changes:
        message = f"component `{component.name}` makes another app each time it is called: {changes} changes"
        hint = "take the time, or a random number, as an argument: a plan would never come to an end"
        return answer._replace(faults=(ComponentFault("invalid-value", message, hint=hint),))
    faults = tuple(_unsound(component.name, app))
    return answer._replace(faults=faults) if faults else answer._replace(app=app)


def _unsound(name: str, app: AppDef) -> list[ComponentFault]:
    said = f"component `{name}` makes an app that cannot run"
    return [
        ComponentFault("invalid-value", f"{said}: {'.'.join(map(str, found.path))}: {found.message}")
        for found in check_app(app)
    ]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {value!r:.80}")
    return value
