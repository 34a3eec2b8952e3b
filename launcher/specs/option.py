"""runopt: one option of a scheduler, and reading text as its type."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_origin

from launcher.specs.app import CfgVal
from launcher.text import unusable_in

_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def _texts(value: CfgVal) -> list[str]:
    """Those that a value is, or holds as items, keys and values."""
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return [part for part in (parts if isinstance(parts, list) else [parts]) if isinstance(part, str)]


class OptionFault(NamedTuple):
    """Attributes:
    code: of a diagnostic.
    wanted: what the value should be.
    """

    code: str
    wanted: str


@dataclass
class runopt:
    """One option: default, type (`str`, `int`, `float`, `bool`, `list[str]`, `dict[str, str]`) and help.

    Attributes:
        choices: the texts that are allowed; all where there are none.
        minimum: of a number.
        pattern: what a text must match as a whole, a regular expression.
        wants: a description of the pattern: "a size such as 100m".
        takes_number: whether a whole number may stand for its text, as 90 for "90".
    """

    default: CfgVal
    opt_type: Any
    is_required: bool
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    pattern: str = ""
    wants: str = ""
    takes_number: bool = False

    def plain(self, value: Any) -> Any:
        """The value as its type has it: one value, one digest."""
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return str(value) if self.takes_number and is_number else value

    def fault(self, value: CfgVal) -> OptionFault | None:
        """The problem of a value of the right type; None for a valid one."""
        if self.choices and value not in self.choices:
            return OptionFault("unknown-variant", f"one of {', '.join(self.choices)}")
        if self.minimum is not None and isinstance(value, (int, float)) and value < self.minimum:
            return OptionFault("out-of-range", f"{self.minimum:g} or more")
        if self.pattern and isinstance(value, str) and not re.fullmatch(self.pattern, value):
            return OptionFault("invalid-value", self.wants)
        if unusable := next(filter(None, map(unusable_in, _texts(value))), ""):
            return OptionFault("invalid-value", f"text without {unusable}")
        return None

    @property
    def is_type_list_of_str(self) -> bool:
        """Whether the type is `list[str]` or `List[str]`."""
        return get_origin(self.opt_type) is list and get_args(self.opt_type) == (str,)

    @property
    def is_type_dict_of_str(self) -> bool:
        """Whether the type is `dict[str, str]` or `Dict[str, str]`."""
        return get_origin(self.opt_type) is dict and get_args(self.opt_type) == (str, str)

    def cast_to_type(self, value: str) -> CfgVal:
        """Read text as this option's type: "a,b" as a list, "k:v,l:w" as a mapping, "yes" as true.

        Raises ValueError, with a message for the user, when it cannot be read so.
        """
        if self.opt_type is None:
            raise ValueError("the option has no type")
        if self.opt_type is bool:
            return to_bool(value)
        if self.is_type_list_of_str:
            return _split(value)
        if self.is_type_dict_of_str:
            return dict(_to_pair(entry) for entry in _split(value))
        if self.opt_type in (int, float):
            return to_number(value, self.opt_type)
        if (get_origin(self.opt_type) or self.opt_type) in (list, dict, tuple, set):
            raise ValueError(f"{get_type_name(self.opt_type)} cannot be read from text")
        cast: CfgVal = self.opt_type(value)
        return cast


def to_bool(value: str) -> bool:
    """Read true, 1, yes, on or false, 0, no, off. Raises ValueError, with a message for the user."""
    try:
        return _BOOLEANS[value.strip().lower()]
    except KeyError:
        raise ValueError(f"want true or false, got `{value}`") from None


def to_number(value: str, tp: type[int] | type[float]) -> int | float:
    """Read a finite number. Raises ValueError, with a message for the user."""
    try:
        number = tp(value)
    except ValueError:
        raise ValueError(f"want a number ({tp.__name__}), got `{value}`") from None
    if not math.isfinite(number):
        raise ValueError(f"want a finite number, got `{value}`")
    return number


def _split(value: str) -> list[str]:
    parts = (part.strip() for part in value.replace(";", ",").split(","))
    return [part for part in parts if part]


def _to_pair(entry: str) -> tuple[str, str]:
    key, colon, value = entry.partition(":")
    if not colon:
        raise ValueError(f"want key:value, got `{entry}`")
    return key.strip(), value.strip()


def get_type_name(tp: Any) -> str:
    """The name of a type as users write it: `int`, `list[str]`, `typing.List[str]`."""
    if get_origin(tp) is not None or getattr(tp, "__module__", "") == "typing":
        return str(tp)
    return str(getattr(tp, "__name__", tp))
