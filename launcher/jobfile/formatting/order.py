"""The order of keys: that of the language's documentation, from what a job is to where it differs.

Only mappings whose keys are fields of the language have one. Where the keys are the user's (roles, variables,
environments, run options, targets …) their order is the user's as well: for roles it even counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

ITEM = "[]"
"""Stands in a path for any item of a list."""

JOB = (
    "version",
    "name",
    "description",
    "project",
    "vars",
    "scheduler",
    "cfg",
    "workspace",
    "component",
    "args",
    "roles",
    "metadata",
    "timeout",
    "lifecycle",
    "enabled",
    "defaults",
    "matrix",
    "targets",
)
VAR = ("type", "from_env", "default", "min", "max", "choices", "help")
ROLE = (
    "image",
    "entrypoint",
    "args",
    "env",
    "num_replicas",
    "min_replicas",
    "max_retries",
    "retry_policy",
    "resource",
    "port_map",
    "mounts",
    "metadata",
)
RESOURCE = ("cpu", "gpu", "memory", "memMB", "devices", "capabilities", "tags")
MOUNT = ("type", "src", "dst", "read_only", "permissions")
LIFECYCLE = (
    "on_change",
    "on_failed",
    "on_cancelled",
    "on_lost",
    "max_attempts",
    "protect",
    "rerun_on",
)
PROJECT = ("project", "target", "schedulers", "lifecycle")
"""The keys of launcher.toml."""

# "*" stands for a name that the user has chosen.
_FIELDS: Mapping[tuple[str, ...], Sequence[str]] = {
    (): JOB,
    ("vars", "*"): VAR,
    ("roles", "*"): ROLE,
    ("roles", "*", "resource"): RESOURCE,
    ("roles", "*", "mounts", ITEM): MOUNT,
    ("lifecycle",): LIFECYCLE,
}

Path = tuple[str, ...]
T = TypeVar("T")


def fields(path: Path) -> Sequence[str] | None:
    """The keys of the mapping at `path` in their order; None where their order is the user's.

    A target is a job file in small, and `defaults.role` a role.
    """
    if path[:1] == ("targets",) and len(path) > 1:
        return fields(path[2:])
    if path[:2] == ("defaults", "role"):
        return fields(("roles", "*", *path[2:]))
    for pattern, known in _FIELDS.items():
        if len(pattern) == len(path) and all(
            want in ("*", got) for want, got in zip(pattern, path, strict=True)
        ):
            return known
    return None


def arranged(entries: Sequence[tuple[str, T]], known: Sequence[str] | None) -> list[T]:
    """The entries in the order of `known`. A key that is not known (`x-…`) stays behind the one before it."""
    if known is None:
        return [entry for _, entry in entries]
    rank = {key: number for number, key in enumerate(known)}
    last, keyed = -1, []
    for key, entry in entries:
        last = rank.get(key, last)
        keyed.append((last, entry))
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]
