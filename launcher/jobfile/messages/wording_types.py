"""Values of the wrong type: what was wanted, what was found, and how it is written right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.list_remedies import list_remedy
from launcher.jobfile.messages.names import got, place_name, show
from launcher.jobfile.messages.wording_fields import wrongly_indented
from launcher.jobfile.model.foreign import cores
from launcher.jobfile.text.blanks import blank_after_colon, blank_name
from launcher.jobfile.text.document import Path

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
_TRUTH_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("yes", "on", "true", "1"), "true"),
    **dict.fromkeys(("no", "off", "false", "0"), "false"),
}


def wrong_type(kind: str, path: Path, value: Any, problems: Collector) -> None:
    wanted = WANTED[kind]
    label, hint = _type_remedy(kind, path, value, problems)
    message = f"{place_name(path)} must be {wanted}, not {got(value)}"
    problems.add(path, "wrong-type", message, label=label, hint=hint)


def _type_remedy(kind: str, path: Path, value: Any, problems: Collector) -> tuple[str, str]:
    """A label and a hint for a value of the wrong type."""
    if kind == "string_type" and isinstance(value, int | float):
        written = problems.document.raw(path) if path not in problems.sources else show(value)
        return f'write "{written}" for the text', ""
    if kind == "string_type" and path[2:3] == ("env",) and len(path) == 4 and isinstance(value, list | dict):
        return "one value, such as a text or a number", ""
    if kind == "float_type" and isinstance(value, str) and path[-1:] == ("cpu",) and cores(value):
        return f"write {cores(value)}", "cores, which may be a fraction"
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return (
            ("take the quotes away", "") if _is_number(value) and not problems.sources.get(path) else ("", "")
        )
    if kind == "bool_type":
        word = _TRUTH_WORDS.get(str(value).lower())
        return (f"write {word}", "") if word else ("", "")
    if kind == "list_type":
        return list_remedy(path, value, problems), ""
    if kind == "dict_type" and isinstance(value, list) and path[-1:] == ("roles",):
        return "", f"roles stand by name: `{problems.entry('trainer', {'entrypoint': '…'})}`"
    if kind == "dict_type" and isinstance(value, list) and path[-1:] == ("env",):
        return "", f"variables stand by name: `{problems.entry('NAME', 'value')}`"
    if kind == "dict_type" and path == ("args",) and "component" in (problems.document.value or {}):
        return "", _arguments_by_name((problems.document.value or {})["component"], value, problems)
    if kind == "string_type" and path[-1:] == ("entrypoint",) and isinstance(value, list):
        return "", _command_remedy(value, problems)
    if kind == "string_type" and path[-1:] == ("run",) and isinstance(value, list):
        return "write the commands as the lines of one text", ""
    if kind.startswith(("model", "dict")) and isinstance(value, str) and blank_after_colon(value):
        name = blank_name(blank_after_colon(value))
        return f"write a plain space after the colon: this is a {name}", ""
    if kind.startswith("model") and path[:1] == ("needs",):
        return f"such as {problems.written({'rerun': 'never'})}", ""
    if kind.startswith(("model", "dict")) and path:
        return wrongly_indented(path, problems)
    return "", ""


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?", text) is not None


def _command_remedy(words: list[Any], problems: Collector) -> str:
    """A command in one list, as other tools have it."""
    if not words or not all(isinstance(word, str) for word in words):
        return ""
    return f"the program alone stands here: {problems.command(words)}"


def _arguments_by_name(name: object, values: object, problems: Collector) -> str:
    """A hint for `args` that are no mapping, with an argument of the component where it is one of ours."""
    from launcher.components.finder import argument_names, builtin_component

    example: dict[str, object] = {"NAME": "value"}
    ours = builtin_component(name) if isinstance(name, str) and ":" not in name else None
    if ours is not None:
        names, rest = argument_names(ours) or ((), None)
        if isinstance(values, list) and rest:
            example = {rest: [str(value) for value in values]}
        elif names:
            example = {names[0]: "…"}
    return f"arguments of a component stand by name: `{problems.entry('args', example)}`"
