"""The hosts that a role can know when it starts: Slurm chooses the node of a role when the role starts."""

from __future__ import annotations

from collections.abc import Collection

from launcher.specs.app import AppDef, Role
from launcher.specs.probe import CONDITIONS


def awaited(role: Role, app: AppDef) -> dict[str, int]:
    """Every role that must have started before this one, with the strongest of its conditions (0 to 2)."""
    roles = {each.name: each for each in app.roles}
    found: dict[str, int] = {}
    waiting = [role]
    seen = set()
    while waiting:
        each = waiting.pop()
        if each.name in seen:
            continue
        seen.add(each.name)
        for name, condition in each.depends_on.items():
            rank = CONDITIONS.index(condition) if condition in CONDITIONS else 0
            found[name] = max(found.get(name, 0), rank)
            if name in roles:
                waiting.append(roles[name])
    return found


def starts_after(role: Role, other: Role, app: AppDef) -> bool:
    """Whether `role` starts only when `other` has: its host is unknown to `other` for good."""
    return other.name in awaited(role, app)


def known_at_start(role: Role, app: AppDef, names: Collection[str]) -> list[str]:
    """Those of the roles `names` that have started, or start along with it, when `role` starts."""
    before = awaited(role, app)
    roles = {each.name: each for each in app.roles}
    return [
        name
        for name in names
        if name == role.name
        or name in before
        or all(before.get(each, -1) >= rank for each, rank in awaited(roles[name], app).items())
    ]
