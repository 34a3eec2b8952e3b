"""Read ledger and engines into one snapshot for the planner. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from launcher.apply.engines import Engines
from launcher.plan.snapshot import Snapshot, merge
from launcher.schedulers.registry import SHARED_ENGINES
from launcher.specs.attempt import ENDED_STATES, Attempt
from launcher.specs.launch import JobKey
from launcher.state.home import token
from launcher.state.store import Store


def observe(
    store: Store,
    engines: Engines,
    keys: Sequence[JobKey],
    schedulers: Iterable[str],
    needed: Iterable[JobKey] = (),
) -> Snapshot:
    """The attempts of `keys` in ledger and engines, and all other live attempts.

    Only the engines involved are asked: those that the jobs name and those of their latest attempts. For
    other attempts the ledger is used, so that an engine that a plan does not need cannot make it fail.

    Args:
        needed: the jobs among `keys` that others need: the output folders of their successes are looked at.
    """
    wanted = set(keys)
    recorded = store.decisive(wanted)
    latest = {each.key: each for each in sorted(recorded, key=lambda each: each.number)}
    unsettled = (attempt.scheduler for attempt in recorded if attempt.is_live)
    names = dict.fromkeys([*schedulers, *unsettled])
    # Unsuccessful attempts are read from the engine again: it knows manual changes, which no ledger holds,
    # and a lost attempt may turn out to have ended, or to be live.
    settled = {attempt.app_id for attempt in latest.values() if attempt.state == "succeeded"}
    elsewhere = [
        attempt
        for entry in store.live_attempts()
        if JobKey(*entry.key) not in wanted and (attempt := store.by_app_id(entry.app_id))
    ]
    seen = [attempt for name in names for attempt in engines.get(name).observe(keys, settled)]
    seen += _unseen([*recorded, *elsewhere], seen, engines, names)
    held = [attempt for attempt in seen if not (attempt.elsewhere and _is_over(store, attempt))]
    snapshot = merge(
        ledger=[*recorded, *elsewhere],
        engines=held,
        fingerprints={name: engines.get(name).fingerprint() for name in names},
        counts=store.counts(_documents([*latest.values(), *held], wanted)),
        home=token(),
        shared=SHARED_ENGINES,
    )
    lost = _lost_outputs(engines, (snapshot.ran[key] for key in needed if key in snapshot.ran), names)
    return snapshot.without_outputs(lost) if lost else snapshot


def _unseen(
    recorded: Iterable[Attempt], seen: Iterable[Attempt], engines: Engines, names: Collection[str]
) -> list[Attempt]:
    """The attempts that are live by the ledger, and that the engines of these names have not reported."""
    live = {attempt.app_id: attempt for attempt in recorded if attempt.is_live}
    for attempt in seen:
        live.pop(attempt.app_id, None)
    return _looked_up(engines, (attempt for attempt in live.values() if attempt.scheduler in names))


def _lost_outputs(engines: Engines, attempts: Iterable[Attempt], asked: Collection[str]) -> set[str]:
    """The app ids of the successes whose output folder is gone, on this machine and the engines asked."""
    by_scheduler: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.state == "succeeded" and attempt.output:
            by_scheduler.setdefault(attempt.scheduler, []).append(attempt)
    lost: set[str] = set()
    for name, successes in by_scheduler.items():
        scheduler = engines.get(name)
        if name in asked or not scheduler.shared_engine:
            lost |= scheduler.lost_outputs(successes)
    return lost


def _looked_up(engines: Engines, unseen: Iterable[Attempt]) -> list[Attempt]:
    """The engines' view of attempts that are live in the ledger and missing in the engines' lists.

    A list can miss an app (a lost row, a container made between two calls). An attempt that is not found here
    either is lost.
    """
    found = (engines.get(attempt.scheduler).attempt(attempt.app_id) for attempt in unseen)
    return [attempt for attempt in found if attempt is not None]


def _is_over(store: Store, attempt: Attempt) -> bool:
    entry = store.app(attempt.app_id)
    return entry is not None and entry.state in ENDED_STATES


def _documents(attempts: Iterable[Attempt], wanted: set[JobKey]) -> list[tuple[JobKey, str]]:
    """Automatic re-runs repeat the document of the latest attempt: only its attempts need counting."""
    return list(dict.fromkeys((a.key, a.digest) for a in attempts if a.key in wanted))
