"""Names in messages: the nearest known name, the name of a place, the text of a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from launcher.jobfile.text.document import Path
from launcher.specs.secret import may_hold_secret
from launcher.text import nearest as _nearest

_SHOWN = 60

# Names in other tools → our values.
_FOREIGN_VALUES: Mapping[str, str] = {
    "boolean": "bool",
    "completed": "succeeded",
    "done": "succeeded",
    "double": "float",
    "healthy": "ready",
    "integer": "int",
    "job": "application",
    "number": "float",
    "pod": "replica",
    "restart": "rerun",
    "retry": "rerun",
    "running": "started",
    "service_completed_successfully": "succeeded",
    "service_healthy": "ready",
    "service_started": "started",
    "string": "str",
    "success": "succeeded",
    "text": "str",
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant: spelled alike, or like its name in another tool."""
    names = list(known)
    spelt = name.lower().replace("-", "_")
    foreign = {other: ours for other, ours in _FOREIGN_VALUES.items() if ours in names}
    is_known = spelt in (candidate.lower().replace("-", "_") for candidate in names)
    if spelt in foreign and not is_known:
        return foreign[spelt]
    return spelt_alike(name, (*names,)) or foreign.get(spelt_alike(spelt, (*foreign,)) or "")


@lru_cache(maxsize=1024)
def spelt_alike(name: str, names: tuple[str, ...]) -> str | None:
    """As `launcher.text.nearest`; the jobs of a matrix repeat a misspelt name thousands of times."""
    return _nearest(name, names)


def suggest(name: str, known: Iterable[str]) -> str:
    """ "did you mean `x`?", or "" when nothing is near."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else ""


def listing(title: str, names: Iterable[str], limit: int = 24) -> str:
    """ "fields here: args, env, …" for a help line."""
    found = sorted(names)
    if not found:
        return ""
    more = ", …" if len(found) > limit else ""
    return f"{title}: {', '.join(found[:limit])}{more}"


def place_name(path: Path) -> str:
    """Return the name of a mapping or list in a message: "role `trainer`", "mount 2 of role `trainer`"."""
    if not path:
        return "the job"
    if path[0] == "vars" and len(path) == 2:
        return f"variable `{path[1]}`"
    if path == ("defaults", "role"):
        return "`defaults.role`"
    if path[0] == "roles" and len(path) == 2:
        return f"role `{path[1]}`"
    if path[0] == "needs" and len(path) == 2:
        return f"need {path[1] + 1}" if isinstance(path[1], int) else f"need `{path[1]}`"
    if isinstance(path[-1], int):
        word = {"mounts": "mount", "args": "argument"}.get(str(path[-2]), f"`{path[-2]}` item")
        return f"{word} {path[-1] + 1}{_owner(path[:-2])}"
    return f"`{path[-1]}`{_owner(path[:-1])}"


def _owner(path: Path) -> str:
    if not path or path in (("roles",), ("vars",)):
        return ""
    if path[0] == "roles" and len(path) > 2:
        # Two levels suffice: "`LR` in `env` of role `trainer`".
        return f" {'in' if len(path) == 3 else 'of'} {place_name(path)}"
    return f" {'in' if path in (('metadata',), ('cfg',), ('lifecycle',)) else 'of'} {place_name(path)}"


def got(value: Any) -> str:
    """Return the description of a value, for "must be a number, not …"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"the number {_shortened(value)}"
    if isinstance(value, str):
        return "a text" if may_hold_secret(value) else f"the text {show(value)}"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else "a date or time"


def show(value: Any) -> str:
    """Return a value as a file would write it, cut to a readable length."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
        return f'"{text}"'
    if isinstance(value, int | float):
        return _shortened(value)
    return got(value)


def _shortened(value: float) -> str:
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:
        return "of more than 60 digits"  # str() refuses integers of more than 4,300 digits
    return str(value)
