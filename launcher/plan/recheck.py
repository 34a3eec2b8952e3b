"""Hold a saved plan against the world of today: what of it is still to do, and what speaks against it.

A step stands when today it would get the same action on the same latest attempt. A kept or held job may
have moved on as long as it would still be kept or held: a run that has succeeded since is no reason to
refuse. An attempt that this very plan made (`Attempt.plan_id`) never speaks against it: unfinished it is
resumed, else it counts as done, whatever became of it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from launcher.errors import StaleError
from launcher.plan.decide import Wish, decide, past_of
from launcher.plan.model import Plan
from launcher.plan.reasons import Reason
from launcher.plan.reconcile import asked_for, has_other_origin
from launcher.plan.snapshot import Snapshot
from launcher.plan.step import Guard, Step, submitter
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey, Launch

_CLOCK_SKEW_S = 300
"""How far the clocks of two machines may be apart, the one that plans and the one that applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """One thing against a plan. `key` is None for what concerns it as a whole."""

    key: JobKey | None = None
    reason: Reason

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}" if self.key else str(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """`plan` is what is left to do; nothing of it may be done when `stale` has entries."""

    plan: Plan
    stale: tuple[Stale, ...] = ()

    def refusal(self) -> StaleError | None:
        """The error to raise, with everything that speaks against the plan; None when nothing does."""
        if not self.stale:
            return None
        lines = "".join(f"\n  {stale}" for stale in self.stale)
        return StaleError(f"the plan cannot be applied any more:{lines}", hint="make a new plan")


def recheck(plan: Plan, snapshot: Snapshot, *, now: float) -> Recheck:
    """What is left of a saved plan, once `located` has bound it to a repository.

    The snapshot must know the latest attempt of every key in the plan. Steps whose work this plan has done
    already come back as kept or held, unfinished ones as resumed. Where `waits_for` names somebody, wait for
    them and check again. `now` is in seconds since the epoch.
    """
    unfit = _unfit(plan, snapshot, now)
    if unfit:
        return Recheck(plan=plan, stale=unfit)
    asked = _asked(plan)
    checked = [(step, _today(step, plan, snapshot, asked)) for step in plan.steps]
    stale = [Stale(key=step.key, reason=reason) for step, (_, reason) in checked if reason is not None]
    left = replace(plan, steps=tuple(today for _, (today, _) in checked))
    if not stale and not plan.is_empty and left.is_empty and not any(step.waits_for for step in left.steps):
        stale = [Stale(reason=_already_applied(plan, left))]
    return Recheck(plan=left, stale=tuple(stale))


def stale(step: Step, plan: Plan, snapshot: Snapshot) -> Reason | None:
    """What speaks against one step of a saved plan today; None when it stands or this plan has done it."""
    return _today(step, plan, snapshot, _asked(plan))[1]


def located(plan: Plan, *, root: str, origin: str) -> Plan:
    """The plan with its job files bound to the repository at `root`.

    A job whose origin is a folder, for want of a remote, is at home there and nowhere else: in a checkout
    that has no remote either, when one of the two folders holds the other.
    Raises StaleError when the plan has jobs of a repository other than this one.
    """
    origins = {step.launch.origin for step in plan.steps if step.launch}
    foreign = sorted(name for name in origins if not _is_at_home(name, origin))
    if foreign:
        hint = "apply it in a checkout of that repository, or name one with --root"
        if foreign[0].startswith("/"):
            hint = (
                f"apply it with --root {foreign[0]}; if that folder has a git remote by now, make a new plan"
            )
        raise StaleError(f"the plan is for {' and '.join(foreign)}, and this is {origin}", hint=hint)
    return replace(plan, steps=tuple(_at(step, root, origin) for step in plan.steps))


def _is_at_home(job_origin: str, origin: str) -> bool:
    if job_origin == origin:
        return True
    if not (job_origin.startswith("/") and origin.startswith("/")):
        return False
    if posixpath.normpath(job_origin) != job_origin:
        return False
    return posixpath.commonpath((job_origin, origin)) in (job_origin, origin)


def _asked(plan: Plan) -> set[JobKey]:
    return asked_for([step.launch for step in plan.steps if step.launch is not None], plan.selection.rerun)


def _at(step: Step, root: str, origin: str) -> Step:
    if step.launch is None:
        return step
    home = root if step.launch.origin == origin else step.launch.origin
    return replace(step, launch=replace(step.launch, root=home))


def _unfit(plan: Plan, snapshot: Snapshot, now: float) -> tuple[Stale, ...]:
    """What speaks against the plan as a whole."""
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


def _today(
    step: Step, plan: Plan, snapshot: Snapshot, asked: Collection[JobKey]
) -> tuple[Step, Reason | None]:
    """The step as it is to be done today, and what speaks against it."""
    if step.launch is None:
        return _stop_today(step, snapshot)
    latest = snapshot.latest.get(step.key)
    if _is_own(latest, step, plan):
        return _decided(step, _quiet(step.launch), snapshot), None
    if not plan.selection.take_over and has_other_origin(step.launch, latest):
        return step, _moved(step, latest)
    today = _decided(
        step,
        step.launch if step.has_effects else _untriggered(step.launch),
        snapshot,
        rerun=step.key in asked,
        retry_failed=plan.selection.retry_failed,
    )
    return (today, None) if _stands(step, today) else (step, _moved(step, latest, today))


def _decided(
    step: Step, launch: Launch, snapshot: Snapshot, *, rerun: bool = False, retry_failed: bool = False
) -> Step:
    wish = Wish(
        launch=launch, document=step.document, digest=step.digest, rerun=rerun, retry_failed=retry_failed
    )
    live = [attempt for attempt in snapshot.live if attempt.key == step.key]
    today = decide(wish, past_of(wish, snapshot, live))
    return replace(today, launch=step.launch, notes=step.notes)


def _is_own(latest: Attempt | None, step: Step, plan: Plan) -> bool:
    """Whether this saved plan made the latest attempt."""
    return latest is not None and plan.plan_id != "" and latest.plan_id == plan.plan_id and step.starts


def _quiet(launch: Launch) -> Launch:
    """The launch without its automatic re-runs: a plan starts a job once, however that ends."""
    lifecycle = replace(launch.lifecycle, on_failed="hold", on_cancelled="hold", on_lost="hold", rerun_on=())
    return replace(launch, lifecycle=lifecycle)


def _untriggered(launch: Launch) -> Launch:
    """The launch without its triggers: what a plan has kept while it ran stays kept when it has succeeded."""
    return replace(launch, lifecycle=replace(launch.lifecycle, rerun_on=()))


def _stands(step: Step, today: Step) -> bool:
    if not step.has_effects:
        return today.kind == step.kind
    if (today.guard.attempt, today.guard.app_id) != (step.guard.attempt, step.guard.app_id):
        return False
    if step.kind == "destroy":  # of a disabled job; what has ended meanwhile needs no stopping
        return today.kind in ("destroy", "keep")
    approved = {stop.app_id for stop in step.stops}
    return (today.kind, today.number) == (step.kind, step.number) and all(
        stop.app_id in approved for stop in today.stops
    )


def _stop_today(step: Step, snapshot: Snapshot) -> tuple[Step, Reason | None]:
    """A step that only stops: done when the attempt has ended, which is also how it looks after a kill."""
    latest = snapshot.latest.get(step.key)
    if step.reasons[0].code == "orphan" and latest is not None and latest.number > step.guard.attempt:
        return step, _moved(step, latest)
    app = (step.guard.scheduler, step.guard.app_id)
    still = next((a for a in snapshot.live if (a.scheduler, a.app_id) == app), None)
    if still is not None:
        return replace(step, waits_for=submitter(still), latest=still), None
    ended = Reason(step.reasons[0].code, detail=f"attempt {step.guard.attempt} has ended")
    return replace(step, kind="keep", reasons=(ended,), stops=(), waits_for="", latest=latest), None


def _moved(step: Step, latest: Attempt | None, today: Step | None = None) -> Reason:
    """What was expected, what was found, and who did it."""
    by = f" made by {latest.actor}" if latest is not None and latest.actor else ""
    told = f"expected {step.guard}, found {Guard.of(latest)}{by}"
    if today is not None and today.kind != step.kind:
        told += f"; the plan says {step.kind}, and now it would be {today.kind}"
    return Reason("attempt_changed", detail=told)


def _already_applied(plan: Plan, left: Plan) -> Reason:
    """Nothing is left to do; say who did it."""
    made = {step.latest.actor for step in left.steps if step.latest and step.latest.plan_id == plan.plan_id}
    who = " and ".join(sorted(filter(None, made)))
    return Reason("already_applied", detail=f"{who} applied it already" if who else "")


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
