"""The declaration of an app and the decisions about it, as events. Pure; imports nothing; Python >= 3.6."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Optional

    Event = dict[str, Any]

LONGEST_DELAY_S = 300
"""The longest pause before a restart, in seconds."""


def pause_s(first_s: int, number: int) -> int:
    """The pause before restart `number` of a role: `first_s` before the first one, then doubled each time."""
    return min(first_s << min(number - 1, 20), LONGEST_DELAY_S)


def created(
    roles: "Iterable[tuple[str, int, int, str]]",
    rules: "Mapping[str, Mapping[str, Any]]",
    timeout_s: "Optional[float]" = None,
) -> "Event":
    """The event that declares an app.

    Args:
        roles: (name, number of replicas, retries, retry policy) of each role, in order.
        rules: role → its fields `service`, `depends_on` and `retry_delay`, where they are set.
    """
    declared = list(roles)
    event = {"e": "created", "roles": [[name, count] for name, count, _, _ in declared]}  # type: Event
    event["retries"] = [[most, policy] for _, _, most, policy in declared]
    event["order"] = [
        [name, bool(rule.get("service")), [list(each) for each in (rule.get("depends_on") or {}).items()]]
        for name, rule in rules.items()
    ]
    event["delays"] = [rules.get(name, {}).get("retry_delay", 0) for name, _, _, _ in declared]
    event["timeout"] = timeout_s
    return {name: value for name, value in event.items() if value}


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
        by: the client that cancelled the app, or the replica whose end the stop follows.
        grace_s: replaces the app's own grace period.
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
        role, k: the replica whose failure the restart follows.
        number: the number of the restart, from 1, as counted against the role's retries.
        delay_s: the pause before the restart.
    """
    event = {"e": "restart", "scope": scope, "role": role, "k": k, "n": number}  # type: Event
    if delay_s:
        event["delay_s"] = delay_s
    return event


def needs_quiet(decision: "Event") -> bool:
    """Whether a decision waits until no process of the app is left."""
    return decision["e"] == "ended" or (decision["e"] == "restart" and decision["scope"] == "app")
