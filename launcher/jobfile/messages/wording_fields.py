"""Word problems of keys: missing, unknown, in the wrong mapping, or unusable as names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from unicodedata import normalize

from launcher.jobfile.messages.collector import Collector, did_you_mean, listing, nearest, place_name
from launcher.jobfile.messages.foreign import Word, kind_of, near_word_for, word_for
from launcher.jobfile.model.fields import elsewhere, fields_at, place_at
from launcher.jobfile.model.types import MOUNT_TYPES, VAR_TYPES, VERSION
from launcher.jobfile.text.document import Path, leaves
from launcher.specs.secret import is_sensitive, may_hold_secret

LABEL_RULE = "lower-case letters, digits and `-`, at most 63, none of them `-` at either end"
ENV_RULE = "a name is not empty and holds no `=` and no NUL"

# The purposes of required fields.
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
    """Return label and hint for `roles: {trainer: …, image: x}`, where `image` is a field of a role."""
    if path[-1] in fields_at(path[:-1]):
        return "", ""
    if above := _empty_above(path[:-1], str(path[-1]), problems):
        return f"indent it below `{above}`", ""
    found = elsewhere(path[:-1], str(path[-1]))
    if found is None:
        return "", ""
    if path[:-1] == found[:-1] == ("roles",):
        roles = _value_at(("roles",), problems.document.value)
        if not any(isinstance(role, dict) for role in roles.values()):
            return _in_new_role(roles, problems), ""
    return _belongs(path[:-1], str(path[-1]), found, problems)


def _empty_above(path: Path, key: str, problems: Collector) -> str:
    """Return the empty key of the mapping at `path` below which `key` was meant to be; "" for none."""
    mapping = _value_at(path, problems.document.value)
    place = place_at(path)
    if place is None or problems.document.source.format != "yaml" or not problems.has_hints(mapping):
        return ""
    before = ""
    for name in mapping:
        if name == key:
            return before
        inner = place.below(name)
        if mapping[name] is None:
            before = name if inner is not None and (inner.fields or inner.each) else ""
        elif place.fields is None or name in place.fields:
            before = ""
    return ""


def _belongs(path: Path, key: str, found: Path, problems: Collector) -> tuple[str, str]:
    """Return a label and a hint for a key that belongs to another mapping."""
    owner = place_name(found).replace("role `*`", "a role").replace("variable `*`", "a variable")
    mapping = _value_at(path, problems.document.value)
    if not path and found == ("roles", "*") and not {"roles", "component"} & mapping.keys():
        return _of_new_role(key, mapping, problems)
    if label := _with_new_mapping(path, key, found, problems):
        return label, f"`{key}` is a field of {owner}"
    if problems.document.source.format == "toml":
        table = ".".join("NAME" if part == "*" else str(part) for part in found)
        where = f"below [{table}]" if table else "above the first table"
        return f"`{key}` is a field of {owner}", f"move it {where}"
    if path and problems.document.value_range(path).text.startswith("{"):
        return f"`{key}` is a field of {owner}", f"move it out of these braces, to {owner}"
    direction = "less" if len(found) < len(path) else "deeper"
    return f"the indentation is off: `{key}` is a field of {owner}", f"indent it {direction}"


def _with_new_mapping(path: Path, key: str, found: Path, problems: Collector) -> str:
    """Return a label: the key within its missing mapping; "" where the file has the mapping."""
    if not found:
        return ""
    inner = found[len(path) :] if found[: len(path)] == path else found
    entry = _entry({str(found[-1]): {key: _value_at((*path, key), problems.document.value)}}, problems)
    if not entry or "*" in inner[-1:]:
        return ""
    if len(inner) == 3 and inner[:2] == ("roles", "*"):
        return f"write {entry} in a role"
    home = found[:-1]
    if len(inner) != 1 or inner[0] in _value_at(home, problems.document.value):
        return ""
    return f"write {entry}" if home == path else f"write {entry} as a field of {place_name(home)}"


def _of_role(key: str, value: Any) -> Mapping[str, Any]:
    """Return the fields of a role that a misplaced key at the top means; empty for a field of the job."""
    if key in fields_at(()):
        return {}
    if key in fields_at(("roles", "*")):
        return {key: value}
    word = word_for(("roles", "*"), key, value) if word_for((), key, value) is None else None
    if word is None or word.reason:
        return {}
    return _written(word, value) or {word.name: "…"}


def _of_new_role(key: str, mapping: Mapping[str, Any], problems: Collector) -> tuple[str, str]:
    """Return a label and a hint for a field of a role at the top of a job without roles."""
    first = next(each for each in mapping if _of_role(each, mapping[each]))
    if key == first:
        return f"write `roles` with {_in_new_role(mapping, problems).removeprefix('write ')}", ""
    return f"`{key}` is a field of a role", "it goes with the others"


def _in_new_role(mapping: Mapping[str, Any], problems: Collector) -> str:
    """Return a label: the role that the fields of the mapping make."""
    fields: dict[str, Any] = {}
    for key, value in mapping.items():
        fields |= _of_role(key, value) if key not in fields_at(("roles", "*")) else {key: value}
    entry = _entry({"main": fields}, problems)
    return f"write {entry}" if entry else f"write `main` with {listing('these fields', fields)}"


def missing_field(path: Path, field: str, problems: Collector) -> None:
    """Report a missing field. A misspelt field is reported once, at its key."""
    misspelt = _misspelt(path, field, problems)
    if field == "roles" and misspelt is None:  # the mapping may be the fields of a role without its name
        pairs = _value_at(path, problems.document.value).items()
        misspelt = next((key for key, value in pairs if _of_role(key, value)), None)
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
    # In a list, only a whole item has a place.
    message = f"{place_name(path)} has no `{field}`"
    label, hint = hint, ""
    if other := _other_role(path, field, problems):
        label, hint = f"did you mean role `{other}`?", f"or {label}"
    problems.add(path, "missing-field", message, at="key", label=label, hint=hint)


def _misspelt(path: Path, field: str, problems: Collector) -> str | None:
    """Return the unknown key of the mapping at `path` that was probably meant to be `field`."""
    fields = fields_at(path)
    mapping = _value_at(path, problems.document.value)
    if not isinstance(mapping, dict):
        return None
    unknown = (key for key in mapping if key not in fields and not key.startswith("x-"))
    return next((key for key in unknown if field in _meant(path, key, mapping[key])), None)


def fields_meant(path: Path, problems: Collector) -> list[Path]:
    """Return the absent fields that the unknown key at a path may mean, with their paths."""
    above, key = path[:-1], str(path[-1])
    mapping = _value_at(above, problems.document.value)
    meant = _meant(above, key, mapping[key])
    return [(*above, field) for field in fields_at(above) if field in meant and field not in mapping]


def _meant(path: Path, key: str, value: Any) -> set[str]:
    """Return the fields that an unknown key of the mapping at `path` may mean."""
    word = word_for(path, key, value)
    if word is None:
        return {nearest(key, fields_at(path)) or ""}
    meant = {word.name, *(_written(word, value) or ())}
    return {*meant, "entrypoint"} if "run" in meant else meant


def _nested(path: Path, problems: Collector) -> bool:
    """Whether an environment variable has a mapping as its value. Notes such a variable."""
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
    """Return the role that a target misspells as a new role without a program; "" for none."""
    roles = (problems.document.value or {}).get("roles")
    if field != "entrypoint" or len(path) != 2 or not isinstance(roles, dict):
        return ""
    whole = [name for name, role in roles.items() if isinstance(role, dict) and field in role]
    return nearest(str(path[1]), whole) or ""


_LONGEST = 120
"""The most characters of fields that a label repeats."""

_ORDER = "`needs` of the job names other jobs, `depends_on` of a role names roles of this job"


def unknown_field(path: Path, problems: Collector) -> None:
    key, parent = str(path[-1]), path[:-1]
    mapping = _value_at(parent, problems.document.value)
    message = f"`{key}` is not a field of {place_name(parent)}"
    if key in fields_at(parent):  # the key belongs to another type of variable or mount
        kind = mapping.get("type")
        message += f" of type {kind}" if kind else " as it stands"
        remedy = Remedy("delete it")
    elif isinstance(mapping, dict) and key in mapping:
        remedy = _field_remedy(parent, key, mapping, problems) if problems.has_hints(mapping) else Remedy()
    else:
        near = nearest(key, fields_at(parent))
        remedy = Remedy(hint=listing("fields here", fields_at(parent)), meant=near)
    problems.add(path, "unknown-field", message, at="key", **remedy._asdict())


class Remedy(NamedTuple):
    """The remedy for an unknown key: a label, or in its place the field that is meant, and a hint."""

    label: str = ""
    hint: str = ""
    meant: str | None = None


def _field_remedy(parent: Path, key: str, mapping: Mapping[str, Any], problems: Collector) -> Remedy:
    """Return label and hint for an unknown key: another tool's word, a field nearby, or one spelt alike."""
    fields, value = fields_at(parent), mapping[key]
    near, found = nearest(key, fields), elsewhere(parent, key)
    if above := _empty_above(parent, key, problems):
        return Remedy(f"indent it below `{above}`")
    if key in ("needs", "depends_on") and (order := _order(parent, key, value, problems)):
        return order
    if word := word_for(parent, key, value):
        return _foreign(word, mapping, key, problems)
    is_slip = near is not None and (_plain(near) == _plain(key) or (near == "roles" and _are_roles(value)))
    if is_slip or (near in (*_NEEDED, "version") and near not in mapping):
        # Without such a field the mapping is wrong, whatever the key means.
        hint = "" if near in (*_NEEDED, "version") else listing("fields here", fields)
        return Remedy(hint=hint, meant=near)
    if found is not None and sum(part != "*" for part in found[len(parent) :]) < 2:
        return _other(near, _belongs(parent, key, found, problems))
    for home in _HOMES.get(kind_of(parent), ()):
        if word := word_for(_NEIGHBOURS[home], key, value):
            return _foreign_there(word, parent, home, mapping, key, problems)
    if found is not None:
        return _other(near, _belongs(parent, key, found, problems))
    if near is None and (word := near_word_for(parent, key, value)):
        return _foreign(word, mapping, key, problems)
    hint = _ORDER if near in ("needs", "depends_on") else listing("fields here", fields)
    return Remedy(hint=hint, meant=near)


_NEIGHBOURS: Mapping[str, Path] = {
    "job": (),
    "role": ("roles", "*"),
    "resource": ("roles", "*", "resource"),
    "ready": ("roles", "*", "ready"),
}
_HOMES = {"job": ("role",), "role": ("job", "resource", "ready"), "resource": ("role",), "ready": ("role",)}
"""Kind of mapping → the kinds of neighbouring mappings."""


def _are_roles(value: Any) -> bool:
    """Whether a value can be the roles of a job: names, which are no fields of a role, with mappings."""
    is_named = isinstance(value, dict) and not value.keys() & fields_at(("roles", "*"))
    return is_named and bool(value) and all(isinstance(each, dict) for each in value.values())


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _other(near: str | None, advice: tuple[str, str]) -> Remedy:
    """Return the advice, and the field here that is spelt alike."""
    label, hint = advice
    return Remedy(label, f"{hint}; or {did_you_mean(near)}" if near and hint else hint)


def _order(parent: Path, key: str, value: Any, problems: Collector) -> Remedy | None:
    """Return advice for `needs` in a role and `depends_on` in a job, by the names in it: roles or jobs."""
    roles = (problems.document.value or {}).get("roles")
    names = [value] if isinstance(value, str) else value if isinstance(value, list | dict) else []
    are_roles = isinstance(roles, dict) and bool(names) and all(str(name) in roles for name in names)
    if kind_of(parent) == "job" and key == "depends_on":
        there = Remedy(f"`{key}` is a field of a role", _ORDER)
        return there if are_roles else Remedy(hint=_ORDER, meant="needs")
    if kind_of(parent) == "role" and key == "needs":
        there = Remedy(f"`{key}` is a field of the job", _ORDER)
        return Remedy(hint=_ORDER, meant="depends_on") if are_roles else there
    return None


def _foreign_there(
    word: Word, parent: Path, home: str, mapping: Mapping[str, Any], key: str, problems: Collector
) -> Remedy:
    """Return the remedy for a word of another tool that means a field of a mapping nearby."""
    where = {"job": "the job", "role": "a role"}.get(home, f"`{home}` of the role")
    if word.reason:
        return Remedy(hint=word.reason)
    fields = _written(word, mapping[key])
    if home == "role" and not parent and not {"roles", "component"} & mapping.keys():
        return Remedy(*_belongs(parent, key, ("roles", "*"), problems))
    if len(parent) > 1 and home == "role" and "roles" in parent:
        where = place_name(parent[:-1])
    entry = (_entry(fields, problems) or _names(fields)) if fields else f"`{word.name}`"
    return Remedy(f"write {entry} as a field of {where}")


def _written(word: Word, value: Any) -> Mapping[str, Any] | None:
    """Return the fields with the meaning of another tool's word and value; None where it is unknown."""
    return word.fields(value) if type(value) is type(word.example) else None


def _foreign(word: Word, mapping: Mapping[str, Any], key: str, problems: Collector) -> Remedy:
    """Return the remedy for a key of another tool."""
    if word.reason:
        return Remedy(hint=word.reason)
    value = mapping[key]
    fields = _written(word, value)
    name = next(iter(fields or ())) if fields else word.name
    if not fields or fields == {name: value}:
        hint = _ORDER if name in ("needs", "depends_on") else ""
        return Remedy(hint=hint, meant=name)
    if isinstance(mapping.get(name), dict) and isinstance(fields[name], dict):
        return Remedy(f"write {_entry(fields[name], problems) or _names(fields[name])} in `{name}`")
    fields = {field: amount for field, amount in fields.items() if mapping.get(field) != amount}
    entry = "" if holds_secret(value) else _entry(fields, problems)
    return Remedy(f"write {entry or _names(fields)}")


def _entry(fields: Mapping[str, Any], problems: Collector) -> str:
    """Return the fields as text, each in backticks; "" where one is long, empty or may be secret."""
    if any(isinstance(value, str) and "\n" in value for value in fields.values()):
        return script_remedy(problems) if [*fields] == ["run"] else ""
    if holds_secret(fields) or any(value is None for _, value in leaves(fields)):
        return ""
    entries = ", ".join(f"`{problems.entry(*each)}`" for each in fields.items())
    return entries if len(entries) <= _LONGEST else ""


def script_remedy(problems: Collector) -> str:
    """Return the remedy for a script of several lines."""
    opened = "`run: |`" if problems.document.source.format == "yaml" else '`run = """`'
    return f"{opened}, and each command on a line of its own below"


def _names(fields: Mapping[str, Any]) -> str:
    return " and ".join(f"`{each}`" for each in fields)


def holds_secret(value: Any) -> bool:
    """Whether advice that repeats the value might show a secret."""
    if isinstance(value, Mapping):
        if "value" in value and is_sensitive(str(value.get("name"))):  # variables in the form of Kubernetes
            return True
        return any(is_sensitive(str(key)) or holds_secret(inner) for key, inner in value.items())
    if isinstance(value, list):
        # The value of `--token` is the item after it.
        return any(holds_secret(item) or is_sensitive(str(item)) for item in value)
    return isinstance(value, str) and may_hold_secret(value)


def _value_at(path: Path, value: Any) -> Any:
    for segment in path:
        value = value[segment]
    return value


def bad_name(path: Path, name: str, problems: Collector) -> None:
    """Note a key that is unusable as a name."""
    found = elsewhere(path[:-1], name) if path[:-1] == ("roles",) else None
    if found is not None:
        label, hint = _belongs(("roles",), name, found, problems)
        problems.add(path, "unknown-field", f"`{name}` is no role", at="key", label=label, hint=hint)
        problems.broken.add(path)
    elif path[-2:-1] in (("roles",), ("depends_on",)):
        bad_label(path, name, "role", problems, at_key=True)
    elif path[:-1] == ("vars",):
        hint = "letters, digits, `_` and `-`, a letter first"
        problems.add(path, "invalid-name", f"`{name}` cannot name a variable", at="key", hint=hint)
    else:
        message = f"`{name}` cannot name an environment variable"
        problems.add(path, "invalid-name", message, at="key", hint=ENV_RULE)


def bad_label(path: Path, name: str, kind: str, problems: Collector, at_key: bool = False) -> None:
    written = name if at_key else _value_at(path, problems.document.value)
    label = label_like(written) if isinstance(written, str) else ""
    problems.add(
        path,
        "invalid-name",
        f"`{name[:80]}` cannot name a {kind}" if name else f"the name of the {kind} is empty",
        at="key" if at_key else "value",
        label=f"such as `{label}`" if label and label != written else "",
        hint=LABEL_RULE,
    )


def label_like(name: str) -> str:
    """Return the DNS label nearest to a name, with its references; "" for a name without a letter or
    digit, or with another `$`."""
    name = re.sub(r"\Aafter\w*:|\A.*/(?=.+\.launcher\.)|\.launcher\.(?:ya?ml|toml)\Z", "", name[:200])
    parts = re.split(r"(\$<[\w.-]+>)", name)
    if any("$" in part for part in parts[::2]):
        return ""
    plain = (re.sub("[\u0300-\u036f]", "", normalize("NFKD", part)) for part in parts[::2])
    parts[::2] = (re.sub(r"[^a-z0-9]+", "-", part.lower()) for part in plain)
    kept = "".join(parts).strip("-")
    return kept if len(parts) > 1 else kept[:63].rstrip("-")
