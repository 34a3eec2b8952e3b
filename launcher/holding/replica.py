"""The roles and replicas of an app, as its events have made them. Pure; Python >= 3.6."""

from launcher.holding.phrases import cause
from launcher.holding.use import Use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional  # noqa: F401  # in comments

    Event = dict[str, Any]

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
        late, why, lost: see `phrases.cause`.
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
        return self.state == ENDED and not self.is_stopped and bool(self.code or self.late or self.why)

    @property
    def has_retries(self) -> bool:
        """Whether it alone is started again when it fails next."""
        return self.role.policy == "REPLICA" and self.retries < self.role.retries

    @property
    def cause(self) -> str:
        """How it failed, as a predicate."""
        return cause(
            self.code,
            signal=self.signal,
            oom=self.oom,
            late=self.late,
            why=self.why,
            lost=self.lost,
            said=self.said,
            again=bool(self.restarts),
            host=self.host,
        )

    @property
    def shown_end(self) -> "tuple[str, str]":
        """State and message of an ended replica: succeeded, failed, cancelled or lost."""
        if self.is_stopped:
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
        self.message = stop_reason if self.is_stopped else self.lost
        self.has_succeeded = self.code == 0 and not (self.late or self.is_stopped or self.why)
        if event.get("use"):
            self.count_use(event["use"], at)

    def count_use(self, measured: "Any", at: float) -> None:
        """Add the use of the run that has ended."""
        self.use = Use(measured, max(0.0, at - (self.started_at or at)))
        if self.role.used is None:
            self.role.used = Use(runs=0)
        self.role.used.add(self.use)
