"""What pydantic found, in our words: every error type that the models can raise, placed and with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.list_remedies import trigger_remedy
from launcher.jobfile.messages.names import got, listing, place_name, show, suggest
from launcher.jobfile.messages.wording_fields import (
    ENV_RULE,
    bad_label,
    bad_name,
    missing_field,
    unknown_field,
)
from launcher.jobfile.messages.wording_types import WANTED, wrong_type
from launcher.jobfile.model.base import MOUNT_TYPES, VAR_TYPES
from launcher.jobfile.text.document import Path


def report(errors: list[ErrorDetails], value: Any, problems: Collector, below: Path = ()) -> list[Path]:
    """Note what pydantic found in `value`, which stands at `below` in the document. The paths of it all."""
    wrong = []
    for error in errors:
        path, rest = _split(error["loc"], value)
        kind = error["type"]
        full = (*below, *path)
        wrong.append((*full, *rest) if kind == "missing" else full)
        is_key = "[key]" in error["loc"]
        if problems.is_assumed(full) and kind not in WANTED and not is_key:
            continue  # only its type is known
        _say(kind, full, rest, is_key, error, problems)
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
    elif kind in WANTED:
        wrong_type(kind, path, error["input"], problems)
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
        say = _SAYINGS.get(kind, _not_usable)
        say(path, error["input"], context, problems)


def _pattern(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    if path in (("name",), ("project",)):
        bad_label(path, str(value), "job" if path == ("name",) else "project", problems)
    elif path[-1] == "http":
        label = f"write `/{value}`"
        problems.add(path, "invalid-value", f"{show(value)} is no path of a server", label=label)
    elif path[-1] == "permissions":
        label = "such as `rw`"
        problems.add(
            path, "invalid-value", f"{show(value)} is no set of permissions", label=label, hint="r, w and m"
        )
    else:
        message = f"{show(value)} cannot name an environment variable"
        problems.add(path, "invalid-name", message, hint=ENV_RULE)


def _literal(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    allowed = [part.strip(" '") for part in str(context["expected"]).replace(" or ", ",").split(",")]
    if not isinstance(value, str):
        message = f"{place_name(path)} must be text, not {got(value)}"
        problems.add(path, "wrong-type", message, hint=listing("one of", allowed))
        return
    message = f"{place_name(path)} cannot be {show(value)}"
    hint = listing("one of", allowed)
    label = suggest(value, allowed)
    if path[-2:-1] == ("rerun_on",):
        label = label or trigger_remedy(value, problems)
    problems.add(path, "unknown-variant", message, label=label, hint=hint)


def _neither_form(path: Path, value: Any, problems: Collector) -> None:
    """A value of a field that takes two forms, which has neither of them."""
    own = value if isinstance(value, str) else ""
    role, job = own or "server", own or "prepare"
    forms, first, second = {
        "resource": ("a mapping or a name", {"cpu": 2, "memory": "4GiB"}, "gpu.small"),
        "workspace": ("text or a mapping", "src", {"src": "app", "../lib": "app/lib"}),
        "depends_on": ("a list or a mapping", [role], {role: "ready"}),
        "needs": ("a list or a mapping", [job], {job: {"rerun": "never"}}),
    }[str(path[-1])]
    message = f"{place_name(path)} must be {forms}, not {got(value)}"
    hint = f"such as {problems.written(first)}, or {problems.written(second)}"
    problems.add(path, "wrong-type", message, hint=hint)


def _tag(path: Path, value: Any, context: Mapping[str, Any], problems: Collector) -> None:
    """A variable, a mount or a resource that is none of its kinds."""
    if path[0] != "vars" and path[-1] in ("resource", "workspace", "depends_on", "needs"):
        _neither_form(path, value, problems)
        return
    is_mount = "mounts" in path
    if not is_mount and path[0] != "vars":
        _not_usable(path, value, context, problems)
        return
    kinds = MOUNT_TYPES if is_mount else VAR_TYPES
    if not isinstance(value, dict):
        shape = {"type": "bind", "src": "./data", "dst": "/data"} if is_mount else _var_shape(value)
        message = f"{place_name(path)} must be a mapping, not {got(value)}"
        problems.add(path, "wrong-type", message, label=f"write {problems.written(shape)}")
    elif "type" not in value:
        missing_field(path, "type", problems)
    elif not isinstance(value["type"], str):
        message = f"{place_name((*path, 'type'))} must be text, not {got(value['type'])}"
        problems.add((*path, "type"), "wrong-type", message, hint=listing("one of", kinds))
    else:
        kind = value["type"]
        label = suggest(kind, kinds)
        message = f"{place_name((*path, 'type'))} cannot be {show(kind)}"
        problems.add((*path, "type"), "unknown-variant", message, label=label, hint=listing("one of", kinds))


def _var_shape(value: Any) -> dict[str, Any]:
    kinds = {bool: "bool", int: "int", float: "float", str: "str"}
    return {"type": kinds[type(value)], "default": value} if type(value) in kinds else {"type": "str"}


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
