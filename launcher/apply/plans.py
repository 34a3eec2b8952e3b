"""Make plans from job files or the rest of an earlier plan, and explain what a success depends on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from launcher import git
from launcher.apply.approval import check_capacity, check_plan
from launcher.apply.dry_run import ask_schedulers, dry_run_plan
from launcher.apply.engines import Engines, opened
from launcher.apply.observe import CheckoutFiles, observe
from launcher.dataclass import replace
from launcher.errors import LauncherError, UsageError
from launcher.plan.grounds import Grounds
from launcher.plan.model import Plan
from launcher.plan.reconcile import NO_CHOICES, Choices, one_named, reconcile, select
from launcher.plan.snapshot import Snapshot
from launcher.plan.step import Step
from launcher.schedulers.ids import random_id
from launcher.specs.attempt import Attempt
from launcher.specs.launch import Launch, attempt_id
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.plan.effects import Approval
    from launcher.plan.explain import Explanation
    from launcher.plan.turns import Room
    from launcher.turns.line import Limit


class WrongArgumentError(LauncherError, TypeError):
    """An argument has a type that the function does not take."""


def make_plan(
    launches: Sequence[Launch],
    *,
    choices: Choices = NO_CHOICES,
    parallel: int | None = None,
    requests: bool = False,
) -> Plan:
    """Plan what applying `launches` would start, stop and leave, and why. Writes nothing, takes no lock.

    Args:
        choices: which jobs are planned, what runs again, and what is stopped beside them.
        parallel: as in `apply_launches`.
        requests: make a request for every step that starts a job; else jobs of a matrix that are alike share
            one.

    Raises SchedulerError when a scheduler refuses a request, with its reason for each job; StateError when
    LAUNCHER_HOME cannot be read; WrongArgumentError, a TypeError, for anything but launches.
    """
    check_launches("make_plan", launches)
    _check_choices("make_plan", choices)
    with opened(readonly=True, take_over=choices.take_over) as (store, engines):
        limits = limits_of_apply(parallel)
        plan = plan_launches(launches, choices, store, engines, limits, requests=requests)[0]
        return replace(plan, images=_images_of(plan, engines))  # it may be saved, and applied much later


def plan_launches(
    launches: Sequence[Launch],
    choices: Choices,
    store: Store,
    engines: Engines,
    limits: Sequence[Limit] = (),
    *,
    requests: bool = False,
) -> tuple[Plan, Snapshot]:
    """Observe, decide, and check with the schedulers; returns the plan and the attempts that it is based on.

    `limits`: of groups that all of its jobs belong to. `requests`: see `make_plan`.
    """
    chosen, others = select(launches, choices.select)
    snapshot = observe(store, engines, chosen, others=bool(choices.scopes))
    room = _room(chosen, engines, limits)
    choices = _in_sparse_checkouts(choices, launches, snapshot)
    edited = CheckoutFiles(engines).edited_of(chosen, snapshot.ran)
    decided = partial(reconcile, chosen, snapshot, choices, others=others, room=room, edited=edited)
    plan = dry_run_plan(decided(), engines, requests=requests or choices.check)
    if choices.check:
        refused, notes = ask_schedulers(plan, engines)
        plan = dry_run_plan(decided(refused=refused), engines, requests=requests) if refused else plan
        plan = plan.with_notes(notes)
    plan = _with_estimates(_with_notes(plan, engines, limits, chosen), store)
    if room is None:
        return plan, snapshot
    from launcher.plan.turns import with_turns

    return with_turns(plan, room), snapshot


def _in_sparse_checkouts(choices: Choices, launches: Sequence[Launch], snapshot: Snapshot) -> Choices:
    """Return the choices, whose scopes then name the orphans' files that a sparse checkout has left out."""
    declared = {launch.key for launch in launches}
    others = [attempt for attempt in snapshot.live if attempt.key not in declared]
    roots = {launch.origin: launch.root for launch in launches}
    scopes = []
    for scope in choices.scopes:
        paths = {attempt.path for attempt in others if scope.holds(attempt)}
        tree = git.repository(roots[scope.origin]) if paths and scope.origin in roots else None
        left_out = tree.left_out(sorted(paths)) if tree is not None else ()
        scopes.append(replace(scope, left_out=frozenset(left_out)))
    return replace(choices, scopes=tuple(scopes))


def _images_of(plan: Plan, engines: Engines) -> dict[str, dict[str, str]]:
    """Return `Plan.images` as they are now."""
    names: dict[str, dict[str, None]] = {}
    for step in plan.steps:
        if step.starts and step.launch is not None:
            images = (role.image for role in step.launch.app.roles)
            names.setdefault(step.launch.scheduler, {}).update(dict.fromkeys(images))
    found = {name: engines.get(name).images_now(images) or {} for name, images in names.items()}
    return {name: {each: now.id for each, now in ids.items()} for name, ids in found.items() if ids}


def _with_notes(plan: Plan, engines: Engines, limits: Sequence[Limit], launches: Sequence[Launch]) -> Plan:
    """Return the plan with notes on matrix jobs that an engine does not take as one batch."""
    if not any(engines.get(each.scheduler).batches for each in launches if each.matrix):
        return plan
    from launcher.apply.batches import with_notes

    return with_notes(plan, engines, limits)


def approved_part(plan: Plan, approvals: Sequence[Approval], store: Store, engines: Engines) -> Plan:
    """Return the part of the plan that approvals hold; see `launcher.plan.approved`."""
    from launcher.plan.approved import judged

    def past(step: Step, number: int) -> Attempt | None:
        app_id = attempt_id(step.key, number)
        recorded = store.by_app_id(app_id)
        if recorded is not None:
            return recorded
        if step.latest is not None and step.latest.app_id == app_id:
            return step.latest
        name = step.launch.scheduler if step.launch is not None else step.guard.scheduler
        return engines.get(name).attempt(app_id)

    return judged(plan, approvals, past)


def plan_rest(plan: Plan, schedulers: Iterable[str], store: Store, engines: Engines) -> Plan:
    """Return the rest of a plan. Raises StaleError or BlockedError when it does not fit the snapshot."""
    from launcher.plan.recheck import recheck, with_images

    launches = [step.launch for step in plan.steps if step.launch is not None]
    keys = [step.key for step in plan.steps]
    snapshot = observe(store, engines, launches, keys=keys, schedulers=schedulers)
    # Only a saved plan can expire; this process has just made the others.
    checked = recheck(plan, snapshot, now=time.time() if plan.plan_id else 0)
    if plan.images:
        checked = with_images(checked, _images_of(checked.plan, engines))
    if refusal := checked.refusal():
        raise refusal
    starting = {step.key: step.launch for step in checked.plan.steps if step.starts and step.launch}
    if (room := _room(starting.values(), engines, ())) is not None:
        lacks = {key: room.lack(launch) for key, launch in starting.items()}
        check_capacity({key: lack for key, lack in lacks.items() if lack is not None})
    return _with_estimates(checked.plan, store)


def _with_estimates(plan: Plan, store: Store) -> Plan:
    """Return the plan with estimates of the jobs that it starts; reads nothing if no job has run twice."""
    if not any(step.guard.attempt > 1 and step.starts for step in plan.steps):
        return plan
    from launcher.plan.estimate import LEAST, MOST, Past, with_estimates

    starting = (step for step in plan.steps if step.starts and step.launch and step.guard.attempt >= LEAST)
    history = store.successes([step.key for step in starting], MOST)
    return with_estimates(plan, {key: [Past(*each) for each in found] for key, found in history.items()})


def explain_success(launches: Sequence[Launch], job: str, *, choices: Choices = NO_CHOICES) -> Explanation:
    """Explain what the latest success of a job (`job` or `project/job`) depends on, and whether each part is
    current.

    Writes nothing. Raises the errors of `make_plan`, and UsageError for a name of no job, or of several.
    """
    from launcher.plan.explain import explain  # other commands do not need it

    chosen = chosen_launches("explain_success", launches, choices)
    launch = one_named(chosen, job, "--explain")
    with opened(readonly=True, take_over=choices.take_over) as (store, engines):
        plan, snapshot = plan_launches(launches, choices, store, engines)
        check_plan(plan)
        steps = {step.key: step for step in plan.steps if step.launch is not None}
        edited = CheckoutFiles(engines).edited_of([launch], snapshot.succeeded).get(launch.key, ())
        return explain(steps[launch.key], snapshot, Grounds(snapshot, steps).of(launch), edited)


def at_home(plan: Plan, root: str | None) -> Plan:
    """Return a saved plan bound to the checkout at `root`; a plan of this process is bound already."""
    if not any(step.launch is not None and not step.launch.root for step in plan.steps):
        return plan
    from launcher.plan.recheck import located

    folder = os.path.abspath(root or ".")
    repository = git.repository(folder)
    if repository is not None:
        folder = repository.root
    origin = repository.origin if repository is not None else None
    return located(plan, root=folder, origin=origin or folder)


def limits_of_apply(parallel: int | None) -> tuple[Limit, ...]:
    """Return the limit of the group of all jobs that one apply starts. Raises UsageError."""
    if parallel is None:
        return ()
    if isinstance(parallel, bool) or not isinstance(parallel, int) or parallel < 1:
        raise UsageError(f"`parallel` is {parallel!r}", hint="at least one job runs at once")
    from launcher.turns.line import Limit

    return (Limit(f"apply {random_id()}", apps=parallel, label="this apply"),)


def chosen_launches(function: str, launches: Any, choices: Choices) -> list[Launch]:
    """Return the launches that the caller has selected. Raises WrongArgumentError, UsageError."""
    check_launches(function, launches)
    _check_choices(function, choices)
    return select(launches, choices.select)[0]


def check_launches(function: str, launches: Any) -> None:
    """Raise WrongArgumentError for anything but a list of launches."""
    if isinstance(launches, Launch):
        raise _wrong(function, "a list of launches", launches, f"put it into a list: {function}([launch])")
    if isinstance(launches, (str, bytes)) or not isinstance(launches, Sequence):
        raise _wrong(function, "a list of launches", launches, _load(function, launches))
    for launch in launches:
        if not isinstance(launch, Launch):
            raise _wrong(function, "a list of launches", launch, _load(function, launch), where=" in it")


def _check_choices(function: str, choices: Any) -> None:
    """Raise WrongArgumentError unless these are choices whose jobs are lists of names, not texts."""
    if not isinstance(choices, Choices):
        raise _wrong(function, "`Choices`", choices, 'such as launcher.Choices(rerun=("train",))')
    for field in ("select", "rerun"):
        names = getattr(choices, field)
        is_list = isinstance(names, Sequence) and not isinstance(names, str | bytes)
        if not is_list or not all(isinstance(name, str) for name in names):
            hint = f'such as launcher.Choices({field}=("train",))'
            raise _wrong(function, f"names of jobs as `{field}`", names, hint)


def check_is_plan(function: str, plan: Any) -> None:
    """Raise WrongArgumentError for anything but a Plan."""
    if not isinstance(plan, Plan):
        hint = "make_plan(launches) makes one; `launcher apply plan.json` applies a saved one"
        raise _wrong(function, "a plan", plan, hint)


def _room(launches: Iterable[Launch], engines: Engines, limits: Sequence[Limit]) -> Room | None:
    """Return the room of this machine; None, without an import, when no job takes turns."""
    asking = [launch for launch in launches if launch.enabled and (launch.asks or limits)]
    if not asking:
        return None
    from launcher.apply.turns import room_for

    return room_for(asking, engines, limits)


def _load(function: str, given: Any) -> str:
    file = repr(given) if isinstance(given, str) else '"train.launcher.yaml"'
    return f"load_job reads a job file: {function}([launcher.load_job({file})])"


def _wrong(function: str, wanted: str, given: Any, hint: str, where: str = "") -> WrongArgumentError:
    shown = repr(given)
    shown = shown if len(shown) <= 60 else f"{shown[:59]}…"
    return WrongArgumentError(
        f"{function} takes {wanted}, got{where} {type(given).__name__}: {shown}", hint=hint
    )
