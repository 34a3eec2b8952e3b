"""End an attempt while it waits for others, or for its turn: nothing of it has run."""

from __future__ import annotations

import time

from launcher.schedulers.docker import apps, record, turn
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.labels import APP_ID, Labels
from launcher.schedulers.docker.replicas import waiting_container
from launcher.schedulers.docker.status import DockerAppView
from launcher.schedulers.docker.watching.write_end import write_end
from launcher.specs.attempt import WAITING_STATES, AttemptState

_MARGIN_S = 30.0


def give_up(engine: Engine, app_id: str, state: AttemptState, message: str) -> bool:
    """End a waiting attempt in this state; returns when its watcher has gone, if that is on this machine.

    False when it does not wait, or is being started at this moment.
    """
    found = apps.find(engine, app_id)
    waiting = waiting_container(found.containers) if found is not None else None
    if found is None or found.view.state not in WAITING_STATES or waiting is None:
        return False
    if not end(engine, waiting, state, message):
        return False
    holder = Labels(waiting.labels).holder
    if holder is not None and holder.is_here:
        holder.wait_for_exit(_MARGIN_S)
    return True


def end(engine: Engine, waiting: Container, state: AttemptState, message: str) -> bool:
    """As `give_up`, by its container. The end that was decided first counts."""
    decided = turn.decide(engine, waiting, turn.ending(state, message))
    if turn.is_end(decided):
        carry_out(engine, waiting, decided)
    return turn.is_end(decided)


def carry_out(engine: Engine, waiting: Container, decided: str) -> None:
    """Record the end that was decided, then remove the container: its outcome is always found."""
    state, message = turn.outcome(decided)
    record_end(engine, waiting, state, message)  # type: ignore[arg-type]  # written by `end`
    engine.remove(waiting.id)
    turn.forget(engine, waiting.labels[APP_ID])


def record_end(engine: Engine, waiting: Container, state: AttemptState, message: str) -> None:
    """Record how a waiting attempt has ended."""
    view = DockerAppView(state=state, message=message, ended_at=time.time(), final=True)
    write_end(engine, record.folder(waiting.labels[APP_ID]), view, waiting.labels)
