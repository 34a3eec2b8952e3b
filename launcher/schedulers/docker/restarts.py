"""The restarts of a Docker app, each as the journal gets it: those of its watcher, and of the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from threading import Thread
from typing import Any, TypeVar

from launcher.holding.journal import read_events
from launcher.holding.phrases import cause
from launcher.schedulers.docker import record
from launcher.schedulers.docker.journal import translated
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.old_journal import OldJournal
from launcher.schedulers.docker.replicas import expected_replicas
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.schedulers.restarts import Restart

Where = tuple[str, int]

_LOOK_S = 0.25
_LAST_S = 2.0  # for the last restarts, once the logs are complete


class _Reader:
    """Reads the restarts in a journal: each `read` continues where the last one ended."""

    def __init__(self, app_dir: str, labels: Labels) -> None:
        self._app_dir = app_dir
        self._most = {role: rule[0] for role, rule in labels.retries.items()}
        self._replicas = dict.fromkeys(expected_replicas(labels))
        self._offset = 0
        self._old = OldJournal()
        self._ends: dict[Where, dict[str, Any]] = {}
        self.has_ended = False

    def read(self) -> Iterator[tuple[Restart, Collection[Where]]]:
        """(restart, the replicas that start again)."""
        lines = record.journal_from(self._app_dir, self._offset)
        self._offset += len(lines)
        for event in translated(read_events(lines), self._old):
            if event["e"] in ("spawn", "late", "exit"):
                self._note((event["role"], event["k"]), event)
            elif event["e"] == "restart":
                yield self._restart(event), self._again(event)
            elif event["e"] == "ended":
                self.has_ended = True

    def _note(self, where: Where, event: Mapping[str, Any]) -> None:
        """Take over what an event says of the last run of a replica."""
        self._replicas.setdefault(where)
        if event["e"] == "spawn":
            self._ends[where] = {}
        else:
            self._ends.setdefault(where, {}).update(event if event["e"] == "exit" else {"late": event["why"]})

    def _again(self, event: Mapping[str, Any]) -> list[Where]:
        if "again" in event:  # of version 0.1
            return [(role, k) for role, k in event["again"]]
        if event["scope"] == "replica":
            return [(event["role"], event["k"])]
        return [each for each in self._replicas if event["scope"] == "app" or each[0] == event["role"]]

    def _restart(self, event: Mapping[str, Any]) -> Restart:
        role, k = event["role"], event["k"]
        end = self._ends.get((role, k), {})
        how = {name: end[name] for name in ("late", "oom", "said") if name in end}
        code = end.get("code", event.get("code"))
        return Restart(
            role=role,
            k=k,
            scope=event["scope"],
            number=event["n"],
            most=self._most.get(role, event["n"]),
            delay_s=event.get("delay_s", 0),
            cause=cause(code, **how) if how or code is not None else "exited",
            at=event["t"] / 1e9,
        )


def restarts(app_id: str) -> Iterator[tuple[Restart, Collection[Where]]]:
    """Each restart with the replicas that start again, from the first one on, until the watcher has exited.

    None for an app that this state folder has no record of.
    """
    app_dir = record.folder(app_id)
    labels = Labels((record.read_attempt(app_dir) or {}).get("labels", {}))
    if not any(rule[0] for rule in labels.retries.values()):
        return
    reader = _Reader(app_dir, labels)
    last = False
    while not last:
        # Before reading: what is read after the end is complete.
        last = wait_for_exit(app_dir, 0.0)
        yield from reader.read()
        if reader.has_ended:
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
