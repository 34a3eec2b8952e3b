"""The restarts of a Docker app that its watcher makes, each as the journal gets it.

The engine's own restarts are not among them: it reports them to its own events alone, without their cause.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from threading import Thread
from typing import Any, TypeVar

from launcher.schedulers.docker import record
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.schedulers.last_line import exited
from launcher.schedulers.restarts import POLICIES, Restart

_LOOK_S = 0.25
_LAST_S = 2.0  # for the last restarts, once the logs are complete
_SCOPES = {policy: scope for scope, policy in POLICIES.items()}


class _Reader:
    """Reads the restarts in a journal: each `read` continues where the last one ended."""

    def __init__(self, app_dir: str, most: Mapping[str, int]) -> None:
        self._app_dir = app_dir
        self._most = most
        self._offset = 0
        self._exits: dict[tuple[str, int], Mapping[str, Any]] = {}
        self._late: dict[tuple[str, int], str] = {}
        self._counts: dict[tuple[Any, ...], int] = {}
        self.ended = False

    def read(self) -> Iterator[tuple[Restart, Collection[tuple[str, int]]]]:
        """(restart, the replicas that start again)."""
        lines = record.journal_from(self._app_dir, self._offset)
        self._offset += len(lines)
        for line in lines.splitlines():
            try:
                event = json.loads(line)
                found = self._add(event)
            except (ValueError, KeyError, TypeError):
                continue  # torn, or of a later version
            if found is not None:
                yield found

    def _add(self, event: Mapping[str, Any]) -> tuple[Restart, Collection[tuple[str, int]]] | None:
        if event["e"] == "exit":
            self._exits.pop((event["role"], event["k"]), None)  # in the order of ends
            self._exits[event["role"], event["k"]] = event
        elif event["e"] == "late":
            self._late[event["role"], event["k"]] = event["why"]
        elif event["e"] == "end":
            self.ended = True
        elif event["e"] == "restart":
            return self._restart(event)
        return None

    def _restart(self, event: Mapping[str, Any]) -> tuple[Restart, Collection[tuple[str, int]]]:
        role, policy = event["role"], event["policy"]
        again = [(name, k) for name, k in event["again"]]
        own = [where for where in self._exits if where[0] == role and where in again]
        failed = [where for where in own if where in self._late or self._exits[where]["code"]]
        _, k = cause = (*failed, *(where for where in again if where[0] == role), (role, 0))[0]
        ended, late = self._exits.get(cause, {}), self._late.get(cause)
        counter = {"REPLICA": (policy, role, k), "ROLE": (policy, role)}.get(policy, (policy,))
        self._counts[counter] = number = self._counts.get(counter, 0) + 1
        for where in again:
            self._exits.pop(where, None)
            self._late.pop(where, None)
        made = Restart(
            role=role,
            k=k,
            scope=_SCOPES[policy],
            number=number,
            most=self._most.get(role, number),
            delay_s=event.get("delay_s", 0),
            cause=f"was {late}" if late else exited(ended.get("code", 0), ended.get("said", "")),
            at=event["t"],
        )
        return made, again


def restarts(app_id: str) -> Iterator[tuple[Restart, Collection[tuple[str, int]]]]:
    """Each restart with the replicas that start again, from the first one on, until the watcher has exited.

    None for an app that this state folder has no record of.
    """
    app_dir = record.folder(app_id)
    labels = Labels((record.read_attempt(app_dir) or {}).get("labels", {}))
    most = {role: rule[0] for role, rule in labels.retries.items()}
    if not any(most.values()):
        return
    reader = _Reader(app_dir, most)
    last = False
    while not last:
        # Before reading: what is read after the end is complete.
        last = wait_for_exit(app_dir, 0.0)
        yield from reader.read()
        if reader.ended:
            return
        last = last or not record.exists(app_dir)
        if not last:
            wait_for_exit(app_dir, _LOOK_S)


class RestartNotes:
    """Reports the restarts of followed replicas in a thread, beside their output. A context manager.

    Args:
        since: restarts before this time (epoch seconds) are not reported.
        wanted: whether a restart, with the replicas that start again, is to be reported.
    """

    def __init__(
        self,
        app_id: str,
        report: Callable[[str, Restart], None],
        wanted: Callable[[Restart, Collection[tuple[str, int]]], bool],
        since: float,
    ) -> None:
        self._app_id = app_id
        self._report = report
        self._wanted = wanted
        self._since = since
        self._left = False
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> RestartNotes:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._thread.join(_LAST_S)
        self._left = True

    def _run(self) -> None:
        for restart, again in restarts(self._app_id):
            if self._left:
                return
            if restart.at >= self._since and self._wanted(restart, again):
                self._report(self._app_id, restart)


_T = TypeVar("_T")


def noted(found: Iterator[_T], notes: RestartNotes) -> Iterator[_T]:
    """The pieces of a followed log, while restarts are reported beside them."""
    with notes:
        yield from found
