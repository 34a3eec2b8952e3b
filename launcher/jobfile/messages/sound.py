"""What is left of a job file without the parts that are wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launcher.jobfile.model.base import VERSION
from launcher.jobfile.text.document import Path

# Something valid in the place of what must be there.
_STAND_INS: dict[str, Any] = {"version": VERSION, "name": "unnamed"}


def sound_part(value: dict[str, Any], wrong: Iterable[Path]) -> dict[str, Any]:
    """A copy of the job file `value` without what is `wrong`: whole fields of the job and of its roles."""
    out = dict(value)
    roles = value.get("roles")
    if isinstance(roles, dict):
        out["roles"] = {name: dict(role) if isinstance(role, dict) else role for name, role in roles.items()}
    for path in wrong:
        match path:
            case ("roles", name, field, *_):
                _replace(out["roles"].get(name), field)
            case ("roles", name):
                out["roles"].pop(name, None)
            case (field, *_):
                _replace(out, field)
    return out


def _replace(fields: Any, name: str | int) -> None:
    if isinstance(fields, dict) and isinstance(name, str):
        fields.pop(name, None)
        if name in _STAND_INS:
            fields[name] = _STAND_INS[name]
