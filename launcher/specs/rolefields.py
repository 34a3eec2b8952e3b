"""The fields of a role as a table: documents, checks, macros and the schema of plans are made from it.

The table is derived from `Role`, so a new field of that class reaches all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from launcher.specs.app import Role

VARIABLES = "dict[str, str]"
"""The kind of `env`: its values may be references to secrets."""
JSON = "dict[str, Any]"
PROBE = "Probe"
CONDITIONS = "dict[str, Condition]"
OPTIONS = "dict[str, CfgVal]"
MOUNTS = "list[BindMount | VolumeMount | DeviceMount]"


class RoleField:
    """One field of a role.

    Attributes:
        kind: its type in `Role` without the option of None: "int", "list[str]".
        default: the value that a document leaves out; None where there is no default.
        least, most: the bounds of a number; None for no bound.
        by_capability: whether only some schedulers take a value for it.
        takes_macros: whether the run fills in `$<app_id>` and its like.
    """

    __slots__ = ("by_capability", "default", "kind", "least", "most", "name", "takes_macros")

    def __init__(self, name: str, kind: str, default: Any, metadata: Mapping[str, Any]) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.least: int | None = metadata.get("least")
        self.most: int | None = metadata.get("most")
        self.by_capability: bool = metadata.get("by_capability", False)
        self.takes_macros: bool = metadata.get("takes_macros", False)

    @property
    def is_mutable(self) -> bool:
        return self.default is not None and type(self.default).__hash__ is None


def _read_off() -> dict[str, RoleField]:
    table = {}
    for each in fields(Role):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        table[each.name] = RoleField(
            each.name,
            str(each.type).removesuffix(" | None"),
            {"image": ""}.get(each.name) if default is MISSING else default,
            each.metadata,
        )
    return table


ROLE_FIELDS = _read_off()
"""Name → field, in the order of the arguments of `Role`."""

ALWAYS = ("name", "entrypoint")
"""The fields that every role of a document has."""

_ORDER = "args env image base_image resource mounts port_map num_replicas min_replicas max_retries"
_ORDER += " retry_policy metadata"
DOCUMENT_FIELDS = [ROLE_FIELDS[name] for name in dict.fromkeys((*ALWAYS, *_ORDER.split(), *ROLE_FIELDS))]
"""The fields in the order in which documents have them since `lr1`; fields of later versions follow."""

CAPABILITIES = [each for each in ROLE_FIELDS.values() if each.by_capability]
"""The fields that a scheduler may leave to others; see `Scheduler.supports`."""
