"""The parameters of a component: types, defaults, texts and help; conversion of values to their types."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from textwrap import dedent, fill
from types import SimpleNamespace
from typing import Any, get_args, get_origin

from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.specs.runopts import get_type_name, to_bool, to_number
from launcher.specs.secret import MalformedSecretException, Secret
from launcher.specs.text import shell_words, to_dict

EMPTY: Any = inspect.Parameter.empty
"""Marks a missing type or default."""

_FREE = (EMPTY, Any, object)
"""The type that allows any value; text stays text."""

_CONTAINERS = (list, dict, tuple)

Path = tuple[str | int, ...]
Spelt = Callable[[Path, Any], str]
"""Path and value of a number or truth value in a document → its text there."""


class WrongValueException(ValueError):
    """A value of a document has the wrong type for its argument; `path` leads to it."""

    def __init__(self, message: str, path: Path, hint: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.hint = hint


def without_none(tp: Any) -> tuple[Any, bool]:
    """(`T`, True) for `Optional[T]`, `T | None`, `None | T`; else (`tp`, False)."""
    if get_origin(tp) in (typing.Union, types.UnionType):
        parts = [part for part in get_args(tp) if part is not type(None)]
        if len(parts) == 1 and len(get_args(tp)) == 2:
            return parts[0], True
    return tp, False


def type_name(tp: Any) -> str:
    """A type as the messages write it: `int`, `list[str]`, `str or none`."""
    inner, optional = without_none(tp)
    if optional:
        return type_name(inner)
    if tp is EMPTY:
        return "text"
    if get_origin(tp) in (list, dict, tuple):
        parts = ", ".join("…" if part is ... else type_name(part) for part in get_args(tp))
        return f"{get_origin(tp).__name__}[{parts}]"
    return get_type_name(tp)


def from_text(text: str, tp: Any) -> Any:
    """Read text: "3" as an int, "a,b" as a list, "K=a,L=b" as a mapping, "yes" as a bool.

    Empty text is None where None is allowed and the type is not text; else an empty list or mapping.
    Raises ValueError, with a message for the user.
    """
    inner, optional = without_none(tp)
    if inner is str or inner in _FREE:
        return text
    if optional and not text.strip():
        return None
    origin = get_origin(inner) or inner
    if origin is bool:
        return to_bool(text)
    if origin in (int, float):
        return to_number(text, origin)
    if origin in _CONTAINERS:
        return _container_from_text(text, inner)
    raise ValueError(f"{type_name(inner)} cannot be read from text")


def _container_from_text(text: str, tp: Any) -> Any:
    parts = get_args(tp) or (str, str)
    if (get_origin(tp) or tp) is dict:
        pairs = to_dict(text) if text.strip() else {}
        return {from_text(key, parts[0]): from_text(value, parts[1]) for key, value in pairs.items()}
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if (get_origin(tp) or tp) is list:
        return [from_text(word, parts[0]) for word in words]
    return tuple(from_text(word, part) for word, part in _paired(words, tp))


def from_value(value: Any, tp: Any, spelt: Spelt | None = None, path: Path = ()) -> Any:
    """Convert a value of a document to `tp`; an int may also be a float, a list a tuple.

    Args:
        spelt: the texts of numbers in the document: a number may then be a text, and a text nothing else.
            Without `spelt`, a text may be any type, as on the command line.
        path: where in the document the value is.

    Raises WrongValueException.
    """
    inner, optional = without_none(tp)
    if inner in _FREE or (value is None and optional):
        return value
    origin = get_origin(inner) or inner
    if isinstance(value, str) and not spelt and origin in (bool, int, float, *_CONTAINERS):
        return from_text(value, tp)
    if origin is str and spelt and isinstance(value, (bool, int, float)):
        return spelt(path, value)
    if origin is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin in _CONTAINERS:
        return _container_from_value(value, inner, spelt, path)
    wrong_bool = isinstance(value, bool) and origin is not bool
    if isinstance(origin, type) and isinstance(value, origin) and not wrong_bool:
        return value
    raise WrongValueException(f"want {type_name(inner)}, got {_shown(value)}", path)


def _container_from_value(value: Any, tp: Any, spelt: Spelt | None, path: Path) -> Any:
    origin, parts = get_origin(tp) or tp, get_args(tp)
    if not isinstance(value, dict if origin is dict else (list, tuple)):
        hint = _as_list(value) if origin is list and parts == (str,) else None
        raise WrongValueException(f"want {type_name(tp)}, got {_shown(value)}", path, hint)
    if not parts:
        return origin(value)
    if isinstance(value, dict):
        return {
            # A key is always text in documents.
            from_value(key, parts[0], None, (*path, key)): _from_entry(item, parts[1], spelt, (*path, key))
            for key, item in value.items()
        }
    kinds = _paired(list(value), tp) if origin is tuple else [(item, parts[0]) for item in value]
    return origin(from_value(item, part, spelt, (*path, n)) for n, (item, part) in enumerate(kinds))


def _as_list(value: Any) -> str | None:
    """Return a hint for a text where a list of its words is meant. YAML and TOML share double quotes."""
    words = shell_words(value) if isinstance(value, str) else None
    return f"write {json.dumps(words, ensure_ascii=False)}" if words else None


def _from_entry(value: Any, tp: Any, spelt: Spelt | None, path: Path) -> Any:
    """Convert a mapping's value. In a mapping of texts, for the `env` of a role, it may be a secret."""
    if not spelt or tp is not str or not isinstance(value, dict) or value.keys() != {"secret"}:
        return from_value(value, tp, spelt, path)
    try:
        return Secret.parse(from_value(value["secret"], str, None, (*path, "secret")))
    except MalformedSecretException as error:
        raise WrongValueException(str(error), (*path, "secret"), error.hint) from error


def _paired(items: list[Any], tp: Any) -> list[tuple[Any, Any]]:
    parts = get_args(tp) or (str, ...)
    if len(parts) == 2 and parts[1] is ...:
        return [(item, parts[0]) for item in items]
    if len(items) != len(parts):
        raise ValueError(f"want {len(parts)} values, got {len(items)}")
    return list(zip(items, parts, strict=True))


def _shown(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"the text `{value}`"
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return repr(value)


_ARGUMENTS = r"(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments)::? *\n"
_OTHERS = r"(?:Returns?|Raises|Yields|Examples?|Notes?)::? *\n(?= )"
_SECTION = re.compile(rf"^{_ARGUMENTS}((?:(?: .*)?\n)*)", re.MULTILINE)
_DESCRIPTION_END = re.compile(rf"^(?:{_ARGUMENTS}|{_OTHERS}|:\w+(?:\s+[^:\n]*)?:)", re.MULTILINE)
_ITEM = re.compile(r"(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_FIELD = re.compile(r":(?P<what>\w+)(?:\s+(?P<words>[^:]*))?:\s*(?P<text>.*)$")

_INDENT = " " * 6
_WIDTH = 100


class ComponentSignatureException(LauncherError, TypeError):
    """A function has a parameter that no component can have: `**kwargs`, or one of an unknown type."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        type: as it is at run time; of `*args: int` it is int, EMPTY when there is no annotation. With the
            default None it is optional: `x: int = None` takes None.
        default: EMPTY when it must be given; of `*args` it is ().
        is_rest: whether it is `*args`.
    """

    name: str
    type: Any
    default: Any
    text: str
    is_keyword_only: bool = False
    is_rest: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is EMPTY


Parameters = dict[str, Parameter]


def parameters_of(function: Callable[..., object], component: str | None = None) -> Parameters:
    """The parameters by name, in their order. Annotations written as text are looked up.

    Args:
        component: its name in messages; the function's name by default.

    Raises ComponentSignatureException.
    """
    called = component or str(getattr(function, "__name__", "component"))
    _, texts = parse_docstring(function.__doc__)
    found: Parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            message = f"component `{called}` takes `**{name}`, and nothing can be passed to it"
            hint = "declare each argument; a decorator keeps those of its function with functools.wraps"
            raise ComponentSignatureException(message, hint=hint)
        rest = parameter.kind is parameter.VAR_POSITIONAL
        type_ = _type(function, called, name, parameter.annotation)
        found[name] = Parameter(
            name,
            typing.Optional[type_] if parameter.default is None and type_ not in _FREE else type_,  # noqa: UP045
            () if rest else parameter.default,
            texts.get(name, ""),
            is_keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
            is_rest=rest,
        )
    return found


def _type(function: Callable[..., object], called: str, name: str, annotation: Any) -> Any:
    if annotation is EMPTY:
        return EMPTY
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        # Annotations are resolved one by one, so that an unresolvable one does not affect the others.
        return typing.get_type_hints(SimpleNamespace(__annotations__={name: annotation}), names)[name]
    except Exception as error:
        raise ComponentSignatureException(
            f"the type of `{name}` in component `{called}` cannot be found: {error}",
            hint="import it at the top of the file, not under TYPE_CHECKING",
        ) from error


def parse_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """(description, parameter → text) of a docstring in Google's or in reST style.

    The description is the text before the first section. A section's title has an indented body below it, so
    `Usage:` above plain text is no title.
    """
    text = inspect.cleandoc(docstring or "") + "\n"
    end = _DESCRIPTION_END.search(text)
    head, rest = (text[: end.start()], text[end.start() :]) if end else (text, "")
    texts: dict[str, str] = {}
    for body in _SECTION.findall(rest):
        texts.update(_texts(dedent(body).splitlines(), _item))
    texts.update(_texts(rest.splitlines(), _field))
    return head.strip(), texts


def _texts(lines: Iterable[str], begun: Callable[[str], tuple[str, str] | None]) -> dict[str, str]:
    """Parameter → text, where `begun` returns the name and text that begin on a line; others continue it."""
    texts = {"": ""}  # text that belongs to no parameter is collected under ""
    name = ""
    for line in lines:
        found = begun(line)
        if found:
            name, texts[name] = found[0], found[1].strip()
        else:
            texts[name] = f"{texts[name]} {line.strip()}".strip()
    del texts[""]
    return texts


def _item(line: str) -> tuple[str, str] | None:
    """Read `name: text` or `name (type): text`."""
    found = _ITEM.match(line)
    return (found["name"].lstrip("*"), found["text"]) if found else None


def _field(line: str) -> tuple[str, str] | None:
    """Read `:param name: text` or `:param type name: text`. A line without indentation ends the text."""
    found = _FIELD.match(line)
    if not found:
        return None if line.startswith(" ") else ("", "")
    words = (found["words"] or "").split()
    is_parameter = found["what"] in {"param", "arg", "argument"} and words
    return (words[-1].lstrip("*") if is_parameter else "", found["text"])


def get_fn_docstring(fn: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """(description, parameter → text). A parameter without a text has " "."""
    description, texts = parse_docstring(fn.__doc__)
    name = getattr(fn, "__name__", "component")
    tip = f"{name} TIP: improve this help string: add a docstring\nin Google's style, with a section Args:"
    return description or tip, {parameter: texts.get(parameter) or " " for parameter in parameters_of(fn)}


def component_help(
    name: str,
    function: Callable[..., object],
    defaults: Mapping[str, Any] | None = None,
    *,
    width: int = _WIDTH,
) -> str:
    """Return the help of a component, each argument with its type and default; ends in a newline.

    Args:
        defaults: parameter → value from configuration, in place of the signature's default.
        width: the columns for a line, of which at most 100 are used.
    """
    columns = min(width, _WIDTH)
    description, _ = get_fn_docstring(function)
    parameters = parameters_of(function).values()
    lines = [f"usage: launcher run {name}"]
    # All words behind the first bare word belong to `*args`.
    for parameter in sorted(parameters, key=lambda parameter: parameter.is_rest):
        word = _usage(parameter)
        if len(lines[-1]) + 1 + len(word) > columns:  # lines are broken between arguments, never within one
            lines.append(_INDENT + word)
        else:
            lines[-1] += f" {word}"
    # Only too long lines are broken; a line that fits, such as an example, keeps its layout.
    said = [line if len(line) <= columns else fill(line, columns) for line in description.split("\n")]
    lines += ["", *said, *(["", "arguments:"] if parameters else [])]
    for parameter in parameters:
        default = _shown_default(parameter, (defaults or {}).get(parameter.name))
        dashes = "" if parameter.is_rest else "--"
        short = f"-{parameter.name}, " if dashes and len(parameter.name) == 1 else ""
        lines.append(f"  {short}{dashes}{parameter.name} {type_name(parameter.type)}{default}")
        if parameter.text:
            lines.append(fill(parameter.text, columns, initial_indent=_INDENT, subsequent_indent=_INDENT))
    return "\n".join(lines) + "\n"


def _usage(parameter: Parameter) -> str:
    if parameter.is_rest:
        return f"[{parameter.name.upper()} …]"
    word = f"--{parameter.name} {parameter.name.upper()}"
    return word if parameter.is_required else f"[{word}]"


def _shown_default(parameter: Parameter, configured: Any) -> str:
    """Return ` (default: …)` for an argument, in the form of a command line; "" without a default."""
    value = parameter.default if configured is None else configured
    if value is EMPTY:
        return " (required)"
    if value is None or (parameter.is_rest and configured is None):
        return ""
    if configured is None and isinstance(value, (dict, list, tuple)) and not value:
        return " (default: empty)"
    if isinstance(value, bool):
        shown = str(value).lower()
    elif parameter.is_rest:
        shown = value if isinstance(value, str) else shlex.join(map(str, value))
    elif isinstance(value, (list, tuple)):
        shown = ",".join(map(str, value))
    elif isinstance(value, dict):
        shown = ",".join(f"{key}={inner}" for key, inner in value.items())
    else:
        shown = str(value) if value != "" else "''"
    return f" (default: {shown})"
