"""Read apps from their containers, their labels and their records here. Changes nothing."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from launcher.dataclass import dataclass, replace
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.docker import record, status, tombstones, watchers
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import APP_ID, PREFIX, Labels, read_labels
from launcher.schedulers.docker.names import (
    expected_replicas,
    has_own_name,
    is_replica,
    mark_of,
    own_name,
    waiting_container,
)
from launcher.schedulers.docker.record import of_labels
from launcher.schedulers.docker.status import DockerAppView, view
from launcher.schedulers.docker.tombstones import Tombstone
from launcher.schedulers.docker.watchers import Looks, OneLook
from launcher.schedulers.owner import Owner
from launcher.schedulers.record import in_state
from launcher.specs.attempt import PENDING_STATES, WAITING_STATES, Attempt, AttemptState
from launcher.state.records import AppRecord, as_seen

INSPECT_S = 15.0
"""Time limit for inspecting the containers of one app at a slow engine; the others stay as listed."""
_MAX_READS = 4
_MARGIN_S = 30.0  # allowance for the clocks of two machines


@dataclass(frozen=True, slots=True)
class DockerApp:
    """One app at the engine.

    Attributes:
        journal: None where there is no record of it here.
        owner: the process that submits the app, completes its start, or holds it while it waits; "" when
            there is none, or none is needed.
        paused_by: the owner whose watcher may restart the app, at once or after a pause; its record is not
            here.
        is_ending: the app seems to have ended, and its watcher is about to judge and record that; no event
            follows.
        has_tombstone: its outcome was read from its tombstone.
    """

    labels: Labels
    containers: tuple[Container, ...]
    view: DockerAppView
    journal: Journal | None
    owner: str = ""
    paused_by: Owner | None = None
    is_ending: bool = False
    has_tombstone: bool = False

    @property
    def app_id(self) -> str:
        return self.labels.app_id

    @property
    def app_dir(self) -> str:
        return record.folder(self.app_id)

    @property
    def is_abandoned(self) -> bool:
        """Whether the app waits for others or for its turn, and its watcher has died."""
        return self.view.state in WAITING_STATES and not self.owner

    @property
    def has_no_logs(self) -> bool:
        """Whether the app has ended and its containers, with their logs, are gone, as after `gc --logs`."""
        return self.view.ended and self.view.started_at is not None and not self.containers

    def to_record(self) -> AppRecord:
        """The app as a list shows it, without its replicas."""
        found = in_state(of_labels(self.app_id, self.labels), self.view)
        found.images = self.view.images
        found.abandoned, found.logs_removed = self.is_abandoned, self.has_no_logs
        return found


def find(
    engine: EngineView,
    app_id: str,
    *,
    inspected: bool = True,
    lock_held: bool = False,
    take_over: bool = False,
    confirm: bool = True,
    previous: DockerApp | None = None,
) -> DockerApp | None:
    """One app; None when it has neither a container nor a record.

    List, inspects and journal are read at different moments, while other clients go on. So an app that reads
    as ended, removed, interrupted or gone counts as such only when the next read confirms it.

    Args:
        inspected: read times, restarts, the OOM mark, ports and hostnames, too.
        lock_held: this process holds the lock of its record.
        take_over: an owner on another machine counts as dead.
        confirm: False for callers that read again: one read is enough.
        previous: the result of an earlier read.
    """
    if not is_id(app_id):
        return None
    read = partial(_app, engine, app_id, lock_held=lock_held, take_over=take_over, named=True)
    stone, app = None, previous
    for attempt in range(_MAX_READS):
        journal = record.journal(record.folder(app_id))
        if attempt or previous is not None or journal is None:
            stone = tombstones.read(engine, app_id)
        containers = list_containers(engine, app_id)
        if inspected:
            containers = engine.inspect_within(containers, INSPECT_S)
        last, app = app, read(containers, journal, stone)
        if not confirm or (app is not None and not needs_confirmation(app)):
            break
        if (attempt or previous is not None) and _conclusion(app) == _conclusion(last):
            break
    return app


def find_all(
    engine: EngineView, *labels: str, stones: Mapping[str, Tombstone] | None = None, take_over: bool = False
) -> list[DockerApp]:
    """Every app as the engine's list shows it, newest first: one read, without confirmation as in `find`.

    Args:
        labels: labels that the app's containers must have, or its record if it has no containers.
        stones: outcomes of attempts, by app id, where the caller has read them.
        take_over: see `find`.
    """
    stones = tombstones.read_all(engine) if stones is None else stones
    journals = {app_id: record.journal(record.folder(app_id)) for app_id in record.app_ids()}
    by_app: dict[str, list[Container]] = {app_id: [] for app_id in journals}
    for container in own_containers(engine, engine.containers(*(labels or (APP_ID,)))):
        by_app.setdefault(container.labels.get(APP_ID, ""), []).append(container)
    texts = [key.removeprefix(PREFIX) for key in labels if "=" not in key]
    read = partial(_app, engine, look=OneLook(engine), take_over=take_over)
    found = (
        read(app_id, many, journals.get(app_id), stones.get(app_id) if many else None)
        for app_id, many in by_app.items()
    )
    apps = [each for each in found if each is not None and all(map(each.labels.text, texts))]
    return sorted(apps, key=lambda each: each.labels.created_at, reverse=True)


def inspect(engine: EngineView, app: DockerApp) -> DockerApp:
    """The same app, inspected and confirmed."""
    return find(engine, app.app_id, previous=app) or app


def needs_confirmation(app: DockerApp) -> bool:
    """Whether one read is not enough to act on: the app seems to have ended, or to have lost its owner.

    An engine whose disk was full may list an ended container as a running one; inspected, it has ended.
    """
    view, is_inspected = app.view, all(each.inspected for each in app.containers)
    if view.ended and view.live and not is_inspected:
        return True
    if view.ended:  # the containers of a job may not show how it ended; its outcome at the engine does
        is_shown = app.has_tombstone or (is_inspected and not app.labels.watcher)
        return not view.final or (app.journal is None and app.labels.is_job and not is_shown)
    if app.paused_by is not None and not is_inspected:
        return True
    return not app.owner and (view.state != "running" or view.unstarted > 0)


def _conclusion(app: DockerApp | None) -> object:
    if app is None:
        return None
    replicas = [(each.role, each.k, each.id, each.state) for each in app.view.replicas]
    return app.view.state, app.view.message, app.owner, replicas


def _app(
    engine: EngineView,
    app_id: str,
    containers: Sequence[Container],
    journal: Journal | None,
    stone: Tombstone | None,
    *,
    look: OneLook | None = None,
    lock_held: bool = False,
    take_over: bool = False,
    named: bool = False,
) -> DockerApp | None:
    """The app at one moment; `look` sees the watchers of all apps that are read together."""
    found, look = tuple(containers), look or OneLook(engine)
    labels = _labels(engine, app_id, found, stone)
    view = labels and _view(engine, labels, found, journal, stone, named=named)
    if not (labels and view):
        return None
    app = DockerApp(labels, found, view, journal, has_tombstone=stone is not None)
    if journal is None and stone is None and (paused_by := _paused_by(look, app, take_over=take_over)):
        return replace(app, view=status.paused(view), paused_by=paused_by)
    is_recorded = stone is not None if journal is None else journal.outcome is not None
    if view.ended and not lock_held and not is_recorded:
        is_plain = journal is not None and bool(view.drift)  # the record here tells removed from pruned ones
        if not is_plain and _is_held(look, app):
            # Its watcher alone knows of kills, compares input files, and hashes the output folder.
            before: AttemptState = "running" if found or view.started else "waiting"
            view = replace(view, state=before, message="", exit_code=None, ended_at=None, final=False)
            app = replace(app, view=view, is_ending=True)
        elif (known := record.journal(app.app_dir)) is not None and known.outcome is not None:
            # Its watcher has recorded more since the journal was read, and left.
            return _app(engine, app_id, found, known, stone, look=look, take_over=take_over, named=named)
    return replace(app, owner=_owner(look, app, lock_held=lock_held, take_over=take_over))


def _view(
    engine: EngineView,
    labels: Labels,
    found: Sequence[Container],
    journal: Journal | None,
    stone: Tombstone | None,
    *,
    named: bool,
) -> DockerAppView | None:
    """The state by journal, tombstone and containers. `named`: name removed replicas where possible."""
    if stone is not None and (journal is None or journal.outcome is None):
        effective: Journal | None = Journal([*(journal.events if journal else ()), stone.outcome.to_event()])
    else:
        effective = journal
    complete = (journal is not None and journal.is_declared) or (stone is not None and not found)
    expected = expected_replicas(labels) if named and not complete else ()
    shown = partial(status.view, found, effective, expected_replicas=expected, labels=labels)
    view = shown()
    if view is not None and view.hangs_on_restart and (effective is None or effective.outcome is None):
        engine.answer_anew()  # an engine that is stopping may have ended the app, and shows no new start yet
        view = shown(engine_started_at=engine.started_at())
    if view is None:
        return None
    if stone is not None:
        view = replace(
            view,
            started_at=stone.started_at or view.started_at,  # containers show the start of the last run alone
            used=view.used or stone.used,
            output_digest=view.output_digest or stone.labels.text("output-digest"),
            images=view.images or stone.labels.image_ids,
        )
    return view


def _labels(
    engine: EngineView, app_id: str, found: Sequence[Container], stone: Tombstone | None
) -> Labels | None:
    """The labels of a replica, if any: beside it another client's reservation may exist for a moment.

    For an app of this engine without containers: the recorded labels.
    """
    if found:
        return read_labels(next((each for each in found if is_replica(each)), found[0]).labels)
    recorded = record.read_attempt(record.folder(app_id)) or {}
    is_here = "engine" in recorded and recorded["engine"] == engine.engine_id()
    labels = read_labels(recorded.get("labels") or {}) if is_here else None
    return labels or (stone.labels if stone is not None else None)


def _is_held(engine: Looks, app: DockerApp) -> bool:
    """Whether a watcher has the app: here, below another state folder of this machine, or on the engine."""
    is_here = record.is_locked(app.app_dir) or record.locked_elsewhere(app.app_id, app.labels.owner)
    return bool(is_here) or watchers.is_held(engine, app.labels)


def _owner(engine: Looks, app: DockerApp, *, lock_held: bool, take_over: bool) -> str:
    view = app.view
    if view.state in WAITING_STATES:  # its watcher; one on another machine counts as alive
        waiting = waiting_container(app.containers)
        holder = Labels(waiting.labels).holder if waiting is not None else record.holder(app.app_dir)
        may_hold = holder and watchers.may_be_alive(engine, holder, math.inf, take_over=take_over)
        return str(holder) if may_hold and not record.is_free(app.app_id, holder) else ""
    if view.state not in PENDING_STATES and not (view.state == "running" and view.unstarted):
        return ""
    progress_at = max((each.created_at or 0.0 for each in app.containers), default=None)
    # Its owner, and the owner of a reservation that another client is making or giving up.
    labels = [*(Labels(each.labels) for each in app.containers), app.labels]
    of_all = {each.text("owner"): each.owner for each in labels}
    for submitter in filter(None, of_all.values()):
        if watchers.may_be_alive(engine, submitter, progress_at, take_over=take_over):
            return str(submitter)
        if record.locked_elsewhere(app.app_id, submitter):
            return f"a watcher below {submitter.home}"
    if watchers.is_held(engine, app.labels):
        return f"the watcher {app.labels.watcher}"
    if not lock_held and record.is_locked(app.app_dir):
        return str(record.holder(app.app_dir) or "another process")
    return ""


def _paused_by(engine: Looks, app: DockerApp, *, take_over: bool) -> Owner | None:
    """See `DockerApp.paused_by`: for an app without a record here, of which a replica has failed.

    Where the watcher cannot be seen, the longest pause decides.
    """
    if app.view.state != "failed" or any(mark_of(each) for each in app.containers):
        return None
    owner = app.labels.owner
    if owner is None or not status.has_retries(app.view, app.labels.retries):
        return None
    if app.labels.watcher:
        return owner if watchers.has_record(engine, app.labels) else None
    if owner.host == os.uname().nodename and (not owner.is_here or os.access(owner.home, os.R_OK)):
        return owner if record.locked_elsewhere(app.app_id, owner) else None
    longest_s, ended_at = status.longest_pause_s(app.view, app.labels.retries), app.view.ended_at
    is_over = ended_at is not None and time.time() >= ended_at + longest_s + _MARGIN_S
    return owner if longest_s and not take_over and not is_over else None


def attempt_of(app: DockerApp) -> Attempt | None:
    """The current attempt of a job; None for an app without a job."""
    attempt, view = app.labels.attempt, app.view
    if attempt is None:
        return None
    seen = as_seen(attempt, app.to_record(), app.owner)
    return replace(seen, unstarted=view.unstarted, drift=view.drift)


def list_containers(engine: EngineView, app_id: str) -> list[Container]:
    """The containers of an app, from the engine's list."""
    return own_containers(engine, engine.containers(f"{APP_ID}={app_id}"))


def inspect_app(engine: EngineView, app_id: str) -> tuple[DockerAppView | None, list[Container]]:
    """The app, read from its containers and its record here, and the containers, all inspected."""
    found = engine.inspect_all(each.id for each in list_containers(engine, app_id))
    return view(found, record.journal(record.folder(app_id))), found


def own_containers(engine: EngineView, containers: Iterable[Container]) -> list[Container]:
    """The containers that belong to an app, in their order.

    Labels are not enough: `docker commit` copies them into the image, and so into its containers. A container
    with the name of its replica (plus the mark of a stop) is the replica's. So is a renamed one, unless its
    labels come from its image. Where a copy took the name of a marked or renamed container, the older one
    counts. The engine lists the newest first, with times in whole seconds.
    """
    oldest: dict[str, Container] = {}
    for each in containers:
        if not has_own_name(each):
            image = engine.image(each.image_id) if each.image_id else None
            if image is None or image.labels.get(APP_ID) == each.labels.get(APP_ID):
                continue
        name = own_name(each)
        first = oldest.setdefault(name, each)
        if (each.created_at or 0.0) <= (first.created_at or 0.0):
            oldest[name] = each
    return list(oldest.values())
