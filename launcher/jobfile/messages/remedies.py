"""Remedies for values of the wrong type: the value that was meant, as the file's format writes it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pydantic_core import PydanticCustomError

from launcher.jobfile.messages.collector import Collector, nearest, show
from launcher.jobfile.messages.foreign import ports, variables, word_for
from launcher.jobfile.messages.wording_fields import holds_secret, script_remedy, wrongly_indented
from launcher.jobfile.model.fields import fields_at
from launcher.jobfile.model.types import memory_mib
from launcher.jobfile.text.document import Path, blank_after_colon, blank_name
from launcher.specs.runopts import TRUTHS
from launcher.specs.secret import may_hold_secret
from launcher.specs.text import compose_mount, cores_meant, shell_words
from launcher.text import is_number

_LONGEST = 200
"""The most characters of a value in a remedy."""

Advice = tuple[str, str]
"""A label and a hint."""


def _write(value: Any, problems: Collector) -> str:
    """Return the label "write …" for a value; "" for a value that is long or may be secret."""
    are_texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    # Double quotes mean the same in YAML and in TOML.
    shown = json.dumps(value, ensure_ascii=False) if are_texts else problems.written(value)
    return f"write {shown}" if len(shown) <= _LONGEST and not holds_secret(value) else ""


def type_remedy(kind: str, path: Path, value: Any, problems: Collector) -> Advice:
    """A label and a hint for a value of the wrong type."""
    if kind == "list_type":
        return list_remedy(path, value, problems), ""
    if kind == "bool_type":
        meant = TRUTHS.get(str(value).lower())
        return "" if meant is None else f"write {str(meant).lower()}", ""
    if kind in ("int_type", "float_type"):
        return _number(kind, path, value, problems)
    if kind == "string_type":
        return _text(path, value, problems)
    return _mapping(path, value, problems) if path else ("", "")


def list_remedy(path: Path, value: Any, problems: Collector) -> str:
    """Return a label with the list that was meant, as the file's format writes it; "" where it is unknown."""
    field = str(path[-1]) if path else ""
    if isinstance(value, str) and may_hold_secret(value):
        return "make each word an item of a list"
    if isinstance(value, str) and (dash := re.match(r"[–—•]\s", value)):
        return f"write `-` in place of `{dash[0].strip()}` before each item"
    items = _READERS.get(field, _parted)(value)
    label = _write(items, problems) if items else ""
    if field == "args" and isinstance(value, str) and problems.document.source.format == "yaml":
        written = problems.document.value_range(path).text
        # The lines `-m` and `- train` became one text, because no blank follows the hyphen of the first.
        if re.match(r"-[^\W_].* - ", value, re.DOTALL):
            return "write a space after each `-`"
        if len(written.splitlines()) > 1 and all(line.strip()[:1] == "-" for line in written.splitlines()):
            return f"{label}, or a space after each `-`"
    return label


def _arguments(value: Any) -> list[str] | None:
    if isinstance(value, dict):
        pairs = [("-" if len(str(key)) == 1 else "--", key, each) for key, each in value.items()]
        words = [(f"{dash}{str(key).lstrip('-')}", str(each)) for dash, key, each in pairs]
        is_plain = all(type(each) in (str, int, float) for each in value.values())
        return [word for pair in words for word in pair] if is_plain else None
    return shell_words(value) if isinstance(value, str) else None


def _mounts(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        return [compose_mount(value) or value]
    if isinstance(value, dict) and not value.keys() & {"type", "src", "dst"}:
        texts = [compose_mount(f"{src}:{dst}") for src, dst in value.items()]
        return texts if all(texts) else None
    return [value] if isinstance(value, dict) else None


def _triggers(value: Any) -> list[Any] | None:
    if isinstance(value, str) and value.replace("-", "_") == "every_apply":
        return ["every_apply"]
    files = value.get("files") if isinstance(value, dict) else value
    globs = _parted(files) if isinstance(files, str) else files
    return [{"files": globs}] if globs and isinstance(globs, list) else None


def _choices(value: Any) -> list[Any] | None:
    """Return the meant choices. Numbers stay numbers, since the variable decides their type."""
    if not isinstance(value, str):
        return None if isinstance(value, dict) else [value]
    parts = _parted(value) or []
    are_numbers = all(is_number(part.lstrip("+-")) for part in parts)
    return [float(part) if "." in part else int(part) for part in parts] if are_numbers else parts


def _parted(value: Any) -> list[Any] | None:
    """Return the items of a text with commas or blanks between them, or of a mapping that holds one list."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
        return value if isinstance(value, list) else None
    return [part for part in re.split(r"[\s,]+", value) if part] if isinstance(value, str) else None


_READERS: Mapping[str, Callable[[Any], list[Any] | None]] = {
    "args": _arguments,
    "choices": _choices,
    "mounts": _mounts,
    "rerun_on": _triggers,
}


def axis_remedy(value: Any, problems: Collector) -> str:
    """Return a label for an axis of a matrix that is no list: a list of its values, or a range."""
    if isinstance(value, dict):
        given = [each for each in value.values() if isinstance(each, list)]
        if len(value) == len(given) == 1:
            return _write(given[0], problems)
        ends = [each for each in value.values() if isinstance(each, int)]
        if len(value) == len(ends) == 2:
            return _ranges(ends[0], ends[1], problems)
        return ""
    if found := re.fullmatch(r"(-?\d{1,9}) ?(?:\.\.|-|to|:) ?(-?\d{1,9})", str(value)):
        return _ranges(int(found[1]), int(found[2]), problems)
    if found := re.fullmatch(r"range\((?:(-?\d{1,9}), ?)?(-?\d{1,9})\)", str(value)):
        return _write({"range": [int(found[1] or 0), int(found[2])]}, problems)
    items = _choices(value)
    return _write(items, problems) if items else ""


def _ranges(first: int, last: int, problems: Collector) -> str:
    """Return the range with its end, and the range without it."""
    within, without = ({"range": [first, end]} for end in (last + 1, last))
    return f"{_write(within, problems)}, or without {last} {problems.written(without)}"


_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _number(kind: str, path: Path, value: Any, problems: Collector) -> Advice:
    key = path[-1]
    if isinstance(value, float) and kind == "int_type" and math.isfinite(value):
        least = math.floor(value)
        is_between = least > 0 and value != least
        return (f"write {least} or {least + 1}" if is_between else f"write {math.ceil(value)}"), ""
    if not isinstance(value, str):
        return "", ""
    text = value.strip().lower()
    if re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?", value) and not problems.sources.get(path):
        return "take the quotes away", ""
    if text.isdecimal() and not text.isascii():
        return f"write {int(text)}", "these are digits of another script"
    if key == "cpu" and cores_meant(value):
        return f"write {cores_meant(value)}", "cores, which may be a fraction"
    if kind == "int_type" and re.fullmatch(r"\d{1,9}(_\d{1,9})+|\d{1,3}(,\d{3})+", text):
        return f"write {int(re.sub('[_,]', '', text))}", ""
    if text in _WORDS:
        return f"write {_WORDS.index(text)}", ""
    if key == "memMB":
        with suppress(PydanticCustomError):
            memory_mib(value)
            return f"write `{problems.entry('memory', value)}` in place of `memMB`", ""
    if key == "gpu" and (found := re.fullmatch(r"([a-z][\w-]*?)(?:[:x ](\d{1,4}))?", text)):
        has_type = "gpu_type" in fields_at(path[:-1])
        hint = f"and `{problems.entry('gpu_type', found[1])}`" if has_type else "the number alone"
        return f"write {found[2] or 1}", hint
    if path[-2:-1] == ("port_map",) and (found := re.fullmatch(r"(?:[\d.]+:)?\d+:(\d{1,5})(?:/\w+)?", text)):
        return f"write {found[1]}", "the port that the replica listens on"
    amount = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?) ?[a-z]+", text)
    return (f"write {amount[1]}" if amount else ""), ""


def _text(path: Path, value: Any, problems: Collector) -> Advice:
    key = path[-1] if path else ""
    match value:
        case int() | float():
            written = problems.document.raw(path) if path not in problems.sources else show(value)
            return f'write "{written}" for the text', ""
        case list() | dict() if path[:1] == ("needs",) and isinstance(key, int):
            return need_remedy((problems.document.value or {})["needs"], problems)
        case {"condition": str(condition)} if path[-2:-1] == ("depends_on",):
            near = nearest(condition, ("started", "ready", "succeeded"))
            return f"write {near}" if near else "", ""
        case list() | dict() if path[2:3] == ("env",) and len(path) == 4:
            return "one value, such as a text or a number", ""
        case list() if key == "entrypoint" and value and all(isinstance(item, str) for item in value):
            return "", f"the program alone stands here: {problems.command(value)}"
        case list() | dict() if path == ("component",):
            return _component(value, problems)
        case list() if key == "run":
            return f"write {script_remedy(problems)}", ""
        case {**only} if len(only) == 1 and (key == "run" or "args" in path):
            ((name, inner),) = only.items()
            if key == "run":
                return (_write(inner, problems) if isinstance(inner, str) else ""), ""
            is_plain = type(inner) in (str, int, float) and not holds_secret(only)
            shown = json.dumps(f"{name}: {inner}", ensure_ascii=False) if is_plain else ""
            return f"write {shown} for the text" if shown else "", ""
    return "", ""


def _component(value: Any, problems: Collector) -> Advice:
    """Return a label with the component's name, and its arguments as fields of the job."""
    name, args = "", None
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        others = {key: each for key, each in value.items() if key != "name"}
        name, args = value["name"], others.get("args", others)
    elif isinstance(value, dict) and len(value) == 1:
        ((name, args),) = value.items()
    if args == {}:
        return _write(name, problems), ""
    is_shown = isinstance(args, dict) and not holds_secret(args) and len(problems.written(args)) <= _LONGEST
    verb, name, args = ("write", name, args) if is_shown else ("such as", "dist.ddp", {"script": "train.py"})
    entries = problems.entry("component", name), problems.entry("args", args)
    return f"{verb} `{entries[0]}`, and beside it `{entries[1]}`", ""


def _mapping(path: Path, value: Any, problems: Collector) -> Advice:
    key = str(path[-1])
    if path == ("args",) and "component" in (problems.document.value or {}):
        return "", _arguments_by_name((problems.document.value or {})["component"], value, problems)
    if isinstance(value, str) and blank_after_colon(value):
        return f"write a plain space after the colon: this is a {blank_name(blank_after_colon(value))}", ""
    if path[:1] == ("needs",):
        return need_remedy((problems.document.value or {})["needs"], problems)
    if isinstance(value, str) and (found := re.fullmatch(r"(\w+) ?= ?(.+)", value)) and len(path) == 2:
        value = "…" if holds_secret({found[1]: found[2]}) else found[2]
        return f"write `{found[1]}: {value}`", "`=` is of TOML"
    meant = _MAPPINGS[key](value) if key in _MAPPINGS else None
    if meant and (label := _write(meant, problems)):
        return label, _BY_NAME.get(key, "")
    if key in _BY_NAME and key in fields_at(path[:-1]):
        example = {"roles": ("trainer", {"entrypoint": "…"}), "env": ("NAME", "value")}
        shown = f": `{problems.entry(*example[key])}`" if key in example else ""
        return "", f"{_BY_NAME[key]}{shown}"
    return ("", "") if key in fields_at(path[:-1]) else wrongly_indented(path, problems)


_BY_NAME = {
    "env": "variables stand by name",
    "roles": "roles stand by name",
    "port_map": "ports stand by name",
    "vars": "variables stand by name, each with its type",
    "metadata": "texts stand by name, as in `team: vision`",
    "cfg": "options stand by name, as in `log_dir: logs`",
    "lifecycle": "rules stand by name, as in `on_failed: rerun`",
}


def _env(value: Any) -> Any:
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return (variables(items) or {}).get("env") if items else None


def _roles(value: Any) -> Any:
    """Return the roles in `[{name: a, …}]` or `[{a: {…}}]`."""
    roles: dict[str, Any] = {}
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            roles[item["name"]] = {key: each for key, each in item.items() if key != "name"}
        elif isinstance(item, dict) and all(isinstance(each, dict) for each in item.values()):
            roles |= item
        else:
            return None
    return roles


def _ports(value: Any) -> Any:
    found = ports(value if isinstance(value, list) else [value])
    return (found or {}).get("port_map")


def _ready(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"port": value}
    if not isinstance(value, str):
        return None
    if value.startswith("/"):
        return {"http": value, "port": 80}
    return {"command": shell_words(value) or [value]}


def _vars(value: Any) -> Any:
    names = value if isinstance(value, list) else []
    return {name: {"type": "str"} for name in names} if all(isinstance(name, str) for name in names) else None


_MAPPINGS: Mapping[str, Callable[[Any], Any]] = {
    "env": _env,
    "roles": _roles,
    "port_map": _ports,
    "ready": _ready,
    "vars": _vars,
    "lifecycle": lambda value: {"on_failed": value} if value in ("rerun", "hold") else None,
}


def need_remedy(needs: Any, problems: Collector) -> Advice:
    """Return a label and a hint for `needs` of a wrong form: other tools give each job a condition."""
    items = _parted(needs) if isinstance(needs, str) else needs
    found: dict[str, Any] = {}
    for item in items if isinstance(items, list) else [items]:
        if isinstance(item, list):
            found |= {str(name): {} for name in item}
        elif isinstance(item, dict) and isinstance(item.get("job"), str):
            found[item["job"]] = {}
        elif isinstance(item, dict):
            options = {key: {"rerun": each} if each == "never" else each for key, each in item.items()}
            options = {key: each if isinstance(each, dict) else {} for key, each in options.items()}
            found |= {key: each if each.keys() <= {"rerun"} else {} for key, each in options.items()}
        else:
            found[str(item)] = {}
    entry = problems.entry("needs", found if any(found.values()) else [*found])
    is_shown = len(entry) <= _LONGEST and not any(map(may_hold_secret, (str(needs), *found)))
    label = f"write `{entry}`" if is_shown else ""
    return label, "a job starts after all of its needs have succeeded"


def mount_remedy(mapping: Mapping[str, Any], problems: Collector) -> str:
    """Return a label for a mount without a type: the whole mount, where source and target are known."""
    if len(mapping) == 1 and (texts := _mounts(mapping)) and isinstance(texts[0], str):
        return f'write "{texts[0]}"'
    path: Path = ("roles", "*", "mounts", 0)
    ours: dict[str, Any] = {}
    for key, value in mapping.items():
        word = word_for(path, key, value)
        if word is None and key not in fields_at(path):
            return ""
        ours |= {key: value} if word is None or word.reason else word.fields(value) or {}
    src = ours.get("src")
    if not isinstance(src, str) or "dst" not in ours:
        return ""
    kind = "device" if src.startswith("/dev/") else "bind" if src.startswith((".", "/", "~")) else "volume"
    return _write({"type": kind, **ours}, problems)


def _arguments_by_name(name: object, values: object, problems: Collector) -> str:
    """Return a hint for `args` that are no mapping, with an example where the component is built in."""
    from launcher.components.finder import argument_names, builtin_component

    example: dict[str, object] = {"NAME": "value"}
    ours = builtin_component(name) if isinstance(name, str) and ":" not in name else None
    if ours is not None:
        names, rest = argument_names(ours) or ([], None)
        if isinstance(values, list) and rest:
            example = {rest: [str(value) for value in values]}
        elif names:
            example = {names[0]: "…"}
    return f"arguments of a component stand by name: `{problems.entry('args', example)}`"
