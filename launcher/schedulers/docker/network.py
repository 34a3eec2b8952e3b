"""The network that apps share: created when it is missing, also for containers that are older than it."""

from __future__ import annotations

from threading import Lock

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineRefused, NotFound
from launcher.schedulers.docker.names import NETWORK, NETWORK_LABELS

_TRIES = 3  # another client may remove it again while it is being repaired
_REPAIR_LOCK = Lock()  # held during a repair: the replicas of an app start at once


def ensure(engine: Engine) -> None:
    """Create the network if there is none."""
    engine.ensure_network(NETWORK, NETWORK_LABELS)


def start(engine: Engine, container: str) -> None:
    """Start a container of an app, for the first time or again.

    Another client may have removed the network meanwhile: it has no users while no container runs. A
    container that was never started joins the new network of that name by itself; a started one must be
    connected. Or two clients have just created the network at once, and for a moment there are two.
    """
    for _ in range(_TRIES):
        try:
            engine.start(container)
        except EngineError as error:
            if not _repair(engine, container, error):
                raise
        else:
            return
    engine.start(container)


def _repair(engine: Engine, container: str, error: EngineError) -> bool:
    """Repair the network of a container; False when its start has failed for another reason."""
    ambiguous = f"network {NETWORK} is ambiguous" in str(error)
    if not (ambiguous or isinstance(error, NotFound)):
        return False
    seen = engine.inspect(container)
    if seen is None or seen.network != NETWORK:
        return False
    with _REPAIR_LOCK:
        ensure(engine)
    if seen.was_started and not ambiguous:
        try:
            engine.connect(NETWORK, container)
        except EngineRefused:
            pass  # the network was removed again, or the cause is another one: the next start reports it
    return True
