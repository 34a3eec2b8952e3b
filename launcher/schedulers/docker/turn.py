"""How a waiting attempt goes on: decided once, although its watcher and any client may decide at one moment.

The engine creates one volume of a name, and the volume's labels say what was decided. Its name holds the id
of the container that stands for the attempt, so that what is decided for one is never read for another. When
a process dies that has decided to start the attempt or to submit it again, the next volume decides.
"""

from __future__ import annotations

import json
import math

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.labels import APP_ID, PREFIX, TURN
from launcher.schedulers.owner import from_json, this_process

START = "start"
"""Its watcher starts it."""
RESUME = "resume"
"""A client removes it, since its watcher is dead, and submits it again."""
OVER = ""
"""It does not wait any more: its container is gone."""
_BY = PREFIX + "by"


def ending(state: str, message: str) -> str:
    """The decision that it ends in this state."""
    return json.dumps([state, message])


def outcome(decision: str) -> tuple[str, str]:
    """State and message of a decision that it ends."""
    state, message = json.loads(decision)
    return str(state), str(message)


def is_end(decision: str) -> bool:
    return decision not in (START, RESUME, OVER)


def decide(engine: Engine, waiting: Container, decision: str, *, take_over: bool = False) -> str:
    """Decide, unless another process has. Returns what is decided, or OVER.

    Args:
        waiting: the container that stands for the attempt.
        take_over: a process on another machine counts as dead.
    """
    app_id = waiting.labels[APP_ID]
    labels = {APP_ID: app_id, TURN: decision, _BY: this_process().to_json()}
    number = 0
    while True:
        name = f"{app_id}.{waiting.id[:12]}.{number}"
        if engine.create_volume(name, labels):
            if engine.inspect(waiting.id) is not None:
                return decision
            forget(engine, app_id)
            return OVER
        taken = engine.volume(name)
        if taken is None:  # decided, carried out and forgotten since
            return OVER
        decider = from_json(taken.labels.get(_BY, ""))
        decided = taken.labels.get(TURN, OVER)
        if is_end(decided) or (decider is not None and decider.is_alive(math.inf, take_over=take_over)):
            return decided
        number += 1


def forget(engine: Engine, app_id: str) -> None:
    """Remove what was decided, once the container is gone."""
    for volume in engine.volumes(f"{APP_ID}={app_id}", TURN):
        engine.remove_volume(volume.name)
