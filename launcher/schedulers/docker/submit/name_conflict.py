"""The error for a container name that is taken already."""

from __future__ import annotations

from launcher.errors import ReservedError, SchedulerError
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.labels import APP_ID
from launcher.schedulers.docker.state.app_containers import own_containers


def is_foreign(engine: Engine, name: str) -> bool:
    """Whether a container that belongs to no app has this name."""
    holder = engine.inspect(name)
    return holder is not None and (APP_ID not in holder.labels or not own_containers([holder]))


def name_taken(engine: Engine, app_id: str, name: str, doing: str) -> SchedulerError:
    """The error for a container name in use; `doing` as in "cannot create main/0".

    A ReservedError where another launcher client has it: callers wait for that client's attempt.
    """
    if is_foreign(engine, name):
        text = f"{doing}: a container that is not launcher's holds the name {name}"
        return SchedulerError(text, hint=f"remove or rename it: docker rm {name}")
    return ReservedError(app_id, "created")
