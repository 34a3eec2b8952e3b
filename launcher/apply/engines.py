"""What plan and apply talk to and build from, made on first use and given back together."""

from __future__ import annotations

from _thread import allocate_lock
from contextlib import ExitStack

from launcher.errors import SchedulerError
from launcher.schedulers.registry import get_scheduler
from launcher.schedulers.staged import StagedScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

    from launcher.schedulers.bound import BoundWorkspace
    from launcher.schedulers.staged import OnImage, OnWait

ANY_SESSION = "launcher"


class Engines:
    """A scheduler per name and session, detached: what an apply starts outlives the apply; and the folders of
    workspaces that are put together. A context manager.

    Args:
        readonly: the schedulers get no means to change anything at their engines, where they can do without.
        take_over, on_progress, on_wait: as the attributes of StagedScheduler.
    """

    def __init__(
        self,
        *,
        readonly: bool = False,
        take_over: bool = False,
        on_progress: OnImage | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        self._made: dict[tuple[str, str], StagedScheduler[Any]] = {}
        self._params = {"readonly": True} if readonly else {}
        self._take_over = take_over
        self._on_progress = on_progress
        self._on_wait = on_wait
        self._merged: dict[tuple[tuple[str, ...], ...], BoundWorkspace] = {}
        self._copies = ExitStack()
        self._lock = allocate_lock()

    def merged(self, projects: Mapping[str, str], digests: Mapping[str, str]) -> BoundWorkspace:
        """One folder with these projects, copied there once for all jobs that have them.

        Args:
            projects: absolute path → the folder of the workspace that it goes into.
            digests: of each project, by the same path.

        Raises WorkspaceError when one cannot be read, or does not hold what its digest says.
        """
        from launcher.schedulers.workspaces import bound
        from launcher.workspace.projects import in_order

        key = tuple(sorted((path, target, digests[path]) for path, target in projects.items()))
        with self._lock:
            if key not in self._merged:
                made = bound(in_order(projects), digests=digests)
                self._merged[key] = self._copies.enter_context(made)
            return self._merged[key]

    def get(self, name: str, session: str = ANY_SESSION) -> StagedScheduler[Any]:
        """The scheduler; its session matters to dry runs alone, for attempts know theirs.

        Raises UnknownSchedulerException, and SchedulerError for one that cannot be planned and applied.
        """
        if (name, session) not in self._made:
            scheduler = get_scheduler(name, session, detach=True, **self._params)
            if not isinstance(scheduler, StagedScheduler):
                raise SchedulerError(
                    f"the scheduler `{name}` cannot be planned and applied",
                    hint="it serves `launcher run` and the Runner",
                )
            scheduler.take_over = self._take_over
            scheduler.on_progress = self._on_progress
            scheduler.on_wait = self._on_wait
            self._made[name, session] = scheduler
        return self._made[name, session]

    def close(self) -> None:
        for scheduler in self._made.values():
            scheduler.close()
        self._made.clear()
        self._merged.clear()
        self._copies.close()

    def __enter__(self) -> Engines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
