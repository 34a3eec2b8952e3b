"""Compare a saved plan with the present: which steps are left to do, and why it may have to be refused.

A step is valid when the planner would still choose the same action on the same latest attempt. The attempt
of a kept or held job may have changed as long as the job would still be kept or held: a run that has
succeeded since is no reason to refuse. An attempt that this plan made (`Attempt.plan_id`) never invalidates
it: an unfinished one is resumed, any other counts as done, whatever its outcome.

The needs of the jobs are looked up again, in the plan and outside of it. A need's attempt that has succeeded
since changes nothing; an attempt of another edition, or a failure, does. Jobs are held when they need a job
that this plan has started and that failed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from typing import Any

from launcher.dataclass import dataclass, replace
from launcher.errors import StaleError
from launcher.plan.decide import decide
from launcher.plan.grounds import Desired, Grounds, history_of, in_order, key_of, needs_of
from launcher.plan.model import Plan
from launcher.plan.reconcile import asked_for, has_other_origin
from launcher.plan.snapshot import Snapshot
from launcher.plan.step import LACKING, Guard, Reason, Step, submitter
from launcher.specs.attempt import WAITING_STATES, Attempt
from launcher.specs.launch import JobKey, Launch

_Today = tuple[Step, "Reason | None"]

_CLOCK_SKEW_S = 300
"""The tolerated clock difference between the machine that plans and the machine that applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """One reason to refuse a plan. `key` is None for a reason that concerns the whole plan."""

    key: JobKey | None = None
    reason: Reason

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}" if self.key else str(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """The part of the plan that is left to do. Nothing of it may be applied when `stale` has entries."""

    plan: Plan
    stale: tuple[Stale, ...] = ()

    def refusal(self) -> StaleError | None:
        """The error to raise, with every reason to refuse the plan; None when there is none."""
        if not self.stale:
            return None
        lines = "".join(f"\n  {stale}" for stale in self.stale)
        return StaleError(f"the plan cannot be applied any more:{lines}", hint="make a new plan")


def recheck(plan: Plan, snapshot: Snapshot, *, now: float) -> Recheck:
    """Return what is left to do of a saved plan that `located` has bound to a repository.

    The snapshot must know the latest attempt of every key in the plan. Steps that this plan has already
    carried out come back as kept or held, unfinished ones as resumed. Where `waits_for` names a client, wait
    for it and check again. `now` is in seconds since the epoch.
    """
    unfit = _unfit(plan, snapshot, now)
    if unfit:
        return Recheck(plan=plan, stale=unfit)
    checked = _checked(plan, snapshot)
    stale = [Stale(key=step.key, reason=reason) for step, (_, reason) in checked if reason is not None]
    left = replace(plan, steps=tuple(today for _, (today, _) in checked))
    if not stale and not plan.is_empty and left.is_empty and not any(step.waits_for for step in left.steps):
        made = {
            each.latest.actor for each in left.steps if each.latest and each.latest.plan_id == plan.plan_id
        }
        who = " and ".join(sorted(filter(None, made)))
        stale = [Stale(reason=Reason("already_applied", detail=f"{who} applied it already" if who else ""))]
    return Recheck(plan=left, stale=tuple(stale))


def _checked(plan: Plan, snapshot: Snapshot) -> list[tuple[Step, _Today]]:
    """Return each step of the plan, in its order, with the step that a plan would have for the job now.

    Jobs are decided on after those that they need.
    """
    launches = [step.launch for step in plan.steps if step.launch is not None]
    asked = asked_for(launches, plan.selection.rerun)
    grounds = Grounds(snapshot)
    found: dict[int, _Today] = {}
    declared = {step.key: at for at, step in enumerate(plan.steps) if step.launch is not None}
    for at in in_order(declared, needs_of(launches)):
        step = plan.steps[at]
        found[at] = _today(step, plan, grounds, asked)
        grounds.steps[step.key] = found[at][0]
    return [
        (step, found[at] if at in found else _stop_today(step, snapshot))
        for at, step in enumerate(plan.steps)
    ]


def located(plan: Plan, *, root: str, origin: str) -> Plan:
    """Return the plan with its job files bound to the repository at `root`. Raises StaleError for another
    one.

    A job without a git remote has a folder as its origin. It belongs only to a checkout that has no remote
    either, and whose folder contains that folder or lies in it.
    """
    origins = {step.launch.origin for step in plan.steps if step.launch}
    foreign = sorted(name for name in origins if not _is_at_home(name, origin))
    if foreign:
        hint = "apply it in a checkout of that repository, or name one with --root"
        if foreign[0].startswith("/"):
            remote = "if that folder has a git remote by now, make a new plan"
            hint = f"apply it with --root {foreign[0]}; {remote}"
        raise StaleError(f"the plan is for {' and '.join(foreign)}, and this is {origin}", hint=hint)
    steps = []
    for step in plan.steps:
        if step.launch is not None:
            home = root if step.launch.origin == origin else step.launch.origin
            step = replace(step, launch=replace(step.launch, root=home))
        steps.append(step)
    return replace(plan, steps=tuple(steps))


def _is_at_home(job_origin: str, origin: str) -> bool:
    if job_origin == origin:
        return True
    are_folders = job_origin.startswith("/") and origin.startswith("/")
    if not are_folders or posixpath.normpath(job_origin) != job_origin:
        return False
    return posixpath.commonpath((job_origin, origin)) in (job_origin, origin)


def _unfit(plan: Plan, snapshot: Snapshot, now: float) -> tuple[Stale, ...]:
    """Return the reasons to refuse the whole plan."""
    if now > plan.expires_at:
        detail = f"the plan expired at {_utc(plan.expires_at)}"
        return (Stale(reason=Reason("expired", detail=detail)),)
    if now and now + _CLOCK_SKEW_S < plan.created_at:
        detail = (
            f"the plan was made at {_utc(plan.created_at)}, and it is {_utc(now)} here: look at the clocks"
        )
        return (Stale(reason=Reason("not_yet_valid", detail=detail)),)
    return tuple(
        Stale(reason=Reason("other_engine", name, fingerprint, snapshot.fingerprints.get(name)))
        for name, fingerprint in plan.engines.items()
        if snapshot.fingerprints.get(name) != fingerprint
    )


def with_images(checked: Recheck, images: Mapping[str, Mapping[str, str]]) -> Recheck:
    """Return the check with the images that are not those of the plan any more.

    Args:
        images: those of the jobs that are left to start, as `Plan.images`.
    """
    starting = {
        (step.launch.scheduler, role.image)
        for step in checked.plan.steps
        if step.starts and step.launch is not None
        for role in step.launch.app.roles
    }
    moved = tuple(
        Stale(reason=Reason("image_changed", name, before, images.get(scheduler, {}).get(name)))
        for scheduler, known in checked.plan.images.items()
        for name, before in known.items()
        if (scheduler, name) in starting and images.get(scheduler, {}).get(name) != before
    )
    return replace(checked, stale=(*checked.stale, *moved))


def _today(step: Step, plan: Plan, grounds: Grounds, asked: Collection[JobKey]) -> _Today:
    """Return the step as it would be carried out now, and why it is stale."""
    assert step.launch is not None
    latest = grounds.snapshot.latest.get(step.key)
    desired = Desired(
        launch=step.launch,
        document=step.document,
        digest=step.digest,
        grounds=grounds.of(step.launch),
        # A job that was kept while it ran stays kept once it has succeeded.
        judges_inputs=step.kind != "keep",
        files=grounds.snapshot.inputs,
        edited=step.edited,
    )
    if latest is not None and _is_own(latest, step, plan):
        return _own_today(step, desired, latest, grounds.snapshot), None
    if not plan.selection.take_over and has_other_origin(step.launch, latest):
        return step, _moved(step, latest)
    launch = _untriggered(step.launch) if step.kind == "keep" else step.launch
    retry = plan.selection.retry_failed
    desired = replace(desired, launch=launch, rerun=step.key in asked, retry_failed=retry)
    if step.blocked in LACKING:  # still lacking: the plan may not be applied
        return step, None
    today = _decided(step, desired, grounds.snapshot)
    if _stands(step, today) or _waits_in_vain(step, today, plan, grounds):
        return today, None
    return step, _moved(step, latest, today)


def _own_today(step: Step, desired: Desired, latest: Attempt, snapshot: Snapshot) -> Step:
    """Return the step of an attempt that this plan has made: resumed when unfinished, else done."""
    # No automatic re-run: a plan starts a job once, whatever the outcome.
    holds: dict[str, Any] = {"on_failed": "hold", "on_cancelled": "hold", "on_lost": "hold"}
    lifecycle = replace(desired.launch.lifecycle, **holds)
    quiet = _untriggered(replace(desired.launch, lifecycle=lifecycle))
    today = _decided(step, replace(desired, launch=quiet, follows=False, judges_inputs=False), snapshot)
    if latest.state != "skipped":
        return today
    reason = Reason("needs_failed", detail=latest.message or f"attempt {latest.number} was skipped")
    effects: dict[str, Any] = {"number": 0, "edition": 0, "needs": (), "after": (), "leftovers": ()}
    return replace(today, kind="hold", reasons=(reason,), stops=(), withdraws=(), **effects)


def _decided(step: Step, desired: Desired, snapshot: Snapshot) -> Step:
    live = [attempt for attempt in snapshot.live if attempt.key == step.key]
    today = decide(desired, history_of(desired, snapshot, live))
    return replace(today, launch=step.launch, notes=step.notes, place=step.place)


def _waits_in_vain(step: Step, today: Step, plan: Plan, grounds: Grounds) -> bool:
    """Return whether the job is held because a need that this plan has started did not succeed."""
    if today.reasons[0].code != "needs_failed" or step.launch is None:
        return False
    started = {each.key: each for each in plan.steps if each.starts}
    missing = [key_of(step.launch, each.need) for each in grounds.of(step.launch) if each.stands is None]
    return all(
        key in started
        and (
            _is_own(grounds.snapshot.latest.get(key), started[key], plan)
            or grounds.steps[key].reasons[0].code == "needs_failed"
        )
        for key in missing
    )


def _is_own(latest: Attempt | None, step: Step, plan: Plan) -> bool:
    """Return whether this saved plan made the latest attempt."""
    return latest is not None and plan.plan_id != "" and latest.plan_id == plan.plan_id and step.starts


def _untriggered(launch: Launch) -> Launch:
    """Return the launch without triggers: a job that was kept while it ran stays kept after its success."""
    return replace(launch, lifecycle=replace(launch.lifecycle, rerun_on=(), on_edit="note"))


def _stands(step: Step, today: Step) -> bool:
    if not step.has_effects:
        return today.kind == step.kind
    if (today.guard.attempt, today.guard.app_id) != (step.guard.attempt, step.guard.app_id):
        return False
    if step.withdraws and today.guard.state not in (*WAITING_STATES, "skipped"):
        return False  # the attempt has started since
    if step.kind == "destroy":  # the job is disabled; an attempt that has ended since needs no stop
        return today.kind in ("destroy", "keep")
    approved = {stop.app_id for stop in step.stops}
    return (
        (today.kind, today.number) == (step.kind, step.number)
        and all(stop.app_id in approved for stop in today.stops)
        and _editions(today) == _editions(step)
    )


def _editions(step: Step) -> set[tuple[str, int]]:
    return {(need.job, need.edition) for need in step.needs}


def _stop_today(step: Step, snapshot: Snapshot) -> _Today:
    """Return a step that only stops an attempt. The step counts as done once the attempt has ended."""
    latest = snapshot.latest.get(step.key)
    if step.reasons[0].code == "orphan" and latest is not None and latest.number > step.guard.attempt:
        return step, _moved(step, latest)
    app = (step.guard.scheduler, step.guard.app_id)
    still = next((a for a in snapshot.live if (a.scheduler, a.app_id) == app), None)
    if still is not None:
        return replace(step, waits_for=submitter(still), latest=still), None
    ended = Reason(step.reasons[0].code, detail=f"attempt {step.guard.attempt} has ended")
    done = replace(step, kind="keep", reasons=(ended,), stops=(), withdraws=(), waits_for="", latest=latest)
    return done, None


def _moved(step: Step, latest: Attempt | None, today: Step | None = None) -> Reason:
    """Describe the expected attempt, the one found, and the user who made that."""
    by = f" made by {latest.actor}" if latest is not None and latest.actor else ""
    detail = f"expected {step.guard}, found {Guard.of(latest)}{by}"
    if today is not None and today.kind != step.kind:
        detail += f"; the saved plan says {step.kind}, a new one would say {today.kind}"
    return Reason("attempt_changed", detail=detail)


def _utc(seconds: float) -> str:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
