"""The roles and replicas of an app, as its events have made them, and which of them are due.

Pure; Python >= 3.6.
"""

from launcher.holding.events import OUT_OF_MEMORY, exited
from launcher.holding.use import Use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Optional  # noqa: F401  # in comments

    Event = dict[str, Any]

    Rules = Mapping[str, Mapping[str, Any]]
    """Role → its fields `service`, `ready` and `depends_on`, where they are set."""

PENDING, DUE, STARTING, RUNNING, ENDED = "pending", "due", "starting", "running", "ended"
"""The states of a replica: see the theory of operation in `app.py`."""

UNKNOWN_RETRIES = 1 << 62
"""The retries of a role whose record does not say how many it has."""


class Role:
    """A role: its rules, and how many of its replicas have reached each condition since its last start.

    Attributes:
        policy: its retry policy: REPLICA, ROLE or APPLICATION.
        depends_on: role → the condition (started, ready or succeeded) that must hold before this role starts.
        restarting: the replica whose failure restarts this role, while the others are being stopped.
        active: number of its replicas that are starting or running.
        used: the use of all ended runs of its replicas; None where nothing is known.
    """

    __slots__ = (
        "active", "delay_s", "depends_on", "is_service", "name", "policy", "reached",
        "replicas", "restarting", "restarts", "retries", "used",
    )  # fmt: skip

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.replicas = [Replica(self, k) for k in range(count)]
        self.retries = UNKNOWN_RETRIES
        self.policy = ""
        self.delay_s = 0
        self.is_service = False
        self.depends_on = {}  # type: dict[str, str]
        self.restarts = 0
        self.active = 0
        self.used = None  # type: Optional[Use]
        self.begin()

    def begin(self) -> None:
        """Count anew: no run of its replicas has started."""
        self.reached = {"started": 0, "ready": 0, "succeeded": 0}
        self.restarting = None  # type: Optional[Replica]
        for replica in self.replicas:
            replica.has_started = False


class Replica:
    """A replica of a role.

    Attributes:
        host: the machine of its present or last run; "" where the record does not say.
        run: the identity of its present or last run: (pid or container, its start).
        restarts: how often it was started again, for whatever reason.
        retries: how often it alone was started again because it failed.
        code: exit code, 128 + signal after a signal; None where the end is unknown.
        late: why it was stopped before it was ready: `not ready after 60 s: …`.
        why: why it could not be started.
        lost: why its scheduler did not report its end.
        is_stopped: it was asked to stop, so its exit code is not the program's.
        by_hand: another program stopped it.
        message: why it was stopped, or why it was lost.
        use: the use of its last run; None where that is unknown.
    """

    __slots__ = (
        "by_hand", "code", "ended_at", "has_started", "has_succeeded", "host", "is_ready", "is_stopped",
        "k", "late", "lost", "message", "oom", "restarts", "retries", "role", "run", "said", "signal",
        "started_at", "state", "use", "why",
    )  # fmt: skip

    def __init__(self, role: Role, k: int) -> None:
        self.role = role
        self.k = k
        self.state = PENDING
        self.host = ""
        self.restarts = self.retries = 0
        self.run = (None, None)  # type: tuple[Any, Any]
        self.started_at = None  # type: Optional[float]
        self.has_started = False
        self.begin()

    def begin(self) -> None:
        """Forget the end of the last run."""
        self.code = self.ended_at = self.use = None  # type: Any
        self.signal = 0
        self.late = self.why = self.lost = self.said = self.message = ""
        self.oom = self.by_hand = self.is_stopped = self.is_ready = self.has_succeeded = False

    @property
    def name(self) -> str:
        return f"{self.role.name}/{self.k}"

    @property
    def is_active(self) -> bool:
        return self.state in (STARTING, RUNNING)

    @property
    def has_failed(self) -> bool:
        is_bad = bool(self.code or self.late or self.why or self.by_hand)
        return self.state == ENDED and not self.is_stopped and is_bad

    @property
    def has_retries(self) -> bool:
        """Whether the replica alone is started again after its next failure."""
        return self.role.policy == "REPLICA" and self.retries < self.role.retries

    @property
    def cause(self) -> str:
        """The failure of the replica as a predicate: `was killed by signal 9`."""
        if self.why:
            where = (" again" if self.restarts else "") + (f" on {self.host}" if self.host else "")
            return f"could not be started{where}: {self.why}"
        if self.late:
            return "was " + self.late
        if self.oom:
            return "was killed: " + OUT_OF_MEMORY
        if self.lost:
            return "was lost: " + self.lost
        return f"was killed by signal {self.signal}" if self.signal else exited(self.code, self.said)

    @property
    def shown_end(self) -> "tuple[str, str]":
        """State and message of an ended replica: succeeded, failed, cancelled or lost."""
        if self.is_stopped or (self.by_hand and self.code == 0):
            return "cancelled", self.message
        if self.code is None and not (self.why or self.late):
            return "lost", self.message
        if self.has_failed:
            return "failed", self.late or self.why or self.message
        return "succeeded", ""

    def end(self, event: "Event", at: float, stop_reason: str) -> None:
        """Set the fields from the event of its end."""
        self.state, self.ended_at = ENDED, at
        self.code, self.signal = event["code"], event.get("signal", 0)
        self.host = event.get("host", self.host)
        self.late = event.get("late", self.late)
        self.why, self.lost, self.said = (event.get(name, "") for name in ("why", "lost", "said"))
        self.oom, self.by_hand = bool(event.get("oom")), bool(event.get("hand"))
        self.is_stopped = bool(event.get("stopped"))
        failure = "killed: " + OUT_OF_MEMORY if self.oom else self.lost
        self.message = stop_reason if self.is_stopped else failure
        self.has_succeeded = self.code == 0 and not (self.is_stopped or self.has_failed)
        if event.get("use"):
            self.count_use(event["use"], at)

    def count_use(self, measured: "Any", at: float) -> None:
        """Add the use of the run that has ended."""
        self.use = Use(measured, max(0.0, at - (self.started_at or at)))
        if self.role.used is None:
            self.role.used = Use(runs=0)
        self.role.used.add(self.use)


# -- the order ---------------------------------------------------------------------------------------------


class Pause:
    """A restart that waits before it starts these replicas, until `due_at` (epoch seconds)."""

    __slots__ = ("due_at", "of_app", "replicas")

    def __init__(self, due_at: float, of_app: bool, replicas: "list[Replica]") -> None:
        self.due_at, self.of_app, self.replicas = due_at, of_app, replicas


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
        """Count a replica that was started, is ready or has succeeded; return whether roles may be due."""
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
        if not self.to_start:
            self.to_start.clear()  # frees the table, which keeps the size for all replicas
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
    """The roles that start after another role has succeeded: that role may make their programs."""
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
