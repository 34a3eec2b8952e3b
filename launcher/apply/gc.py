"""Remove what is left of apps that have ended. How they ended stays in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.apply.engines import Engines
from launcher.apply.settle import settle
from launcher.errors import LauncherError
from launcher.schedulers.staged import Finished, StagedScheduler
from launcher.state.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which apps go: those that ended that long ago, but of every job the newest `keep` stay in any case."""

    older_than_s: float = 7 * 86400.0
    keep: int = 0


@dataclass(slots=True, kw_only=True)
class Collected:
    """What was removed, and why something was not."""

    removed: list[Finished] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    problems: list[tuple[str, LauncherError]] = field(default_factory=list)


def chosen(apps: Iterable[Finished], rule: Rule, *, now: float) -> list[Finished]:
    """The apps that `rule` lets go, the oldest first. Apps of one name and session count as one job's."""
    newer: Counter[tuple[str, str]] = Counter()
    out = []
    for app in sorted(apps, key=lambda app: (app.ended_at, app.app_id), reverse=True):
        job = (app.session, app.name)
        if newer[job] >= rule.keep and app.ended_at <= now - rule.older_than_s:
            out.append(app)
        newer[job] += 1
    return out[::-1]


def collect(
    ledger: Ledger,
    engines: Engines,
    schedulers: Sequence[str],
    rule: Rule,
    *,
    now: float,
    dry_run: bool = False,
) -> Collected:
    """Settle what has ended, then remove by `rule`, then what apps shared and none uses any more.

    What cannot be removed, or an engine that does not answer, is reported and keeps nothing else from going.

    Args:
        dry_run: change nothing; what apps shared is not looked at.
    """
    done = Collected()
    for name in schedulers:
        try:
            scheduler = engines.get(name)
            if not dry_run:
                settle(ledger, engines, [name])
            own = [app for app in scheduler.finished() if _is_ours(app, ledger)]
            _remove(chosen(own, rule, now=now), scheduler, ledger, done, dry_run=dry_run)
            if not dry_run:
                done.shared += scheduler.sweep()
        except LauncherError as error:
            done.problems.append((name, error))
    return done


def _is_ours(app: Finished, ledger: Ledger) -> bool:
    """An engine may be shared. What this state folder has no record of may be somebody else's last word on
    how it ended."""
    if app.own:
        return True
    entry = ledger.entry(app.app_id)
    return entry is not None and entry.handle == app.handle


def _remove(
    apps: Sequence[Finished],
    scheduler: StagedScheduler[Any],
    ledger: Ledger,
    done: Collected,
    *,
    dry_run: bool,
) -> None:
    for app in apps:
        try:
            if not dry_run:
                attempt = scheduler.attempt(app.app_id)
                if attempt is not None and not attempt.is_live:
                    ledger.record(attempt)  # its last trace otherwise, where the ledger was lost
                scheduler.remove(app.app_id)
            done.removed.append(app)
        except LauncherError as error:
            done.problems.append((app.handle, error))
