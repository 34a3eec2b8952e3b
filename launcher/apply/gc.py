"""Remove what is left of apps that have ended. How they ended stays in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.apply.engines import Engines
from launcher.apply.settle import settle
from launcher.errors import LauncherError
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.attempt import ENDED_STATES
from launcher.state.records import AppRecord
from launcher.state.store import Store
from launcher.text import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which apps go: those that ended that long ago, but of every job the newest `keep` stay in any case."""

    older_than_s: float = 7 * 86400.0
    keep: int = 0


@dataclass(slots=True, kw_only=True)
class Collected:
    """What was removed, what was kept, and what could not be removed.

    Attributes:
        kept: what stays by rule, and why, both in words: ("3 apps", "they ended less than 7d ago").
    """

    removed: list[AppRecord] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, LauncherError]] = field(default_factory=list)


def reasons(apps: Iterable[AppRecord], rule: Rule, *, now: float) -> list[tuple[AppRecord, str]]:
    """Every app, the newest first, with the reason why `rule` keeps it, "" for one that goes.

    Apps of one name and session count as one job's.
    """
    newer: Counter[tuple[str, str]] = Counter()
    out = []
    for app in sorted(apps, key=lambda app: (ended(app), app.app_id), reverse=True):
        job = (app.session, app.name)
        why = "among the newest of their job (--keep)" if newer[job] < rule.keep else ""
        if not why and ended(app) > now - rule.older_than_s:
            why = "ended too short a time ago (--older-than)"
        if not why and app.in_use:
            why = "just ended, and the client that started it still runs"
        out.append((app, why))
        newer[job] += 1
    return out


def ended(app: AppRecord) -> float:
    """When it ended or, where that is not known, when it was made."""
    return app.ended_at or app.created_at or 0.0


def collect(
    store: Store,
    engines: Engines,
    schedulers: Sequence[str],
    rule: Rule,
    *,
    now: float,
    dry_run: bool = False,
    tombstones: bool = False,
) -> Collected:
    """Settle what has ended, then remove by `rule`, then what apps shared and none uses any more.

    What cannot be removed, or an engine that does not answer, is reported and keeps nothing else from going.

    Args:
        dry_run: change nothing; what apps shared is not looked at.
        tombstones: what engines keep of how jobs ended goes as well, by the age in `rule`.
    """
    done = Collected()
    for name in schedulers:
        try:
            scheduler = engines.get(name)
            if not dry_run:
                settle(store, engines, [name])
            found, leftovers = scheduler.finished(), list[tuple[str, str]]()
            own = [app for app in found if _is_ours(app, store)]
            judged = reasons(own, rule, now=now)
            _remove([app for app, why in judged if not why][::-1], scheduler, store, done, dry_run=dry_run)
            if not dry_run:
                done.shared += scheduler.sweep()
                leftovers = scheduler.leftovers()
            if tombstones:
                done.shared += _forget(scheduler, store, now - rule.older_than_s, dry_run=dry_run)
            done.kept += [*_kept(Counter(why for _, why in judged if why), len(found) - len(own)), *leftovers]
        except LauncherError as error:
            done.problems.append((name, error))
    live = sum(entry.scheduler in schedulers for entry in store.live_attempts())
    if live:
        done.kept.insert(0, (plural(live, "live job"), "work in progress"))
    return done


def _forget(scheduler: StagedScheduler[Any], store: Store, before: float, *, dry_run: bool) -> list[str]:
    """Remove what the engine keeps of outcomes before a moment; each in words, with what runs again."""
    gone = []
    for attempt in scheduler.outcomes():
        if (attempt.ended_at or attempt.created_at) > before:
            continue
        entry = store.app(attempt.app_id)
        known = entry is not None and entry.state in ENDED_STATES
        again = "from another state folder" if known else "the next time"
        if not dry_run:
            scheduler.forget_outcome(attempt.app_id)
        how = f"attempt {attempt.number} of {attempt.key}, {attempt.state}"
        gone.append(f"the record of {how}: the job runs again when it is applied {again}")
    return gone


def _is_ours(app: AppRecord, store: Store) -> bool:
    """Whether this state folder knows how the app ended; then it also knows when.

    An engine may be shared: without a record here its containers may be all that tells another user of its
    end.
    """
    if app.own:
        return True
    entry = store.app(app.app_id)
    if entry is None or entry.handle != app.handle:
        return False
    app.ended_at = entry.ended_at or app.ended_at
    return True


def _kept(by_reason: Mapping[str, int], others: int) -> list[tuple[str, str]]:
    kept = [(plural(number, "app"), why) for why, number in by_reason.items()]
    if others:
        kept.append((plural(others, "app"), "of other users or state folders (LAUNCHER_HOME)"))
    return kept


def _remove(
    apps: Sequence[AppRecord],
    scheduler: StagedScheduler[Any],
    store: Store,
    done: Collected,
    *,
    dry_run: bool,
) -> None:
    for app in apps:
        try:
            if not dry_run:
                attempt = scheduler.attempt(app.app_id)
                if attempt is not None and not attempt.is_live:
                    store.record(attempt)  # its last trace otherwise, where the ledger was lost
                scheduler.remove(app.app_id)
            done.removed.append(app)
        except LauncherError as error:
            done.problems.append((app.handle, error))
