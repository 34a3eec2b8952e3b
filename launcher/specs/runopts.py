"""runopts: the options a scheduler takes; checking them, their defaults, and reading them from text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args, get_origin

from launcher.dataclass import dataclass
from launcher.errors import UsageError
from launcher.specs.app import CfgVal
from launcher.specs.text import to_dict
from launcher.text import name_hint, unusable_in

Place = tuple[str | int, ...]

TRUTHS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
"""Words for the values of options and variables, in small letters."""


def _texts(value: CfgVal) -> Iterator[tuple[Place, str]]:
    """Yield the texts in a value with their places: the value, list items, `key=value` of a mapping."""
    if isinstance(value, str):
        yield (), value
    elif isinstance(value, list):
        yield from (((index,), item) for index, item in enumerate(value))
    elif isinstance(value, dict):
        yield from (((key,), f"{key}={item}") for key, item in value.items())


Choices = tuple[str, ...] | Mapping[str, str]


class OptionFault(NamedTuple):
    """Attributes:
    code: the code of its diagnostic.
    wanted: a description of valid values.
    at: the place of the fault in the value: (index,) in a list, (key,) in a mapping.
    """

    code: str
    wanted: str
    at: Place = ()


@dataclass
class runopt:
    """One option: default, type (`str`, `int`, `float`, `bool`, `list[str]`, `dict[str, str]`) and help.

    Attributes:
        choices: the allowed texts, or a mapping with the meaning of each; empty to allow all.
        minimum: the least number.
        pattern: what a text must match as a whole, a regular expression; so must each item of a list, and
            each `key=value` of a mapping.
        wants: a description of the pattern: "a size such as 100m".
        takes_number: whether a whole number may stand for its text, as 90 for "90"; in a mapping too.
        example: a value, for editors.
        is_of_role: whether `cfg` of a role may give it. The value of the job is its default there.
    """

    default: CfgVal
    opt_type: Any
    is_required: bool
    help: str
    choices: Choices = ()
    minimum: float | None = None
    pattern: str = ""
    wants: str = ""
    takes_number: bool = False
    example: CfgVal = None
    is_of_role: bool = False

    def plain(self, value: Any) -> Any:
        """Return the value in its option's type, so that equal values have one digest."""
        if not self.takes_number:
            return value
        if isinstance(value, dict):
            return {key: _plain(item) for key, item in value.items()}
        return _plain(value)

    def fault(self, value: CfgVal) -> OptionFault | None:
        """Return the problem of a value of the right type; None for a valid value."""
        if self.choices and value not in self.choices:
            return OptionFault("unknown-variant", f"one of {', '.join(self.choices)}")
        if self.minimum is not None and isinstance(value, (int, float)) and value < self.minimum:
            return OptionFault("out-of-range", f"{self.minimum:g} or more")
        for at, text in _texts(value):
            if self.pattern and not re.fullmatch(self.pattern, text):
                return OptionFault("invalid-value", self.wants, at)
            if unusable := unusable_in(text):
                return OptionFault("invalid-value", f"text without {unusable}", at)
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
            pairs = {}
            for entry in _split(value):
                key, colon, text = entry.partition(":")
                if not colon:
                    raise ValueError(f"want key:value, got `{entry}`")
                pairs[key.strip()] = text.strip()
            return pairs
        if self.opt_type in (int, float):
            return to_number(value, self.opt_type)
        if (get_origin(self.opt_type) or self.opt_type) in (list, dict, tuple, set):
            raise ValueError(f"{get_type_name(self.opt_type)} cannot be read from text")
        cast: CfgVal = self.opt_type(value)
        return cast


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def to_bool(value: str) -> bool:
    """Read true, 1, yes, on or false, 0, no, off. Raises ValueError, with a message for the user."""
    try:
        return TRUTHS[value.strip().lower()]
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


def get_type_name(tp: Any) -> str:
    """The name of a type as users write it: `int`, `list[str]`, `typing.List[str]`."""
    if get_origin(tp) is not None or getattr(tp, "__module__", "") == "typing":
        return str(tp)
    return str(getattr(tp, "__name__", tp))


__all__ = ["InvalidRunConfigException", "get_type_name", "runopt", "runopts"]


class InvalidRunConfigException(UsageError, ValueError):
    """Scheduler options are wrong. `cfg_key` names the wrong option."""

    def __init__(
        self, invalid_reason: str, cfg_key: str, cfg: Mapping[str, Any] | str, *, hint: str | None = None
    ) -> None:
        super().__init__(f"{invalid_reason}. Given: {cfg or '<EMPTY>'}", hint=hint)
        self.cfg_key = cfg_key


class runopts:
    """The options of a scheduler, in the order they were added."""

    def __init__(self) -> None:
        self._opts: dict[str, runopt] = {}

    def __iter__(self) -> Iterator[tuple[str, runopt]]:
        return iter(self._opts.items())

    def __len__(self) -> int:
        return len(self._opts)

    @staticmethod
    def is_type(obj: CfgVal, tp: Any) -> bool:
        """Whether `obj` is valid for the type `tp`: an int also for a float, a bool only for bool.

        A list must hold nothing but text, and so must a mapping's keys and values. None has no valid type.
        """
        origin = get_origin(tp) or tp
        if origin is list:
            return isinstance(obj, list) and all(isinstance(item, str) for item in obj)
        if origin is dict:
            return isinstance(obj, dict) and all(
                isinstance(text, str) for item in obj.items() for text in item
            )
        if isinstance(obj, bool):
            return origin is bool
        if origin is float:
            return isinstance(obj, (int, float))
        return isinstance(origin, type) and isinstance(obj, origin)

    def add(
        self,
        cfg_key: str,
        type_: Any,
        help: str,
        default: CfgVal = None,
        required: bool = False,
        *,
        choices: Choices = (),
        minimum: float | None = None,
        pattern: str = "",
        wants: str = "",
        takes_number: bool = False,
        example: CfgVal = None,
        is_of_role: bool = False,
    ) -> None:
        """Add an option, or replace the one of that name. The parameters are the attributes of `runopt`.

        Raises ValueError for a required option with a default, TypeError for a default of another type.
        """
        if required and default is not None:
            raise ValueError(f"option `{cfg_key}` is required, so it cannot have a default ({default!r})")
        if default is not None and not self.is_type(default, type_):
            kind = get_type_name(type_)
            raise TypeError(f"option `{cfg_key}` is of type {kind}, its default is {default!r}")
        more = (choices, minimum, pattern, wants, takes_number, example, is_of_role)
        self._opts[cfg_key] = runopt(default, type_, required, help, *more)

    def get(self, name: str) -> runopt | None:
        """Return the option of that name; None when there is none."""
        return self._opts.get(name)

    def plain(self, cfg: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values in the types of their options; values of unknown options stay."""
        return {key: opt.plain(value) if (opt := self.get(key)) else value for key, value in cfg.items()}

    def of_role(self) -> runopts:
        """The options that `cfg` of a role may give."""
        found = runopts()
        found._opts = {key: opt for key, opt in self if opt.is_of_role}
        return found

    def update(self, other: runopts) -> None:
        """Add all options of `other`; they win over equally named ones."""
        self._opts.update(other)

    def resolve(self, cfg: Mapping[str, Any]) -> dict[str, CfgVal]:
        """Return a copy of `cfg` with the defaults filled in. None means "the default".

        Raises InvalidRunConfigException for an unknown option, a missing required one, a wrong type, and a
        value that the option does not take.
        """
        for key in cfg:
            self._known(key, cfg)
        return {**cfg, **{key: self._resolve_one(key, opt, cfg) for key, opt in self}}

    def _resolve_one(self, key: str, opt: runopt, cfg: Mapping[str, Any]) -> CfgVal:
        value: CfgVal = opt.plain(cfg.get(key))
        if value is None:
            if opt.is_required:
                missing = f"option `{key}` is required and was not given"
                raise InvalidRunConfigException(missing, key, cfg, hint=opt.help)
            return opt.default
        if not self.is_type(value, opt.opt_type):
            raise self._wrong_type(key, opt, value, cfg)
        self._check(key, opt, value)
        # One value, one digest: 10 and 10.0 are the same number of seconds.
        return float(value) if opt.opt_type is float and isinstance(value, int) else value

    def check_values(self, cfg: Mapping[str, Any]) -> None:
        """Raise InvalidRunConfigException for a value that its option does not take, whatever its type."""
        for key, opt in self:
            if cfg.get(key) is not None:
                self._check(key, opt, cfg[key])

    @staticmethod
    def _check(key: str, opt: runopt, value: CfgVal) -> None:
        fault = opt.fault(value)
        if fault is not None:
            hint = name_hint(str(value), opt.choices) if opt.choices else opt.help
            text = f"{key} must be {fault.wanted}, got {value!r}"
            raise InvalidRunConfigException(text, key, {key: value}, hint=hint)

    def cfg_from_str(self, cfg_str: str | None) -> dict[str, CfgVal]:
        """Read "key=value,key=value" by the options' types. No defaults are filled in.

        Grammar: `launcher.specs.text.to_dict`. Raises InvalidRunConfigException for text of another form,
        an unknown option, or a value that cannot be read as the option's type.
        """
        if not cfg_str or not cfg_str.strip():
            return {}
        try:
            pairs = to_dict(cfg_str)
        except ValueError as error:
            raise InvalidRunConfigException(f"malformed options: {error}", "", cfg_str) from None
        cfg: dict[str, CfgVal] = {}
        for key, text in pairs.items():
            opt = self._known(key, cfg_str)
            try:
                cfg[key] = opt.cast_to_type(text)
            except ValueError as error:
                raise InvalidRunConfigException(f"option `{key}`: {error}", key, cfg_str) from None
        return cfg

    def cfg_from_json_repr(self, json_repr: str) -> dict[str, CfgVal]:
        """Read a JSON object of options. Elements of lists and mappings become text; null stays None.

        Raises InvalidRunConfigException for anything else, an unknown option, or a value of a wrong type.
        """
        try:
            given = json.loads(json_repr)
        except ValueError as error:
            raise InvalidRunConfigException(f"options are not JSON: {error}", "", json_repr) from None
        if not isinstance(given, dict):
            raise InvalidRunConfigException("options must be a JSON object", "", json_repr)
        return {key: self._from_json(key, value, given) for key, value in given.items()}

    def _from_json(self, key: str, value: Any, given: Mapping[str, Any]) -> CfgVal:
        opt = self._known(key, given)
        if value is None:
            return None
        if opt.is_type_list_of_str and isinstance(value, list):
            value = [_text_of(item) for item in value]
        elif opt.is_type_dict_of_str and isinstance(value, dict):
            value = {name: _text_of(item) for name, item in value.items()}
        value = opt.plain(value)
        if not self.is_type(value, opt.opt_type):
            raise self._wrong_type(key, opt, value, given)
        checked: CfgVal = value
        return checked

    def _known(self, key: str, cfg: Mapping[str, Any] | str) -> runopt:
        opt = self._opts.get(key)
        if opt is None:
            hint = name_hint(key, self._opts) or "this scheduler takes no options"
            raise InvalidRunConfigException(f"there is no option `{key}`", key, cfg, hint=hint)
        return opt

    @staticmethod
    def _wrong_type(
        key: str, opt: runopt, value: object, cfg: Mapping[str, Any]
    ) -> InvalidRunConfigException:
        want = get_type_name(opt.opt_type)
        return InvalidRunConfigException(
            f"option `{key}` must be of type {want}, got {value!r} ({type(value).__name__})", key, cfg
        )

    def __repr__(self) -> str:
        required = [(key, opt) for key, opt in self if opt.is_required]
        optional = [(key, opt) for key, opt in self if not opt.is_required]
        usage = [f"{key}={key.upper()}" for key, _ in required]
        usage += [f"[{key}={key.upper()}]" for key, _ in optional]
        lines = ["    usage:", f"        {','.join(usage)}"]
        for title, options in (("required", required), ("optional", optional)):
            if options:
                lines += ["", f"    {title} arguments:"]
            for key, opt in options:
                kind = get_type_name(opt.opt_type) + ("" if opt.is_required else f", {opt.default}")
                lines.append(f"        {key}={key.upper()} ({kind})")
                lines += [f"            {line}" for line in opt.help.splitlines()]
        return "\n".join(lines) + "\n"


def _text_of(item: object) -> object:
    """Return a JSON scalar as text, and anything else unchanged, so that the type check refuses it."""
    return str(item) if isinstance(item, (str, int, float)) else item
