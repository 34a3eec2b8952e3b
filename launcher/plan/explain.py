"""Explain the latest success of a job: each part that it depends on, and whether it is current. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

from launcher.dataclass import dataclass
from launcher.plan.decide import fired, inputs_changed
from launcher.plan.diff import diff
from launcher.plan.grounds import Desired, Ground, Knows
from launcher.plan.snapshot import Snapshot
from launcher.plan.step import Step
from launcher.specs.attempt import Attempt
from launcher.specs.inputs import recorded_paths
from launcher.specs.launch import Launch
from launcher.text import plural

What = Literal["document", "workspace", "need", "inputs", "files", "seen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """One part that a success depends on.

    Attributes:
        name: the job of a need, a glob of `rerun_on`, the path of a seen file or of a workspace.
        recorded: the recorded digest, or attempt and edition of a need; "" for none.
        is_current: whether the part is the same now; None when it is not compared.
        now: how the part differs now, or why it is not compared; "" otherwise.
    """

    what: What
    name: str = ""
    recorded: str = ""
    is_current: bool | None = True
    now: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The latest success of a job, with all parts that it depends on, and the step of the plan.

    Attributes:
        success: None when no attempt has succeeded.
    """

    step: Step
    success: Attempt | None = None
    parts: tuple[Basis, ...] = ()


def explain(
    step: Step, snapshot: Snapshot, grounds: Sequence[Ground], edited: Collection[str]
) -> Explanation:
    """Explain the step that a plan has for a declared job.

    Args:
        grounds: the offers of the job's needs in this plan.
        edited: the files of the checkout that differ from what its latest success ran.
    """
    success = snapshot.succeeded.get(step.key)
    if success is None or step.launch is None:
        return Explanation(step=step)
    desired = Desired(launch=step.launch, document=step.document, digest=step.digest, files=snapshot.inputs)
    parts = [
        _document(desired, success),
        *_workspace(step, success),
        *_needs(success, grounds, snapshot.knows),
        *_inputs(desired, success),
        *_files(step.launch, success),
        *_seen(success, edited),
    ]
    return Explanation(step=step, success=success, parts=tuple(parts))


def _document(desired: Desired, success: Attempt) -> Basis:
    if desired.is_of(success):
        return Basis(what="document", recorded=success.digest)
    changes = diff(success.document, desired.document) if success.document else ()
    now = plural(len(changes), "change") if changes else "another document"
    return Basis(what="document", recorded=success.digest, is_current=False, now=now)


def _workspace(step: Step, success: Attempt) -> Iterator[Basis]:
    single = step.launch.workspace.path if step.launch is not None and step.launch.workspace else ""
    before, now = _folders(success.document), _folders(step.document)
    for path, digest in before.items():
        is_current = now.get(path) == digest
        words = "" if is_current else "changed" if path in now else "not its workspace any more"
        yield Basis(what="workspace", name=path or single, recorded=digest, is_current=is_current, now=words)


def _folders(document: Any) -> dict[str, str]:
    """Return the folders of a document's workspace with their digests; a single folder has the name ""."""
    workspace = document.get("workspace") or {}
    projects = workspace.get("projects")
    if projects is None:
        return {"": workspace["digest"]} if workspace.get("digest") else {}
    return {path: each["digest"] for path, each in projects.items()}


def _needs(success: Attempt, grounds: Sequence[Ground], knows: Knows) -> Iterator[Basis]:
    offered = {ground.job: ground for ground in grounds}
    recorded = {need.job: need for need in success.needs}
    uncompared = next((ground.unresolved for ground in grounds if ground.unresolved), "")
    for job in sorted({*offered, *recorded}):
        old, ground = recorded.get(job), offered.get(job)
        is_order = job in success.order_only if ground is None else not ground.need.rerun
        if is_order or (uncompared and None in (old, ground)):
            current, now = None, "rerun: never" if is_order else uncompared
        elif old is not None and ground is not None and not knows(success, old):
            current, now = None, "another state folder has counted its attempts"
        else:
            current, now = False, "no longer needed"
            if ground is not None and old is None:
                now = "now also needed"
            elif ground is not None and old is not None:
                current = not ground.has_moved(old)
                now = "" if current else ground.moved().detail
        words = f"attempt {old.number}, edition {old.edition}" if old is not None else ""
        yield Basis(what="need", name=job, recorded=words, is_current=current, now=now)


def _inputs(desired: Desired, success: Attempt) -> Iterator[Basis]:
    if not (success.inputs or desired.launch.inputs or success.inputs_changed):
        return
    reasons = inputs_changed(desired, success)
    now = "; ".join(reason.detail for reason in reasons)
    yield Basis(what="inputs", recorded=success.inputs, is_current=not reasons, now=now)


def _files(launch: Launch, success: Attempt) -> Iterator[Basis]:
    details = {reason.path: reason.detail for reason in fired(launch, success)}
    for index, trigger in enumerate(launch.lifecycle.rerun_on):
        path = f"lifecycle.rerun_on[{index}]"
        if trigger.kind == "every_apply":
            yield Basis(what="files", name=trigger.kind, is_current=False, now="each apply runs it again")
        else:
            now = details.get(path, "")
            yield Basis(what="files", name=", ".join(trigger.globs), is_current=path not in details, now=now)


def _seen(success: Attempt, edited: Collection[str]) -> Iterator[Basis]:
    for path in sorted(recorded_paths(success.seen)):
        is_current = path not in edited
        now = "" if is_current else "differs from what ran"
        yield Basis(what="seen", name=path, recorded=success.seen[path], is_current=is_current, now=now)
    for path in sorted(set(edited) - set(success.seen)):
        yield Basis(what="seen", name=path, is_current=False, now="imported now")
