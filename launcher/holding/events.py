"""The declaration of an app and the decisions about it, as events, and the sentences about them.

Every holder and every view takes its sentences from here, so that one kind of end has one sentence. Pure;
imports nothing; Python >= 3.6.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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
    """The event of a final stop, with the state and message in which the app ends.

    Args:
        why: cancel, parent, timeout, start, peer, hand, lost or end.
        by: the client that cancelled the app, or the replica whose end the stop follows.
        grace_s: replaces the app's own grace period.
    """
    event = {"e": "stopping", "why": why, "by": by, "state": state, "message": message}  # type: Event
    event["code"] = code
    if grace_s is not None:
        event["grace_s"] = grace_s
    return event


def stop_for_restart(by: str) -> "Event":
    """The event of a stop that a restart follows. `by`: the replica whose failure restarts the others."""
    return {"e": "stopping", "why": "restart", "by": by}


def restart(scope: str, role: str, k: int, number: int, delay_s: int) -> "Event":
    """The event of a restart of a `scope` (replica, role or app) after the failure of the replica `role`/`k`.

    Args:
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


# -- sentences about events ----------------------------------------------------------------------------------


STOPPED_AT_END = "stopped at the end of the app"
IN_LINE = "waits for its turn"
WITHDRAWN = "withdrawn"
NOTHING_LEFT = "nothing runs any more that the other roles wait for"
OUT_OF_MEMORY = "out of memory"
INPUTS_CUT_SHORT = "its input files were not compared when it ended: it was cancelled meanwhile"

_SIGNALS = range(129, 193)  # exit codes by which a shell or an engine reports a signal


def exited(code: object, said: str = "") -> str:
    """Describe an exit: `exited with 1: KeyError: …`, which ends in `said`, the last line of stderr."""
    signal = f" (128 + signal {code - 128})" if isinstance(code, int) and code in _SIGNALS else ""
    return f"exited with {code}{signal}" + (f": {said}" if said else "")


def cancelled(cancel: "Mapping[str, Any]") -> str:
    """The message of an app that this `cancel` event ends."""
    if cancel.get("signal"):
        return "stopped by signal {}".format(cancel["signal"])
    word = "interrupted" if cancel.get("interrupt") else "cancelled"
    return "{} by {}".format(word, cancel["by"]) if cancel.get("by") else word


def skipped(needs: "Iterable[tuple[str, str]]") -> str:
    """The message of an app that does not start: `train failed, data was cancelled`. "" where it may start.

    Args:
        needs: each needed job with the state in which it has ended; "" for one that has not.
    """
    unmet = [each for each in needs if each[1] not in ("", "succeeded")]
    return ", ".join(f"{job} failed" if state == "failed" else f"{job} was {state}" for job, state in unmet)


def stop_reason(stopping: "Mapping[str, Any]") -> str:
    """The message of each replica that this event stops; "" where the end of the app explains it."""
    message = stopping.get("message") or ""  # type: str
    if stopping["why"] == "end":
        return STOPPED_AT_END
    if stopping["why"] not in ("peer", "restart") or not stopping.get("by"):
        return message
    if stopping.get("code") == 0:  # an early end with exit code 0 is not a failure of the replica
        return message.partition(",")[0]
    return "{} failed".format(stopping["by"])


def waits_for_jobs(jobs: "Sequence[str]") -> str:
    """The message of an app that waits for these jobs."""
    return "waits for " + ", ".join(jobs) if jobs else "is about to start"


def waits_for_roles(missing: "Iterable[tuple[str, str]]") -> str:
    """The message of a replica whose role waits: `waiting for server (ready), data (succeeded)`."""
    listed = ", ".join(f"{role} ({condition})" for role, condition in missing)
    return "waiting for " + listed if listed else ""


def started_by_hand(replica: str, missing: "Iterable[tuple[str, str]]") -> str:
    """The message of an app of which another program started a replica while its role waited."""
    return f"{replica} was started by hand while {waits_for_roles(missing)}"


def seconds(number: float) -> str:
    """Return a duration as text: `90 s`, `0.5 s`."""
    return f"{int(number) if number == int(number) else number} s"
