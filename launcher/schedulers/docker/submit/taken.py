"""Who has the name that a container was to get."""

from __future__ import annotations

from launcher.errors import SchedulerError
from launcher.schedulers.docker.labels import APP_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.docker.client.engine import Engine


def is_foreign(engine: Engine, name: str) -> bool:
    """Whether a container that is none of ours has this name."""
    holder = engine.inspect(name)
    return holder is not None and APP_ID not in holder.labels


def taken(engine: Engine, name: str, doing: str) -> SchedulerError:
    """The error for a name that is taken; `doing` as in "cannot create main/0"."""
    if is_foreign(engine, name):
        text = f"{doing}: a container that is not launcher's holds the name {name}"
        return SchedulerError(text, hint=f"remove or rename it: docker rm {name}")
    text = f"{doing}: the name {name} is taken"
    return SchedulerError(text, hint="somebody applied the same job meanwhile: plan again")
