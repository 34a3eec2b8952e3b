"""Convert the values of a component's arguments from text, or from a document, to the argument's type."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin

from launcher.specs.runopts import get_type_name, to_bool, to_number
from launcher.specs.secret import MalformedSecretException, Secret
from launcher.specs.text import shell_words, to_dict

EMPTY: Any = inspect.Parameter.empty
"""No type, no default."""

_FREE = (EMPTY, Any, object)
"""Any type; text stays text."""

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
    """Take a value out of a document as `tp`: an int also for a float, a list also for a tuple.

    Args:
        spelt: the texts of the document, in which numbers stand for text and text for nothing else; without
            it, text may stand for what is no text, as on the command line.
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
            # A key is text in every document.
            from_value(key, parts[0], None, (*path, key)): _from_entry(item, parts[1], spelt, (*path, key))
            for key, item in value.items()
        }
    kinds = _paired(list(value), tp) if origin is tuple else [(item, parts[0]) for item in value]
    return origin(from_value(item, part, spelt, (*path, n)) for n, (item, part) in enumerate(kinds))


def _as_list(value: Any) -> str | None:
    """A hint for a text in the place of a list of its words. Double quotes mean the same in YAML and TOML."""
    words = shell_words(value) if isinstance(value, str) else None
    return f"write {json.dumps(words, ensure_ascii=False)}" if words else None


def _from_entry(value: Any, tp: Any, spelt: Spelt | None, path: Path) -> Any:
    """The value of a mapping. One of texts may be for the `env` of a role: there a secret can stand."""
    if not spelt or tp is not str or not isinstance(value, dict) or value.keys() != {"secret"}:
        return from_value(value, tp, spelt, path)
    try:
        return Secret.parse(from_value(value["secret"], str, None, (*path, "secret")))
    except MalformedSecretException as error:
        raise WrongValueException(str(error), (*path, "secret"), error.hint) from error


def _paired(items: list[Any], tp: Any) -> list[tuple[Any, Any]]:
    """The items of a tuple with the type of each."""
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
