"""What pydantic found, in our words: every error type that the models can raise, placed and with a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from launcher.jobfile.collector import Collector
from launcher.jobfile.document import Path
from launcher.jobfile.model import MOUNT_TYPES, VAR_TYPES
from launcher.jobfile.names import got, listing, place_name, show, suggest
from launcher.jobfile.places import elsewhere, fields_at

_WANTED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_TRUTH_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("yes", "on", "true", "1"), "true"),
    **dict.fromkeys(("no", "off", "false", "0"), "false"),
}

_ENV_RULE = "a name is not empty and holds no `=` and no NUL"

# What the fields that must be there are for.
_NEEDED: Mapping[str, str] = {
    "version": "add `version: 1`, the version of the language",
    "name": "add `name`: what the job is called within its project",
    "roles": "add `roles`: what runs, by name",
    "entrypoint": "add `entrypoint`: the program to run",
    "type": "add `type`",
    "src": "add `src`: what is mounted",
    "dst": "add `dst`: the path it gets",
}


def report(errors: list[ErrorDetails], value: Any, problems: Collector, below: Path = ()) -> list[Path]:
    """Note what pydantic found in `value`, which stands at `below` in the document. The paths of it all."""
    wrong = []
    for error in errors:
        path, rest = _split(error["loc"], value)
        kind = error["type"]
        full = (*below, *path)
        wrong.append((*full, *rest) if kind == "missing" else full)
        if problems.is_assumed(full) and kind not in _WANTED:
            continue  # only its type is known
        _say(kind, full, rest, "[key]" in error["loc"], error, problems)
    return wrong


def _split(loc: tuple[str | int, ...], value: Any) -> tuple[Path, Path]:
    """The part of a location that the document has, and the rest without the tags of unions."""
    path: Path = ()
    rest: Path = ()
    for segment in loc:
        is_there = (isinstance(value, dict) and segment in value) or (
            isinstance(value, list) and isinstance(segment, int) and segment < len(value)
        )
        if is_there and not rest:
            path = (*path, segment)
            value = value[segment]
        elif not (isinstance(segment, str) and segment[:1] in "<["):
            rest = (*rest, segment)
    return path, rest


def _say(kind: str, path: Path, rest: Path, is_key: bool, error: ErrorDetails, problems: Collector) -> None:
    context: dict[str, Any] = error.get("ctx", {})
    if kind.startswith("job:"):
        problems.add(path, kind[4:], context["message"], label=context["label"], hint=context["hint"])
    elif kind in _WANTED:
        _wrong_type(kind, path, error["input"], problems)
    elif kind == "missing":
        _missing(path, str(rest[-1]), problems)
    elif kind == "extra_forbidden":
        _unknown_field(path, problems)
    elif is_key:
        _bad_name(path, str(error["input"]), problems)
    else:
        say = _SAYINGS.get(kind, _not_usable)
        say(path, error["input"], context, problems)


def _wrong_type(kind: str, path: Path, value: Any, problems: Collector) -> None:
    wanted = _WANTED[kind]
    label, hint = _type_remedy(kind, path, value, problems)
    message = f"{place_name(path)} must be {wanted}, not {got(value)}"
    problems.add(path, "wrong-type", message, label=label, hint=hint)


def _type_remedy(kind: str, path: Path, value: Any, problems: Collector) -> tuple[str, str]:
    """A label and a hint for a value of the wrong type."""
    if kind == "string_type" and isinstance(value, int | float):
        written = problems.document.raw(path) if path not in problems.sources else show(value)
        return f'write "{written}" for the text', ""
    if kind == "string_type" and path[:1] == ("roles",) and "env" in path and isinstance(value, list | dict):
        return "one value, such as a text or a number", ""
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return (
            ("take the quotes away", "") if _is_number(value) and not problems.sources.get(path) else ("", "")
        )
    if kind == "bool_type":
        word = _TRUTH_WORDS.get(str(value).lower())
        return (f"write {word}", "") if word else ("", "")
    if kind == "list_type" and isinstance(value, str):
        return _list_remedy(value)
    if kind == "dict_type" and isinstance(value, list) and path[-1:] == ("roles",):
        return "", "roles stand by name: `trainer: {entrypoint: …}`"
    if kind == "dict_type" and isinstance(value, list) and path[-1:] == ("env",):
        return "", "variables stand by name: `NAME: value`"
    if kind.startswith(("model", "dict")) and path:
        return _indented_wrongly(path, problems)
    return "", ""


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?", text) is not None


def _list_remedy(text: str) -> tuple[str, str]:
    if text.startswith("-") and not text.startswith("--") and text[1:2].isalnum() and " - " in text:
        return "write a space after each `-`", ""
    words = text.split()
    if not words:
        return "write []", ""
    shown = ", ".join(show(word) for word in words[:6])
    return f"write [{shown}{', …' if len(words) > 6 else ''}]", ""


def _indented_wrongly(path: Path, problems: Collector) -> tuple[str, str]:
    """`roles: {trainer: …, image: x}`: the last name is no role but a field of one."""
    found = elsewhere(path[:-1], str(path[-1]))
    if found is None:
        return "", ""
    return _belongs(path[:-1], str(path[-1]), found, problems)


def _belongs(path: Path, key: str, found: Path, problems: Collector) -> tuple[str, str]:
    """A label and a hint for a key that another mapping has."""
    owner = place_name(found).replace("role `*`", "a role").replace("variable `*`", "a variable")
    if problems.document.source.format == "toml":
        table = ".".join("NAME" if part == "*" else str(part) for part in found)
        where = f"below [{table}]" if table else "above the first table"
        return f"`{key}` is a field of {owner}", f"move it {where}"
    direction = "less" if len(found) < len(path) else "deeper"
    return f"the indentation is off: `{key}` is a field of {owner}", f"indent it {direction}"


def _missing(path: Path, field: str, problems: Collector) -> None:
    if field == "type":
        kinds = MOUNT_TYPES if "mounts" in path else VAR_TYPES
        hint = f"add `type`: {', '.join(kinds)}"
    else:
        hint = _NEEDED.get(field, f"add `{field}`")
        if problems.document.source.format == "toml":
            hint = hint.replace("`version: 1`", "`version = 1`")
    # In a list the item itself is all there is to point at.
    problems.add(path, "missing-field", f"{place_name(path)} has no `{field}`", at="key", label=hint)


def _unknown_field(path: Path, problems: Collector) -> None:
    key, parent = str(path[-1]), path[:-1]
    fields = fields_at(parent)
    label = suggest(key, fields)
    hint = listing("fields here", fields)
    found = elsewhere(parent, key)
    if found is not None:
        label, hint = _belongs(parent, key, found, problems)
    message = f"`{key}` is not a field of {place_name(parent)}"
    if key in fields:  # it is one of another type of variable or mount
        kind = problems.document.value
        for segment in parent:
            kind = kind[segment] if isinstance(kind, dict | list) else None  # type: ignore[call-overload, index]
        message += f" of type {kind.get('type')}" if isinstance(kind, dict) else ""
        label, hint = "delete it", ""
    problems.add(path, "unknown-field", message, at="key", label=label, hint=hint)


def _bad_name(path: Path, name: str, problems: Collector) -> None:
    """A key that is no usable name."""
    if path[:-1] == ("roles",):
        found = elsewhere(("roles",), name)
        if found is not None:
            label, hint = _belongs(("roles",), name, found, problems)
            problems.add(path, "unknown-field", f"`{name}` is no role", at="key", label=label, hint=hint)
            problems.broken.add(path)
            return
        _bad_label(path, name, "role", problems, at_key=True)
    elif path[:-1] == ("vars",):
        hint = "letters, digits, `_` and `-`, a letter first"
        problems.add(path, "invalid-name", f"`{name}` cannot name a variable", at="key", hint=hint)
    else:
        message = f"`{name}` cannot name an environment variable"
        problems.add(path, "invalid-name", message, at="key", hint=_ENV_RULE)


def _bad_label(path: Path, name: str, kind: str, problems: Collector, at_key: bool = False) -> None:
    label = label_like(name)
    problems.add(
        path,
        "invalid-name",
        f"`{name[:80]}` cannot name a {kind}" if name else f"the name of the {kind} is empty",
        at="key" if at_key else "value",
        label=f"such as `{label}`" if label and label != name else "",
        hint="lower-case letters, digits and `-`, at most 63, none of them `-` at either end",
    )


def label_like(name: str) -> str:
    """The DNS label nearest to a name; "" when nothing of it is left."""
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in name.lower())
    return "-".join(part for part in kept.split("-") if part)[:63].rstrip("-")


def _pattern(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    if path in (("name",), ("project",)):
        _bad_label(path, str(value), "job" if path == ("name",) else "project", problems)
    elif path[-1] == "permissions":
        label = "such as `rw`"
        problems.add(
            path, "invalid-value", f"{show(value)} is no set of permissions", label=label, hint="r, w and m"
        )
    else:
        message = f"{show(value)} cannot name an environment variable"
        problems.add(path, "invalid-name", message, hint=_ENV_RULE)


def _literal(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    allowed = [part.strip(" '") for part in str(context["expected"]).replace(" or ", ",").split(",")]
    if not isinstance(value, str):
        message = f"{place_name(path)} must be text, not {got(value)}"
        problems.add(path, "wrong-type", message, hint=listing("one of", allowed))
        return
    message = f"{place_name(path)} cannot be {show(value)}"
    hint = listing("one of", allowed)
    problems.add(path, "unknown-variant", message, label=suggest(value, allowed), hint=hint)


def _tag(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    """A variable, a mount or a resource that is none of its kinds."""
    if path[-1] == "resource":
        message = f"{place_name(path)} must be a mapping or a name, not {got(value)}"
        problems.add(path, "wrong-type", message, hint="such as {cpu: 2, memory: 4GiB}, or gpu.small")
        return
    is_mount = "mounts" in path
    kinds = MOUNT_TYPES if is_mount else VAR_TYPES
    if not isinstance(value, dict):
        shape = "{type: bind, src: ./data, dst: /data}" if is_mount else _var_shape(value)
        message = f"{place_name(path)} must be a mapping, not {got(value)}"
        problems.add(path, "wrong-type", message, label=f"write {shape}")
    elif "type" not in value:
        _missing(path, "type", problems)
    elif not isinstance(value["type"], str):
        message = f"{place_name((*path, 'type'))} must be text, not {got(value['type'])}"
        problems.add((*path, "type"), "wrong-type", message, hint=listing("one of", kinds))
    else:
        kind = value["type"]
        label = suggest(kind, kinds) or _foreign_type(kind)
        message = f"{place_name((*path, 'type'))} cannot be {show(kind)}"
        problems.add((*path, "type"), "unknown-variant", message, label=label, hint=listing("one of", kinds))


def _foreign_type(kind: str) -> str:
    """Our name for a type's name elsewhere."""
    known = {
        "string": "str",
        "text": "str",
        "integer": "int",
        "number": "float",
        "boolean": "bool",
        "double": "float",
    }
    return f"did you mean `{known[kind.lower()]}`?" if kind.lower() in known else ""


def _var_shape(value: Any) -> str:
    kinds = {bool: "bool", int: "int", float: "float", str: "str"}
    kind = kinds.get(type(value), "str")
    return f"{{type: {kind}, default: {show(value)}}}" if type(value) in kinds else "{type: str}"


def _too_short(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    if isinstance(value, str):
        problems.add(path, "invalid-value", f"{place_name(path)} is empty", label="write a value")
    else:
        message = f"{place_name(path)} is empty"
        problems.add(
            path, "missing-field", message, label="write at least one" if path != ("roles",) else _ROLE
        )


_ROLE = "a job has at least one role"


def _too_small(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    wanted = f"at least {context['ge']:,}" if "ge" in context else f"more than {context['gt']:,g}"
    problems.add(path, "out-of-range", f"{place_name(path)} is {show(value)}", label=f"want {wanted}")


def _too_large(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    message = f"{place_name(path)} is {show(value)}"
    problems.add(path, "out-of-range", message, label=f"want at most {int(context['le']):,}")


def _not_usable(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    """Whatever a later pydantic may come up with."""
    problems.add(path, "invalid-value", f"{place_name(path)} cannot be {got(value)}")


_Saying = Callable[[Path, Any, Mapping[str, Any], Collector], None]
_SAYINGS: Mapping[str, _Saying] = {
    "string_pattern_mismatch": _pattern,
    "string_too_short": _too_short,
    "too_short": _too_short,
    "literal_error": _literal,
    "union_tag_invalid": _tag,
    "union_tag_not_found": _tag,
    "greater_than": _too_small,
    "greater_than_equal": _too_small,
    "less_than_equal": _too_large,
}
