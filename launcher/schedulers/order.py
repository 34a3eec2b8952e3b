"""When roles start: those that wait for others, the pause before a restart, and when the app has succeeded.

Pure, for every process that looks after an app. Nothing is imported here: a supervisor must stay small.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Rules = Mapping[str, Mapping[str, Any]]
    """Role → its fields `service`, `ready` and `depends_on`, where they are set."""

STOPPED_AT_END = "stopped at the end of the app"
LONGEST_DELAY_S = 300
"""The longest pause before a restart; as in `launcher.specs.app`, which a supervisor does not import."""


def has_order(rules: Rules) -> bool:
    """Whether roles wait for others or serve them: without that, all start at once and all must succeed."""
    return any(rule.get("service") or rule.get("ready") or rule.get("depends_on") for rule in rules.values())


def to_list(rules: Rules) -> list[list[Any]]:
    """The services and the conditions in lists: [role, whether it is a service, [[role, condition], …]]."""
    return [
        [role, bool(rule.get("service")), [list(each) for each in (rule.get("depends_on") or {}).items()]]
        for role, rule in rules.items()
    ]


def from_list(listed: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """The rules of what `to_list` made; without probes."""
    return {
        role: {"service": is_service, "depends_on": dict(conditions)}
        for role, is_service, conditions in listed
    }


def unmet(depends_on: Mapping[str, str], is_reached: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """The roles that are waited for, each with its condition, in order. `is_reached(role, condition)`."""
    return [(role, condition) for role, condition in depends_on.items() if not is_reached(role, condition)]


def waits_for(missing: Iterable[tuple[str, str]]) -> str:
    """What `unmet` gives, in a phrase: "waiting for server (ready), data (succeeded)"."""
    return "waiting for " + ", ".join(f"{role} ({condition})" for role, condition in missing)


def made_by_others(rules: Rules) -> set[str]:
    """The roles that start after another one has succeeded: that one may make what they run."""
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        for role, rule in rules.items():
            waits = rule.get("depends_on") or {}
            if role not in found and ("succeeded" in waits.values() or found & waits.keys()):
                found.add(role)
                grown = True
    return found


def pause_s(first_s: int, count: int) -> int:
    """The pause before restart number `count`, which doubles from restart to restart."""
    return min(first_s << min(count - 1, 20), LONGEST_DELAY_S)


class Order:
    """The progress of the roles of an app since all of them were started last.

    Attributes:
        waiting: the roles that were not started, in the order of the app.
    """

    def __init__(self, counts: Mapping[str, int], rules: Rules) -> None:
        """`counts`: role → number of its replicas, in the order of the app."""
        self._counts = counts
        self._rules = rules
        self.begin()

    def begin(self) -> None:
        """All roles wait again."""
        self.waiting = list(self._counts)
        self._reached: dict[str, dict[str, set[int]]] = {
            role: {"started": set(), "ready": set(), "succeeded": set()} for role in self._counts
        }

    def release(self) -> list[str]:
        """The roles that may start now. They no longer wait."""
        free = [role for role in self.waiting if not self.missing(role)]
        self.waiting = [role for role in self.waiting if role not in free]
        return free

    def missing(self, role: str) -> list[tuple[str, str]]:
        """What a role waits for."""
        return unmet(self._depends_on(role), self.is_reached)

    def is_reached(self, role: str, condition: str) -> bool:
        return len(self._reached[role][condition]) >= self._counts[role]

    def reach(self, role: str, k: int, condition: str) -> None:
        """Replica `k` was started, is ready or has succeeded."""
        self._reached[role][condition].add(k)

    def restart(self, role: str, k: int) -> None:
        """Replica `k` is started again: what it had reached counts no longer."""
        for condition in ("ready", "succeeded"):
            self._reached[role][condition].discard(k)

    def is_done(self) -> bool:
        """Whether every replica of every role that is not a service has succeeded."""
        counted = (role for role in self._counts if not self._rules.get(role, {}).get("service"))
        return all(self.is_reached(role, "succeeded") for role in counted)

    def stuck_behind(self, role: str, k: int) -> str:
        """A role that waits for the readiness of a replica that has ended; "" when none does."""
        if k in self._reached[role]["ready"]:
            return ""
        return next((each for each in self.waiting if self._depends_on(each).get(role) == "ready"), "")

    def _depends_on(self, role: str) -> Mapping[str, str]:
        return self._rules.get(role, {}).get("depends_on") or {}
