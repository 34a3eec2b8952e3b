"""The reasons of a decision, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.plan.diff import Change
from launcher.plan.step import Reason, submitter
from launcher.specs.attempt import Attempt
from launcher.specs.inputs import InputFiles, changed_globs, changes
from launcher.specs.launch import Launch
from launcher.text import printable

_MOST_FILES = 10
"""The most files that a reason names."""


def never_ran(latest: Attempt | None, *, other_document: bool) -> Reason:
    """The reason for a job that has never run; `latest` was left behind, or skipped."""
    if latest is None:
        return Reason("no_attempt")
    if latest.state == "skipped":
        return Reason("no_attempt", detail=f"attempt {latest.number} was skipped")
    of_other = ", of another document," if other_document else ""
    return Reason("no_attempt", detail=f"attempt {latest.number}{of_other} was never started")


def submitting(live: Sequence[Attempt]) -> list[Reason]:
    """The reason `in_progress` while another client submits the job; the plan is made again afterwards."""
    busy = next(filter(submitter, live), None)
    if busy is None:
        return []
    return [Reason("in_progress", detail=f"attempt {busy.number} is being submitted by {busy.owner}")]


def drift(last: Attempt | None) -> list[Reason]:
    """The reason `drift` when the latest attempt was changed by hand; added to every decision."""
    return [Reason("drift", detail=last.drift)] if last is not None and last.drift else []


def fired(launch: Launch, last: Attempt) -> list[Reason]:
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


def inputs_changed(launch: Launch, last: Attempt, files: Mapping[str, InputFiles]) -> Reason:
    """The reason to run a job again whose attempt was made with other input files."""
    old, new = files.get(last.inputs), files.get(launch.inputs_digest)
    detail = f"the files are not those of attempt {last.number}"
    if not last.inputs:
        detail = f"attempt {last.number} was made without `inputs`"
    elif not launch.inputs:
        detail = f"attempt {last.number} was made with `inputs`, and the job file has none"
    elif old is not None and new is not None:
        detail = changes(old, new, f"since attempt {last.number}") or detail
    return Reason("inputs_changed", detail=detail)


def edited(files: Sequence[str], last: Attempt) -> list[Reason]:
    """The reason `files_edited` when files of the checkout differ from those that an attempt ran."""
    if not files:
        return []
    verb = "differs" if len(files) == 1 else "differ"
    return [Reason("files_edited", detail=f"{some_files(files)} {verb} from {ran(last)}")]


def some_files(files: Sequence[str], most: int = _MOST_FILES) -> str:
    """`train.py, model.py`, and of more than the `most`, `and 3 more`."""
    more = f" and {len(files) - most} more" if len(files) > most else ""
    return ", ".join(map(printable, files[:most])) + more


def ran(attempt: Attempt) -> str:
    """`what ran (a1b2c3d)`, `what ran (a1b2c3d-dirty)`; the commit is left out without git."""
    return f"what ran ({short_commit(attempt)})" if attempt.commit else "what ran"


def short_commit(attempt: Attempt) -> str:
    """`a1b2c3d`, `a1b2c3d-dirty`; "" without git."""
    commit, dash, dirty = attempt.commit.partition("-")
    return f"{commit[:7]}{dash}{dirty}"


def spec_changed(changes: Sequence[Change], last: Attempt) -> Reason:
    if not changes:  # recorded without its document, or the difference is in how values are written
        return Reason("spec_changed", detail=f"the document is not the one of attempt {last.number}")
    first, more = changes[0], len(changes) - 1
    detail = f"and {more} more {'change' if more == 1 else 'changes'}" if more else ""
    return Reason("spec_changed", first.path, first.old, first.new, detail)


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
