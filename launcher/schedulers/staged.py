"""What plan and apply need of a scheduler: apps reserved, created, started, and observed meanwhile."""

from __future__ import annotations

from abc import abstractmethod

from launcher.schedulers.api import Scheduler, filter_regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any, TypeVar

    from launcher.schedulers.responses import Stream
    from launcher.specs.app import AppDef, CfgVal
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey
    from launcher.state.records import AppRecord

    T = TypeVar("T")

    OnImage = Callable[[str, str, Mapping[str, Any]], None]
    # App id, kind (pulling, pulled, building, built, pushing, pushed), and facts: `image` always, `done` and
    # `total` in bytes or `line` where known. Called from any thread.
else:
    T = None


class Reservation:
    """An app id that is ours, from `reserve` to `start` or `abort`. Schedulers derive their own."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    @property
    def app_id(self) -> str:
        """The id that the app will have."""
        return self.attempt.app_id


class StagedScheduler(Scheduler[T]):
    """A scheduler whose apps can be planned and applied: in three steps, each of which survives a kill.

    Attributes:
        take_over: an attempt that somebody on another machine is submitting counts as left behind.
        on_progress: told how far images are while they are pulled, built and pushed.
    """

    take_over: bool = False
    on_progress: OnImage | None = None

    @abstractmethod
    def fingerprint(self) -> str:
        """The identity of the engine: a plan made against one engine is stale for another."""

    def observe(self, keys: Collection[JobKey], settled: Collection[str] = ()) -> list[Attempt]:
        """Every attempt of a job that has not settled, and the latest attempt of each of `keys`. Read-only.

        This one asks `attempt` of every app in the `list`.

        Args:
            settled: app ids whose outcome the caller knows; they are left out.
        """
        asked = (self.attempt(each.app_id) for each in self.list())
        found = [attempt for attempt in asked if attempt is not None]
        latest: dict[JobKey, Attempt] = {}
        for attempt in sorted(found, key=lambda each: each.number):
            latest[attempt.key] = attempt
        wanted = {latest[key].app_id for key in keys if key in latest}
        return [
            each for each in found if (each.is_live or each.app_id in wanted) and each.app_id not in settled
        ]

    @abstractmethod
    def attempt(self, app_id: str) -> Attempt | None:
        """One recorded attempt with its present state, None when it is unknown. Writes nothing."""

    def ended_attempt(self, app_id: str, timeout_s: float | None = None) -> Attempt | None:
        """Block until the attempt has ended; None when it is unknown. After `timeout_s`, as it is then."""
        self.wait(app_id, timeout_s)
        return self.attempt(app_id)

    def wait_record(self, app_id: str, timeout_s: float | None = None) -> AppRecord | None:
        """`ended_attempt` of an app that a job file made; of any other one as every scheduler."""
        attempt = self.ended_attempt(app_id, timeout_s)
        if attempt is None:
            return self.record(app_id)
        from launcher.state.records import of_attempt

        return of_attempt(attempt)

    @abstractmethod
    def reserve(self, attempt: Attempt) -> Reservation:
        """Take the attempt's app id, atomically.

        What a dead owner left under this id is resumed when its digest is the same, else removed first.
        Raises ReservedError, which names the owner, when the id is taken.
        """

    @abstractmethod
    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        """Make every object of the attempt and check all that can be checked; nothing is started.

        Args:
            app, cfg: bound (`launcher.specs.binding`), as they were dry-run. The request is derived from them
                again, for app id and session are the reservation's.
        """

    @abstractmethod
    def start(self, reservation: Reservation) -> None:
        """Start it; returns when every replica was seen to start.

        Raises StartError when one cannot; then the whole attempt was taken back.
        """

    @abstractmethod
    def abort(self, reservation: Reservation) -> None:
        """Remove everything that this reservation made. May be called twice."""

    def kept_notes(self, kept: Mapping[str, AppDef]) -> Mapping[str, Sequence[str]]:
        """What to know of attempts that a plan leaves as they are, though their documents did not change.

        Args:
            kept: app id of the attempt → the app as its job file has it.

        Returns app id → notes; attempts that there is nothing to say of may be left out.
        """
        return {}

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | str | None = None,
    ) -> Iterator[str]:
        """Lines as text; bytes that are no UTF-8 become U+FFFD. Times without a zone are local time."""
        from launcher.schedulers import logs

        replica, follow = (role_name, k), should_tail
        lines = logs.as_text(self.log_chunks, app_id, replica, since, until, follow, streams)
        return filter_regex(regex, lines) if regex else lines

    def reap(self) -> list[Attempt]:
        """Settle what has ended, remove leftovers of the dead; returns the attempts whose end was new.

        A scheduler that leaves nothing to be removed has nothing to do: what ended is found by `attempt`.
        """
        return []

    # Tidying up; who keeps nothing of an app after its end has nothing to do here

    def finished(self) -> list[AppRecord]:
        """The apps that have ended and of which something is still there: records, containers, logs."""
        return []

    def remove(self, app_id: str) -> None:
        """Remove all that is left of an app that has ended; one that is gone already is no error.

        Raises SchedulerError when it has not ended.
        """

    def sweep(self) -> list[str]:
        """Remove what apps shared and none uses any more; what was removed, in words."""
        return []

    def outcomes(self) -> list[Attempt]:
        """The latest ended attempt of each job, where the engine keeps that apart from its objects."""
        return []

    def forget_outcome(self, app_id: str) -> None:
        """Remove what the engine keeps of how an attempt ended."""

    def leftovers(self) -> list[tuple[str, str]]:
        """What apps shared that `sweep` leaves, and why, both in words."""
        return []
