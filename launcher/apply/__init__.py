"""Observe ledger and engines, make a plan, carry it out, and follow the apps. Names load on first use."""

from __future__ import annotations

from launcher import hand_on

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

__getattr__, __dir__ = hand_on(__name__, _HOMES)
