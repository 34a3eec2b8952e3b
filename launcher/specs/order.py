"""Rules over roles that wait for each other: their order and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.specs.app import AppDef, Role
from launcher.specs.macros import find_macros, role_of_host
from launcher.specs.probe import CONDITIONS
from launcher.text import name_hint

Found = tuple[tuple[str | int, ...], str, str]
"""Path, code and message of a problem."""


def order_problems(app: AppDef) -> Iterator[Found]:
    """Every problem of the services and the conditions of roles."""
    roles = {role.name: role for role in app.roles}
    services = [role for role in app.roles if role.service]
    if app.roles and len(services) == len(app.roles):
        message = "all roles are services: the app ends with the roles that are none, so one must not be"
        yield ("roles", services[0].name, "service"), "constraint", message
    for role in app.roles:
        for name, condition in role.depends_on.items():
            for code, message in _of_condition(role, name, condition, roles):
                yield ("roles", role.name, "depends_on", name), code, message
    for circle in _circles(roles):
        message = f"roles wait for each other: {' → '.join([*circle, circle[0]])}"
        yield ("roles", circle[0], "depends_on", circle[1]), "constraint", message


def _of_condition(
    role: Role, name: str, condition: object, roles: Mapping[str, Role]
) -> Iterator[tuple[str, str]]:
    if name == role.name:
        yield "constraint", f"role `{name}` waits for itself"
    elif name not in roles:
        yield "unknown-variant", f"there is no role `{name}`; {name_hint(name, list(roles))}"
    elif condition not in CONDITIONS:
        yield "unknown-variant", f"want one of {', '.join(CONDITIONS)}, got {condition!r}"
    elif condition == "ready" and roles[name].ready is None:
        remedy = "give it `ready`, or wait for `started`"
        yield "constraint", f"role `{name}` has no probe, so it is never ready: {remedy}"
    elif condition == "succeeded" and roles[name].service:
        remedy = "wait for `ready` or `started`"
        yield "constraint", f"role `{name}` is a service and runs until the others have ended: {remedy}"


def _circles(roles: Mapping[str, Role]) -> Iterator[Sequence[str]]:
    """Yield each circle of two or more roles once, from the role that the app lists first."""
    known: set[frozenset[str]] = set()
    done: set[str] = set()
    for first in roles:
        path: list[str] = []
        stack = [(first, iter(roles[first].depends_on))]
        while stack:
            name, rest = stack[-1]
            if not path or path[-1] != name:
                path.append(name)
            others = (each for each in rest if each in roles and each not in done and each != name)
            following = next(others, None)
            if following is None:
                done.add(name)
                stack.pop()
                path.pop()
            elif following in path:
                circle = path[path.index(following) :]
                if frozenset(circle) not in known:
                    known.add(frozenset(circle))
                    order = list(roles)
                    start = circle.index(min(circle, key=order.index))
                    yield [*circle[start:], *circle[:start]]
            else:
                stack.append((following, iter(roles[following].depends_on)))


def host_problems(text: str, roles: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield code and message for each host of a missing role."""
    for name, start, end in find_macros(text):
        role = role_of_host(name)
        if role is not None and role not in roles:
            message = f"`{text[start:end]}` names no role of this app; {name_hint(role, list(roles))}"
            yield "unknown-reference", message


def rules_of(role: Role) -> dict[str, Any]:
    """Return the rules that the holder of an app follows beside the retry policy, as plain data."""
    rules = {
        "retry_delay": role.retry_delay,
        "service": role.service,
        "ready": role.ready and role.ready.to_json(),
        "depends_on": dict(role.depends_on),
    }
    return {name: value for name, value in rules.items() if value}


def serving(app: AppDef) -> list[str]:
    """Return the services, roles with a probe and awaited roles, whose hosts every replica gets."""
    awaited = {name for role in app.roles for name in role.depends_on}
    return [role.name for role in app.roles if role.service or role.ready is not None or role.name in awaited]


HOST_VARIABLES = "LAUNCHER_HOST_"
"""The prefix of the variables of `host_variable`."""


def host_variable(role: str) -> str:
    """The environment variable with the host of a role's replica 0: LAUNCHER_HOST_SERVER."""
    return HOST_VARIABLES + "".join(c if c.isascii() and c.isalnum() else "_" for c in role).upper()
