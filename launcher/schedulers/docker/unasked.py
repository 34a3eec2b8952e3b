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

from collections.abc import Iterable
from dataclasses import replace

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.journal import Journal, RecordedExit
from launcher.schedulers.docker.replicas import is_replica, is_stopped, restarts_of, waits_for_restart, where

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


def unrecorded(containers: Iterable[Container], journal: Journal) -> list[Container]:
    """The replicas whose last run has ended unasked, and is not on record. Needs inspected containers."""
    return [
        each
        for each in containers
        if is_replica(each)
        and each.ended
        and each.inspected
        and not (is_stopped(each, journal) or waits_for_restart(each, journal))
        and journal.exit_of(*where(each), each.started_at) is None
    ]


def judged(containers: Iterable[Container], journal: Journal, engine_started_at: float | None) -> Journal:
    """The journal as a watcher would go on with it now: with the ends that none has recorded."""
    exits = dict(journal.exits)
    for each in unrecorded(containers, journal):
        if lost := why_lost(each, journal, engine_started_at):
            exits[where(each)] = exit_of(each, journal, oom=each.oom, lost=lost)
    return replace(journal, exits=exits)


def exit_of(container: Container, journal: Journal, *, oom: bool, lost: str = "") -> RecordedExit:
    return RecordedExit(
        code=container.exit_code or 0,
        oom=oom,
        started_at=container.started_at,
        ended_at=container.ended_at,
        restarts=restarts_of(container, journal),
        lost=lost,
    )
