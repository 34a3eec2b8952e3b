"""The contract of schedulers that submit many apps at once, in the three steps of `StagedScheduler`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from launcher.schedulers.staged import Reservation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from launcher.errors import LauncherError
    from launcher.schedulers.workspaces import BoundWorkspace
    from launcher.specs.app import AppDef, CfgVal
    from launcher.specs.attempt import Attempt


class Member(NamedTuple):
    """A reserved app of a batch; see `StagedScheduler.create`.

    Attributes:
        request: of its dry run, which is not derived again; None without one.
    """

    reservation: Reservation
    app: AppDef
    cfg: Mapping[str, CfgVal]
    workspace: BoundWorkspace | None = None
    request: Any = None


class Batches(ABC):
    """Submits apps that have their traits in common.

    What holds for a single app holds for each of them: a kill between two steps leaves what the next apply
    finishes, and the error of one app concerns no other one.
    """

    @abstractmethod
    def traits(self, request: Any) -> Mapping[str, str]:
        """What apps must have in common, by name: an option, for the most part. `request` is a dry run's."""

    @abstractmethod
    def most(self, cfg: Mapping[str, CfgVal]) -> int:
        """The most apps of which a limited number can run at once; 0 where apps cannot be submitted so."""

    @abstractmethod
    def reserve(self, attempts: Sequence[Attempt]) -> list[Reservation | LauncherError]:
        """Take the app ids; for each its reservation, or why it cannot be had."""

    @abstractmethod
    def create(self, members: Sequence[Member], at_once: int | None) -> list[LauncherError | None]:
        """Make all objects of the apps, none of which starts; for each an error, if another client has it.

        Args:
            at_once: how many of them may run at once; None for any number.

        Raises SchedulerError when they are refused: then nothing of any of them is submitted.
        """

    @abstractmethod
    def start(self, reservations: Sequence[Reservation]) -> list[LauncherError | None]:
        """Start the apps; for each the reason why it was not started, if so."""

    @abstractmethod
    def abort(self, reservations: Sequence[Reservation]) -> None:
        """Remove what these reservations made, of those that were not started. May be called twice."""
