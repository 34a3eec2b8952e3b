"""Word the errors of pydantic: every error type of the models, with its place and a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from launcher.jobfile.messages.collector import Collector, got, listing, place_name, show, suggest
from launcher.jobfile.messages.remedies import list_remedy, mount_remedy, need_remedy, type_remedy
from launcher.jobfile.messages.wording_fields import (
    ENV_RULE,
    bad_label,
    bad_name,
    missing_field,
    unknown_field,
)
from launcher.jobfile.model.types import MOUNT_TYPES, VAR_TYPES
from launcher.jobfile.text.document import Path
from launcher.specs.secret import is_sensitive, may_hold_secret

WANTED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def report(errors: list[ErrorDetails], value: Any, problems: Collector, below: Path = ()) -> None:
    """Note pydantic's errors in `value`, whose path in the document is `below`."""
    for error in errors:
        path, rest = split(error["loc"], value)
        kind = error["type"]
        full = (*below, *path)
        is_key = "[key]" in error["loc"]
        if problems.is_assumed(full) and kind not in WANTED and not is_key:
            continue  # only the type of the error is known
        _say(kind, full, rest, is_key, error, problems)


def split(loc: tuple[str | int, ...], value: Any) -> tuple[Path, Path]:
    """Split a location into the path that exists in the document, and the rest without tags of unions."""
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
    elif kind in WANTED:
        label, hint = type_remedy(kind, path, error["input"], problems)
        message = f"{place_name(path)} must be {WANTED[kind]}, not {got(error['input'])}"
        problems.add(path, "wrong-type", message, label=label, hint=hint)
    elif kind == "missing":
        missing_field(path, str(rest[-1]), problems)
    elif kind == "extra_forbidden":
        unknown_field(path, problems)
    elif is_key and path[:1] == ("workspace",):
        label = "write a path; `.` is the job file's folder"
        problems.add(path, "invalid-value", "a path of `workspace` is empty", at="key", label=label)
    elif is_key:
        bad_name(path, str(error["input"]), problems)
    else:
        _SAYINGS.get(kind, _not_usable)(path, error["input"], context, problems)


def _pattern(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    if path in (("name",), ("project",)):
        bad_label(path, str(value), "job" if path == ("name",) else "project", problems)
    elif path[-1] == "http":
        server = re.fullmatch(r"https?://[^/:]+(?::(\d+))?(/.*)?", str(value))
        is_shown = not may_hold_secret(str(value))
        label = f"write `{(server[2] or '/') if server else f'/{value}'}`"
        label = label if is_shown else "begin it with `/`"
        hint = f"and `{problems.entry('port', int(server[1] or 80))}`" if server else ""
        problems.add(path, "invalid-value", f"{show(value)} is no path of a server", label=label, hint=hint)
    elif path[-1] == "permissions":
        message = f"{show(value)} is no set of permissions"
        problems.add(path, "invalid-value", message, label="such as `rw`", hint="r, w and m")
    else:
        message = f"{show(value)} cannot name an environment variable"
        problems.add(path, "invalid-name", message, hint=ENV_RULE)


def _literal(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    allowed = [part.strip(" '") for part in str(context["expected"]).replace(" or ", ",").split(",")]
    if not isinstance(value, str):
        message = f"{place_name(path)} must be text, not {got(value)}"
        label, hint = (
            type_remedy("string_type", path, value, problems) if isinstance(value, dict) else ("", "")
        )
        label = f"write {allowed[0]}" if value is False and len(allowed) == 1 else label
        problems.add(path, "wrong-type", message, label=label, hint=hint or listing("one of", allowed))
        return
    label = suggest(value, allowed)
    if path[-2:-1] == ("rerun_on",) and re.search(r"[./*?\[]", value):
        label = label or f"write {problems.written({'files': [value]})}"  # the name looks like a file
    message = f"{place_name(path)} cannot be {show(value)}"
    problems.unknown(path, "unknown-variant", message, value, allowed, "one of", at="value", label=label)


def _neither_form(path: Path, value: Any, problems: Collector) -> None:
    """Note a value that has neither of the two forms of its field."""
    own = value if isinstance(value, str) else ""
    role, job = own or "server", own or "prepare"
    forms, first, second = {
        "resource": ("a mapping or a name", {"cpu": 2, "memory": "4GiB"}, "gpu.small"),
        "workspace": ("text or a mapping", "src", {"src": "app", "../lib": "app/lib"}),
        "depends_on": ("a list or a mapping", [role], {role: "ready"}),
        "needs": ("a list or a mapping", [job], {job: {"rerun": "never"}}),
    }[str(path[-1])]
    message = f"{place_name(path)} must be {forms}, not {got(value)}"
    label = ""
    if path[-1] == "needs" and value:
        label, _ = need_remedy(value, problems)
    elif path[-1] in ("workspace", "depends_on") and value and isinstance(value, str):
        label = list_remedy(path, value, problems)
    elif path[-1] in ("workspace", "depends_on") and isinstance(value, list) and len(value) == 1:
        is_plain = isinstance(value[0], str) and not may_hold_secret(value[0])
        label = f"write {problems.written(value[0])}" if is_plain else ""
    hint = f"such as {problems.written(first)}, or {problems.written(second)}"
    problems.add(path, "wrong-type", message, label=label, hint=hint)


def _tag(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    """Note a variable, a mount or a resource that matches none of its kinds."""
    if path[0] != "vars" and path[-1] in ("resource", "workspace", "depends_on", "needs"):
        _neither_form(path, value, problems)
        return
    is_mount = "mounts" in path
    if not is_mount and path[0] != "vars":
        _not_usable(path, value, context, problems)
        return
    kinds = MOUNT_TYPES if is_mount else VAR_TYPES
    if not isinstance(value, dict):
        shape = {"type": "bind", "src": "./data", "dst": "/data"} if is_mount else _var_shape(path, value)
        message = f"{place_name(path)} must be a mapping, not {got(value)}"
        problems.add(path, "wrong-type", message, label=f"write {problems.written(shape)}")
    elif "type" not in value and is_mount and (label := mount_remedy(value, problems)):
        problems.add(path, "missing-field", f"{place_name(path)} has no `type`", at="key", label=label)
    elif "type" not in value:
        missing_field(path, "type", problems)
    elif not isinstance(value["type"], str):
        message = f"{place_name((*path, 'type'))} must be text, not {got(value['type'])}"
        problems.add((*path, "type"), "wrong-type", message, hint=listing("one of", kinds))
    else:
        at, kind = (*path, "type"), value["type"]
        message = f"{place_name(at)} cannot be {show(kind)}"
        problems.unknown(at, "unknown-variant", message, kind, kinds, "one of", at="value")


def _var_shape(path: Path, value: Any) -> dict[str, Any]:
    kinds = {bool: "bool", int: "int", float: "float", str: "str"}
    is_shown = type(value) in kinds and not is_sensitive(str(path[-1]))
    return {"type": kinds[type(value)], "default": value} if is_shown else {"type": "str"}


def _too_short(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    code, label = "missing-field", "write at least one"
    if isinstance(value, str):
        code, label = "invalid-value", "write a value"
    elif path == ("roles",):
        label = "a job has at least one role"
    problems.add(path, code, f"{place_name(path)} is empty", label=label)


def _out_of_range(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    wanted = f"at most {int(context['le']):,}" if "le" in context else f"more than {context.get('gt', 0):,g}"
    wanted = f"at least {context['ge']:,}" if "ge" in context else wanted
    problems.add(path, "out-of-range", f"{place_name(path)} is {show(value)}", label=f"want {wanted}")


def _not_usable(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    """Note an error of a type that only later versions of pydantic have."""
    problems.add(path, "invalid-value", f"{place_name(path)} cannot be {got(value)}")


_Saying = Callable[[Path, Any, Mapping[str, Any], Collector], None]
_SAYINGS: Mapping[str, _Saying] = {
    "string_pattern_mismatch": _pattern,
    "literal_error": _literal,
    **dict.fromkeys(("string_too_short", "too_short"), _too_short),
    **dict.fromkeys(("union_tag_invalid", "union_tag_not_found"), _tag),
    **dict.fromkeys(("greater_than", "greater_than_equal", "less_than_equal"), _out_of_range),
}
