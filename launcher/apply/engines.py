"""The schedulers of a plan or an apply, the workspace folders for them, and the ends that they know."""

from __future__ import annotations

import os
from _thread import allocate_lock
from contextlib import ExitStack, contextmanager, suppress

from launcher.errors import SchedulerError, StateError
from launcher.schedulers.registry import get_scheduler, open_store
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.attempt import ENDED_STATES, PENDING_STATES, UNSTARTED_STATES
from launcher.state.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Any

    from launcher.schedulers.api import OnWait
    from launcher.schedulers.staged import OnImage
    from launcher.schedulers.workspaces import BoundWorkspace
    from launcher.specs.app import AppDryRunInfo
    from launcher.specs.attempt import Attempt
    from launcher.specs.binding import BoundLaunch
    from launcher.specs.launch import Launch, ProjectRef
    from launcher.state.records import AppRecord


ANY_SESSION = "launcher"


class Engines:
    """One detached scheduler per name and session (started apps outlive the apply), and the temporary folders
    of workspaces with several projects. A context manager.

    Args:
        store: the open ledger, which schedulers read, too.
        readonly: keep schedulers from changing their engines, unless they cannot work otherwise.
        take_over, on_progress, on_wait: see the attributes of StagedScheduler.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        readonly: bool = False,
        take_over: bool = False,
        on_progress: OnImage | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        self._made: dict[tuple[str, str], StagedScheduler[Any]] = {}
        self._params = {"readonly": True} if readonly else {}
        self._store = store
        self._take_over = take_over
        self._on_progress = on_progress
        self._on_wait = on_wait
        self._merged: dict[tuple[ProjectRef, ...], BoundWorkspace] = {}
        self._copies = ExitStack()
        self._lock = allocate_lock()

    def get(self, name: str, session: str = ANY_SESSION) -> StagedScheduler[Any]:
        """Return the scheduler. The session matters only for dry runs; attempts have their own.

        Raises UnknownSchedulerException, and SchedulerError for one that cannot be planned and applied.
        """
        if (name, session) not in self._made:
            scheduler = get_scheduler(name, session, detach=True, **self._params)
            if not isinstance(scheduler, StagedScheduler):
                raise SchedulerError(
                    f"the scheduler `{name}` cannot be planned and applied",
                    hint="it serves `launcher run` and the Runner",
                )
            scheduler.store = self._store
            scheduler.take_over = self._take_over
            scheduler.on_progress = self._on_progress
            scheduler.on_wait = self._on_wait
            self._made[name, session] = scheduler
        return self._made[name, session]

    def expect(self, launches: Iterable[Launch]) -> None:
        """Show the launches to their schedulers before the first request: run options may name an engine."""
        shown = None
        for launch in launches:
            if (launch.scheduler, launch.cfg) != shown:
                shown = launch.scheduler, launch.cfg
                self.get(launch.scheduler).expect(launch.cfg)

    def bind(self, launch: Launch) -> BoundLaunch:
        """Return the launch bound to this machine's paths, for its scheduler. Raises
        InvalidRunConfigException, and SchedulerError for several projects where the scheduler runs in one
        folder.
        """
        from launcher.specs.binding import bind_launch

        scheduler, workspace = self.get(launch.scheduler), launch.workspace
        opts = scheduler.run_opts()
        if workspace is not None and workspace.projects and not scheduler.builds_workspaces:
            from launcher.schedulers.workspaces import no_place_for

            if opts.get("cwd") is not None:
                raise no_place_for(scheduler, workspace.name)
        return bind_launch(launch, opts=opts, home=os.path.expanduser("~"))

    def judges_fields_alone(self, launch: Launch) -> bool:
        """Whether the scheduler's dry run ignores plain texts. A user's subclass of ours may judge them."""
        return bool(vars(type(self.get(launch.scheduler))).get("judges_fields_alone", False))

    def options(self, launch: Launch) -> dict[str, Any]:
        """Return the run options that `bind` gives the launch, without those that a scheduler may refuse."""
        from launcher.specs.binding import bind_options

        opts = self.get(launch.scheduler).run_opts()
        return bind_options(launch, launch.cfg, opts=opts, home=os.path.expanduser("~"))

    def dry_run(self, bound: BoundLaunch) -> AppDryRunInfo[Any]:
        """Make the request for the scheduler, under the symbolic app id. Raises the scheduler's refusal."""
        scheduler = self.get(bound.launch.scheduler, bound.launch.key.session)
        workspace = self.workspace(bound)
        if workspace is not None:
            from launcher.schedulers.workspaces import dryrun_in_images

            return dryrun_in_images(scheduler, bound.app, bound.cfg, workspace)
        return scheduler.submit_dryrun(bound.app, bound.cfg)

    def workspace(self, bound: BoundLaunch) -> BoundWorkspace | None:
        """Return the folder to build into images; None without a workspace, or if the scheduler builds no
        images. Several projects are copied into one folder, once for all jobs with the same projects. Raises
        WorkspaceError.
        """
        workspace = bound.workspace
        if workspace is None or not self.get(bound.launch.scheduler).builds_workspaces:
            return None
        from launcher.schedulers.workspaces import BoundWorkspace

        if not workspace.projects:
            return BoundWorkspace(workspace.path, workspace.digest)
        from launcher.schedulers.workspaces import bind_workspace
        from launcher.workspace.api import in_order, merged

        projects = tuple(sorted(workspace.projects))
        with self._lock:
            if projects not in self._merged:
                digests = {each.path: each.digest for each in projects}
                whole = in_order({each.path: each.target for each in projects})
                folder = self._copies.enter_context(merged(whole, digests))
                self._merged[projects] = bind_workspace(folder)
            return self._merged[projects]

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


@contextmanager
def opened(
    *, readonly: bool = False, writes_ledger: bool = True, **params: Any
) -> Iterator[tuple[Store, Engines]]:
    """Open the ledger and the engines for the body of a `with`. For further parameters see `Engines`."""
    reads = readonly or not writes_ledger
    with open_store(readonly=reads) as store, Engines(store, readonly=readonly, **params) as engines:
        yield store, engines


_NEXT = {"waiting": PENDING_STATES, "queued": PENDING_STATES | {"waiting"}, "running": UNSTARTED_STATES}
"""State → the states that may precede it."""
GONE = "it started, and nothing of it or of its outcome is left"


def record_ends(store: Store, engines: Engines, schedulers: Iterable[str]) -> list[Attempt]:
    """Record every end that the ledger lacks, and remove the remains of dead supervisors.

    Args:
        schedulers: names of the engines to ask. The others are skipped, even when they are down.

    Returns the attempts whose end was recorded now.
    """
    names = dict.fromkeys(schedulers)
    live = [entry for entry in store.live_attempts() if entry.scheduler in names]
    open_ids = {entry.app_id for entry in live}
    ended = [attempt for name in names for attempt in engines.get(name).reap()]
    # A scheduler may record ends itself, also of attempts that only it knew.
    recorded = [attempt for attempt in ended if store.record(attempt) or attempt.app_id in open_ids]
    known = {attempt.app_id for attempt in ended}
    left = [entry for entry in live if entry.app_id not in known]
    for name in names:
        entries = [entry for entry in left if entry.scheduler == name]
        ids = [entry.app_id for entry in entries]
        states = {}
        with suppress(StateError):  # an unreadable app comes after all others
            for seen in engines.get(name).refresh(ids) if ids else ():
                states[seen.app_id] = seen.state
        for entry in entries:  # the ledger already agrees with most of them
            if states.get(entry.app_id) != entry.state:
                recorded += record_end(store, engines, entry)
    return recorded


def record_end(store: Store, engines: Engines, entry: AppRecord) -> list[Attempt]:
    """Record the end of an attempt that is live in the ledger, and end the processes of a lost one.

    Returns the attempt if this call recorded its end.
    """
    import time

    scheduler = engines.get(entry.scheduler)
    try:
        attempt = scheduler.attempt(entry.app_id)
        if attempt is not None and attempt.state == "lost":
            attempt = scheduler.ended_attempt(entry.app_id, 0.0)
    except StateError:  # its record cannot be read, so it may be live: plans name it
        return []
    if attempt is None and entry.state in UNSTARTED_STATES:
        store.forget(entry.app_id)  # it was removed before any replica started
    elif attempt is None:
        entry.state, entry.ended_at, entry.message = "lost", time.time(), GONE
        store.end(entry)
    elif attempt is not None and not attempt.is_live and store.record(attempt):
        return [attempt]
    elif attempt is not None:
        catch_up(store, attempt, entry)
    return []


def catch_up(store: Store, attempt: Attempt, entry: AppRecord | None) -> None:
    """Record the facts of an attempt that the ledger (`entry`) lacks.

    Its client may have been killed before it wrote the start, and the attempt may just have ended.
    """
    was = entry.state if entry is not None else None
    went_on = was in _NEXT.get(attempt.state, ())
    ended = attempt.state in ENDED_STATES and attempt.state != was
    if was is None or went_on or ended:
        store.record(attempt)
