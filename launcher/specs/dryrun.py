"""AppDryRunInfo: the request of a scheduler, before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class AppDryRunInfo(Generic[T]):
    """The request of a scheduler, the function that prints it, and what the request was made from.

    `Scheduler._submit_dryrun` gives request and function, `Scheduler.submit_dryrun` and the Runner add the
    rest. The request carries the symbolic app id, so one info may be scheduled more than once.

    Args:
        fmt: the request as text.
        app: the AppDef of the request; None if the scheduler does not provide it.
        cfg: its resolved run options.
        scheduler: the name that the Runner knows the scheduler by, else the scheduler's own.
        build: builds the app's workspace and gives the info to schedule, from the one that the caller holds
            and may have edited; None where nothing is to be built.
    """

    def __init__(
        self,
        request: T,
        fmt: Callable[[T], str],
        *,
        app: Any = None,  # the AppDef, whose module imports this one
        cfg: Mapping[str, Any] | None = None,
        scheduler: str | None = None,
        build: Callable[[AppDryRunInfo[T]], AppDryRunInfo[T]] | None = None,
    ) -> None:
        self.request = request
        self.app = app
        self.cfg: Mapping[str, Any] = cfg or {}
        self.scheduler = scheduler
        self._fmt = fmt
        self._build = build

    def completed(
        self,
        *,
        app: Any = None,
        cfg: Mapping[str, Any] | None = None,
        scheduler: str | None = None,
        build: Callable[[AppDryRunInfo[T]], AppDryRunInfo[T]] | None = None,
    ) -> AppDryRunInfo[T]:
        """A copy, of the scheduler's class, with these parts replaced."""
        from copy import copy

        made = copy(self)
        made.app = self.app if app is None else app
        made.cfg = self.cfg if cfg is None else cfg
        made.scheduler = self.scheduler if scheduler is None else scheduler
        made._build = self._build if build is None else build
        return made

    def built(self) -> AppDryRunInfo[T]:
        """The info to schedule, with its workspace built. Raises the build's exceptions."""
        return self if self._build is None else self._build(self)

    # The names that TorchX users read

    @property
    def _app(self) -> Any:
        return self.app

    @property
    def _cfg(self) -> Mapping[str, Any]:
        return self.cfg

    @property
    def _scheduler(self) -> str | None:
        return self.scheduler

    def __repr__(self) -> str:
        return self._fmt(self.request)
