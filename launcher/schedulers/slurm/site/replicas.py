"""Convert replicas between the record of an app and its readers. Pure; Python >= 3.6."""

from typing import Any, Dict, Optional

from launcher.holding.replica import Replica
from launcher.holding.state import AppState

Json = Dict[str, Any]

RUN_AGAIN = "Slurm's controller forgot that its job ran; it is not run twice"
"""The message of an app that is lost since Slurm has queued its job again."""


def row(app: AppState, replica: Replica) -> Json:
    """A replica as readers show it, which is a line of the outcome once the app has ended."""
    state, message = app.shown(replica)
    ended_at = replica.ended_at
    if app.has_ended and replica.started_at is not None:
        ended_at = ended_at or app.ended_at or None
    return {
        "role": replica.role.name,
        "k": replica.k,
        "state": state,
        "message": message,
        "code": replica.code,
        "host": replica.host,
        "restarts": replica.restarts,
        "started_at": replica.started_at,
        "ended_at": ended_at,
        "error_file": "",
        "use": replica.use and replica.use.to_json(),
    }


def recorded_exit(found: Any, replica: Replica) -> Optional[Json]:
    """The end of the present run of a replica, as a fact; None where its wrapper has recorded none.

    Args:
        found: the JSON record of the wrapper; None for none.
    """
    if not isinstance(found, dict) or found.get("state") != "ended":
        return None
    if not replica.is_active or found.get("restarts", 0) < replica.restarts:
        return None
    event = {"e": "exit", "role": replica.role.name, "k": replica.k, "t": int(found["ended_at"] * 1e9)}
    names = ("code", "signal", "stopped", "late", "why", "lost", "said", "host", "use")
    event.update({name: found[name] for name in names if found.get(name) not in (None, "", False, [])})
    event.setdefault("code", found.get("code"))
    return event
