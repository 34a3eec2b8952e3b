"""The records of an app and of its replicas, the same for every scheduler.

Plain classes: importing dataclasses would take `launcher list` longer than its query.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from launcher.holding.use import Use
    from launcher.specs.attempt import Attempt, AttemptState
    from launcher.specs.replica_error import ReplicaError

PENDING = ("reserved", "created")
"""The states of an app that its client has yet to start."""
WAITING = ("waiting", "queued")
"""The states of an accepted app whose holder waits: nothing of it has run."""
UNSTARTED = (*PENDING, *WAITING)
"""The states of an app that has run no process."""
LIVE = (*UNSTARTED, "running")
"""The states of an app that has not ended."""
ENDED = ("succeeded", "failed", "cancelled", "skipped", "lost")
"""The states of an app that has ended. "unknown" is neither."""
_OF_TORCHX = {
    "reserved": "SUBMITTED",
    **dict.fromkeys(("created", *WAITING), "PENDING"),
    "skipped": "CANCELLED",
    "lost": "FAILED",
}


def torchx_state(state: str) -> str:
    """The name of a state in `AppState` of TorchX: a lost app has failed, a skipped one is cancelled."""
    return _OF_TORCHX.get(state, state.upper())


class AppRecord:
    """One app, as its scheduler or the store records it.

    Attributes:
        name: of its job or, without a job, of its AppDef.
        project, target, job, number: of the attempt; None for an app without a job.
        digest, plan_id, commit, actor: as in `Attempt`; "" where the app has none or its scheduler does not
            know them.
        state: one of AttemptState, or "unknown".
        created_at, started_at, ended_at: seconds since the epoch; None where unknown.
        exit_code: exit code of the replica that decided a failure.
        message: the reason of the outcome, in a short sentence.
        inputs_changed: as in `Attempt`, as the scheduler reports it. Not read from the store.
        output_digest, images: as in `Attempt`. Not read from the store.
        num_restarts: of the app, of its roles and of single replicas together.
        output: address of its output folder, a path or the name of a volume; "" for none. It is made when the
            app starts.
        matrix: as in `Attempt`; "" where the app has none or its scheduler does not know it.
        job_file: origin and path of its job file, as in `Attempt`; None where the app has no job, or its
            scheduler does not know them.
        used: role → the use of its runs; "" → the use of processes that outlived their replica. Not read
            from the store.
        replicas, warnings: set by `Scheduler.record` only; not stored.
        own: whether this state folder holds its files. An engine may be shared.
        in_use: whether the client that started it has yet to read the outcome.
        logs_removed: whether its logs were removed after its end, alone or with its files. Not stored.
        abandoned: whether it waits for others and the process that would start it has died.
    """

    __slots__ = (
        "abandoned", "actor", "app_id", "commit", "created_at", "digest", "ended_at", "exit_code", "images",
        "in_use", "inputs_changed", "job", "job_file", "logs_removed", "matrix", "message", "name",
        "num_restarts", "number", "output", "output_digest", "own", "plan_id", "project", "replicas",
        "scheduler", "session", "started_at", "state", "target", "used", "warnings",
    )  # fmt: skip

    def __init__(
        self,
        scheduler: str,
        session: str,
        app_id: str,
        *,
        name: str = "",
        key: tuple[str, str, str] | None = None,
        number: int | None = None,
        digest: str = "",
        plan_id: str = "",
        state: AttemptState | str = "unknown",
        created_at: float | None = None,
        started_at: float | None = None,
        ended_at: float | None = None,
        message: str = "",
        exit_code: int | None = None,
        output: str = "",
        matrix: str = "",
        job_file: tuple[str, str] | None = None,
        commit: str = "",
        actor: str = "",
    ) -> None:
        self.scheduler = scheduler
        self.session = session
        self.app_id = app_id
        self.project: str | None
        self.target: str | None
        self.job: str | None
        self.project, self.target, self.job = key or (None, None, None)
        self.name = name or self.job or ""
        self.number = number
        self.digest = digest
        self.plan_id = plan_id
        self.state = state
        self.created_at = created_at
        self.started_at = started_at
        self.ended_at = ended_at
        self.message = message
        self.exit_code = exit_code
        self.inputs_changed = self.output_digest = ""
        self.output = output
        self.matrix = matrix
        self.job_file = job_file
        self.commit = commit
        self.actor = actor
        self.num_restarts = 0
        self.images: Mapping[str, str] = {}
        self.used: Mapping[str, Use] = {}
        self.replicas: Sequence[ReplicaRecord] = ()
        self.warnings: Sequence[str] = ()
        self.own = True
        self.in_use = False
        self.logs_removed = False
        self.abandoned = False

    @property
    def key(self) -> tuple[str, str, str]:
        """A tuple that equals the JobKey, and has its hash; three empty strings without a job."""
        return self.project or "", self.target or "", self.job or ""

    @property
    def handle(self) -> str:
        """The app's handle, `SCHEDULER://SESSION/APP_ID`."""
        return f"{self.scheduler}://{self.session}/{self.app_id}"

    @property
    def made_output(self) -> str:
        """The address of its output folder; "" before it has started, which makes the folder."""
        return self.output if self.started_at or self.state == "succeeded" else ""

    @property
    def is_live(self) -> bool:
        """Whether the app has, or may soon have, processes or containers."""
        return self.state in LIVE

    @property
    def is_held(self) -> bool:
        """Whether the app is accepted and has not started; see `WAITING`. Its message says why."""
        return self.state in WAITING

    @property
    def idle_verb(self) -> str:
        """The words between the name of a held or skipped app and its message."""
        if not self.is_held:
            return "was skipped"
        return "has not started" if self.started_at is None else "is queued"

    @property
    def has_ended(self) -> bool:
        """Whether the app's state is final. Only "lost" may still be replaced by a real outcome."""
        return self.state in ENDED

    @property
    def root_cause(self) -> ReplicaRecord | None:
        """The replica whose error came first, as it mostly causes the later ones; None without errors."""
        found = []
        for replica in self.replicas:
            if (error := replica.error) is not None:
                time = float("inf") if error.time is None else error.time
                found.append((time, replica.role, replica.k, replica))
        return min(found)[-1] if found else None

    @property
    def cause(self) -> str:
        """The first error in one line, `trainer/0: …`; "" if no replica reported one."""
        first = self.root_cause
        error = first.error if first else None
        return f"{first.role}/{first.k}: {error.summary}" if first and error else ""

    def update(self, seen: AppRecord) -> None:
        """Update the record from the scheduler's present one; values unknown to the scheduler stay.

        `describe` reports a lost app as failed, so a recorded "lost" stays.
        """
        was_ended = self.has_ended
        if seen.state != "unknown" and (self.state, seen.state) != ("lost", "failed"):
            self.state = seen.state
        self.name = self.name or seen.name
        self.output = self.output or seen.output
        self.created_at = self.created_at or seen.created_at
        self.commit, self.actor = self.commit or seen.commit, self.actor or seen.actor
        if not (was_ended and self.started_at):  # a list shows the recorded start
            self.started_at = seen.started_at or self.started_at
        self.ended_at, self.message, self.exit_code = seen.ended_at, seen.message, seen.exit_code
        self.inputs_changed, self.used = seen.inputs_changed, seen.used
        self.output_digest, self.images = seen.output_digest, seen.images
        self.num_restarts, self.warnings, self.replicas = seen.num_restarts, seen.warnings, seen.replicas
        self.abandoned, self.logs_removed = seen.abandoned, seen.logs_removed

    def __repr__(self) -> str:
        return f"<AppRecord {self.handle} {self.state}>"


class ReplicaRecord:
    """One replica.

    Attributes:
        k: its number, counted from 0.
        state: pending, running, succeeded, failed, cancelled or lost.
        message: facts beyond its exit code, such as "out of memory".
        structured_error_msg: the text of its error file, or "".
        use: the use of its last run; None where it is unknown.
    """

    __slots__ = (
        "ended_at", "exit_code", "host", "k", "message", "num_restarts", "role", "started_at", "state",
        "structured_error_msg", "use",
    )  # fmt: skip

    def __init__(
        self,
        role: str,
        k: int,
        state: str,
        *,
        exit_code: int | None = None,
        num_restarts: int = 0,
        started_at: float | None = None,
        ended_at: float | None = None,
        message: str = "",
        host: str = "",
        structured_error_msg: str = "",
        use: Use | None = None,
    ) -> None:
        self.role = role
        self.k = k
        self.state = state
        self.exit_code = exit_code
        self.num_restarts = num_restarts
        self.started_at = started_at
        self.ended_at = ended_at
        self.message = message
        self.host = host
        self.structured_error_msg = structured_error_msg
        self.use = use

    @property
    def error(self) -> ReplicaError | None:
        """The contents of the error file, completed by exit code and end time."""
        if not self.structured_error_msg:
            return None
        from launcher.specs.replica_error import read_error

        error = read_error(self.structured_error_msg)
        if error is None:
            return None
        return error._replace(
            exit_code=self.exit_code if error.exit_code is None else error.exit_code,
            time=self.ended_at if error.time is None else error.time,
        )

    def __repr__(self) -> str:
        return f"<ReplicaRecord {self.role}/{self.k} {self.state}>"


_SEEN = ("state", "started_at", "ended_at", "message", "exit_code", "inputs_changed", "used")
_SHARED = (
    "number", "digest", "plan_id", "commit", "actor", "created_at", "output", "matrix", "output_digest",
    "images", *_SEEN,
)  # fmt: skip
"""The fields that an attempt and its record have in common; `_SEEN`: those that change with its state."""


def of_attempt(attempt: Attempt) -> AppRecord:
    """The record of an attempt, in its present state."""
    made = AppRecord(attempt.scheduler, attempt.session, attempt.app_id, key=attempt.key)
    made.job_file = attempt.origin, attempt.path
    for name in _SHARED:
        setattr(made, name, getattr(attempt, name))
    return made


def as_seen(attempt: Attempt, record: AppRecord, owner: str = "") -> Attempt:
    """The attempt in the state of its app's record. `owner` is the client that is submitting it."""
    from launcher.dataclass import replace

    seen: dict[str, Any] = {name: getattr(record, name) for name in _SEEN}
    return replace(
        attempt,
        owner=owner,
        output_digest=record.output_digest or attempt.output_digest,
        images=record.images or attempt.images,
        warnings=tuple(record.warnings),
        **seen,
    )
