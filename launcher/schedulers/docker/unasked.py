"""Judge the end of a container's run that launcher did not ask for: was it the engine's doing? Pure.

An engine that stops ends its containers as `docker stop` does, and with any exit code; it is not a user. Its
events are gone when it is back, and no request tells since when it runs. But it makes its network `bridge`
anew at each start that finds no container running: the engine was restarted since a run began if that network
is younger than the run. An engine with live-restore keeps both, its containers and the network; the network
alone is made anew where all of its containers ended while it was away.

| on record | engine restarted since the run began | by itself | watched | the run |
|---|---|---|---|---|
| yes | | | | ended as recorded |
| no | no | | | ended by its exit code; after a deadly `kill` it was stopped by hand |
| no | yes | yes | | ended by its exit code |
| no | yes | no | yes | is lost: the Docker engine was stopped |
| no | yes | no | no | is lost: ended while nothing watched it |

`By itself`: its `die` came without a `kill`, or may have come while an engine with live-restore was away that
still knows the exit code; a watcher followed the app then, and has recorded no `kill`.

`Watched`: a watcher followed the app when the engine went away, or has recorded a `kill` of this run. The
watcher records no exit after a `kill` before the engine has answered on a new connection: an engine that
stops accepts none, before it ends the first container.

A run that the engine itself started again goes on: the one before does not count. A run that launcher stopped
is judged by the reason of the stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.facts import alone
from launcher.schedulers.docker.journal import Journal

ENGINE_STOPPED = "the Docker engine was stopped"
UNSEEN = "ended while nothing watched it"


def why_lost(
    container: Container,
    journal: Journal,
    engine_started_at: float | None,
    *,
    watched: bool = False,
    by_itself: bool = False,
) -> str:
    """Why an ended run, which is not on record, is lost; "" when it ended by its exit code, or by hand.

    Args:
        engine_started_at: None where that is not known; then the engine counts as never restarted.
        by_itself: as in the table.
    """
    # An engine that was killed in the middle of a start may know of its end alone.
    began = container.started_at if container.started_at is not None else container.created_at
    if by_itself or began is None or engine_started_at is None or engine_started_at <= began:
        return ""
    return ENGINE_STOPPED if watched or journal.was_killed(container.id, began) else UNSEEN


def end_of(container: Container, journal: Journal, engine_started_at: float | None) -> Mapping[str, Any]:
    """The facts of an end that is not on record, as a watcher would record it now."""
    lost = why_lost(container, journal, engine_started_at) if container.inspected else ""
    by_hand = journal.was_stopped_by_hand(container.id, container.started_at) and not lost
    return {"code": None, "lost": lost} if lost else {**alone(container), "hand": by_hand}
