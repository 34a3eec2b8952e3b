"""Infer the outcome of an app whose supervisor died before it recorded the end. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from launcher.schedulers.local.outcome import AppOutcome, failure
from launcher.schedulers.order import from_list

if TYPE_CHECKING:
    Where = tuple[str, int]

_MANY = 1 << 62


def implied(events: Iterable[Mapping[str, Any]]) -> AppOutcome | None:
    """The outcome that the events of a dead supervisor determine; None when they leave it open.

    That is the outcome of a final stop that had begun, or the one that the supervisor would have decided when
    all replicas had ended (`RunningApp._judge`).
    """
    seen = _Progress()
    for event in events:
        seen.add(event)
    return seen.outcome()


class _Progress:
    """The starts and ends of replicas since the last restart of each."""

    def __init__(self) -> None:
        self._roles: dict[str, tuple[int, int, str]] = {}  # number of replicas, max_retries, retry policy
        self._unfinished: set[Where] = set()
        self._ended: dict[Where, Mapping[str, Any]] = {}  # in the order of their ends
        self._restarts: dict[str | Where, int] = {}  # of a replica, of a role, and of the app ("")
        self._stopping: Mapping[str, Any] | None = None
        self._rules: Mapping[str, Mapping[str, Any]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        kind = event.get("e")
        if kind == "created":
            roles = event.get("roles", ())
            self._rules = from_list(event.get("order", ()))
            # Version 0.1 recorded no policies, so any failure may have led to a restart.
            policies = event.get("retries") or [(_MANY, "")] * len(roles)
            for (name, count), (max_retries, policy) in zip(roles, policies, strict=True):
                self._roles[name] = (count, max_retries, policy)
                self._unfinished.update(self._all(name))
        elif kind == "spawn":
            self._begin((event["role"], event["k"]))
        elif kind == "exit":
            where = (event["role"], event["k"])
            self._unfinished.discard(where)
            self._ended[where] = event
        elif kind == "stopping":
            self._stopping = event
        elif kind == "restart":
            self._restart(event)

    def _all(self, role: str) -> list[Where]:
        return [(role, k) for k in range(self._roles[role][0])] if role in self._roles else []

    def _begin(self, where: Where) -> None:
        self._unfinished.add(where)
        self._ended.pop(where, None)

    def _restart(self, event: Mapping[str, Any]) -> None:
        scope, role = event["scope"], event["role"]
        if scope == "replica":
            counter: str | Where = (role, event["k"])
            again = [(role, event["k"])]
        elif scope == "role":
            counter, again = role, self._all(role)
        else:
            counter, again = "", [where for name in self._roles for where in self._all(name)]
        self._restarts[counter] = event["n"]
        self._stopping = None
        for where in again:
            self._begin(where)

    def _succeeded(self, where: Where) -> bool:
        event = self._ended.get(where)
        return event is not None and not (event["code"] or event.get("late") or event.get("stopped"))

    def outcome(self) -> AppOutcome | None:
        if self._stopping is not None:
            state = self._stopping.get("state")  # none: it was stopped to be restarted
            return AppOutcome(state, self._stopping["message"], self._stopping["code"]) if state else None
        counted = [name for name in self._roles if not self._rules.get(name, {}).get("service")]
        if (
            self._rules
            and counted
            and all(self._succeeded(where) for name in counted for where in self._all(name))
        ):
            return AppOutcome("succeeded", code=0)
        if self._unfinished or not self._ended:
            return None
        failed = [
            (where, event) for where, event in self._ended.items() if event["code"] or event.get("late")
        ]
        restarted: set[str] = set()
        for (role, k), event in failed:
            _, max_retries, policy = self._roles[role]
            if role in restarted:
                continue
            counter: str | Where = (role, k) if policy == "REPLICA" else role if policy == "ROLE" else ""
            if self._restarts.get(counter, 0) >= max_retries:
                return failure(
                    f"{role}/{k}",
                    event["code"],
                    event["signal"],
                    oom=bool(event.get("oom")),
                    late=event.get("late", ""),
                    said=event.get("said", ""),
                )
            if not counter:
                return None  # the whole app is restarted, whatever the other replicas did
            if policy == "ROLE":
                restarted.add(role)
        return None if failed else AppOutcome("succeeded", code=0)
