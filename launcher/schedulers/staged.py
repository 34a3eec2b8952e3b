"""The contract of schedulers that support plan and apply: reserve, create, start and observe apps."""

from __future__ import annotations

from abc import ABC, abstractmethod

from launcher.errors import SchedulerError
from launcher.schedulers.api import Scheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from launcher.errors import LauncherError
    from launcher.schedulers.api import Known
    from launcher.schedulers.workspaces import BoundWorkspace
    from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal
    from launcher.specs.attempt import Attempt, AttemptState, ImageNow, Recorded, StoodOn
    from launcher.specs.launch import InputRef, JobKey, WorkspaceRef
    from launcher.state.records import AppRecord
    from launcher.state.store import Store
    from launcher.turns.line import Ask
    from launcher.turns.machine import EngineTables, Machine

    T = TypeVar("T")

    OnImage = Callable[[str, str, Mapping[str, Any]], None]
    # App id, kind (pulling, pulled, building, built, pushing, pushed), and facts: `image` always, `done` and
    # `total` in bytes or `line` where known. Called from any thread.
else:
    T = None


class Reservation:
    """An app id owned by this client, from `reserve` to `start` or `abort`. Schedulers subclass it.

    Attributes:
        app_id: the id that the app will have.
        waits_for: the attempts among `attempt.needs` that have not succeeded yet. Set between `reserve` and
            `create`; with any, `start` returns when the app's holder has recorded that it waits for them.
        turn: the request of the app to this machine, or to that of its engine, see `is_held_here`; None where
            it has none, or waits for no turn. Set between `reserve` and `create`.
        follow: waits until all earlier turns are taken. A scheduler whose `create` takes the turn
            calls it before that; it has been called before `start`.
        request: the request of the dry run, which a scheduler may use instead of deriving its own; None
            without one. Set between `reserve` and `create`.
        inputs: the input files that the app's holder compares at the start of an app that has waited, and
            once the app has succeeded; None without any. Set between `reserve` and `create`.
        workspace: the workspace whose folder replicas run in, which the app's holder compares at the start of
            an app that has waited; None without any. Set between `reserve` and `create`.
        accepted: the state after `start`: running, waiting (for others) or queued (in line for its turn).
        queued_for: why it is queued, in a phrase.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.app_id = attempt.app_id
        self.waits_for: tuple[StoodOn, ...] = ()
        self.turn: Ask | None = None
        self.follow: Callable[[], None] = lambda: None
        self.request: Any = None
        self.inputs: InputRef | None = None
        self.workspace: WorkspaceRef | None = None
        self.accepted: AttemptState = "running"
        self.queued_for = "in line for its share of this machine"


class Verdict:
    """The answer of a scheduler that refuses a request, or cannot judge whether it takes the request.

    Attributes:
        refusal: why it does not take the request, in the words of its engine; "" where it did not judge.
        path: the field that is refused, as in a document (`cfg.partition`); "" where that is unknown.
        unchecked: why it did not judge; "" for a refusal.
    """

    def __init__(self, refusal: str = "", path: str = "", unchecked: str = "") -> None:
        self.refusal = refusal
        self.path = path
        self.unchecked = unchecked


class OutputFolders:
    """The output folders of jobs at one engine; see `launcher.specs.outputs`. Schedulers subclass it."""

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler

    def names(self) -> list[str]:
        """The names of all output folders that the engine has."""
        return []

    def address(self, attempt: Attempt, app: AppDef) -> str:
        """The address of the attempt's output folder, made before any replica starts; "" for none.

        It is a path on the machine of the replicas, or a name that the engine knows.
        """
        return ""

    def lost(self, attempts: Iterable[Attempt]) -> set[str]:
        """The app ids of attempts whose output folder, recorded as `output`, is gone.

        An engine that cannot be asked has lost none.
        """
        return set()

    def elsewhere(self, attempt: Attempt) -> str:
        """The address of another engine, which has the attempt's output folder; "" where none is known."""
        return ""

    def archive(self, attempt: Attempt, only: str = "") -> tuple[Iterator[bytes], str]:
        """The attempt's output folder as a tar archive, in pieces, and the folder of the archive that has its
        files ("" for the top).

        Args:
            only: the name of one file in the folder, to be archived alone, at the top; without that file the
                archive is empty, or cannot be read.

        Raises SchedulerError, also while the pieces are read.
        """
        raise SchedulerError(f"{self._scheduler} cannot copy output folders")

    def digest(self, attempt: Attempt) -> str:
        """The digest of the files that the attempt's output folder has now, as `contents.output_digest`.

        Raises SchedulerError.
        """
        raise SchedulerError(f"{self._scheduler} cannot read output folders")

    def path(self, name: str) -> str:
        """The absolute path of an output folder on this machine; "" where only the engine's apps reach it."""
        return ""

    def unreadable(self, other: str) -> str:
        """The reason why apps cannot read output folders of scheduler `other`; "" when they can."""
        return "" if other == self._scheduler else f"an app of {self._scheduler} cannot reach that"

    def remove(self, name: str) -> None:
        """Remove an output folder with its contents. Raises SchedulerError while an app uses it."""


class EngineTurns(ABC):
    """The turns of apps that no process of this machine holds: see `StagedScheduler.is_held_here`."""

    @abstractmethod
    def machine(self) -> Machine | None:
        """The machine at which they take turns, without its GPUs; None where it is unknown."""

    @abstractmethod
    def tables(self) -> EngineTables | None:
        """The tables of turns of that machine; None where no process there holds apps."""

    @abstractmethod
    def start_now(self, app_ids: Collection[str]) -> set[str]:
        """Make apps in line there take their shares at once; returns those that were in line."""


class Member:
    """An app of a batch with its reservation and options; see `StagedScheduler.create`."""

    __slots__ = ("app", "cfg", "reservation", "workspace")

    def __init__(
        self,
        reservation: Reservation,
        app: AppDef,
        cfg: Mapping[str, CfgVal],
        workspace: BoundWorkspace | None,
    ) -> None:
        self.reservation = reservation
        self.app = app
        self.cfg = cfg
        self.workspace = workspace


class Batches(ABC):
    """Submits many apps with the same traits at once, in the three steps of `StagedScheduler`.

    The rules for a single app hold for each of them: the next apply finishes a submission that was killed
    between two steps, and an error of one app affects no other app.
    """

    @abstractmethod
    def traits(self, request: Any) -> Mapping[str, str]:
        """Name → value of each trait that apps must share, mostly options. `request`: of a dry run."""

    @abstractmethod
    def most(self, cfg: Mapping[str, CfgVal]) -> int:
        """The largest batch with a limit on running apps; 0 where apps cannot be submitted in batches."""

    @abstractmethod
    def reserve(self, attempts: Sequence[Attempt]) -> Sequence[Reservation | LauncherError]:
        """Take the app ids; returns for each its reservation, or the error that forbids it."""

    @abstractmethod
    def create(self, members: Sequence[Member], at_once: int | None) -> list[LauncherError | None]:
        """Make all objects of the apps, starting none; returns for each an error, if another client has it.

        The apps may wait for others (`Reservation.waits_for`), each for the same ones or for one of its own.

        Args:
            at_once: how many of the apps may run at once; None for any number.

        Raises SchedulerError when the apps are refused: then none of them is submitted.
        """

    @abstractmethod
    def start(self, reservations: Sequence[Reservation]) -> list[LauncherError | None]:
        """Start the apps; returns for each app None, or the error that kept it from starting."""

    @abstractmethod
    def abort(self, reservations: Sequence[Reservation]) -> None:
        """Remove everything that these reservations made, except started apps. May be called twice."""


def current(found: Iterable[Attempt], keys: Iterable[JobKey], settled: Collection[str]) -> list[Attempt]:
    """The live attempts among `found`, and the latest one of each of `keys`, without those in `settled`."""
    known = list(found)
    latest = {each.key: each.app_id for each in sorted(known, key=lambda each: each.number)}
    wanted = {latest[key] for key in keys if key in latest}
    return [each for each in known if (each.is_live or each.app_id in wanted) and each.app_id not in settled]


class StagedScheduler(Scheduler[T]):
    """A scheduler whose apps can be planned and applied: in three steps, each of which survives a kill.

    Attributes:
        take_over: an attempt that a client on another machine is submitting counts as left behind.
        on_progress: called with the progress of images while they are pulled, built and pushed.
        store: the ledger, where the caller has it open; otherwise a scheduler opens it when it needs it.
        holds: the schedulers whose apps an app of this one can wait for; see `Reservation.waits_for`.
        judges_fields_alone: its dry run neither refuses nor notes a plain text among `args` and the values of
            `env`, and no trait of a batch depends on one. Set it in the class itself: a derived class may
            judge otherwise.
    """

    holds: frozenset[str] = frozenset()
    judges_fields_alone: bool = False

    take_over: bool = False
    on_progress: OnImage | None = None
    store: Store | None = None

    @property
    def batches(self) -> Batches | None:
        """The submission of many apps at once; None for a scheduler that takes apps one by one."""
        return None

    def on_this_machine(self) -> bool:
        """Whether the scheduler's apps use cores, memory and GPUs of this machine, and so take turns."""
        return False

    def is_held_here(self, cfg: Mapping[str, CfgVal]) -> bool:
        """Whether a process on this machine holds an app with these run options, or nothing holds it.

        Only such an app takes turns here, waits for apps of other engines, and has its input files compared.
        Any other one takes turns at its engine.
        """
        return True

    @property
    def engine_turns(self) -> EngineTurns | None:
        """The turns of apps that take them at their engine; None where every app takes its turn here."""
        return None

    def most_cores(self) -> float | None:
        """The most cores that its engine gives to one replica; None for no limit, and where it is unknown."""
        return None

    def check(self, requests: Mapping[str, AppDryRunInfo[T]]) -> Mapping[str, Verdict]:
        """Ask the engine whether it takes these requests, by app id, each for itself. Submits nothing.

        Returns the verdicts on requests that it refuses or does not judge; {} for a scheduler that cannot
        ask.
        """
        return {}

    def expect(self, cfg: Mapping[str, CfgVal]) -> None:
        """Note the run options of an app in a plan, before any other call for the plan.

        Where a run option names the engine, `observe` and `fingerprint` then use that engine.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """The identity of the engine: a plan made against one engine is stale for another."""

    def observe(
        self, keys: Collection[JobKey], settled: Collection[str] = (), known: Known = None
    ) -> list[Attempt]:
        """Every live attempt of a job, and the latest attempt of each of `keys`. Writes nothing.

        This implementation calls `attempt` for every app in the `list`.

        Args:
            settled: app ids with an outcome that the caller knows; they are left out.
            known: app id → its attempt in the ledger. A scheduler may take from it the fields that are fixed
                at the reservation, instead of its own record of them.
        """
        asked = (self.attempt(each.app_id) for each in self.list())
        return current((each for each in asked if each is not None), keys, settled)

    def remote_engine(self) -> str:
        """The address of an engine on another machine whose apps a process here holds; "" for none."""
        return ""

    @abstractmethod
    def attempt(self, app_id: str) -> Attempt | None:
        """One recorded attempt in its present state; None when it is unknown. Writes nothing."""

    def recorded(self, app_id: str) -> list[Recorded]:
        """The attempt read from each record of the engine separately, one result for each. Writes nothing."""
        from launcher.specs.attempt import Recorded

        found = self.attempt(app_id)
        return [] if found is None else [Recorded(f"the record of {self.backend}", found)]

    def images_now(self, names: Collection[str]) -> Mapping[str, ImageNow] | None:
        """Image name or id → the image that it means now, if any; None for a scheduler without images."""
        return None

    def ended_attempt(self, app_id: str, timeout_s: float | None = None) -> Attempt | None:
        """Block until the attempt has ended, for at most `timeout_s`; returns it with its warnings.

        None when it is unknown.
        """
        from launcher.dataclass import replace

        self.wait(app_id, timeout_s)
        attempt = self.attempt(app_id)
        return attempt and replace(attempt, warnings=tuple(self.warnings(app_id)))

    def wait_record(self, app_id: str, timeout_s: float | None = None) -> AppRecord | None:
        """The record of `ended_attempt`; for an app that no job file made, its `record`."""
        attempt = self.ended_attempt(app_id, timeout_s)
        if attempt is None:
            return self.record(app_id)
        from launcher.state.records import of_attempt

        return of_attempt(attempt)

    @abstractmethod
    def reserve(self, attempt: Attempt) -> Reservation:
        """Take the attempt's app id, atomically.

        An interrupted submission under this id is resumed when its digest is the same, else removed first.
        Raises ReservedError, which names the owner, when the id is taken.
        """

    @abstractmethod
    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        """Make every object of the attempt and check everything that can be checked; start nothing.

        Args:
            app, cfg: bound (`launcher.specs.binding`), as in the dry run, of which the reservation may have
                the request. Else it is derived from them, for the session of the reservation.
        """

    @abstractmethod
    def start(self, reservation: Reservation) -> None:
        """Start the attempt; returns when every replica has started.

        Raises StartError, with the whole attempt removed, when a replica cannot be started.
        """

    @abstractmethod
    def abort(self, reservation: Reservation) -> None:
        """Remove everything that this reservation made. May be called twice."""

    def withdraw(self, app_id: str) -> bool:
        """End a waiting attempt as `skipped: withdrawn`; False when it does not wait (any more).

        Atomic with its holder's own start: True means that nothing of it has run or ever will.
        """
        return False

    def withdraw_all(self, app_ids: Iterable[str]) -> Iterator[tuple[str, bool | LauncherError]]:
        """`withdraw` several attempts together; see `cancel_all`."""
        from launcher.schedulers.many import in_threads

        return in_threads(self.withdraw, app_ids)

    def kept_notes(self, kept: Mapping[str, AppDef]) -> Mapping[str, Sequence[str]]:
        """Notes for the plan on attempts that it keeps because their documents did not change.

        Args:
            kept: app id of the attempt → the app in its job file.

        Returns app id → notes; attempts without notes may be left out.
        """
        return {}

    def engine_of(self, app_id: str) -> str:
        """A name of the engine of an app: either all apps with the same name can be reached, or none."""
        return self.backend

    def reap(self) -> list[Attempt]:
        """Record new ends and remove what dead owners left; returns the attempts whose end was recorded.

        Nothing to do for a scheduler that leaves nothing behind: `attempt` finds ends.
        """
        return []

    # Tidying up: nothing to do for schedulers that keep nothing of an app after its end

    def finished(self) -> list[AppRecord]:
        """The ended apps that still have records, containers or logs.

        With them the apps that may have ended, and whose record cannot be read: a warning of each says why.
        """
        return []

    def remove(self, app_id: str) -> None:
        """Remove everything of an ended app. An app that is already removed is no error.

        Raises SchedulerError when it has not ended.
        """

    def remove_logs(self, app_id: str, *, dry_run: bool = False) -> str:
        """Remove the logs of an ended app and keep its record; returns why the logs stay, "" after a removal.

        Raises SchedulerError when it has not ended.
        """
        return f"{self.backend} removes logs only together with records"

    @property
    def output_folders(self) -> OutputFolders:
        """The output folders of its jobs; none in this class."""
        return OutputFolders(self.backend)

    def sweep(self) -> list[str]:
        """Remove shared objects that no app uses any more; returns descriptions of the removed ones."""
        return []

    def outcomes(self) -> list[Attempt]:
        """The latest ended attempt of each job, where the engine keeps outcomes separately."""
        return []

    def forget_outcome(self, app_id: str) -> None:
        """Remove the engine's record of the end of an attempt."""

    def leftovers(self) -> list[tuple[str, str]]:
        """The shared objects that `sweep` leaves, each with the reason, as text."""
        return []
