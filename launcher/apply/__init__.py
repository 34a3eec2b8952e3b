"""Observe ledger and engines, make a plan, carry it out, and follow the started apps.

The public names are loaded on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.apply.apply import apply_launches, apply_plan
    from launcher.apply.engines import record_ends
    from launcher.apply.events import Outcome, Result
    from launcher.apply.follow import follow
    from launcher.apply.plans import make_plan

__all__ = ["Outcome", "Result", "apply_launches", "apply_plan", "follow", "make_plan", "record_ends"]

_HOMES = {
    "Outcome": "events",
    "Result": "events",
    "apply_launches": "apply",
    "apply_plan": "apply",
    "follow": "follow",
    "make_plan": "plans",
    "record_ends": "engines",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
