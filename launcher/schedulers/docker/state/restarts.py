"""The restarts that an app has left, and the one that was begun and not completed. Pure.

The engine does REPLICA restarts by itself; the watcher does ROLE and APPLICATION restarts and counts them in
the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.records.journal import Journal


def may_restart(role: str, retries: Mapping[str, tuple[int, str]], journal: Journal) -> bool:
    """Whether the watcher restarts a role that has failed; REPLICA restarts are the engine's."""
    most, policy = retries.get(role, (0, ""))
    return policy in ("APPLICATION", "ROLE") and journal.restarts_of(role, policy) < most


def pending_restart(containers: Iterable[Container], journal: Journal) -> bool:
    """Whether a container of the last restart was not started yet."""
    return bool(journal.restarts) and any(not_restarted(each, journal) for each in containers)


def not_restarted(container: Container, journal: Journal) -> bool:
    """Whether the last restart has not started this container yet. Needs an inspected container."""
    was = journal.restarts[-1].was if journal.restarts else {}
    return container.inspected and container.id in was and container.started_at == was[container.id]
