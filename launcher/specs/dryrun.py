"""AppDryRunInfo: what a scheduler would be sent, before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class AppDryRunInfo(Generic[T]):
    """The request of a scheduler with the function that prints it.

    `Scheduler.submit_dryrun` sets `_app`, `_cfg` and `_scheduler` to what the request was made from. The
    request carries the symbolic app id, so one info may be scheduled more than once. `_build` brings
    the workspace along and gives the info to schedule; the Runner calls it before it schedules.
    """

    def __init__(self, request: T, fmt: Callable[[T], str]) -> None:
        self.request = request
        self._fmt = fmt
        self._app: Any = None  # the AppDef; its roles speak of dry runs, so it cannot be named here
        self._cfg: Mapping[str, Any] = {}
        self._scheduler: Any = None
        self._build: Callable[[], AppDryRunInfo[T]] | None = None

    def __repr__(self) -> str:
        return self._fmt(self.request)
