"""The network that apps share: made when it is missing, also for containers that were made before it."""

from __future__ import annotations

from threading import Lock

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineUnreachable, NotFound
from launcher.schedulers.docker.names import NETWORK, NETWORK_LABELS

_TRIES = 3  # whoever removes it may do so again while we mend it
_MENDING = Lock()  # the replicas of an app are started at once: one of them makes it


def ensure(engine: Engine) -> None:
    """Have the network, made if there is none."""
    engine.ensure_network(NETWORK, NETWORK_LABELS)


def start(engine: Engine, container: str) -> None:
    """Start a container of an app, for the first time or again.

    Somebody may have removed the network meanwhile, for one has no users while none of them runs: a container
    that was never started takes the new one of that name, one that was has to be put on it. Or two clients
    have just made it at once, and for a moment there are two.
    """
    for _ in range(_TRIES):
        try:
            engine.start(container)
        except EngineError as error:
            if not _mend(engine, container, error):
                raise
        else:
            return
    engine.start(container)


def _mend(engine: Engine, container: str, error: EngineError) -> bool:
    """Have the network for a container; False when its start has failed for something else."""
    ambiguous = f"network {NETWORK} is ambiguous" in str(error)
    if not (ambiguous or isinstance(error, NotFound)):
        return False
    seen = engine.inspect(container)
    if seen is None or seen.network != NETWORK:
        return False
    with _MENDING:
        ensure(engine)
    if seen.was_started and not ambiguous:
        _connect(engine, container)
    return True


def _connect(engine: Engine, container: str) -> None:
    try:
        engine.connect(NETWORK, container)
    except EngineUnreachable:
        raise
    except EngineError:  # gone again, or it was not that: what the next start says is what counts
        return
