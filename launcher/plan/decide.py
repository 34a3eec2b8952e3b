"""Decide what happens to one job: the action table, with the policies of the job and what was asked for.

The latest attempt decides. A submission that nobody will finish has done nothing yet, so where it was for
another document than the one wanted now, the attempt before it is judged in its place.
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
"""What --retry-failed means. Cancelling was somebody's decision, and only naming the job undoes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One job as it should be, and what was asked for on the command line."""

    launch: Launch
    document: Mapping[str, Any]
    digest: str
    rerun: bool = False
    retry_failed: bool = False

    @classmethod
    def of(cls, launch: Launch, *, rerun: bool = False, retry_failed: bool = False) -> Wish:
        document = canonical.document(launch)
        digest = canonical.digest(document)
        return cls(launch=launch, document=document, digest=digest, rerun=rerun, retry_failed=retry_failed)

    def is_of(self, attempt: Attempt) -> bool:
        """Whether the attempt ran this document; what an older normal form recorded is normalised again."""
        if attempt.digest == self.digest:
            return True
        return bool(attempt.document) and self.digest == canonical.digest(
            canonical.renormalise(attempt.document)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of one job.

    Attributes:
        latest: its latest attempt.
        judged: the attempt that the wish is compared with: `latest`, or the one that ran before it.
        leftover: `latest` when it is an unfinished submission.
        live: its attempts that run, or that somebody is submitting, by number.
        attempts: how many attempts of the wanted document are on record.
    """

    latest: Attempt | None = None
    judged: Attempt | None = None
    leftover: Attempt | None = None
    live: tuple[Attempt, ...] = ()
    attempts: int = 0

    @property
    def next_number(self) -> int:
        """A leftover gives its number to the attempt that replaces it."""
        if self.leftover is not None:
            return self.leftover.number
        return self.latest.number + 1 if self.latest is not None else 1


def past_of(wish: Wish, snapshot: Snapshot, live: Sequence[Attempt]) -> Past:
    """`live` are the snapshot's live attempts of this job."""
    key = wish.launch.key
    latest = snapshot.latest.get(key)
    leftover = latest if latest is not None and is_unfinished(latest) else None
    return Past(
        latest=latest,
        judged=snapshot.ran.get(key) if leftover is not None else latest,
        leftover=leftover,
        live=tuple(attempt for attempt in live if not is_unfinished(attempt)),
        attempts=snapshot.counts.get((key, wish.digest), 0),
    )


def decide(wish: Wish, past: Past) -> Step:
    """The step for one job. Pure: the same wish and past give the same step."""
    last = past.judged
    if not wish.launch.enabled:
        return _disabled(wish, past)
    if past.leftover is not None and wish.is_of(past.leftover):
        return _interrupted(wish, past, past.leftover)
    if last is None:
        return _start(wish, past, "create", [_never_ran(past)])
    if not wish.is_of(last):
        return _changed(wish, past, last)
    if last.is_live:
        return _live(wish, past, last)
    if last.state == "succeeded":
        if wish.rerun:
            return _start(wish, past, "rerun", [_asked(wish)])
        if fired := _fired(wish.launch, last):
            return _start(wish, past, "rerun", fired)
        return _stay(
            wish, past, "keep", [Reason("already_succeeded", detail=f"attempt {last.number} succeeded")]
        )
    return _ended_badly(wish, past, last)


def _disabled(wish: Wish, past: Past) -> Step:
    reason = Reason("disabled", "enabled", new=False)
    if not past.live:
        return _stay(wish, past, "keep", [reason])
    if wish.launch.lifecycle.protect:
        return _protected(wish, past, [reason])
    return _step(wish, past, "destroy", [reason], stops=_guards(past.live))


def _interrupted(wish: Wish, past: Past, leftover: Attempt) -> Step:
    """Finish a submission of this very document; where it was to replace something, that goes on too."""
    detail = f"the submission of attempt {leftover.number} was interrupted"
    return _start(wish, past, "resume", [Reason("interrupted", detail=detail)])


def _half_started(wish: Wish, past: Past, last: Attempt) -> Step:
    """Start the rest of an attempt whose apply was killed between its replicas; what runs of it runs on."""
    rest = replace(past, live=tuple(attempt for attempt in past.live if attempt.app_id != last.app_id))
    missing = f"{last.unstarted} {'replica was' if last.unstarted == 1 else 'replicas were'} never started"
    detail = f"the start of attempt {last.number} was interrupted: {missing}"
    return _start(wish, rest, "resume", [Reason("interrupted", detail=detail)], number=last.number)


def _changed(wish: Wish, past: Past, last: Attempt) -> Step:
    changes = diff(last.document, wish.document) if last.document else ()
    reasons = [*_submitting(past), _spec_changed(changes, last)]
    if wish.rerun:
        return _start(wish, past, "create", [*reasons, _asked(wish)], changes)
    if wish.launch.lifecycle.on_change == "hold":
        reasons.append(Reason("policy", "lifecycle.on_change", new="hold"))
        return _stay(wish, past, "hold", reasons, changes, "on_change_hold")
    return _start(wish, past, "create", reasons, changes)


def _live(wish: Wish, past: Past, last: Attempt) -> Step:
    """This document is running or being submitted. To run it anew, which stops it, has to be asked for."""
    if wish.rerun:
        return _start(wish, past, "rerun", [*_submitting(past), _asked(wish)])
    if last.state == "running" and last.unstarted and not last.owner:
        return _half_started(wish, past, last)
    running = Reason("already_running", detail=f"attempt {last.number} is running")
    return _stay(wish, past, "keep", _submitting(past) or [running])


def _ended_badly(wish: Wish, past: Past, last: Attempt) -> Step:
    """A run that was no success is held, unless somebody asks for another or a policy allows it."""
    code = _ENDED_BADLY[last.state]
    ended = Reason(code, detail=_ending(last))
    if wish.rerun or (wish.retry_failed and last.state in _RETRIED):
        return _start(wish, past, "rerun", [ended, _asked(wish)])
    policy = code.replace("last_", "on_")
    if getattr(wish.launch.lifecycle, policy) == "hold":
        return _stay(wish, past, "hold", [ended])
    most = wish.launch.lifecycle.max_attempts
    used = max(past.attempts, 1)
    if most is not None and used >= most:
        detail = f"and this document had {used} already"
        spent = Reason("max_attempts", "lifecycle.max_attempts", new=most, detail=detail)
        return _stay(wish, past, "hold", [ended, spent])
    return _start(wish, past, "rerun", [ended, Reason("policy", f"lifecycle.{policy}", new="rerun")])


def _start(
    wish: Wish,
    past: Past,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
    *,
    number: int = 0,
) -> Step:
    """Start an attempt. Whatever was the cause, with something live in its way it is a replace."""
    if past.live and wish.launch.lifecycle.protect:
        return _protected(wish, past, reasons, changes)
    if past.live:
        kind = "replace"
    number = number or past.next_number
    consented = kind == "replace" and wish.launch.lifecycle.on_change == "replace"
    stops = _guards(past.live)
    return _step(wish, past, kind, reasons, changes, number=number, stops=stops, consented=consented)


def _protected(wish: Wish, past: Past, reasons: Sequence[Reason], changes: Sequence[Change] = ()) -> Step:
    names = " and ".join(attempt.app_id for attempt in past.live)
    protect = Reason(
        "protected", "lifecycle.protect", new=True, detail=f"and {names} would have to be stopped"
    )
    return _stay(wish, past, "hold", [protect, *reasons], changes, "protected")


def _stay(
    wish: Wish,
    past: Past,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
    blocked: Blocked | None = None,
) -> Step:
    return _step(wish, past, kind, reasons, changes, blocked=blocked)


def _step(
    wish: Wish,
    past: Past,
    kind: ActionKind,
    reasons: Sequence[Reason],
    changes: Sequence[Change] = (),
    *,
    number: int = 0,
    stops: tuple[Guard, ...] = (),
    consented: bool = False,
    blocked: Blocked | None = None,
) -> Step:
    adopted = past.leftover is None or (number and wish.is_of(past.leftover))
    return Step(
        key=wish.launch.key,
        kind=kind,
        reasons=(*reasons, *_drift(past)),
        changes=tuple(changes),
        launch=wish.launch,
        document=wish.document,
        digest=wish.digest,
        number=number,
        stops=stops,
        leftovers=() if adopted else (Guard.of(past.leftover),),
        guard=Guard.of(past.latest),
        consented=consented,
        blocked=blocked,
        waits_for=next(filter(None, map(submitter, past.live)), ""),
        latest=past.latest if adopted else past.judged,
    )


def _guards(attempts: Sequence[Attempt]) -> tuple[Guard, ...]:
    return tuple(Guard.of(attempt) for attempt in attempts)


def _never_ran(past: Past) -> Reason:
    if past.leftover is None:
        return Reason("no_attempt")
    detail = f"attempt {past.leftover.number}, of another document, was never started"
    return Reason("no_attempt", detail=detail)


def _submitting(past: Past) -> list[Reason]:
    """Who is at it right now, if anybody is: the plan is to be made again when they are done."""
    busy = next(filter(submitter, past.live), None)
    if busy is None:
        return []
    return [Reason("in_progress", detail=f"attempt {busy.number} is being submitted by {busy.owner}")]


def _drift(past: Past) -> list[Reason]:
    """What somebody did to the latest attempt by hand; said beside whatever is decided."""
    last = past.judged
    return [Reason("drift", detail=last.drift)] if last is not None and last.drift else []


def _fired(launch: Launch, last: Attempt) -> list[Reason]:
    """The triggers of the job that want its finished work again.

    A glob that was not watched when the attempt was made has nothing to compare with, so it does not fire:
    editing `rerun_on` re-runs nothing by itself.
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


def _asked(wish: Wish) -> Reason:
    return Reason("requested", detail=f"asked for with {'--rerun' if wish.rerun else '--retry-failed'}")


def _spec_changed(changes: Sequence[Change], last: Attempt) -> Reason:
    if not changes:  # recorded without its document, or the difference is in how values are written
        return Reason("spec_changed", detail=f"the document is not the one of attempt {last.number}")
    first, more = changes[0], len(changes) - 1
    detail = f"and {more} more {'change' if more == 1 else 'changes'}" if more else ""
    return Reason("spec_changed", first.path, first.old, first.new, detail)


def _ending(attempt: Attempt) -> str:
    """`attempt 2 failed: trainer/1 exited with 17`, `attempt 2 was cancelled by ann@node1`."""
    verb = {"failed": "failed", "cancelled": "was cancelled", "lost": "was lost"}[attempt.state]
    told = attempt.message or ("" if attempt.exit_code is None else f"exit code {attempt.exit_code}")
    if told == attempt.drift:
        told = ""  # the reason `drift` says it
    told = " ".join(told.split())
    if attempt.state == "cancelled" and told.startswith("cancelled"):
        return f"attempt {attempt.number} was {told}"
    return f"attempt {attempt.number} {verb}" + (f": {told}" if told else "")
