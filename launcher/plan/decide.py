"""Decide what happens to one job: the action table, with the job's policies and the command line's flags.

The latest attempt decides. An unfinished submission has started nothing, so when it was made for another
document than the desired one, or for attempts of its needs that are no longer the latest, the attempt before
it decides instead. The attempt before a skipped one decides, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from launcher.dataclass import replace
from launcher.plan import grounds as grounds_
from launcher.plan import why
from launcher.plan.diff import Change, diff
from launcher.plan.grounds import Desired, History, is_wanted
from launcher.plan.step import (
    EFFECTIVE,
    ActionKind,
    Blocked,
    Guard,
    Reason,
    ReasonCode,
    Step,
    is_abandoned,
    submitter,
)
from launcher.specs.attempt import WAITING_STATES, Attempt
from launcher.specs.inputs import UNDER

_ENDED_BADLY: Final[dict[str, ReasonCode]] = {
    "failed": "last_failed",
    "cancelled": "last_cancelled",
    "lost": "last_lost",
}
_RETRIED: Final = frozenset({"failed", "lost"})
"""The states that --retry-failed re-runs. A user cancelled on purpose; only naming the job re-runs it."""
_NO_REST: Final = "a job that writes to its own `inputs` never comes to rest: leave out what it writes"


def decide(desired: Desired, history: History) -> Step:
    """Return the step for one job. Pure: the same arguments give the same step."""
    step = _decide(desired, history)
    notes = desired.launch.notes
    if not step.starts:
        unresolved = desired.launch.unresolved if desired.launch.enabled else {}
        notes = tuple(
            f"its needs are not compared with those on record: {text}" for text in unresolved.values()
        )
    return replace(step, notes=(*step.notes, *notes)) if notes else step


def _decide(desired: Desired, history: History) -> Step:
    last, leftover = history.judged, history.leftover
    if not desired.launch.enabled:
        return _disabled(desired, history)
    if leftover is not None and is_wanted(desired, leftover):
        # Finish the interrupted submission of this document, and the replacement that it was part of.
        detail = f"the submission of attempt {leftover.number} was interrupted"
        if leftover.state in WAITING_STATES:
            detail = _without_holder(leftover)
        return _resume(desired, history, leftover, detail, _awaited(desired))
    if last is None:
        other = leftover is not None and not desired.is_of(leftover)
        never_ran = why.never_ran(leftover or history.latest, other_document=other)
        return _start(desired, history, "create", [never_ran])
    if not desired.is_of(last):
        return _changed(desired, history, last)
    if last.is_live:
        return _live(desired, history, last)
    # Its input files have changed, its needs have moved, or `on_edit` follows the files of its checkout.
    follows = desired.launch.lifecycle.on_edit == "rerun"
    outdated = [*inputs_changed(desired, last), *_moved(desired, history, last)]
    outdated += why.edited(desired.edited if follows else (), last)
    if outdated:
        return _again(desired, history, last, outdated)
    if last.state == "succeeded":
        return _succeeded(desired, history, last)
    return _ended_badly(desired, history, last)


def _disabled(desired: Desired, history: History) -> Step:
    reason = Reason("disabled", "enabled", new=False)
    if not history.live:
        return _step(desired, history, "keep", [reason])
    if desired.launch.lifecycle.protect and history.running:
        return _protected(desired, history, [reason])
    return _step(desired, history, "destroy", [reason], stops=_guards(history.running))


def _resume(
    desired: Desired, history: History, attempt: Attempt, detail: str, after: tuple[str, ...] = ()
) -> Step:
    reasons = [Reason("interrupted", detail=detail)]
    if (lack := desired.lack) is not None:
        return _step(desired, history, "hold", [lack, *reasons], blocked="over_capacity")
    if history.running and desired.launch.lifecycle.protect:
        return _protected(desired, history, reasons)
    number, edition = attempt.number, attempt.edition
    step = _starting(desired, history, "resume", reasons, number=number, edition=edition)
    return replace(step, needs=attempt.needs, after=after)


def _changed(desired: Desired, history: History, last: Attempt) -> Step:
    changes = diff(last.document, desired.document) if last.document else ()
    reasons = [*why.submitting(history.live), why.spec_changed(changes, last)]
    if desired.rerun:
        return _start(desired, history, "create", [*reasons, _asked(desired)], changes)
    if desired.launch.lifecycle.on_change == "hold":
        return _held_by_policy(desired, history, reasons, changes)
    return _start(desired, history, "create", reasons, changes)


def _again(desired: Desired, history: History, last: Attempt, outdated: Sequence[Reason]) -> Step:
    """Run a job again that ended, or is live, and whose attempt is out of date."""
    ended = [Reason(_ENDED_BADLY[last.state], detail=why.ending(last))] if last.state in _ENDED_BADLY else []
    reasons = [*why.submitting(history.live), *outdated, *ended]
    if desired.rerun:
        return _start(desired, history, "rerun", [*reasons, _asked(desired)])
    if desired.launch.lifecycle.on_change == "hold":
        return _held_by_policy(desired, history, reasons)
    step = _start(desired, history, "rerun", reasons)
    if _changed_under(desired, last) and UNDER in last.inputs_changed:
        return replace(step, notes=(*step.notes, _NO_REST))
    return step


def _held_by_policy(
    desired: Desired, history: History, reasons: Sequence[Reason], changes: Sequence[Change] = ()
) -> Step:
    policy = Reason("policy", "lifecycle.on_change", new="hold")
    return _step(desired, history, "hold", [*reasons, policy], changes, "on_change_hold")


def _live(desired: Desired, history: History, last: Attempt) -> Step:
    """Decide about a job whose document is running, waits or is being submitted.

    Only --rerun and a need that changes stop it and start it again. Input files that change under a running
    attempt are judged at its end, since work must not stop by surprise.
    """
    changed = inputs_changed(desired, last)
    moved = grounds_.running_again(last, desired.grounds, history.knows) if desired.follows else []
    if moved or (changed and last.state in WAITING_STATES):
        return _again(desired, history, last, [*changed, *moved])
    submitting = why.submitting(history.live)
    if desired.rerun:
        return _start(desired, history, "rerun", [*submitting, _asked(desired)])
    if last.state == "running" and last.unstarted and not last.owner:
        # Start the missing replicas; the running ones keep running.
        rest = tuple(attempt for attempt in history.live if attempt.app_id != last.app_id)
        missing = "replica was" if last.unstarted == 1 else "replicas were"
        detail = (
            f"the start of attempt {last.number} was interrupted: {last.unstarted} {missing} never started"
        )
        return _resume(desired, replace(history, live=rest), last, detail)
    if last.state in WAITING_STATES:
        return _waiting(desired, history, last)
    running = Reason("already_running", detail=f"attempt {last.number} is running")
    step = _step(desired, history, "keep", submitting or [running])
    others = (f"it {each.detail}" for each in grounds_.other_needs(last, desired.grounds))
    differences = [*(each.detail for each in changed), *others]
    notes = (f"out of date once it has ended: {each}" for each in differences)
    return replace(step, notes=(*step.notes, *notes))


def inputs_changed(desired: Desired, last: Attempt) -> list[Reason]:
    """The reason to run a job again because of its input files; [] for none."""
    if not desired.has_inputs_of(last):
        return [why.inputs_changed(desired.launch, last, desired.files)]
    if not _changed_under(desired, last):
        return []
    return [Reason("inputs_changed", detail=f"{last.inputs_changed} (attempt {last.number})")]


def _changed_under(desired: Desired, last: Attempt) -> bool:
    """Whether the attempt has succeeded while its input files changed."""
    return desired.judges_inputs and last.state == "succeeded" and bool(last.inputs_changed)


def _waiting(desired: Desired, history: History, last: Attempt) -> Step:
    """Keep a waiting or queued attempt of the same document; without a holder, it is made anew."""
    if is_abandoned(last):
        detail = _without_holder(last)
        return _start(desired, history, "rerun", [Reason("interrupted", detail=detail)])
    jobs = ", ".join(each.job for each in last.needs)
    detail = f"attempt {last.number} waits for {jobs}" if jobs else f"attempt {last.number} waits"
    if last.state == "queued":
        detail = f"attempt {last.number} is in line"
    return _step(desired, history, "keep", [Reason("already_running", detail=detail)])


def _without_holder(attempt: Attempt) -> str:
    what = "is in line" if attempt.state == "queued" else "waits"
    return f"attempt {attempt.number} {what}, and its holder has died"


def _moved(desired: Desired, history: History, last: Attempt) -> list[Reason]:
    """The reasons why an ended job runs again: its needs have changed, or have run since its latest attempt
    was skipped."""
    if not desired.follows:
        return []
    latest = history.latest
    unrun = latest is not None and latest is not last and desired.is_of(latest)
    moved = grounds_.moved(last, desired.grounds, history.knows)
    if moved or latest is None or not unrun:
        return moved
    return grounds_.run_since(latest, desired.grounds, history.knows)


def _succeeded(desired: Desired, history: History, last: Attempt) -> Step:
    if desired.rerun:
        return _start(desired, history, "rerun", [_asked(desired), *why.edited(desired.edited, last)])
    if fired := why.fired(desired.launch, last):
        return _start(desired, history, "rerun", fired)
    done = Reason("already_succeeded", detail=f"attempt {last.number} succeeded")
    return _step(desired, history, "keep", [done, *why.edited(desired.edited, last)])


def _ended_badly(desired: Desired, history: History, last: Attempt) -> Step:
    """Hold a job whose latest attempt did not succeed, unless a flag or a policy asks for another attempt."""
    code = _ENDED_BADLY[last.state]
    ended = Reason(code, detail=why.ending(last))
    if desired.rerun or (desired.retry_failed and last.state in _RETRIED):
        return _start(desired, history, "rerun", [ended, _asked(desired)])
    policy = code.replace("last_", "on_")
    if getattr(desired.launch.lifecycle, policy) == "hold":
        return _step(desired, history, "hold", [ended])
    most = desired.launch.lifecycle.max_attempts
    used = max(history.attempts, 1)
    if most is not None and used >= most:
        detail = f"and this document had {used} already"
        spent = Reason("max_attempts", "lifecycle.max_attempts", new=most, detail=detail)
        return _step(desired, history, "hold", [ended, spent])
    return _start(desired, history, "rerun", [ended, Reason("policy", f"lifecycle.{policy}", new="rerun")])


def _start(
    desired: Desired,
    history: History,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
) -> Step:
    """Start an attempt, unless one of its needs offers no attempt to it."""
    if failed := grounds_.failed(desired.grounds):
        notes = tuple(dict.fromkeys(each.note for each in desired.grounds if each.note and not each.stands))
        return replace(_step(desired, history, "hold", [failed, *reasons], changes), notes=notes)
    if (lack := desired.lack) is not None:
        return _step(desired, history, "hold", [lack, *reasons], changes, "over_capacity")
    if history.running and desired.launch.lifecycle.protect:
        return _protected(desired, history, reasons, changes)
    number, edition = history.next_number, _edition(desired, history)
    step = _starting(desired, history, kind, reasons, changes, number=number, edition=edition)
    if not desired.grounds:
        return step
    stands = [ground.stands for ground in desired.grounds if ground.stands is not None]
    busy = next((ground.submitter for ground in desired.grounds if ground.submitter), "")
    return replace(
        step,
        needs=tuple(sorted(stands)),
        after=_awaited(desired),
        waits_for=step.waits_for or busy,
        notes=tuple(ground.warning for ground in desired.grounds if ground.warning),
    )


def _awaited(desired: Desired) -> tuple[str, ...]:
    return tuple(sorted(ground.job for ground in desired.grounds if ground.is_pending))


def _starting(
    desired: Desired,
    history: History,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
    *,
    number: int,
    edition: int,
) -> Step:
    """The step is a replace whenever running attempts have to be stopped first."""
    if stops := _guards(history.running):
        kind = "replace"
    consented = kind == "replace" and desired.launch.lifecycle.on_change == "replace"
    step = _step(desired, history, kind, reasons, changes, number=number, edition=edition, stops=stops)
    return replace(step, consented=True) if consented else step


def _edition(desired: Desired, history: History) -> int:
    """The next attempt's own number when something has changed, else the edition that it repeats."""
    last = history.judged
    if last is None or not desired.is_of(last) or inputs_changed(desired, last) or desired.edited:
        return history.next_number
    if grounds_.moved(last, desired.grounds, history.knows):
        return history.next_number
    files = (reason for reason in why.fired(desired.launch, last) if reason.new != "every_apply")
    return history.next_number if any(files) else last.edition


def _protected(
    desired: Desired, history: History, reasons: Sequence[Reason], changes: Sequence[Change] = ()
) -> Step:
    names = " and ".join(attempt.app_id for attempt in history.running)
    protect = Reason(
        "protected", "lifecycle.protect", new=True, detail=f"and {names} would have to be stopped"
    )
    return _step(desired, history, "hold", [protect, *reasons], changes, "protected")


def _step(
    desired: Desired,
    history: History,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
    blocked: Blocked | None = None,
    *,
    number: int = 0,
    edition: int = 0,
    stops: tuple[Guard, ...] = (),
) -> Step:
    leftover = history.leftover
    resumed = leftover is not None and kind in ("resume", "replace") and is_wanted(desired, leftover)
    given_up = [a for a in history.waiting if kind in EFFECTIVE or (kind == "hold" and is_abandoned(a))]
    return Step(
        key=desired.launch.key,
        kind=kind,
        reasons=(*reasons, *why.drift(history.judged)),
        changes=tuple(changes),
        launch=desired.launch,
        document=desired.document,
        digest=desired.digest,
        number=number,
        edition=edition,
        withdraws=_guards(given_up),
        stops=stops,
        leftovers=() if leftover is None or resumed else (Guard.of(leftover),),
        guard=Guard.of(history.latest),
        blocked=blocked,
        edited=desired.edited,
        place=desired.place,
        waits_for=next(filter(None, map(submitter, history.live)), ""),
        latest=leftover if resumed else history.judged,
    )


def _guards(attempts: Sequence[Attempt]) -> tuple[Guard, ...]:
    return tuple([Guard.of(attempt) for attempt in attempts])


def _asked(desired: Desired) -> Reason:
    option = "--rerun" if desired.rerun else "--retry-failed"
    return Reason("requested", detail=f"asked for with {option}")
