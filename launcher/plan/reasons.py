"""The reasons of a plan: a closed set of codes, each with one line of text."""

from __future__ import annotations

from typing import Any, Final, Literal

from launcher.dataclass import dataclass
from launcher.plan.notation import field, show_at, show_both
from launcher.specs.secret import HIDDEN

ReasonCode = Literal[
    "no_attempt",
    "spec_changed",
    "last_failed",
    "last_cancelled",
    "last_lost",
    "requested",
    "policy",
    "inputs_changed",
    "trigger_fired",
    "files_edited",
    "needs_changed",
    "needs_failed",
    "max_attempts",
    "drift",
    "interrupted",
    "in_progress",
    "superseded",
    "orphan",
    "disabled",
    "protected",
    "over_capacity",
    "unapproved",
    "already_running",
    "already_succeeded",
    "origin_conflict",
    "duplicate_job",
    "unknown_need",
    "needs_cycle",
    "attempt_changed",
    "already_applied",
    "expired",
    "not_yet_valid",
    "other_engine",
    "other_origin",
]
REASONS: Final[dict[ReasonCode, str]] = {
    # Why a job gets the action that the plan shows.
    "no_attempt": "no attempt of this job is on record",
    "spec_changed": "the document is not the one of the latest attempt",
    "last_failed": "the latest attempt failed",
    "last_cancelled": "the latest attempt was cancelled",
    "last_lost": "the latest attempt was lost: it started, and nothing of it or of its outcome is left",
    "requested": "asked for on the command line",
    "policy": "a policy in the job's `lifecycle` decides",
    "inputs_changed": "files that the job's `inputs` names are not those that its latest attempt ran with",
    "trigger_fired": "a trigger in the job's `rerun_on` fired",
    "files_edited": "files of the checkout that the job runs are not what its latest attempt ran",
    "needs_changed": "a job that it needs was added, removed or changed since, or will run",
    "needs_failed": "a job that it needs has not succeeded",
    "max_attempts": "the automatic re-runs of this document are used up",
    "drift": "something of the latest attempt was removed or stopped by hand, such as its output folder",
    "interrupted": "an earlier apply was interrupted while it submitted this attempt",
    "in_progress": "another apply is submitting this job at the moment",
    "superseded": "an older attempt is live beside a newer one",
    "orphan": "no job file declares this job any more",
    "disabled": "the job file says `enabled: false`",
    "protected": "the job file says `protect: true`, and its live attempt would have to be stopped",
    "over_capacity": "the job asks for more GPUs than there are",
    "unapproved": "no approval holds what the job would start or stop",
    "already_running": "an attempt of this document is running",
    "already_succeeded": "the latest attempt of this document succeeded",
    # Why a plan cannot be made.
    "origin_conflict": "the job belongs to another repository",
    "duplicate_job": "two launches claim one job",
    "unknown_need": "a job needs one that no file declares and that never ran",
    "needs_cycle": "jobs need each other in a circle",
    # Why a saved plan is refused.
    "attempt_changed": "the latest attempt is not the one that the plan was made for",
    "already_applied": "nothing is left for this plan to do",
    "expired": "the plan is too old",
    "not_yet_valid": "the plan was made at a time that this machine's clock has not reached",
    "other_engine": "the plan was made for another engine",
    "other_origin": "the plan was made for another repository",
}
_NAMED: Final = frozenset({"needs_changed", "needs_failed"})
"""Codes that stand in the phrase: the detail speaks of another job."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for an action, or for refusing a saved plan.

    Attributes:
        code: what kind of reason; `REASONS` says what each means.
        path: the field that decides, such as `roles.trainer.args[3]` or `lifecycle.on_failed`; "" for none.
        old, new: its values, JSON-able; None where there is none.
        detail: further facts, as a phrase for users.
    """

    code: ReasonCode
    path: str = ""
    old: Any = None
    new: Any = None
    detail: str = ""

    def __str__(self) -> str:
        """One phrase: the path with its values and the detail, else the text of the code."""
        if self.code in _NAMED and self.detail:
            return f"{self.code} ({self.detail})"
        path = self.path and field(self.path)
        change = " ".join(filter(None, (path, _values(self.path, self.old, self.new))))
        return " ".join(filter(None, (change, self.detail))) or REASONS[self.code]


def _values(path: str, old: Any, new: Any) -> str:
    """`old → new`; `= new` where nothing was before, `(was old)` where nothing comes after."""
    if HIDDEN in (old, new) and all(value in (HIDDEN, None) for value in (old, new)):
        return HIDDEN
    if new is None:
        return "" if old is None else f"(was {show_at(path, old)})"
    return f"= {show_at(path, new)}" if old is None else " → ".join(show_both(path, old, new))
