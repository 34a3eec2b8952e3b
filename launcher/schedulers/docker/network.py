"""The network that apps share: made when it is missing, also for containers that were made before it."""

from __future__ import annotations

from launcher.schedulers.docker.client.errors import EngineError, NotFound
from launcher.schedulers.docker.names import NETWORK, NETWORK_LABELS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.docker.client.engine import Engine


def ensure(engine: Engine) -> None:
    """Have the network, made if there is none."""
    engine.ensure_network(NETWORK, NETWORK_LABELS)


def start(engine: Engine, container: str) -> None:
    """Start a container of an app, for the first time or again.

    Somebody may have removed the network meanwhile, for one has no users while none of them runs: a container
    that was never started takes the new one of that name, one that was has to be put on it. Or two clients
    have just made it at once, and for a moment there are two.
    """
    try:
        engine.start(container)
    except EngineError as error:
        ambiguous = f"network {NETWORK} is ambiguous" in str(error)
        if not (ambiguous or isinstance(error, NotFound)):
            raise
        seen = engine.inspect(container)
        if seen is None or seen.network != NETWORK:
            raise
        ensure(engine)
        if seen.was_started and not ambiguous:
            engine.connect(NETWORK, container)
        engine.start(container)
