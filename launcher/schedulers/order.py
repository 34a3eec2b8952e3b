"""Rules of roles that wait for others or serve them. Pure; imports nothing: a supervisor must stay small."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Rules = Mapping[str, Mapping[str, Any]]
    """Role → its fields `service`, `ready` and `depends_on`, where they are set."""


def has_order(rules: Rules) -> bool:
    """Whether roles wait for others or serve them: without that, all start at once and all must succeed."""
    return any(rule.get("service") or rule.get("ready") or rule.get("depends_on") for rule in rules.values())


def made_by_others(rules: Rules) -> set[str]:
    """The roles that start after another one has succeeded: that one may make what they run."""
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        for role, rule in rules.items():
            waits = rule.get("depends_on") or {}
            if role not in found and ("succeeded" in waits.values() or found & waits.keys()):
                found.add(role)
                grown = True
    return found
