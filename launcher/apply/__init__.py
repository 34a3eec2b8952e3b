"""Observe ledger and engines, make a plan, carry it out, and follow the apps. Names load on first use."""

from __future__ import annotations

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.apply.apply import apply_launches as apply_launches, apply_plan as apply_plan
    from launcher.apply.engines import record_ends as record_ends
    from launcher.apply.events import Outcome as Outcome, Result as Result
    from launcher.apply.follow import follow as follow
    from launcher.apply.plans import make_plan as make_plan


__getattr__, __dir__, __all__ = hand_on(
    __name__,
    {
        "apply": "apply_launches apply_plan",
        "engines": "record_ends",
        "events": "Outcome Result",
        "follow": "follow",
        "plans": "make_plan",
    },
)
