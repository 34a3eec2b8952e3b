"""The order of an app: which replicas are due, and which wait for other roles or after a restart. Pure."""

from launcher.holding.replica import DUE, PENDING, Replica, Role

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Rules = Mapping[str, Mapping[str, Any]]
    """Role → its fields `service`, `ready` and `depends_on`, where they are set."""


class Pause:
    """A restart that waits before it starts these replicas, until `due_at` (epoch seconds)."""

    __slots__ = ("due_at", "of_app", "replicas")

    def __init__(self, due_at: float, of_app: bool, replicas: "list[Replica]") -> None:
        self.due_at = due_at
        self.of_app = of_app
        self.replicas = replicas


class Order:
    """The replicas of an app that have yet to start.

    Attributes:
        waiting: the roles that wait for other roles, in the order of the app.
        paused: the restarts that wait.
        to_start: the due replicas as keys, the next one first; any of them may be taken back.
    """

    def __init__(self, roles: "dict[str, Role]") -> None:
        self._roles = roles
        self.waiting = list(roles.values())
        self.paused = []  # type: list[Pause]
        self.to_start = {}  # type: dict[Replica, None]

    def begin(self) -> None:
        """Have every role wait again, as before the first start."""
        self.paused = []
        self.waiting = list(self._roles.values())
        for role in self.waiting:
            role.begin()

    # -- roles that wait for others ------------------------------------------------------------------------

    def missing(self, role: Role) -> "list[tuple[str, str]]":
        """The roles that a role waits for, each with its condition."""
        return [each for each in role.depends_on.items() if not self._is_reached(*each)]

    def reach(self, replica: Replica, condition: str) -> bool:
        """Count a replica that was started, is ready or has succeeded. Whether roles may be due now."""
        replica.role.reached[condition] += 1
        if not self.waiting or any(each.of_app for each in self.paused):
            return False
        return self._is_reached(replica.role.name, condition)

    def _is_reached(self, role: str, condition: str) -> bool:
        return self._roles[role].reached[condition] >= len(self._roles[role].replicas)

    def release(self) -> None:
        """Make every role due whose conditions hold."""
        for role in [each for each in self.waiting if not self.missing(each)]:
            self.release_role(role)

    def release_role(self, role: Role) -> None:
        """Make a waiting role due."""
        self.waiting.remove(role)
        self._queue(each for each in role.replicas if each.state == PENDING)

    def stuck_behind(self, replica: Replica) -> str:
        """A role that waits for the readiness of a replica that has ended; "" when none does."""
        if replica.is_ready:
            return ""
        found = (each.name for each in self.waiting if each.depends_on.get(replica.role.name) == "ready")
        return next(found, "")

    # -- replicas that wait --------------------------------------------------------------------------------

    def pause(self, replicas: "list[Replica]", due_at: float, *, of_app: bool) -> None:
        """Have replicas wait until `due_at` (epoch seconds). `of_app`: then all roles begin anew."""
        self.paused.append(Pause(due_at, of_app, replicas))

    def resume(self, now: float) -> None:
        """Make the replicas due whose pause is over."""
        for pause in [each for each in self.paused if each.due_at <= now]:
            self.paused.remove(pause)
            if pause.of_app:
                self.release()
            else:
                self._queue(pause.replicas)

    def take(self, most: int) -> "list[Replica]":
        """Remove and return the next due replicas, at most `most`."""
        found = [each for each, _ in zip(self.to_start, range(most))]
        for each in found:
            del self.to_start[each]
        return found

    def drop(self, replicas: "list[Replica]") -> None:
        """Start none of these replicas, whether they are due or paused."""
        for each in replicas:
            if each.state == DUE:
                each.state = PENDING
                del self.to_start[each]
        if self.paused:
            gone = set(replicas)
            for pause in self.paused:
                pause.replicas = [each for each in pause.replicas if each not in gone]
            self.paused = [each for each in self.paused if each.replicas]

    def _queue(self, replicas: "Iterable[Replica]") -> None:
        for replica in replicas:
            replica.state = DUE
            self.to_start[replica] = None


def has_order(rules: "Rules") -> bool:
    """Whether roles wait for others or are services; otherwise all start at once and all must succeed."""
    return any(rule.get("service") or rule.get("ready") or rule.get("depends_on") for rule in rules.values())


def made_by_others(rules: "Rules") -> "set[str]":
    """The roles that start after another role has succeeded, which may make their programs."""
    found = set()  # type: set[str]
    grown = True
    while grown:
        grown = False
        for role, rule in rules.items():
            waits = rule.get("depends_on") or {}
            if role not in found and ("succeeded" in waits.values() or found & waits.keys()):
                found.add(role)
                grown = True
    return found
