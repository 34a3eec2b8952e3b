"""Decide what happens to one job: the action table, with the job's policies and the command line's flags.

The latest attempt decides. An unfinished submission has started nothing. When it was made for another
document than the desired one, or its needs have later attempts by now, the attempt before it decides instead.
The attempt before a skipped one decides, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from launcher.dataclass import replace
from launcher.plan import grounds as grounds_
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
    in_brief,
    is_abandoned,
    submitter,
)
from launcher.specs.attempt import WAITING_STATES, Attempt
from launcher.specs.inputs import UNDER, changed_globs, changes as changes_between
from launcher.specs.launch import Launch
from launcher.text import some_of

_ENDED_BADLY: Final[dict[str, ReasonCode]] = {
    "failed": "last_failed",
    "cancelled": "last_cancelled",
    "lost": "last_lost",
}
_RETRIED: Final = frozenset({"failed", "lost"})
"""The states that --retry-failed re-runs. A cancelled job runs again only when the user names it."""
_NO_REST: Final = "a job that writes to its own `inputs` never comes to rest: leave out what it writes"


def decide(desired: Desired, history: History) -> Step:
    """Return the step for one job. Pure: the same arguments give the same step."""
    step = _Decision(desired, history).step()
    notes = desired.launch.notes
    if not step.starts:
        unresolved = desired.launch.unresolved if desired.launch.enabled else {}
        notes = tuple(
            f"its needs are not compared with those on record: {text}" for text in unresolved.values()
        )
    return replace(step, notes=(*step.notes, *notes)) if notes else step


class _Decision:
    """The rows of the action table for one job. Each method returns the step, or goes on to another row."""

    def __init__(self, desired: Desired, history: History) -> None:
        self._desired = desired
        self._history = history
        self._lifecycle = desired.launch.lifecycle
        self._changes: tuple[Change, ...] = ()

    def step(self) -> Step:
        desired, history = self._desired, self._history
        last, leftover = history.judged, history.leftover
        unread = history.unreadable
        if unread is not None and (unread.is_live or not desired.rerun):
            return replace(self._step("hold", [unreadable(unread)]), withdraws=(), leftovers=())
        if not desired.launch.enabled:
            return self._disabled()
        if leftover is not None and is_wanted(desired, leftover):
            # Finish the interrupted submission of this document, and the replacement that it began.
            detail = f"the submission of attempt {leftover.number} was interrupted"
            if leftover.state in WAITING_STATES:
                detail = _without_holder(leftover)
            return self._resume(leftover, detail, self._awaited())
        if last is None:
            other = leftover is not None and bool(leftover.digest) and not desired.is_of(leftover)
            return self._start("create", [never_ran(leftover or history.latest, other_document=other)])
        if not desired.is_of(last):
            return self._changed(last)
        if last.is_live:
            return self._live(last)
        # The job's input files or needs have changed, or `on_edit` follows the files of its checkout.
        follows = self._lifecycle.on_edit == "rerun"
        outdated = [*inputs_changed(desired, last), *self._moved(last)]
        outdated += edited(desired.edited if follows else (), last)
        if outdated:
            return self._again(last, outdated)
        if last.state == "succeeded":
            return self._succeeded(last)
        return self._ended_badly(last)

    def _disabled(self) -> Step:
        reason = Reason("disabled", "enabled", new=False)
        if not self._history.live:
            return self._step("keep", [reason])
        if self._lifecycle.protect and self._history.running:
            return self._protected([reason])
        return self._step("destroy", [reason], stops=_guards(self._history.running))

    def _resume(self, attempt: Attempt, detail: str, after: tuple[str, ...] = ()) -> Step:
        reasons = [Reason("interrupted", detail=detail)]
        if (lack := self._desired.lack) is not None:
            return self._lacking(lack, reasons)
        if self._history.running and self._lifecycle.protect:
            return self._protected(reasons)
        number, edition, needs = attempt.number, attempt.edition, attempt.needs
        return self._starting("resume", reasons, number=number, edition=edition, needs=needs, after=after)

    def _changed(self, last: Attempt) -> Step:
        self._changes = diff(last.document, self._desired.document) if last.document else ()
        reasons = [*self._submitting(), spec_changed(self._changes, last)]
        if self._desired.rerun:
            return self._start("create", [*reasons, self._asked()])
        if self._lifecycle.on_change == "hold":
            return self._held_by_policy(reasons)
        return self._start("create", reasons)

    def _again(self, last: Attempt, outdated: Sequence[Reason]) -> Step:
        """Run a job again whose attempt is out of date, whether the attempt is live or has ended."""
        ended = [Reason(_ENDED_BADLY[last.state], detail=ending(last))] if last.state in _ENDED_BADLY else []
        reasons = [*self._submitting(), *outdated, *ended]
        if self._desired.rerun:
            return self._start("rerun", [*reasons, self._asked()])
        if self._lifecycle.on_change == "hold":
            return self._held_by_policy(reasons)
        step = self._start("rerun", reasons)
        if _changed_under(self._desired, last) and UNDER in last.inputs_changed:
            return replace(step, notes=(*step.notes, _NO_REST))
        return step

    def _held_by_policy(self, reasons: Sequence[Reason]) -> Step:
        policy = Reason("policy", "lifecycle.on_change", new="hold")
        return self._step("hold", [*reasons, policy], blocked="on_change_hold")

    def _live(self, last: Attempt) -> Step:
        """Decide about a job whose document is running, waits or is being submitted.

        Only --rerun and a need that changes stop it and start it again. Input files that change under a
        running attempt are judged at its end, since work must not stop by surprise.
        """
        desired, history = self._desired, self._history
        changed = inputs_changed(desired, last)
        moved = grounds_.running_again(last, desired.grounds, history.knows) if desired.follows else []
        if moved or (changed and last.state in WAITING_STATES):
            return self._again(last, [*changed, *moved])
        submitting = self._submitting()
        if desired.rerun:
            return self._start("rerun", [*submitting, self._asked()])
        if last.state == "running" and last.unstarted and not last.owner:
            return self._start_the_rest(last)
        if last.state in WAITING_STATES:
            return self._waiting(last)
        running = Reason("already_running", detail=f"attempt {last.number} is running")
        step = self._step("keep", submitting or [running])
        others = (f"it {each.detail}" for each in in_brief(grounds_.other_needs(last, desired.grounds)))
        differences = [*(each.detail for each in changed), *others]
        notes = (f"out of date once it has ended: {each}" for each in differences)
        return replace(step, notes=(*step.notes, *notes))

    def _start_the_rest(self, last: Attempt) -> Step:
        """Start the missing replicas of a running attempt. Its other replicas keep running."""
        rest = tuple(attempt for attempt in self._history.live if attempt.app_id != last.app_id)
        missing = "replica was" if last.unstarted == 1 else "replicas were"
        detail = (
            f"the start of attempt {last.number} was interrupted: {last.unstarted} {missing} never started"
        )
        return _Decision(self._desired, replace(self._history, live=rest))._resume(last, detail)

    def _waiting(self, last: Attempt) -> Step:
        """Keep a waiting or queued attempt of the same document, or make it anew if its holder has died."""
        if is_abandoned(last):
            return self._start("rerun", [Reason("interrupted", detail=_without_holder(last))])
        jobs = ", ".join(each.job for each in last.needs)
        detail = f"attempt {last.number} waits for {jobs}" if jobs else f"attempt {last.number} waits"
        if last.state == "queued":
            detail = f"attempt {last.number} is in line"
        return self._step("keep", [Reason("already_running", detail=detail)])

    def _moved(self, last: Attempt) -> list[Reason]:
        """Return why an ended job runs again: its needs have changed, or have run since its latest attempt
        was skipped.
        """
        desired, history = self._desired, self._history
        if not desired.follows:
            return []
        latest = history.latest
        unrun = latest is not None and latest is not last and desired.is_of(latest)
        moved = grounds_.moved(last, desired.grounds, history.knows)
        if moved or latest is None or not unrun:
            return moved
        return grounds_.run_since(latest, desired.grounds, history.knows)

    def _succeeded(self, last: Attempt) -> Step:
        desired = self._desired
        if desired.rerun:
            return self._start("rerun", [self._asked(), *edited(desired.edited, last)])
        if found := fired(desired.launch, last):
            return self._start("rerun", found)
        done = Reason("already_succeeded", detail=f"attempt {last.number} succeeded")
        return self._step("keep", [done, *edited(desired.edited, last)])

    def _ended_badly(self, last: Attempt) -> Step:
        """Hold a job whose latest attempt did not succeed, unless a flag or a policy asks for another one."""
        code = _ENDED_BADLY[last.state]
        ended = Reason(code, detail=ending(last))
        if self._desired.rerun or (self._desired.retry_failed and last.state in _RETRIED):
            return self._start("rerun", [ended, self._asked()])
        policy = code.replace("last_", "on_")
        if getattr(self._lifecycle, policy) == "hold":
            return self._step("hold", [ended])
        most = self._lifecycle.max_attempts
        used = max(self._history.attempts, 1)
        if most is not None and used >= most:
            detail = f"and this document had {used} already"
            spent = Reason("max_attempts", "lifecycle.max_attempts", new=most, detail=detail)
            return self._step("hold", [ended, spent])
        return self._start("rerun", [ended, Reason("policy", f"lifecycle.{policy}", new="rerun")])

    def _start(self, kind: ActionKind, reasons: Sequence[Reason]) -> Step:
        """Start an attempt, unless one of its needs offers no attempt to it."""
        desired, grounds = self._desired, self._desired.grounds
        if failed := grounds_.failed(grounds):
            notes = tuple(dict.fromkeys(each.note for each in grounds if each.note and not each.stands))
            return self._step("hold", [*failed, *reasons], notes=notes)
        if (lack := desired.lack) is not None:
            return self._lacking(lack, reasons)
        if self._history.running and self._lifecycle.protect:
            return self._protected(reasons)
        stands = [ground.stands for ground in grounds if ground.stands is not None]
        step = self._starting(
            kind,
            reasons,
            number=self._history.next_number,
            edition=self._edition(),
            needs=tuple(sorted(stands)),
            after=self._awaited(),
            notes=tuple(ground.warning for ground in grounds if ground.warning),
        )
        busy = next((ground.submitter for ground in grounds if ground.submitter), "")
        return replace(step, waits_for=busy) if busy and not step.waits_for else step

    def _awaited(self) -> tuple[str, ...]:
        return tuple(sorted(ground.job for ground in self._desired.grounds if ground.is_pending))

    def _starting(self, kind: ActionKind, reasons: Sequence[Reason], **fields: Any) -> Step:
        """Return the step that starts an attempt: a replace if running attempts have to be stopped first."""
        if stops := _guards(self._history.running):
            kind = "replace"
        consented = kind == "replace" and self._lifecycle.on_change == "replace"
        return self._step(kind, reasons, stops=stops, consented=consented, **fields)

    def _edition(self) -> int:
        """Return the next attempt's number if something has changed, else the edition that it repeats."""
        desired, history = self._desired, self._history
        last = history.judged
        if last is None or not desired.is_of(last) or inputs_changed(desired, last) or desired.edited:
            return history.next_number
        if grounds_.moved(last, desired.grounds, history.knows):
            return history.next_number
        files = (reason for reason in fired(desired.launch, last) if reason.new != "every_apply")
        return history.next_number if any(files) else last.edition

    def _lacking(self, lack: Reason, reasons: Sequence[Reason]) -> Step:
        blocked: Blocked = "refused" if lack.code == "refused" else "over_capacity"
        return self._step("hold", [lack, *reasons], blocked=blocked)

    def _protected(self, reasons: Sequence[Reason]) -> Step:
        names = " and ".join(attempt.app_id for attempt in self._history.running)
        detail = f"and {names} would have to be stopped"
        protect = Reason("protected", "lifecycle.protect", new=True, detail=detail)
        return self._step("hold", [protect, *reasons], blocked="protected")

    def _step(self, kind: ActionKind, reasons: Sequence[Reason], **fields: Any) -> Step:
        """Return a step with the fields that all steps of this job have, and with these fields."""
        desired, history = self._desired, self._history
        last, leftover = history.judged, history.leftover
        drift = [Reason("drift", detail=last.drift)] if last is not None and last.drift else []
        resumed = leftover is not None and kind in ("resume", "replace") and is_wanted(desired, leftover)
        given_up = [a for a in history.waiting if kind in EFFECTIVE or (kind == "hold" and is_abandoned(a))]
        return Step(
            key=desired.launch.key,
            kind=kind,
            reasons=(*reasons, *drift),
            changes=self._changes,
            launch=desired.launch,
            document=desired.document,
            digest=desired.digest,
            withdraws=_guards(given_up),
            leftovers=() if leftover is None or resumed else (Guard.of(leftover),),
            guard=Guard.of(history.latest),
            edited=desired.edited,
            place=desired.place,
            waits_for=next(filter(None, map(submitter, history.live)), ""),
            latest=leftover if resumed else last,
            **fields,
        )

    def _asked(self) -> Reason:
        option = "--rerun" if self._desired.rerun else "--retry-failed"
        return Reason("requested", detail=f"asked for with {option}")

    def _submitting(self) -> list[Reason]:
        """Return the reason `in_progress` while another client submits the job: plan again afterwards."""
        busy = next(filter(submitter, self._history.live), None)
        if busy is None:
            return []
        return [Reason("in_progress", detail=f"attempt {busy.number} is being submitted by {busy.owner}")]


def _guards(attempts: Sequence[Attempt]) -> tuple[Guard, ...]:
    return tuple([Guard.of(attempt) for attempt in attempts])


def inputs_changed(desired: Desired, last: Attempt) -> list[Reason]:
    """Return the reason to run a job again because of its input files; [] for none."""
    if not desired.has_inputs_of(last):
        return [_other_inputs(desired, last)]
    if not _changed_under(desired, last):
        return []
    return [Reason("inputs_changed", detail=f"{last.inputs_changed} (attempt {last.number})")]


def _changed_under(desired: Desired, last: Attempt) -> bool:
    """Whether the attempt has succeeded while its input files changed."""
    return desired.judges_inputs and last.state == "succeeded" and bool(last.inputs_changed)


def fired(launch: Launch, last: Attempt) -> list[Reason]:
    """Return the reasons of the triggers that re-run the finished job.

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


# -- the reasons in words ------------------------------------------------------------------------------------


def never_ran(latest: Attempt | None, *, other_document: bool) -> Reason:
    """Return the reason for a job that never ran: its `latest` attempt is unfinished, or was skipped."""
    if latest is None:
        return Reason("no_attempt")
    if latest.state == "skipped":
        return Reason("no_attempt", detail=f"attempt {latest.number} was skipped")
    of_other = ", of another document," if other_document else ""
    return Reason("no_attempt", detail=f"attempt {latest.number}{of_other} was never started")


def _other_inputs(desired: Desired, last: Attempt) -> Reason:
    """Return the reason to run a job again whose attempt was made with other input files."""
    launch = desired.launch
    old, new = desired.files.get(last.inputs), desired.files.get(launch.inputs_digest)
    detail = f"the files are not those of attempt {last.number}"
    if not last.inputs:
        detail = f"attempt {last.number} was made without `inputs`"
    elif not launch.inputs:
        detail = f"attempt {last.number} was made with `inputs`, and the job file has none"
    elif old is not None and new is not None:
        detail = changes_between(old, new, f"since attempt {last.number}") or detail
    return Reason("inputs_changed", detail=detail)


def edited(files: Sequence[str], last: Attempt) -> list[Reason]:
    """Return the reason `files_edited` when checkout files differ from those that an attempt ran."""
    if not files:
        return []
    verb = "differs" if len(files) == 1 else "differ"
    return [Reason("files_edited", detail=f"{some_of(files)} {verb} from {ran(last)}")]


def ran(attempt: Attempt) -> str:
    """`what ran (a1b2c3d)`, `what ran (a1b2c3d-dirty)`; the commit is left out without git."""
    return f"what ran ({attempt.short_commit})" if attempt.commit else "what ran"


def spec_changed(changes: Sequence[Change], last: Attempt) -> Reason:
    if not changes:  # recorded without its document, or the difference is in how values are written
        return Reason("spec_changed", detail=f"the document is not the one of attempt {last.number}")
    first, more = changes[0], len(changes) - 1
    detail = f"and {more} more {'change' if more == 1 else 'changes'}" if more else ""
    return Reason("spec_changed", first.path, first.old, first.new, detail)


def unreadable(attempt: Attempt) -> Reason:
    """Return the reason to leave a job alone when its attempt's record cannot be read."""
    return Reason("record_unreadable", detail=f"the record of attempt {attempt.number}: {attempt.unreadable}")


def ending(attempt: Attempt) -> str:
    """`attempt 2 failed: trainer/1 exited with 17`, `attempt 2 was cancelled by ann@node1`."""
    verb = {"failed": "failed", "cancelled": "was cancelled", "lost": "was lost"}[attempt.state]
    message = attempt.message or ("" if attempt.exit_code is None else f"exit code {attempt.exit_code}")
    if message == attempt.drift:
        message = ""  # the reason `drift` repeats it
    message = " ".join(message.split())
    if attempt.state == "cancelled" and message.startswith("cancelled"):
        return f"attempt {attempt.number} was {message}"
    return f"attempt {attempt.number} {verb}" + (f": {message}" if message else "")


def _without_holder(attempt: Attempt) -> str:
    what = "is in line" if attempt.state == "queued" else "waits"
    return f"attempt {attempt.number} {what}, and its holder has died"
