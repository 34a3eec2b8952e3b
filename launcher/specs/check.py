"""Rules that involve several fields of an app, for job files and for Python. Checks report all problems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from posixpath import normpath
from typing import Any, NamedTuple

from launcher.specs.app import (
    CONDITIONS,
    JSON,
    MISSING,
    MOUNTS,
    NULL_RESOURCE,
    OPTIONS,
    PROBE,
    ROLE_FIELDS,
    VARIABLES,
    AppDef,
    Probe,
    Resource,
    Role,
    RoleField,
)
from launcher.specs.macros import RUN_MACROS, find_macros, is_run_macro, role_of_host
from launcher.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from launcher.specs.resources import GPU_TYPE, GPU_TYPE_FORM
from launcher.specs.secret import MalformedSecretException, Secret
from launcher.text import has_hints, name_hint, unusable_in

Path = tuple[str | int, ...]

MAX_REPLICAS = 10_000
"""The most replicas of one app: plans, requests and supervisors keep all of them in memory."""

SET_FOR_REPLICAS = ("LAUNCHER_JOB_ID", "LAUNCHER_RANK0_HOST", "LAUNCHER_SCRATCH", "LAUNCHER_OUTPUT_DIR")
"""Variables that every scheduler sets for every replica, whatever its role says."""

JOB_DIR = "job.dir"
_KNOWN_NAMES = (*RUN_MACROS, JOB_DIR)


class Problem(NamedTuple):
    """A problem and its path: ("roles", "trainer", "min_replicas"). `code` is a stable kebab-case word, and
    `reads` has the paths of the other values that decide about it; "*" is any name."""

    path: Path
    code: str
    message: str
    reads: tuple[Path, ...] = ()


def check_app(app: AppDef) -> list[Problem]:
    """Return every problem of the app, in the order of its fields. An app without problems can be run."""
    found = [*_check_name(("name",), app.name)]
    if not isinstance(app.roles, (list, tuple)) or not all(isinstance(role, Role) for role in app.roles):
        return [*found, Problem(("roles",), "wrong-type", f"roles are a list of Role, got {app.roles!r}")]
    if not app.roles:
        found.append(Problem(("roles",), "missing-field", "an app needs at least one role"))
    counts = Counter(role.name for role in app.roles)
    for name, count in counts.items():
        if count > 1:
            found.append(Problem(("roles", name), "duplicate-role", f"{count} roles are named `{name}`"))
    for role in app.roles:
        found += _check_role(role)
    found += _check_size(app)
    if any(problem.code == "wrong-type" for problem in found):
        return found
    if any(role.service or role.depends_on for role in app.roles):
        found += _check_order(app)
    unknown: list[str] = []
    for role in app.roles:
        found += _check_hosts(role, counts, unknown)
    return found


def macro_texts(role: Role) -> Iterator[tuple[Path, str]]:
    """The texts of a role that may hold macros, each with its path in the role."""
    for field in ROLE_FIELDS.values():
        if field.takes_macros:
            yield from _texts_in((field.name,), getattr(role, field.name))


def macros_in(role: Role, word: str = "$") -> Iterator[tuple[Path, str, str]]:
    """Path in the app, name and spelling of each macro in the texts of a role that hold `word`."""
    for path, text in macro_texts(role):
        for name, start, end in find_macros(text) if word in text else ():
            yield ("roles", role.name, *path), name, text[start:end]


def _texts_in(path: Path, value: object) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, (dict, Mapping)):  # a dict is recognised faster than other mappings
        for key, inner in value.items():
            if isinstance(inner, str):
                yield (*path, str(key)), inner
            else:
                yield from _texts_in((*path, str(key)), inner)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            if isinstance(inner, str):
                yield (*path, index), inner
            else:
                yield from _texts_in((*path, index), inner)
    elif isinstance(value, (BindMount, DeviceMount)):
        yield path, value.src_path
    elif isinstance(value, VolumeMount):
        yield path, value.src


def _check_size(app: AppDef) -> Iterator[Problem]:
    """Yield roles that are too large together; another check reports a role that is too large alone."""
    total = 0
    for role in app.roles:
        if _is_int(role.num_replicas) and role.num_replicas <= MAX_REPLICAS:
            total += role.num_replicas
        if total > MAX_REPLICAS:
            message = f"with this role it is {total:,} replicas, and an app has at most {MAX_REPLICAS:,}"
            path, all_roles = ("roles", role.name, "num_replicas"), ("roles", "*", "num_replicas")
            yield Problem(path, "out-of-range", message, (all_roles,))
            return


def _check_role(role: Role) -> Iterator[Problem]:
    at: Path = ("roles", role.name)
    yield from _check_name((*at, "name"), role.name)
    misshapen = False
    for name, types in _SHAPES:  # `args="--lr 1"` would pass as a list of one-letter arguments
        value = getattr(role, name)
        if not isinstance(value, types):
            misshapen = True
            want = "Resource" if Resource in types else types[0].__name__.lower()
            yield Problem((*at, name), "wrong-type", f"{name} is a {want}, got {value!r}")
    if misshapen:  # a value of the wrong type cannot be checked further
        return
    if role.entrypoint in ("", MISSING):
        message = "the role has no entrypoint: name the command to run"
        yield Problem((*at, "entrypoint"), "missing-field", message)
    else:
        yield from _check_text((*at, "entrypoint"), role.entrypoint)
    for name, default, rule in _rules():
        value = getattr(role, name)
        if value is not default:
            yield from rule((*at, name), value)
    yield from _check_counts(at, role)
    for name, port in role.port_map.items():
        if not _is_int(port) or not 1 <= port <= 65535:
            message = f"a port is an integer from 1 to 65535, got {port!r}"
            yield Problem((*at, "port_map", name), "out-of-range", message)


def _check_name(path: Path, name: object) -> Iterator[Problem]:
    """Check a name, which is used in paths, handles and selectors (`job/role/0`)."""
    if not isinstance(name, str):
        yield Problem(path, "wrong-type", f"a name is text, got {name!r}")
    elif not any(c.isascii() and c.isalnum() for c in name):
        yield Problem(path, "unusable-name", f"a name needs an ASCII letter or a digit, got `{name}`")
    elif "/" in name or not name.isprintable() or name.startswith("."):
        message = f"`{name}` cannot be a name: no slash, no leading dot, no control characters"
        yield Problem(path, "unusable-name", message)


def _check_env(at: Path, env: Mapping[Any, Any]) -> Iterator[Problem]:
    for name, value in env.items():
        path = (*at, name)
        if not isinstance(name, str) or not name or "=" in name or unusable_in(name):
            message = f"{name!r} cannot name an environment variable"
            yield Problem(path, "unusable-name", message)
        if not isinstance(value, Secret):
            yield from _check_text(path, value)
            continue
        try:
            Secret.parse(value)
        except MalformedSecretException as error:
            message = f"the reference to a secret is wrong: {error}; {error.hint}"
            yield Problem(path, "unusable-text", message)
        else:
            yield from _check_fixed(path, str(value))


def _check_counts(at: Path, role: Role) -> Iterator[Problem]:
    replicas, least = role.num_replicas, role.min_replicas
    if not _is_int(replicas) or replicas < 1:
        return
    if replicas > MAX_REPLICAS:
        message = f"num_replicas is at most {MAX_REPLICAS:,}, got {replicas:,}"
        yield Problem((*at, "num_replicas"), "out-of-range", message)
    if _is_int(least) and least is not None and least > replicas:
        message = f"min_replicas is {least}, more than num_replicas, which is {replicas}"
        yield Problem((*at, "min_replicas"), "out-of-range", message, ((*at, "num_replicas"),))


def _check_resource(at: Path, resource: Resource) -> Iterator[Problem]:
    if resource == NULL_RESOURCE:
        return
    for name in ("cpu", "gpu", "memMB"):
        amount = getattr(resource, name)
        is_number = isinstance(amount, (int, float)) and not isinstance(amount, bool)
        if not is_number or not (amount == -1 or 0 <= amount < float("inf")):
            message = f"{name} is a number of 0 or more, or -1 to leave it open; got {amount!r}"
            yield Problem((*at, name), "out-of-range", message)
    kind = resource.capabilities.get(GPU_TYPE) if isinstance(resource.capabilities, Mapping) else None
    path = (*at, "capabilities", GPU_TYPE)
    if kind is None:
        return
    if not isinstance(kind, str) or not re.fullmatch(GPU_TYPE_FORM[1:-1], kind):
        message = f"the kind of a GPU is a name such as a100: letters, digits, `_`, `.`, `-`; got {kind!r}"
        yield Problem(path, "unusable-text", message)
    elif resource.gpu in (0, -1):
        message = f"the GPUs are to be of the kind `{kind}`, and there are none: set `gpu` to their number"
        yield Problem(path, "constraint", message, ((*at, "gpu"),))


def _check_mounts(at: Path, mounts: list[Mount]) -> Iterator[Problem]:
    first_at: dict[str, int] = {}
    for index, mount in enumerate(mounts):
        path = (*at, index)
        if not isinstance(mount, (BindMount, VolumeMount, DeviceMount)):
            yield Problem(path, "wrong-type", f"want a BindMount, VolumeMount or DeviceMount, got {mount!r}")
            continue
        source = mount.src if isinstance(mount, VolumeMount) else mount.src_path
        yield from _check_text(path, source)
        yield from _check_fixed(path, mount.dst_path)
        if not source or not mount.dst_path:
            yield Problem(path, "missing-field", "a mount needs a source and a destination")
        elif source.startswith("~") and source[:2] not in ("~", "~/"):
            message = f"`{source}`: another user's home is not looked up; write the absolute path"
            yield Problem(path, "unusable-path", message)
        if isinstance(mount, DeviceMount) and (not mount.permissions or set(mount.permissions) - set("rwm")):
            message = f"permissions are made of r, w and m, got `{mount.permissions}`"
            yield Problem(path, "unknown-variant", message)
        taken = first_at.setdefault(normpath(mount.dst_path), index)
        if taken != index:
            message = f"mounts {taken + 1} and {index + 1} have one destination, `{mount.dst_path}`"
            yield Problem(path, "duplicate-destination", message, ((*at, taken),))


def _check_probe(at: Path, probe: object) -> Iterator[Problem]:
    if not isinstance(probe, Probe):
        yield Problem(at, "wrong-type", f"want a Probe, got {probe!r}")
        return
    faults = list(probe.faults())
    for name, code, message in faults:
        yield Problem((*at, name) if name else at, code, message, ((*at, "every"),))
    if any(code == "wrong-type" for _, code, _ in faults):
        return
    for path, text in (
        *(((*at, name), getattr(probe, name)) for name in ("http", "file")),
        *(((*at, "command", index), text) for index, text in enumerate(probe.command)),
    ):
        if text is not None:
            yield from _check_fixed(path, text)


def _check_metadata(path: Path, value: object) -> Iterator[Problem]:
    for at, text in _texts_in(path, value):
        yield from _check_text(at, text)


def _check_options(at: Path, cfg: Mapping[Any, Any]) -> Iterator[Problem]:
    """Check texts and names; types and values are for the options of the scheduler."""
    for name, value in cfg.items():
        if not isinstance(name, str):
            yield Problem((*at, str(name)), "unusable-name", f"an option has a name, got {name!r}")
        for path, text in _texts_in((*at, str(name)), value):
            yield from _check_fixed(path, text)


def _check_order(app: AppDef) -> Iterator[Problem]:
    """Yield every problem of services and of the conditions between roles."""
    roles = {role.name: role for role in app.roles}
    services = [role for role in app.roles if role.service]
    if app.roles and len(services) == len(app.roles):
        message = "all roles are services: the app ends with the roles that are none, so one must not be"
        path, all_roles = ("roles", services[0].name, "service"), ("roles", "*", "service")
        yield Problem(path, "constraint", message, (all_roles,))
    unknown: list[str] = []
    for role in app.roles:
        for name, condition in role.depends_on.items():
            for code, message in _faults_of_condition(role, name, condition, roles, unknown):
                reads = tuple(("roles", name, field) for field in ("ready", "service"))
                yield Problem(("roles", role.name, "depends_on", name), code, message, reads)
    for circle in _circles(roles):
        message = f"roles wait for each other: {' → '.join([*circle, circle[0]])}"
        reads = tuple(("roles", name, "depends_on") for name in circle)
        yield Problem(("roles", circle[0], "depends_on", circle[1]), "constraint", message, reads)


def _faults_of_condition(
    role: Role, name: str, condition: object, roles: Mapping[str, Role], unknown: list[str]
) -> Iterator[tuple[str, str]]:
    if name == role.name:
        yield "constraint", f"role `{name}` waits for itself"
    elif name not in roles:
        yield "unknown-variant", f"there is no role `{name}`{_hint(name, roles, unknown)}"
    elif condition not in CONDITIONS:
        yield "unknown-variant", f"want one of {', '.join(CONDITIONS)}, got {condition!r}"
    elif condition == "ready" and roles[name].ready is None:
        remedy = "give it `ready`, or wait for `started`"
        yield "constraint", f"role `{name}` has no probe, so it is never ready: {remedy}"
    elif condition == "succeeded" and roles[name].service:
        remedy = "wait for `ready` or `started`"
        yield "constraint", f"role `{name}` is a service and runs until the others have ended: {remedy}"


def _hint(name: str, roles: Collection[str], unknown: list[str]) -> str:
    """Return the rest of a sentence about an unknown role, and add the role to the unknown ones so far."""
    unknown.append(name)
    return f"; {name_hint(name, roles)}" if has_hints(len(unknown), len(roles)) else ""


def _circles(roles: Mapping[str, Role]) -> Iterator[Sequence[str]]:
    """Yield each circle of two or more roles once, from the role that the app lists first."""
    known: set[frozenset[str]] = set()
    done: set[str] = set()
    order = {name: place for place, name in enumerate(roles)}
    for first in roles:
        stack = {first: iter(roles[first].depends_on)}
        while stack:
            name, rest = next(reversed(stack.items()))
            others = (each for each in rest if each in roles and each not in done and each != name)
            following = next(others, None)
            if following is None:
                done.add(name)
                del stack[name]
            elif following in stack:
                path = [*stack]
                circle = path[path.index(following) :]
                if frozenset(circle) not in known:
                    known.add(frozenset(circle))
                    start = circle.index(min(circle, key=order.__getitem__))
                    yield [*circle[start:], *circle[:start]]
            else:
                stack[following] = iter(roles[following].depends_on)


def _check_hosts(role: Role, roles: Collection[str], unknown: list[str]) -> Iterator[Problem]:
    """Yield a problem for each macro in a role's texts that names the host of a missing role."""
    for path, name, written in macros_in(role, "$<role."):
        other = role_of_host(name)
        if other is not None and other not in roles:
            message = f"`{written}` names no role of this app{_hint(other, roles, unknown)}"
            yield Problem(path, "unknown-reference", message, (("roles", other),))


def _check_text(path: Path, text: object) -> Iterator[Problem]:
    """Check that text holds no unknown macros."""
    if not isinstance(text, str):
        yield Problem(path, "wrong-type", f"want text, got {text!r} ({type(text).__name__})")
        return
    if isinstance(text, Secret):
        yield Problem(path, "unusable-text", "a secret can only be the value of a variable in env")
        return
    if unusable := unusable_in(text):
        yield Problem(path, "unusable-text", f"text for a process cannot hold {unusable}")
    for number, (name, start, end) in enumerate(find_macros(text)):
        if name != JOB_DIR and not is_run_macro(name):
            hint = f"{name_hint(name, _KNOWN_NAMES)}, or " if has_hints(number, len(_KNOWN_NAMES)) else ""
            message = f"`{text[start:end]}` names nothing; {hint}write `${text[start:end]}` for the text"
            yield Problem(path, "unknown-reference", message)


def _check_fixed(path: Path, text: object) -> Iterator[Problem]:
    """Check that a text which is fixed before the run contains no run macro."""
    yield from _check_text(path, text)
    if not isinstance(text, str):
        return
    for name, start, end in find_macros(text):
        if is_run_macro(name):
            places = "entrypoint, args, env, metadata and the sources of mounts"
            message = f"`{text[start:end]}` cannot stand here: it may stand in {places}"
            yield Problem(path, "reference-phase", message)


Rule = Callable[[Path, Any], Iterator[Problem]]


def _rule(field: RoleField) -> Rule | None:
    """The rule for the values of a field, by the field's kind."""
    each = _check_text if field.takes_macros else _check_fixed
    rules: Mapping[str, Rule] = {
        "bool": _check_flag,
        "int": partial(_check_whole, field.least, field.most),
        "str": each,
        "list[str]": partial(_check_texts, each),
        VARIABLES: _check_env,
        JSON: _check_metadata,
        OPTIONS: _check_options,
        MOUNTS: _check_mounts,
        PROBE: _check_probe,
        "Resource": _check_resource,
    }
    if isinstance(field.default, Enum):
        return partial(_check_choice, list(type(field.default)))
    return rules.get(field.kind)


def _check_flag(path: Path, value: object) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield Problem(path, "wrong-type", f"{path[-1]} is True or False, got {value!r}")


def _check_whole(least: int | None, most: int | None, path: Path, value: object) -> Iterator[Problem]:
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        bound = "" if least is None else f" of {least} or more"
        yield Problem(path, "out-of-range", f"{path[-1]} is an integer{bound}, got {value!r}")
    elif most is not None and value > most:
        yield Problem(path, "out-of-range", f"{path[-1]} is at most {most}, got {value!r}")


def _check_choice(choices: list[Enum], path: Path, value: object) -> Iterator[Problem]:
    if value not in choices:
        known = ", ".join(choice.name for choice in choices)
        yield Problem(path, "unknown-variant", f"{path[-1]} is one of {known}, got {value!r}")


def _check_texts(rule: Rule, path: Path, texts: Sequence[Any]) -> Iterator[Problem]:
    for index, text in enumerate(texts):
        yield from rule((*path, index), text)


_APART = ("name", "entrypoint", "base_image")
"""Fields with a rule of their own, and a field that no scheduler reads."""


@cache
def _rules() -> list[tuple[str, Any, Rule]]:
    """Name, default and rule of the fields of a role."""
    fields = [(name, field.default, _rule(field)) for name, field in ROLE_FIELDS.items()]
    return [
        (name, default, rule) for name, default, rule in fields if rule is not None and name not in _APART
    ]


_TYPES: Mapping[str, tuple[type, ...]] = {"list": (list, tuple), "dict": (Mapping,), "Resource": (Resource,)}
_SHAPES = [
    (name, _TYPES[kind])
    for name, field in ROLE_FIELDS.items()
    if (kind := field.kind.partition("[")[0]) in _TYPES
]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
