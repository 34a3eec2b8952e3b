"""Record the ends that the engines know in the ledger."""

from __future__ import annotations

from launcher.apply.engines import Engines
from launcher.specs.attempt import ENDED_STATES, PENDING_STATES, UNSTARTED_STATES
from launcher.state.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord

_NEXT = {
    "waiting": PENDING_STATES,
    "queued": PENDING_STATES | {"waiting"},
    "running": UNSTARTED_STATES,
}
"""State → the states before it."""

GONE = "it started, and nothing of it or of its outcome is left"


def record_ends(store: Store, engines: Engines, schedulers: Iterable[str]) -> list[Attempt]:
    """Record every end that the ledger does not know, and remove what dead supervisors left.

    Args:
        schedulers: names of the engines to ask. Others are skipped, so one that is down does no harm.

    Returns the attempts whose end was recorded now.
    """
    names = dict.fromkeys(schedulers)
    live = [entry for entry in store.live_attempts() if entry.scheduler in names]
    open_ids = {entry.app_id for entry in live}
    ended = [attempt for name in names for attempt in engines.get(name).reap()]
    # A scheduler may record ends itself, also of attempts that only it knew.
    recorded = [attempt for attempt in ended if store.record(attempt) or attempt.app_id in open_ids]
    known = {attempt.app_id for attempt in ended}
    for entry in live:
        if entry.app_id not in known:
            recorded += _record_end(store, engines, entry)
    return recorded


def _record_end(store: Store, engines: Engines, entry: AppRecord) -> list[Attempt]:
    """Record the end of an attempt that is live in the ledger and that its engine did not report."""
    import time

    attempt = engines.get(entry.scheduler).attempt(entry.app_id)
    if attempt is None and entry.state in UNSTARTED_STATES:
        store.forget(entry.app_id)  # removed before any replica started
    elif attempt is None:
        entry.state, entry.ended_at, entry.message = "lost", time.time(), GONE
        store.end(entry)
    elif attempt is not None and not attempt.is_live and store.record(attempt):
        return [attempt]
    elif attempt is not None:
        catch_up(store, attempt, entry)
    return []


def catch_up(store: Store, attempt: Attempt, entry: AppRecord | None) -> None:
    """Record what the ledger (`entry`) is missing of an attempt.

    Its client may have been killed before it wrote the start, and the attempt may just have ended.
    """
    was = entry.state if entry is not None else None
    went_on = was in _NEXT.get(attempt.state, ())
    ended = attempt.state in ENDED_STATES and attempt.state != was
    if was is None or went_on or ended:
        store.record(attempt)
