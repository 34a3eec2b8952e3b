"""Make the plan of job files, or find what is left of an earlier plan."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher import git
from launcher.apply.approval import check_capacity
from launcher.apply.checked import bind_plan, dry_run_plan
from launcher.apply.engines import Engines
from launcher.apply.inputs import with_inputs
from launcher.apply.observe import observe
from launcher.apply.seen import CheckoutFiles
from launcher.plan.grounds import needs_of
from launcher.plan.model import Plan
from launcher.plan.orphans import Scope
from launcher.plan.recheck import located, recheck
from launcher.plan.reconcile import DeclaredIn, nowhere, reconcile
from launcher.plan.select import select
from launcher.plan.snapshot import Snapshot
from launcher.specs.launch import JobKey, Launch
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.plan.turns import Room
    from launcher.turns.ask import Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The caller's choices beside the job files; see `launcher.plan.reconcile`, and `plan.select`.

    `declared_in` finds the file of a need that is not among them: see `launcher.plan.reconcile`.
    """

    select: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    retry_failed: bool = False
    prune: bool = False
    take_over: bool = False
    scopes: tuple[Scope, ...] = ()
    declared_in: DeclaredIn = nowhere


NO_CHOICES = Choices()


def plan_launches(
    launches: Sequence[Launch],
    choices: Choices,
    store: Store,
    engines: Engines,
    limits: Sequence[Limit] = (),
) -> Plan:
    """Make the plan of job files: observe, decide, and check with the schedulers.

    Args:
        limits: of groups that all of its jobs belong to.
    """
    return planned(launches, choices, store, engines, limits)[0]


def planned(
    launches: Sequence[Launch],
    choices: Choices,
    store: Store,
    engines: Engines,
    limits: Sequence[Limit] = (),
) -> tuple[Plan, Snapshot]:
    """The plan of job files, and the attempts that it was made for."""
    chosen, others = select(launches, choices.select)
    engines.expect(chosen)
    room = _room(chosen, engines, limits)
    schedulers = dict.fromkeys(launch.scheduler for launch in chosen)
    seen = observe(store, engines, keys_of(chosen), schedulers, _needed(chosen))
    snapshot = with_inputs(seen, chosen)
    plan = reconcile(
        chosen,
        snapshot,
        others=others,
        select=choices.select,
        rerun=choices.rerun,
        retry_failed=choices.retry_failed,
        prune=choices.prune,
        take_over=choices.take_over,
        scopes=choices.scopes,
        declared_in=choices.declared_in,
        room=room,
        edited=CheckoutFiles(engines).edited_of(chosen, snapshot.ran),
    )
    checked = dry_run_plan(plan, engines)
    if room is None:
        return checked, snapshot
    from launcher.plan.turns import with_turns

    return with_turns(checked, room), snapshot


def _room(launches: Sequence[Launch], engines: Engines, limits: Sequence[Limit]) -> Room | None:
    """None where no job takes turns: then nothing of that is imported."""
    asking = [launch for launch in launches if launch.enabled and (launch.asks or limits)]
    if not asking:
        return None
    from launcher.apply.turns import room_for

    return room_for(asking, engines, limits)


def keys_of(launches: Iterable[Launch]) -> list[JobKey]:
    """The jobs, and those that they need."""
    needs = needs_of(launches)
    return list(dict.fromkeys([*needs, *(key for each in needs.values() for key in each)]))


def _needed(launches: Iterable[Launch]) -> set[JobKey]:
    """The jobs that others of these need."""
    return {key for each in needs_of(launches).values() for key in each}


def plan_rest(
    plan: Plan, keys: Sequence[JobKey], schedulers: Iterable[str], store: Store, engines: Engines
) -> Plan:
    """What is left to do of a plan. Raises StaleError or BlockedError when it does not fit the snapshot."""
    engines.expect(step.launch for step in plan.steps if step.launch is not None)
    launches = [step.launch for step in plan.steps if step.launch is not None]
    snapshot = with_inputs(observe(store, engines, keys, schedulers, _needed(launches)), launches)
    # Only a saved plan can expire, not one that was just made in this process.
    checked = recheck(plan, snapshot, now=time.time() if plan.plan_id else 0)
    if refusal := checked.refusal():
        raise refusal
    starting = [step for step in checked.plan.steps if step.starts]
    if (room := _room([each.launch for each in starting if each.launch], engines, ())) is not None:
        lacks = {each.key: room.lack(each.launch) for each in starting if each.launch is not None}
        check_capacity({key: lack for key, lack in lacks.items() if lack is not None})
    return bind_plan(checked.plan, engines)


def at_home(plan: Plan, root: str | None) -> Plan:
    """A saved plan bound to the checkout at `root`; one made in this process is bound already."""
    if not any(step.launch is not None and not step.launch.root for step in plan.steps):
        return plan
    folder = os.path.abspath(root or ".")
    repository = git.repository(folder)
    if repository is not None:
        folder = repository.root
    origin = repository.origin if repository is not None else None
    return located(plan, root=folder, origin=origin or folder)
