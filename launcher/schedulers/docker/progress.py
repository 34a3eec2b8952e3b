"""How far the roles of an app have come that wait for each other or serve each other. Pure.

Derived from labels, containers and journal: only the journal knows which replicas are ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.replicas import code_of, is_stopped, waits_for_restart, where
from launcher.schedulers.order import Order, waits_for


class Progress:
    """The progress of an app since all of its roles were started last.

    Attributes:
        order: what its replicas have reached; in `order.waiting` are the roles that must not be started.
    """

    def __init__(
        self,
        listed: Iterable[tuple[str, int, Mapping[str, Any]]],
        containers: Iterable[Container],
        journal: Journal,
    ) -> None:
        """`listed`: as in `Labels.order`."""
        listed = list(listed)
        self.counts = {role: count for role, count, _ in listed}
        self._rules = {role: rules for role, _, rules in listed}
        self._journal = journal
        self.order = Order(self.counts, self._rules)
        self._begun: set[str] = set()  # roles of which a replica was started
        left = dict(journal.exits)
        for each in containers:
            role, k = where(each)
            left.pop((role, k), None)
            if role in self.counts and each.was_started and not self.is_to_begin(each):
                self._reach(each, role, k)
        for (role, k), exit_ in left.items():  # of containers that were removed
            if role in self.counts:
                probe = journal.probes.get((role, k))
                ready = probe is not None and not probe.why and probe.is_of(probe.id, exit_.started_at)
                self._begun.add(role)
                succeeded = not (exit_.code or exit_.lost)
                for condition, holds in (("started", True), ("ready", ready), ("succeeded", succeeded)):
                    if holds:
                        self.order.reach(role, k, condition)
        self.order.waiting = [
            role for role in self.counts if role not in self._begun and self.order.missing(role)
        ]

    def _reach(self, container: Container, role: str, k: int) -> None:
        self._begun.add(role)
        self.order.reach(role, k, "started")
        if waits_for_restart(container, self._journal):
            return
        probe = self._journal.probe_of(role, k, container.id, container.started_at)
        if probe is not None and not probe.why:
            self.order.reach(role, k, "ready")
        late = probe is not None and probe.why
        lost = self._journal.lost(role, k, container.started_at)
        unlike = late or lost or is_stopped(container, self._journal) or code_of(container, self._journal)
        if container.ended and not unlike:
            self.order.reach(role, k, "succeeded")

    def is_to_begin(self, container: Container) -> bool:
        """Whether it was not started since all roles were started last."""
        if not container.was_started:
            return True
        last = self._journal.last_restart.get(container.id)
        whole = last is not None and last.policy == "APPLICATION"
        return whole and waits_for_restart(container, self._journal)

    def is_held(self, container: Container) -> bool:
        """Whether it waits for another role, so that it must not be started."""
        waits = where(container)[0] in self.order.waiting and self.is_to_begin(container)
        return waits and not is_stopped(container, self._journal)

    def depends(self, role: str) -> bool:
        """Whether a role starts by conditions, so that the watcher alone starts it."""
        return bool(self._rules.get(role, {}).get("depends_on"))

    def is_service(self, role: str) -> bool:
        return bool(self._rules.get(role, {}).get("service"))

    def probe_of(self, role: str) -> Mapping[str, Any] | None:
        return self._rules.get(role, {}).get("ready")

    def waits_for(self, role: str) -> str:
        """What a role that was not started waits for, in a phrase; "" for nothing."""
        return waits_for(self.order.missing(role)) if role in self.order.waiting else ""


def progress(containers: Iterable[Container], journal: Journal) -> Progress | None:
    """The progress of the app with these containers; None where its roles neither wait nor serve."""
    found = list(containers)
    listed = Labels(found[0].labels).order if found else []
    return Progress(listed, found, journal) if listed else None
