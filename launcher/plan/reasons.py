"""Why a plan does what it does: a closed set of codes, each with one line of text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from launcher.specs.macros import with_brackets
from launcher.specs.rolefields import DOCUMENT_FIELDS
from launcher.specs.secret import HIDDEN, reference_in

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
        detail: further facts as a phrase for users.
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
        change = " ".join(filter(None, (field(self.path), _values(self.path, self.old, self.new))))
        return " ".join(filter(None, (change, self.detail))) or REASONS[self.code]


def _values(path: str, old: Any, new: Any) -> str:
    """`old → new`; `= new` where nothing was before, `(was old)` where nothing comes after."""
    if HIDDEN in (old, new) and all(value in (HIDDEN, None) for value in (old, new)):
        return HIDDEN
    if new is None:
        return "" if old is None else f"(was {show_at(path, old)})"
    return f"= {show_at(path, new)}" if old is None else " → ".join(show_both(path, old, new))


_ROLE = r"roles(?:\.[A-Za-z0-9_-]+|\[\"(?:[^\"\\]|\\.)*\"\])\."
_AMOUNT = rf"({_ROLE}resource\.)(cpu_millis|memory_bytes)\Z"
_OF_ROLE = rf"{_ROLE}([a-z_]+)\Z"
_WORKSPACE = r"(?s:workspace(?:\.projects(\[.*\]|\.[^.\[]+))?\.(path|target|digest)\Z)"
_DIGEST = r"(ws[0-9]+):sha256:([0-9a-f]{8})[0-9a-f]{56}\Z"
_CHOICES: Final = {each.name for each in DOCUMENT_FIELDS if isinstance(each.default, Enum)}
_FIELDS: Final = {"cpu_millis": "cpu", "memory_bytes": "memory"}
_TIMES: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_SIZES: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


def field(path: str) -> str:
    """The path of a document as job files write it: `timeout_s` → `timeout`.

    The digest of a workspace has no field in a job file and is called `workspace files`.
    """
    if path == "timeout_s":
        return "timeout"
    if not path.startswith(("roles", "workspace")):
        return path
    if amount := re.match(_AMOUNT, path):
        return amount[1] + _FIELDS[amount[2]]
    if part := re.match(_WORKSPACE, path):
        return f"workspace{part[1] or ''}{' files' if part[2] == 'digest' else ''}"
    return path


def is_workspace_digest(path: str) -> bool:
    """Whether the path of a document is that of the digest of a workspace or of one of its projects."""
    part = re.match(_WORKSPACE, path)
    return part is not None and part[2] == "digest"


def show_at(path: str, value: Any) -> str:
    """The value at a path as job files write it there: `3m`, `1.5`, `4GiB`; elsewhere as `show` writes it."""
    if isinstance(value, int) and not isinstance(value, bool):
        if path == "timeout_s":
            return _duration(value)
        if amount := re.match(_AMOUNT, path):
            return _cores(value) if amount[2] == "cpu_millis" else _memory(value)
    if isinstance(value, str):
        if (own := re.match(_OF_ROLE, path)) and own[1] in _CHOICES:
            return show(value.lower())
        if digest := re.match(_WORKSPACE, path) and re.match(_DIGEST, value):
            return f"{digest[1]}:{digest[2]}"
    return show(value)


def show_both(path: str, old: Any, new: Any) -> tuple[str, str]:
    """Two values at a path. Two spellings of one macro remain distinct."""
    both = show_at(path, old), show_at(path, new)
    return both if both[0] != both[1] else (_plain(old), _plain(new))


def show(value: Any) -> str:
    """A value as plans print it: JSON on one line, so that `3` and `"3"` differ, and safe on a terminal.

    Macros are spelled as in job files, `$<rank0_env>`.
    """
    if value == HIDDEN:
        return HIDDEN
    if reference := reference_in(value):
        return f"secret {reference}"
    return with_brackets(_plain(value))


def _plain(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _duration(seconds: int) -> str:
    """`40s`, `3m`, `1h30m`."""
    parts = []
    for unit, size in _TIMES:
        count, seconds = divmod(seconds, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def _cores(millis: int) -> str:
    return str(millis / 1000 if millis % 1000 else millis // 1000)


def _memory(size: int) -> str:
    """In the largest unit that leaves it whole."""
    unit, many = next((unit, many) for unit, many in _SIZES if size % many == 0)
    return f"{size // many}{unit}"
