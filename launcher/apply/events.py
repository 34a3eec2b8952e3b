"""The events of an apply while it works, their JSON Schema launcher.event/v1, and its result."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Final, Literal

from launcher.dataclass import dataclass, replace
from launcher.errors import NOT_SUCCEEDED, LauncherError, StaleError
from launcher.plan.step import ActionKind
from launcher.specs.launch import JobKey
from launcher.state.records import AppRecord, of_attempt

if TYPE_CHECKING:
    from launcher.specs.attempt import Attempt

VERSION = "launcher.event/v1"

EventName = Literal[
    "planned", "waiting", "kept", "held", "reserving", "reserved", "pulling", "pulled", "building",
    "built", "pushing", "pushed", "creating", "created", "stopping", "stopped", "starting", "started",
    "attempt_waiting", "attempt_queued", "attempt_skipped", "recorded", "restarting", "failed",
    "interrupted", "log", "ended", "done",
]  # fmt: skip

OnEvent = Callable[[Mapping[str, Any]], None]
OnLog = Callable[[JobKey, str, int, bytes], None]
"""Called with job, role, replica and a chunk of its output, cut anywhere; from one thread per app."""
OnProgress = Callable[[JobKey, AppRecord], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """The callbacks of an apply while it works and while it waits, all optional."""

    on_event: OnEvent | None = None
    on_log: OnLog | None = None
    on_progress: OnProgress | None = None


UNWATCHED = Watching()

IMAGE_FACTS = ("image", "done", "total", "line")
TOGETHER_S = 0.05
"""How long a follower's report waits for reports of the others, so that all are sorted by time."""

_OFTEN_S = 0.25  # the shortest time between two progress events of an image


def event(name: EventName, *, at: float | None = None, **facts: Any) -> dict[str, Any]:
    """Return one event as a JSON object; `EVENTS` lists the facts of each event.

    Args:
        at: when it happened, in epoch seconds; None for now. The clock of an engine may be ahead.
    """
    now = time()
    return {
        "version": VERSION,
        "event": name,
        "time": now,
        "at": now if at is None else min(at, now),
        **facts,
    }


class Events:
    """Hands events of all threads to a callback, one at a time.

    together_s: how long `report` waits for other threads.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self.together_s = 0.0
        self._on_event = on_event
        self._lock = allocate_lock()
        self._apps: dict[str, dict[str, Any]] = {}  # app id → the facts that begin its progress events
        self._told: dict[tuple[str, str, Any], float] = {}
        self._gathering = False
        self._reported: list[tuple[float, dict[str, Any]]] = []  # (time to sort by, event); not emitted yet
        self._latest: dict[JobKey, float] = {}  # job → the time of its last event

    def emit(self, name: EventName, key: JobKey, *, at: float | None = None, **facts: Any) -> None:
        """Emit an event now, after the reported events."""
        if self._on_event is not None:
            with self._lock:
                self._flush(self._on_event)
                self._on_event(event(name, at=at, **key._asdict(), **facts))

    def report(self, name: EventName, key: JobKey, at: float | None, **facts: Any) -> None:
        """Emit an event that happened `at` (epoch seconds), together with those of other threads, by time.

        Events of one job stay in the order of their reports: its times may come from two clocks.
        """
        if self._on_event is None:
            return
        with self._lock:
            made = event(name, at=at, **key._asdict(), **facts)
            self._latest[key] = max(made["at"], self._latest.get(key, 0.0))
            self._reported.append((self._latest[key], made))
            is_first = len(self._reported) == 1
        if is_first and not self._gathering:
            sleep(self.together_s)
            self.flush()

    @contextmanager
    def together(self) -> Iterator[None]:
        """At the end of the body, emit the events that it reported, sorted by time."""
        self._gathering = True
        try:
            yield
        finally:
            self._gathering = False
            self.flush()

    def flush(self) -> None:
        """Emit the reported events."""
        if self._on_event is not None:
            with self._lock:
                self._flush(self._on_event)

    def _flush(self, on_event: OnEvent) -> None:
        reported, self._reported = sorted(self._reported, key=lambda each: each[0]), []
        for _, made in reported:
            on_event(made)

    def introduce(self, key: JobKey, **about: Any) -> None:
        """Register the job of an app: `progress` reports the app's images as that job's."""
        self._apps[about["app_id"]] = {**key._asdict(), **about}

    def progress(self, app_id: str, kind: str, facts: Mapping[str, Any]) -> None:
        """Emit the progress of an app's images; see `launcher.schedulers.staged.OnImage`."""
        about = self._apps.get(app_id)
        if self._on_event is None or about is None:
            return
        known = {name: facts[name] for name in IMAGE_FACTS if facts.get(name) is not None}
        name: Any = kind
        with self._lock:
            now, which = monotonic(), (app_id, kind, known.get("image"))
            often = kind in ("pulling", "pushing") and now - self._told.get(which, now - 1) < _OFTEN_S
            if "line" in known or not often:
                if "line" not in known:
                    self._told[which] = now
                self._on_event(event(name, **about, **known))

    def waits(self, app_id: str, what: str) -> None:
        """Emit an event that says what the stop of an app waits for; see `launcher.schedulers.api.OnWait`."""
        about = self._apps.get(app_id)
        if self._on_event is not None and about is not None:
            with self._lock:
                self._on_event(event("stopping", **about, message=what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one job of an apply.

    Attributes:
        kind: the plan's action.
        app: the job's attempt as it was when the apply returned; None when there is none.
        error: why the job could not be applied; "" when it was.
        code: the code of the error; see `LauncherError.code`.
        overtaken: another client took the attempt's number first, so the job has to be planned again.
        disabled: nothing was done, because the job file says `enabled: false`.
        held: why a job that should run was not started, as the plan says; "" for any other job.
        has_retries: whether replicas of the app may be restarted; True where that is not known.
        warnings: other problems, such as lost output or a row that the ledger could not write.
    """

    key: JobKey
    kind: ActionKind
    app: AppRecord | None = None
    error: str = ""
    code: str = LauncherError.code
    hint: str = ""
    overtaken: bool = False
    disabled: bool = False
    held: str = ""
    has_retries: bool = True
    warnings: tuple[str, ...] = ()

    @property
    def handle(self) -> str:
        """The handle of the app; "" when there is none."""
        return self.app.handle if self.app is not None else ""

    @property
    def app_id(self) -> str:
        """The id of the app; "" when there is none."""
        return self.app.app_id if self.app is not None else ""

    @property
    def attempt(self) -> int:
        """The attempt's number; 0 when there is none."""
        return (self.app.number or 0) if self.app is not None else 0

    @property
    def state(self) -> str | None:
        """The state of the app; None when there is none."""
        return self.app.state if self.app is not None else None

    @property
    def is_live(self) -> bool:
        """Whether the app has processes or containers, or may soon have them."""
        return self.app is not None and self.app.is_live

    @property
    def is_held(self) -> bool:
        """Whether the app is accepted and has not started; its message says why."""
        return self.app is not None and self.app.is_held

    @property
    def message(self) -> str:
        """The end of the attempt, where that is known."""
        return self.app.message if self.app is not None else ""

    @property
    def output(self) -> str:
        """The address of the output folder of the app; "" when it has made none."""
        return self.app.made_output if self.app is not None else ""

    @property
    def succeeded(self) -> bool:
        return not self.error and self.state == "succeeded"

    def after(self, attempt: Attempt, message: str, warnings: tuple[str, ...] = ()) -> Outcome:
        """Return the outcome with the attempt as it is now. `message`: how the attempt ended, and why."""
        app = of_attempt(attempt)
        app.message = message
        return replace(self, app=app, warnings=warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcomes of an apply, in the order of the plan."""

    outcomes: tuple[Outcome, ...] = ()
    waited: bool = False

    @property
    def exit_code(self) -> int:
        """0: done; 1: a job was not applied; 4: only because attempts have started that were to be withdrawn;
        5: apply waited, and a job that should run did not succeed."""
        if codes := {outcome.code for outcome in self.outcomes if outcome.error}:
            return StaleError.exit_code if codes == {StaleError.code} else LauncherError.exit_code
        wanted = [outcome for outcome in self.outcomes if outcome.kind != "destroy" and not outcome.disabled]
        if self.waited and not all(outcome.succeeded for outcome in wanted):
            return NOT_SUCCEEDED
        return 0


# -- the JSON Schema: one object a line of `launcher apply --format jsonl` -----------------------------------


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_AMOUNT: Final = {"type": "number"}
_TIME: Final = {"type": ["number", "null"]}
_COUNTS: Final = ("attempt", "done", "gpus", "max_retries", "memory_mb", "replica", "restart", "total")
_TYPES: Final[Mapping[str, Any]] = {
    **dict.fromkeys(_COUNTS, _NUMBER),
    **dict.fromkeys(("cpu", "delay_s"), _AMOUNT),
    **dict.fromkeys(("started_at", "ended_at"), _TIME),
    "hint": {"type": ["string", "null"]},
    "exit_code": {"type": ["integer", "null"]},
    "policy": {"enum": ["REPLICA", "ROLE", "APPLICATION"]},
    "counts": {"type": "object", "additionalProperties": _NUMBER},
    "needs": {"type": "array", "items": _TEXT},
    "jobs": {"type": "array", "items": {"type": "object"}},
}
"""Fact of an event that is no text → its schema. The exit code of an apply, in `done`, is always known."""
_JOB: Final = "project target job"
_APP: Final = f"{_JOB} app_id"
_ATTEMPT: Final = f"{_JOB} attempt app_id handle"

EVENTS: Final[Mapping[EventName, tuple[str, str]]] = {
    "planned": (
        "The plan that is about to be carried out: how many jobs get which action.",
        "counts plan_digest",
    ),
    "waiting": ("Another client is applying this project, or submitting this job.", f"{_JOB} owner"),
    "kept": ("Nothing is to be done for the job.", _APP),
    "held": ("A policy decided to do nothing; the job needs attention.", _APP),
    "reserving": ("The id of a new attempt is about to be taken.", _ATTEMPT),
    "reserved": ("It is ours.", _ATTEMPT),
    "pulling": (
        "An image is being fetched; bytes done and in total where they are known.",
        f"{_ATTEMPT} image done? total?",
    ),
    "pulled": ("The image is there.", f"{_ATTEMPT} image"),
    "building": (
        "An image is being built from a workspace; a line of the build's output.",
        f"{_ATTEMPT} image line?",
    ),
    "built": ("The image is there.", f"{_ATTEMPT} image"),
    "pushing": ("The image is being sent to its repository.", f"{_ATTEMPT} image done? total?"),
    "pushed": ("The repository has it.", f"{_ATTEMPT} image"),
    "creating": ("Its objects are about to be made.", _ATTEMPT),
    "created": ("All of them exist and were checked; nothing runs yet.", _ATTEMPT),
    "stopping": (
        "A live attempt is about to be stopped; or, with a message, what its stop waits for.",
        f"{_APP} attempt message?",
    ),
    "stopped": ("Nothing of it is left.", f"{_APP} attempt"),
    "starting": ("The new attempt is about to be started.", _ATTEMPT),
    "started": (
        "Every replica was seen to start; of an attempt that was waiting (with --wait): its holder has "
        "begun to start them.",
        _ATTEMPT,
    ),
    "attempt_waiting": (
        "It is accepted, and starts once the attempts of these jobs have succeeded.",
        f"{_ATTEMPT} needs",
    ),
    "attempt_queued": (
        "It is accepted, and starts when its turn comes: where it is in line and, in line for this "
        "machine, what it asks of it.",
        f"{_ATTEMPT} message cpu? memory_mb? gpus?",
    ),
    "attempt_skipped": (
        "A waiting or queued attempt has ended, and nothing of it has run: a job that it needs did not "
        "succeed, or it was withdrawn.",
        f"{_APP} attempt message",
    ),
    "recorded": ("The ledger knows that it runs, waits or is in line.", _ATTEMPT),
    "restarting": (
        "A replica has failed, and it, its role or the whole app restarts (with --wait): which of its "
        "max_retries restarts this is, and the pause in seconds before it.",
        f"{_APP} role replica policy restart max_retries delay_s message",
    ),
    "failed": ("The job could not be applied; nothing of it is left behind.", f"{_JOB} message hint?"),
    "interrupted": (
        "The apply was interrupted while it worked on the job: what became of that.",
        f"{_JOB} message",
    ),
    "log": ("Whole lines that a replica printed (with --logs).", f"{_JOB} role replica text"),
    "ended": (
        "An app has ended (with --wait): the exit code of the replica that decided it, when it started "
        "and when it ended (seconds since the epoch), where these are known.",
        f"{_ATTEMPT} state message exit_code started_at ended_at",
    ),
    "done": ("The apply is over: its exit code, and what came of every job.", "exit_code jobs"),
}
"""Every event: what it says, and its facts beside version, event, time and at; `?` is behind optional ones.

`time` is when the client noticed the event, `at` when it happened, both in epoch seconds.
"""


def event_schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:event-v1",
        "title": "An event of launcher apply --format jsonl",
        "oneOf": [_of(name, *about) for name, about in EVENTS.items()],
    }


def _of(name: EventName, says: str, facts: str) -> dict[str, Any]:
    types = {**_TYPES, "exit_code": _NUMBER} if name == "done" else _TYPES
    common = {
        "version": {"const": VERSION},
        "event": {"const": name},
        "time": {"type": "number", "description": "When it was noticed, in seconds since the epoch."},
        "at": {"type": "number", "description": "When it happened; the same, or earlier."},
    }
    return {
        "title": name,
        "description": says,
        "type": "object",
        "properties": {**common, **{each: types.get(each, _TEXT) for each in facts.replace("?", "").split()}},
        "required": [*common, *(each for each in facts.split() if not each.endswith("?"))],
        "additionalProperties": False,
    }
