"""Keys that are missing, unknown, in the wrong mapping, or no usable names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.foreign import Word, near_word_for, word_for
from launcher.jobfile.messages.names import listing, nearest, place_name, suggest
from launcher.jobfile.model.base import MOUNT_TYPES, VAR_TYPES, VERSION
from launcher.jobfile.model.fields import elsewhere, fields_at
from launcher.jobfile.text.document import Path
from launcher.specs.secret import is_sensitive, may_hold_secret

LABEL_RULE = "lower-case letters, digits and `-`, at most 63, none of them `-` at either end"
ENV_RULE = "a name is not empty and holds no `=` and no NUL"

# What the fields that must be there are for.
_NEEDED: Mapping[str, str] = {
    "name": "add `name`: what the job is called within its project",
    "roles": "add `roles`: what runs, by name",
    "entrypoint": "add `entrypoint`: the program to run, or `run`: a script",
    "type": "add `type`",
    "src": "add `src`: what is mounted",
    "dst": "add `dst`: the path it gets",
    "secret": "add `secret`: `env:NAME` or `file:PATH`, where its value is",
    "files": "add `files`: globs of the files that count",
}


def wrongly_indented(path: Path, problems: Collector) -> tuple[str, str]:
    """A label and a hint for `roles: {trainer: …, image: x}`: the last name is no role but a field of one."""
    if path[-1] in fields_at(path[:-1]):
        return "", ""
    found = elsewhere(path[:-1], str(path[-1]))
    return _belongs(path[:-1], str(path[-1]), found, problems) if found is not None else ("", "")


def _belongs(path: Path, key: str, found: Path, problems: Collector) -> tuple[str, str]:
    """A label and a hint for a key that another mapping has."""
    owner = place_name(found).replace("role `*`", "a role").replace("variable `*`", "a variable")
    if problems.document.source.format == "toml":
        table = ".".join("NAME" if part == "*" else str(part) for part in found)
        where = f"below [{table}]" if table else "above the first table"
        return f"`{key}` is a field of {owner}", f"move it {where}"
    direction = "less" if len(found) < len(path) else "deeper"
    return f"the indentation is off: `{key}` is a field of {owner}", f"indent it {direction}"


def missing_field(path: Path, field: str, problems: Collector) -> None:
    """Report a missing field. A misspelt field is reported once, at its key."""
    misspelt = _misspelt(path, field, problems)
    if misspelt is not None:
        unknown_field((*path, misspelt), problems)
        return
    if field == "secret" and _nested(path, problems):
        return
    if field == "type":
        kinds = MOUNT_TYPES if "mounts" in path else VAR_TYPES
        hint = f"add `type`: {', '.join(kinds)}"
    elif field == "version":
        hint = f"add `{problems.entry('version', VERSION)}`, the version of the language"
    else:
        hint = _NEEDED.get(field, f"add `{field}`")
    # In a list the item itself is all there is to point at.
    message = f"{place_name(path)} has no `{field}`"
    problems.add(
        path, "missing-field", message, at="key", label=hint, hint=_other_role(path, field, problems)
    )


def _misspelt(path: Path, field: str, problems: Collector) -> str | None:
    """The key of the mapping at `path` that is no field of it, and was probably meant to be `field`."""
    fields = fields_at(path)
    mapping = _value_at(path, problems.document.value)
    if not isinstance(mapping, dict):
        return None
    unknown = (key for key in mapping if key not in fields and not key.startswith("x-"))
    return next((key for key in unknown if _may_be(path, key, mapping[key], field)), None)


def _may_be(path: Path, key: str, value: Any, field: str) -> bool:
    """Whether an unknown key of the mapping at `path` may stand for the field."""
    word = word_for(path, key, value)
    if word is None:
        return nearest(key, fields_at(path)) == field
    meant = {*_meant(word, value)}
    return field in meant or (field == "entrypoint" and "run" in meant)


def _nested(path: Path, problems: Collector) -> bool:
    """Whether a mapping stands where a variable of the environment has its value; then it is noted."""
    mapping = _value_at(path, problems.document.value)
    if not isinstance(mapping, dict) or not mapping:
        return False
    key, value = next(iter(mapping.items()))
    name = f"{path[-1]}_{key}"
    is_shown = isinstance(value, str | int | float) and not is_sensitive(name)
    label = f"such as `{problems.entry(name, value if is_shown else '…')}`"
    message = f"{place_name(path)} must be one value: names of variables do not nest"
    secret = problems.secret(str(path[-1]))
    problems.add(path, "wrong-type", message, label=label, hint=f"or a reference to a secret: {secret}")
    problems.broken.add(path)
    return True


def _other_role(path: Path, field: str, problems: Collector) -> str:
    """A role that says nothing of a program is often another one, misspelt in a target."""
    roles = (problems.document.value or {}).get("roles")
    if field != "entrypoint" or len(path) != 2 or not isinstance(roles, dict):
        return ""
    whole = [name for name, role in roles.items() if isinstance(role, dict) and field in role]
    near = nearest(str(path[1]), whole)
    return f"or did you mean role `{near}`?" if near else ""


_LONGEST = 80
"""Characters of fields that a label repeats."""

_ORDER = "`needs` of the job names other jobs, `depends_on` of a role names roles of this job"


def unknown_field(path: Path, problems: Collector) -> None:
    key, parent = str(path[-1]), path[:-1]
    fields = fields_at(parent)
    mapping = _value_at(parent, problems.document.value)
    word = None
    if isinstance(mapping, dict) and key in mapping:
        word = word_for(parent, key, mapping[key])
        if word is None and nearest(key, fields) is None and elsewhere(parent, key) is None:
            word = near_word_for(parent, key, mapping[key])
    if word is not None and key not in fields:
        label, hint = _foreign(word, mapping, key, problems)
    else:
        label, hint = _own(parent, key, mapping, problems)
    message = f"`{key}` is not a field of {place_name(parent)}"
    if key in fields:  # it is one of another type of variable or mount
        kind = mapping.get("type")
        message += f" of type {kind}" if kind else " as it stands"
        label, hint = "delete it", ""
    problems.add(path, "unknown-field", message, at="key", label=label, hint=hint)


def _own(parent: Path, key: str, mapping: Any, problems: Collector) -> tuple[str, str]:
    """A label and a hint for a key that is spelt like a field, or is one of another mapping."""
    fields = fields_at(parent)
    near = nearest(key, fields)
    label = suggest(key, fields)
    found = elsewhere(parent, key)
    if near in (*_NEEDED, "version") and isinstance(mapping, dict) and near not in mapping:
        return label, ""  # without it the mapping is wrong whatever else the key could be
    if near in ("needs", "depends_on"):
        return label, _ORDER
    if found is not None and not (label and len(found) > len(parent)):
        return _belongs(parent, key, found, problems)
    return label, listing("fields here", fields)


def _meant(word: Word, value: Any) -> Mapping[str, Any]:
    """The fields that a word of another tool stands for, where `value` has none with those of its example."""
    if isinstance(word.write, str):
        return {}
    fields = word.write(value) if type(value) is type(word.example) else None
    return fields or word.write(word.example) or {}


def _foreign(word: Word, mapping: Mapping[str, Any], key: str, problems: Collector) -> tuple[str, str]:
    """A label and a hint for a key of another tool."""
    if isinstance(word.write, str):
        return "", word.write
    value = mapping[key]
    fields = word.write(value) if type(value) is type(word.example) else None
    meant = _meant(word, value)
    name = next(iter(meant))
    if fields is None or fields == {name: value}:
        hint = _ORDER if name in ("needs", "depends_on") else ""
        return f"did you mean `{name}`?", hint
    if isinstance(mapping.get(name), dict) and isinstance(fields[name], dict):
        ((inner, amount),) = fields[name].items()
        return f"write `{problems.entry(inner, amount)}` in `{name}`", ""
    fields = {field: amount for field, amount in fields.items() if mapping.get(field) != amount}
    entries = ", ".join(f"`{problems.entry(*each)}`" for each in fields.items())
    is_shown = len(entries) <= _LONGEST and not _holds_secret(fields)
    return f"write {entries}" if is_shown else f"write {' and '.join(f'`{each}`' for each in fields)}", ""


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(is_sensitive(str(key)) or _holds_secret(inner) for key, inner in value.items())
    if isinstance(value, list):
        # The value of `--token` is the item after it.
        return any(_holds_secret(item) or is_sensitive(str(item)) for item in value)
    return isinstance(value, str) and may_hold_secret(value)


def _value_at(path: Path, value: Any) -> Any:
    for segment in path:
        value = value[segment]
    return value


def bad_name(path: Path, name: str, problems: Collector) -> None:
    """A key that is no usable name."""
    if path[:-1] == ("roles",):
        found = elsewhere(("roles",), name)
        if found is not None:
            label, hint = _belongs(("roles",), name, found, problems)
            problems.add(path, "unknown-field", f"`{name}` is no role", at="key", label=label, hint=hint)
            problems.broken.add(path)
            return
        bad_label(path, name, "role", problems, at_key=True)
    elif path[:-1] == ("vars",):
        hint = "letters, digits, `_` and `-`, a letter first"
        problems.add(path, "invalid-name", f"`{name}` cannot name a variable", at="key", hint=hint)
    else:
        message = f"`{name}` cannot name an environment variable"
        problems.add(path, "invalid-name", message, at="key", hint=ENV_RULE)


def bad_label(path: Path, name: str, kind: str, problems: Collector, at_key: bool = False) -> None:
    label = label_like(name)
    problems.add(
        path,
        "invalid-name",
        f"`{name[:80]}` cannot name a {kind}" if name else f"the name of the {kind} is empty",
        at="key" if at_key else "value",
        label=f"such as `{label}`" if label and label != name else "",
        hint=LABEL_RULE,
    )


def label_like(name: str) -> str:
    """The DNS label nearest to a name; "" when nothing of it is left."""
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in name.lower())
    return "-".join(part for part in kept.split("-") if part)[:63].rstrip("-")
