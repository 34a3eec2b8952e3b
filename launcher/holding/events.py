"""The decisions about an app, as events. Pure; imports nothing; Python >= 3.6."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    Event = dict[str, Any]

LONGEST_DELAY_S = 300
"""The longest pause before a restart, in seconds."""


def pause_s(first_s: int, number: int) -> int:
    """The pause before restart `number` of a role whose first one waits `first_s`: it doubles each time."""
    return min(first_s << min(number - 1, 20), LONGEST_DELAY_S)


def ended(state: str, message: str, code: "Optional[int]" = None) -> "Event":
    """The event of an app that has ended."""
    return {"e": "ended", "state": state, "message": message, "code": code}


def stopping(
    why: str,
    state: str,
    message: str,
    *,
    code: "Optional[int]" = None,
    by: str = "",
    grace_s: "Optional[float]" = None,
) -> "Event":
    """The event of a final stop, with the end that the app comes to.

    Args:
        why: cancel, parent, timeout, start, peer, hand, lost or end.
        by: the client that cancelled it, or the replica whose end it follows.
        grace_s: in place of the app's own grace period.
    """
    event = {"e": "stopping", "why": why, "by": by}  # type: Event
    event.update(state=state, message=message, code=code)
    if grace_s is not None:
        event["grace_s"] = grace_s
    return event


def stop_for_restart(by: str) -> "Event":
    """The event of a stop that a restart follows. `by`: the replica whose failure restarts the others."""
    return {"e": "stopping", "why": "restart", "by": by}


def restart(scope: str, role: str, k: int, number: int, delay_s: int) -> "Event":
    """The event of a restart.

    Args:
        scope: replica, role or app: what is restarted.
        role, k: the replica whose failure it follows.
        number: it is the first, the second, … that counts against the role's retries.
        delay_s: the pause before it.
    """
    event = {"e": "restart", "scope": scope, "role": role, "k": k, "n": number}  # type: Event
    if delay_s:
        event["delay_s"] = delay_s
    return event


def needs_quiet(decision: "Event") -> bool:
    """Whether a decision waits until no process of the app is left."""
    return decision["e"] == "ended" or (decision["e"] == "restart" and decision["scope"] == "app")
