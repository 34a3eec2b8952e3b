"""Evaluate a component with the arguments of a document: the app, or every problem, as plain data.

The answer crosses from one process to another as JSON, with the app in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, NamedTuple

from launcher.components.call import ArgumentProblem, ComponentArgs, from_document
from launcher.components.component import Component, ComponentNotFoundException, ComponentValidationException
from launcher.components.signature import ComponentSignatureException, type_name
from launcher.dataclass import fields
from launcher.errors import LauncherError
from launcher.specs.app import MOUNTS, OPTIONS, ROLE_FIELDS, AppDef, Resource, Role
from launcher.specs.canonical import READERS, WRITERS, UnstorableValueError, json_value
from launcher.specs.check import check_app
from launcher.specs.mounts import (
    BindMount,
    DeviceMount,
    InvalidMountException,
    Mount,
    VolumeMount,
    parse_mounts,
)


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
        return {**self._asdict(), "app": app_to_json(self.app) if self.app is not None else None}

    @classmethod
    def from_json(cls, value: Any) -> Evaluation:
        """Raises ValueError, TypeError or KeyError for anything that `to_json` does not make."""
        faults = tuple(ComponentFault(*map(_text, fault)) for fault in value["faults"])
        app = app_from_json(value["app"]) if value["app"] is not None else None
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


# -- The app as data

_MOUNTS: Mapping[str, type] = {"bind": BindMount, "volume": VolumeMount, "device": DeviceMount}


def app_to_json(app: AppDef) -> dict[str, Any]:
    """Return all fields of an app that `check_app` has accepted. Subclasses become the plain classes.

    Raises UnstorableValueError for metadata that JSON cannot hold.
    """
    return {
        "name": app.name,
        "roles": [_from_role(role) for role in app.roles],
        "metadata": json_value(app.metadata, "metadata"),
        "output": app.output,
    }


def app_from_json(value: Any) -> AppDef:
    """Make the app from a value of `app_to_json`.

    Raises ValueError or TypeError for a value of another shape; `check_app` checks the fields' contents.
    """
    parts = _parts(value, AppDef)
    roles = [_to_role(role) for role in _list(parts["roles"])]
    return AppDef(parts["name"], roles, dict(_mapping(parts["metadata"])), bool(parts["output"]))


def _from_role(role: Role) -> dict[str, Any]:
    where = f"roles.{role.name}"
    if type(role).pre_proc is not Role.pre_proc:
        message = f"{where}: `{type(role).__name__}.pre_proc` changes the request, and data cannot hold that"
        raise UnstorableValueError(message, hint="launch it from Python, or return a plain Role")
    return {
        name: _WRITERS.get(field.kind, _plain)(getattr(role, name), f"{where}.{name}")
        for name, field in ROLE_FIELDS.items()
    }


def _to_role(value: Any) -> Role:
    parts = _parts(value, Role)
    for name, field in ROLE_FIELDS.items():
        if field.kind in _READERS and parts[name] is not None:
            parts[name] = _READERS[field.kind](parts[name])
    return Role(**parts)


def _fields_of(value: Any, cls: type) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(cls)}


def _parts(value: Any, cls: type) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != {field.name for field in fields(cls)}:
        raise ValueError(f"no {cls.__name__}: {value!r:.80}")
    return dict(value)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"no mapping: {value!r:.80}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"no list: {value!r:.80}")
    return value


def _plain(value: Any, _: str) -> Any:
    return str(value) if isinstance(value, str) else value


def _from_mounts(mounts: Iterable[Mount], _: str) -> list[dict[str, Any]]:
    return [
        {"type": kind, **_fields_of(mount, cls)}
        for mount in mounts
        for kind, cls in _MOUNTS.items()
        if isinstance(mount, cls)
    ]


def _to_mount(value: Any) -> Mount:
    rest = dict(_mapping(value))
    cls = _MOUNTS[rest.pop("type")]
    made: Mount = cls(**_parts(rest, cls))
    return made


# As in documents, but for amounts in their own units, mounts in their order, and options as given.
_WRITERS: Mapping[str, Callable[[Any, str], Any]] = {
    **WRITERS,
    OPTIONS: json_value,
    MOUNTS: _from_mounts,
    "Resource": lambda value, where: json_value(_fields_of(value, Resource), where),
}
_READERS: Mapping[str, Callable[[Any], Any]] = {
    **READERS,
    MOUNTS: lambda value: [_to_mount(mount) for mount in _list(value)],
    "Resource": lambda value: Resource(**_parts(value, Resource)),
}

_CLASS = "__class__"
_NOTHING = object()


def plain(value: Any) -> Any:
    """A deep copy of an app as mappings and lists, independent of later changes."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        # Apps of subclasses compare equal to plain ones.
        return parts if isinstance(value, AppDef) else {_CLASS: type(value), **parts}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def first_difference(one: Any, other: Any, path: str = "") -> str | None:
    """Return the path of the first difference of two `plain` apps, `roles.trainer.args[3]`, or None."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(f"{path}.{key}", key) for key in {**one, **other}]
        found = (_difference(one, other, key, below) for below, key in pairs)
    elif isinstance(one, list) and isinstance(other, list):
        size = max(len(one), len(other))
        a, b = ({n: many[n] for n in range(len(many))} for many in (one, other))
        found = (_difference(a, b, n, path + _item(a.get(n), n)) for n in range(size))
    else:
        return None if one == other else path.removeprefix(".").removesuffix(f".{_CLASS}")
    return next((each for each in found if each is not None), None)


def _difference(one: Mapping[Any, Any], other: Mapping[Any, Any], key: Any, path: str) -> str | None:
    return first_difference(one.get(key, _NOTHING), other.get(key, _NOTHING), path)


def _item(value: Any, n: int) -> str:
    """Return the name of a list item in a path: a role has its name, other items their index."""
    kind = value.get(_CLASS) if isinstance(value, dict) else None
    return f".{value['name']}" if isinstance(kind, type) and issubclass(kind, Role) else f"[{n}]"
