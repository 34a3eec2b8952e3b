"""The base of schedulers that keep a record of each app: they implement a few methods, it does the rest.

Three values have methods of their own: `BackendReservation` creates, starts and aborts an attempt, `SeenApp`
(`record.py`) gives the attempt, record and description of an app, `AppLogs` (`readback.py`) reads its output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from launcher.schedulers.api import poll
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.many import the_one
from launcher.schedulers.staged import Reservation, StagedScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from launcher.errors import LauncherError
    from launcher.schedulers.api import Known
    from launcher.schedulers.readback import AppLogs
    from launcher.schedulers.record import SeenApp
    from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse
    from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey
    from launcher.state.records import AppRecord

    T = TypeVar("T")
else:
    T = None


class BackendReservation(Reservation, ABC):
    """A reservation with `create`, `start` and `abort` as in `StagedScheduler`; `cfg` is resolved."""

    @abstractmethod
    def create(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> None: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...


class BackendScheduler(StagedScheduler[T]):
    """Implements a scheduler by means of its first few methods. `detach`: apps outlive this object."""

    longest_name = 48
    """How many characters of its name an app without a job has in its id."""

    def __init__(self, backend: str, session_name: str, *, detach: bool = False) -> None:
        super().__init__(backend, session_name)
        self._detach = detach
        self._attached: list[str] = []
        self._reserved: dict[str, BackendReservation] = {}  # until it is started or aborted

    # To be implemented, beside `fingerprint` and `_submit_dryrun`

    @abstractmethod
    def claim(self, attempt: Attempt) -> BackendReservation:
        """See `StagedScheduler.reserve`."""

    @abstractmethod
    def read(self, app_id: str, *, whole: bool = False) -> SeenApp | None:
        """The app in its present state; None for an unknown one.

        Args:
            whole: with its replicas and their errors, for a user who looks at the app. A scheduler may then
                do what the app lacks: record its end, or start a process that looks after it.
        """

    @abstractmethod
    def records(self) -> Sequence[AppRecord]: ...

    @abstractmethod
    def stop(self, app_id: str, grace_s: float | None, *, interrupt: bool = False) -> None:
        """See `Scheduler.cancel`, and `Scheduler.interrupt`."""

    @abstractmethod
    def logs(self, app_id: str) -> AppLogs: ...

    # To be implemented where the engine can do better

    def launch(self, app_id: str, info: AppDryRunInfo[T]) -> None:
        """Start an app without a job; see `Scheduler.schedule`. By default it is attempt 0 of a job."""
        from launcher.schedulers.record import attempt_of_app

        attempt = attempt_of_app(info.app, info.cfg, self.backend, self.session_name, app_id)
        reservation = self.claim(attempt)
        reservation.request = info.request
        try:
            self.bring_files(reservation, info.app)
            reservation.create(info.app, info.cfg)
            if not self._detach:
                self._attached.append(app_id)
            reservation.start()
        finally:
            reservation.abort()

    def bring_files(self, reservation: BackendReservation, app: AppDef) -> None:
        """Copy files that the app needs, for `launch`, before it is created."""

    def read_ended(
        self, app_id: str, timeout_s: float | None = None, *, whole: bool = False
    ) -> SeenApp | None:
        """Wait for the end of the app, for at most `timeout_s`, and read it."""
        return poll(lambda: self.read(app_id, whole=whole), lambda seen: seen.record.has_ended, timeout_s)

    # Submission

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]) -> None:
        """No check: replicas need no resource."""

    def schedule(self, dryrun_info: AppDryRunInfo[T]) -> str:
        from launcher.schedulers.checks import refuse_outputs
        from launcher.schedulers.ids import make_unique, normalise

        app = dryrun_info.app
        if app is None:
            raise ValueError("want an info that submit_dryrun has made")
        refuse_outputs(app)
        app_id = make_unique(normalise(app.name, limit=self.longest_name))
        self.launch(app_id, dryrun_info)
        return app_id

    def reserve(self, attempt: Attempt) -> BackendReservation:
        made = self._reserved[attempt.app_id] = self.claim(attempt)
        return made

    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        self._ours(reservation).create(app, self.resolved(cfg))

    def start(self, reservation: Reservation) -> None:
        self._reserved.pop(reservation.app_id, None)
        self._ours(reservation).start()

    def abort(self, reservation: Reservation) -> None:
        self._reserved.pop(reservation.app_id, None)
        self._ours(reservation).abort()

    def _ours(self, reservation: Reservation) -> BackendReservation:
        if not isinstance(reservation, BackendReservation):
            raise TypeError(f"{reservation.app_id} was not reserved here")
        return reservation

    # Reading

    def _seen(self, app_id: str, *, whole: bool = False) -> SeenApp | None:
        return self.read(app_id, whole=whole) if is_id(app_id) else None

    def _seen_ended(self, app_id: str, timeout_s: float | None, *, whole: bool = False) -> SeenApp | None:
        return self.read_ended(app_id, timeout_s, whole=whole) if is_id(app_id) else None

    def attempt(self, app_id: str) -> Attempt | None:
        seen = self._seen(app_id)
        return None if seen is None else seen.attempt()

    def record(self, app_id: str) -> AppRecord | None:
        seen = self._seen(app_id, whole=True)
        return None if seen is None else seen.record

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        return self._description(self._seen(app_id, whole=True))

    def about(self, app_id: str) -> Mapping[str, Any]:
        seen = self._seen(app_id)
        return {} if seen is None else seen.about()

    def ended_attempt(self, app_id: str, timeout_s: float | None = None) -> Attempt | None:
        seen = self._seen_ended(app_id, timeout_s)
        return None if seen is None else seen.attempt()

    def wait_record(self, app_id: str, timeout_s: float | None = None) -> AppRecord | None:
        seen = self._seen_ended(app_id, timeout_s)
        return None if seen is None else seen.record

    def wait(self, app_id: str, timeout_s: float | None = None) -> DescribeAppResponse | None:
        return self._description(self._seen_ended(app_id, timeout_s, whole=True))

    def _description(self, seen: SeenApp | None) -> DescribeAppResponse | None:
        """The description; None also for an app of another scheduler, whose handle is another one."""
        is_ours = seen is not None and seen.recorded.get("scheduler", self.backend) == self.backend
        return seen.description() if seen is not None and is_ours else None

    def refresh(self, app_ids: Iterable[str]) -> Iterable[AppRecord]:
        for app_id in app_ids:
            seen = self._seen(app_id)
            if seen is not None:
                seen.record.replicas = ()
                yield seen.record

    def finished(self) -> list[AppRecord]:
        return [each for each in self.records() if each.has_ended]

    # Stopping

    def cancel(self, app_id: str, grace_s: float | None = None) -> None:
        if is_id(app_id):
            self.stop(app_id, grace_s)

    def interrupt(self, app_id: str, grace_s: float | None = None) -> None:
        if is_id(app_id):
            self.stop(app_id, grace_s, interrupt=True)

    def _cancel_existing(self, app_id: str) -> None:
        self.cancel(app_id)

    def leave(self, app_id: str) -> None:
        self._attached = [each for each in self._attached if each != app_id]

    def close(self) -> None:
        """Cancel the attached apps, and wait until they have ended."""
        while self._attached:
            self.cancel(self._attached.pop(0))

    # Lists

    def list(self) -> list[ListAppResponse]:
        from launcher.schedulers.responses import listed_of

        return [listed_of(each) for each in self.records()]


class EngineApps(ABC):
    """The apps of an engine. Its methods implement the scheduler's methods of the same names.

    A scheduler overrides the methods that only its engine has itself.
    """

    @abstractmethod
    def read(self, app_id: str, *, whole: bool = False) -> SeenApp | None: ...

    @abstractmethod
    def read_ended(
        self, app_id: str, timeout_s: float | None = None, *, whole: bool = False
    ) -> SeenApp | None: ...

    @abstractmethod
    def observe(
        self, keys: Collection[JobKey], settled: Collection[str] = (), known: Known = None
    ) -> list[Attempt]: ...

    @abstractmethod
    def records(self) -> list[AppRecord]: ...

    @abstractmethod
    def wait_for_start(self, app_id: str) -> None: ...

    @abstractmethod
    def stop_all(
        self, app_ids: Iterable[str], grace_s: float | None, *, interrupt: bool = False
    ) -> Iterator[tuple[str, LauncherError | None]]:
        """See `Scheduler.cancel_all`."""

    @abstractmethod
    def withdraw_all(self, app_ids: Iterable[str]) -> Iterator[tuple[str, bool | LauncherError]]: ...

    @abstractmethod
    def reap(self) -> list[Attempt]: ...

    @abstractmethod
    def remove(self, app_id: str) -> None: ...

    @abstractmethod
    def remove_logs(self, app_id: str, *, dry_run: bool = False) -> str: ...

    def finished(self) -> list[AppRecord]:
        return [each for each in self.records() if each.has_ended]

    def sweep(self) -> list[str]:
        return []

    def outcomes(self) -> list[Attempt]:
        return []

    def forget_outcome(self, app_id: str) -> None:  # noqa: B027 (most engines keep none)
        """See `StagedScheduler`."""


class EngineScheduler(BackendScheduler[T]):
    """A scheduler with an `EngineApps` object, which the first method that needs it loads."""

    @property
    @abstractmethod
    def apps(self) -> EngineApps: ...

    @property
    def shared_engine(self) -> str:
        from launcher.schedulers.registry import SHARED_ENGINES, imported

        return imported(SHARED_ENGINES[self.backend])() if self.backend in SHARED_ENGINES else ""

    def read(self, app_id: str, *, whole: bool = False) -> SeenApp | None:
        return self.apps.read(app_id, whole=whole)

    def read_ended(
        self, app_id: str, timeout_s: float | None = None, *, whole: bool = False
    ) -> SeenApp | None:
        return self.apps.read_ended(app_id, timeout_s, whole=whole)

    def observe(
        self, keys: Collection[JobKey], settled: Collection[str] = (), known: Known = None
    ) -> list[Attempt]:
        return self.apps.observe(keys, settled, known)

    def records(self) -> Sequence[AppRecord]:
        return self.apps.records()

    def wait_for_start(self, app_id: str) -> None:
        if is_id(app_id):
            self.apps.wait_for_start(app_id)

    def stop(self, app_id: str, grace_s: float | None, *, interrupt: bool = False) -> None:
        the_one(self.apps.stop_all((app_id,), grace_s, interrupt=interrupt))

    def withdraw(self, app_id: str) -> bool:
        return is_id(app_id) and the_one(self.apps.withdraw_all((app_id,)))

    def cancel_all(
        self, app_ids: Iterable[str], grace_s: float | None = None
    ) -> Iterator[tuple[str, LauncherError | None]]:
        return self.apps.stop_all(filter(is_id, app_ids), grace_s)

    def withdraw_all(self, app_ids: Iterable[str]) -> Iterator[tuple[str, bool | LauncherError]]:
        return self.apps.withdraw_all(filter(is_id, app_ids))

    def reap(self) -> list[Attempt]:
        return self.apps.reap()

    def remove(self, app_id: str) -> None:
        if is_id(app_id):
            self.apps.remove(app_id)

    def remove_logs(self, app_id: str, *, dry_run: bool = False) -> str:
        return self.apps.remove_logs(app_id, dry_run=dry_run) if is_id(app_id) else ""

    def finished(self) -> list[AppRecord]:
        return self.apps.finished()

    def sweep(self) -> list[str]:
        return self.apps.sweep()

    def outcomes(self) -> list[Attempt]:
        return self.apps.outcomes()

    def forget_outcome(self, app_id: str) -> None:
        self.apps.forget_outcome(app_id)
