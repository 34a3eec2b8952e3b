"""Decide what happens to one job: the action table, with the job's policies and the command line's flags.

The latest attempt decides. An unfinished submission has started nothing, so when it was made for another
document than the desired one, the attempt before it decides instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from launcher.plan.diff import Change, diff
from launcher.plan.reasons import Reason, ReasonCode
from launcher.plan.snapshot import Snapshot
from launcher.plan.step import ActionKind, Blocked, Guard, Step, is_unfinished, submitter
from launcher.specs import canonical
from launcher.specs.attempt import Attempt
from launcher.specs.launch import Launch
from launcher.specs.trigger import changed_globs

_ENDED_BADLY: Final[dict[str, ReasonCode]] = {
    "failed": "last_failed",
    "cancelled": "last_cancelled",
    "lost": "last_lost",
}
_RETRIED: Final = frozenset({"failed", "lost"})
"""The states that --retry-failed re-runs. A user cancelled on purpose; only naming the job re-runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """One job as its file declares it, and the flags of the command line that concern it."""

    launch: Launch
    document: Mapping[str, Any]
    digest: str
    rerun: bool = False
    retry_failed: bool = False

    @classmethod
    def of(cls, launch: Launch, *, rerun: bool = False, retry_failed: bool = False) -> Desired:
        document = canonical.document(launch)
        digest = canonical.digest(document)
        return cls(launch=launch, document=document, digest=digest, rerun=rerun, retry_failed=retry_failed)

    def is_of(self, attempt: Attempt) -> bool:
        """Whether the attempt ran this document; one in an older normal form is normalised again first."""
        if attempt.digest == self.digest:
            return True
        return bool(attempt.document) and self.digest == canonical.digest(
            canonical.renormalise(attempt.document)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The recorded attempts of one job.

    Attributes:
        latest: its latest attempt.
        judged: the attempt that decides: `latest`, or the one that ran before it when that is a leftover.
        leftover: `latest` when it is an unfinished submission.
        live: its attempts that are running or being submitted, by number.
        attempts: the number of recorded attempts of the desired document.
    """

    latest: Attempt | None = None
    judged: Attempt | None = None
    leftover: Attempt | None = None
    live: tuple[Attempt, ...] = ()
    attempts: int = 0

    @property
    def next_number(self) -> int:
        """The number of the next attempt, which takes the number of a leftover."""
        if self.leftover is not None:
            return self.leftover.number
        return self.latest.number + 1 if self.latest is not None else 1


def history_of(desired: Desired, snapshot: Snapshot, live: Sequence[Attempt]) -> History:
    """Collect the job's history; `live` holds the snapshot's live attempts of this job."""
    key = desired.launch.key
    latest = snapshot.latest.get(key)
    leftover = latest if latest is not None and is_unfinished(latest) else None
    return History(
        latest=latest,
        judged=snapshot.ran.get(key) if leftover is not None else latest,
        leftover=leftover,
        live=tuple(attempt for attempt in live if not is_unfinished(attempt)),
        attempts=snapshot.counts.get((key, desired.digest), 0),
    )


def decide(desired: Desired, history: History) -> Step:
    """Return the step for one job. Pure: the same arguments give the same step."""
    last = history.judged
    if not desired.launch.enabled:
        return _disabled(desired, history)
    if history.leftover is not None and desired.is_of(history.leftover):
        return _interrupted(desired, history, history.leftover)
    if last is None:
        return _start(desired, history, "create", [_never_ran(history)])
    if not desired.is_of(last):
        return _changed(desired, history, last)
    if last.is_live:
        return _live(desired, history, last)
    if last.state == "succeeded":
        if desired.rerun:
            return _start(desired, history, "rerun", [_asked(desired)])
        if fired := _fired(desired.launch, last):
            return _start(desired, history, "rerun", fired)
        return _stay(
            desired, history, "keep", [Reason("already_succeeded", detail=f"attempt {last.number} succeeded")]
        )
    return _ended_badly(desired, history, last)


def _disabled(desired: Desired, history: History) -> Step:
    reason = Reason("disabled", "enabled", new=False)
    if not history.live:
        return _stay(desired, history, "keep", [reason])
    if desired.launch.lifecycle.protect:
        return _protected(desired, history, [reason])
    return _step(desired, history, "destroy", [reason], stops=_guards(history.live))


def _interrupted(desired: Desired, history: History, leftover: Attempt) -> Step:
    """Finish an interrupted submission of the same document, including the replacement it was part of."""
    detail = f"the submission of attempt {leftover.number} was interrupted"
    return _start(desired, history, "resume", [Reason("interrupted", detail=detail)])


def _half_started(desired: Desired, history: History, last: Attempt) -> Step:
    """Start the missing replicas of an attempt whose apply was killed; its running replicas keep running."""
    rest = replace(history, live=tuple(attempt for attempt in history.live if attempt.app_id != last.app_id))
    missing = f"{last.unstarted} {'replica was' if last.unstarted == 1 else 'replicas were'} never started"
    detail = f"the start of attempt {last.number} was interrupted: {missing}"
    return _start(desired, rest, "resume", [Reason("interrupted", detail=detail)], number=last.number)


def _changed(desired: Desired, history: History, last: Attempt) -> Step:
    changes = diff(last.document, desired.document) if last.document else ()
    reasons = [*_submitting(history), _spec_changed(changes, last)]
    if desired.rerun:
        return _start(desired, history, "create", [*reasons, _asked(desired)], changes)
    if desired.launch.lifecycle.on_change == "hold":
        reasons.append(Reason("policy", "lifecycle.on_change", new="hold"))
        return _stay(desired, history, "hold", reasons, changes, "on_change_hold")
    return _start(desired, history, "create", reasons, changes)


def _live(desired: Desired, history: History, last: Attempt) -> Step:
    """The document is running or being submitted; only --rerun stops it and starts it again."""
    if desired.rerun:
        return _start(desired, history, "rerun", [*_submitting(history), _asked(desired)])
    if last.state == "running" and last.unstarted and not last.owner:
        return _half_started(desired, history, last)
    running = Reason("already_running", detail=f"attempt {last.number} is running")
    return _stay(desired, history, "keep", _submitting(history) or [running])


def _ended_badly(desired: Desired, history: History, last: Attempt) -> Step:
    """Hold a job whose latest attempt did not succeed, unless a flag or a policy asks for another attempt."""
    code = _ENDED_BADLY[last.state]
    ended = Reason(code, detail=_ending(last))
    if desired.rerun or (desired.retry_failed and last.state in _RETRIED):
        return _start(desired, history, "rerun", [ended, _asked(desired)])
    policy = code.replace("last_", "on_")
    if getattr(desired.launch.lifecycle, policy) == "hold":
        return _stay(desired, history, "hold", [ended])
    most = desired.launch.lifecycle.max_attempts
    used = max(history.attempts, 1)
    if most is not None and used >= most:
        detail = f"and this document had {used} already"
        spent = Reason("max_attempts", "lifecycle.max_attempts", new=most, detail=detail)
        return _stay(desired, history, "hold", [ended, spent])
    return _start(desired, history, "rerun", [ended, Reason("policy", f"lifecycle.{policy}", new="rerun")])


def _start(
    desired: Desired,
    history: History,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
    *,
    number: int = 0,
) -> Step:
    """Start an attempt. The step is a replace whenever live attempts have to be stopped first."""
    if history.live and desired.launch.lifecycle.protect:
        return _protected(desired, history, reasons, changes)
    if history.live:
        kind = "replace"
    number = number or history.next_number
    consented = kind == "replace" and desired.launch.lifecycle.on_change == "replace"
    stops = _guards(history.live)
    return _step(desired, history, kind, reasons, changes, number=number, stops=stops, consented=consented)


def _protected(
    desired: Desired, history: History, reasons: Sequence[Reason], changes: Sequence[Change] = ()
) -> Step:
    names = " and ".join(attempt.app_id for attempt in history.live)
    protect = Reason(
        "protected", "lifecycle.protect", new=True, detail=f"and {names} would have to be stopped"
    )
    return _stay(desired, history, "hold", [protect, *reasons], changes, "protected")


def _stay(
    desired: Desired,
    history: History,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
    blocked: Blocked | None = None,
) -> Step:
    return _step(desired, history, kind, reasons, changes, blocked=blocked)


def _step(
    desired: Desired,
    history: History,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
    *,
    number: int = 0,
    stops: tuple[Guard, ...] = (),
    consented: bool = False,
    blocked: Blocked | None = None,
) -> Step:
    adopted = history.leftover is None or (number and desired.is_of(history.leftover))
    return Step(
        key=desired.launch.key,
        kind=kind,
        reasons=(*reasons, *_drift(history)),
        changes=tuple(changes),
        launch=desired.launch,
        document=desired.document,
        digest=desired.digest,
        number=number,
        stops=stops,
        leftovers=() if adopted else (Guard.of(history.leftover),),
        guard=Guard.of(history.latest),
        consented=consented,
        blocked=blocked,
        waits_for=next(filter(None, map(submitter, history.live)), ""),
        latest=history.latest if adopted else history.judged,
    )


def _guards(attempts: Sequence[Attempt]) -> tuple[Guard, ...]:
    return tuple(Guard.of(attempt) for attempt in attempts)


def _never_ran(history: History) -> Reason:
    if history.leftover is None:
        return Reason("no_attempt")
    detail = f"attempt {history.leftover.number}, of another document, was never started"
    return Reason("no_attempt", detail=detail)


def _submitting(history: History) -> list[Reason]:
    """The reason `in_progress` while another client submits the job; the plan is made again afterwards."""
    busy = next(filter(submitter, history.live), None)
    if busy is None:
        return []
    return [Reason("in_progress", detail=f"attempt {busy.number} is being submitted by {busy.owner}")]


def _drift(history: History) -> list[Reason]:
    """The reason `drift` when the latest attempt was changed by hand; added to every decision."""
    last = history.judged
    return [Reason("drift", detail=last.drift)] if last is not None and last.drift else []


def _fired(launch: Launch, last: Attempt) -> list[Reason]:
    """The triggers that re-run the finished job.

    A glob that the attempt did not watch has no digest to compare with, so it does not fire: editing
    `rerun_on` re-runs nothing by itself.
    """
    found = []
    for index, trigger in enumerate(launch.lifecycle.rerun_on):
        path = f"lifecycle.rerun_on[{index}]"
        if trigger.kind == "every_apply":
            found.append(Reason("trigger_fired", path, new="every_apply"))
            continue
        changed = changed_globs(last.trigger_digest, launch.trigger_digest, trigger.globs)
        if changed:
            files = " and ".join(f"`{glob}`" for glob in changed)
            detail = f"{files} changed since attempt {last.number}"
            found.append(Reason("trigger_fired", path, detail=detail))
    return found


def _asked(desired: Desired) -> Reason:
    return Reason("requested", detail=f"asked for with {'--rerun' if desired.rerun else '--retry-failed'}")


def _spec_changed(changes: Sequence[Change], last: Attempt) -> Reason:
    if not changes:  # recorded without its document, or the difference is in how values are written
        return Reason("spec_changed", detail=f"the document is not the one of attempt {last.number}")
    first, more = changes[0], len(changes) - 1
    detail = f"and {more} more {'change' if more == 1 else 'changes'}" if more else ""
    return Reason("spec_changed", first.path, first.old, first.new, detail)


def _ending(attempt: Attempt) -> str:
    """`attempt 2 failed: trainer/1 exited with 17`, `attempt 2 was cancelled by ann@node1`."""
    verb = {"failed": "failed", "cancelled": "was cancelled", "lost": "was lost"}[attempt.state]
    message = attempt.message or ("" if attempt.exit_code is None else f"exit code {attempt.exit_code}")
    if message == attempt.drift:
        message = ""  # the reason `drift` repeats it
    message = " ".join(message.split())
    if attempt.state == "cancelled" and message.startswith("cancelled"):
        return f"attempt {attempt.number} was {message}"
    return f"attempt {attempt.number} {verb}" + (f": {message}" if message else "")
