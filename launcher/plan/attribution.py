"""Compare a plan with the job files of another commit: which of its effects were pending there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from launcher.dataclass import replace
from launcher.plan.diff import Change, diff
from launcher.plan.effects import Start, start_of, started_by
from launcher.plan.model import Plan
from launcher.plan.notation import field
from launcher.plan.step import Step
from launcher.specs import canonical
from launcher.specs.launch import JobKey, Launch


def attributed(plan: Plan, base: Sequence[Launch], name: str, here: str) -> Plan:
    """The plan with the origin of each effect: already pending on the base called `name`, or from `here`.

    A start is pending when the base declares the same start; a stop, when the base does not declare its job.
    """
    starts = {start_of(launch) for launch in base}
    declared = {launch.key for launch in base if launch.enabled}
    steps = []
    for step in plan.steps:
        start = started_by(step)
        is_pending = start in starts if start is not None else step.key not in declared
        words = f"already pending on {name}" if is_pending else f"from {here}"
        steps.append(replace(step, attribution=words) if step.has_effects else step)
    return replace(plan, steps=tuple(steps))


def shared_lines(steps: Sequence[Step]) -> tuple[str, ...]:
    """Sentences about lines of shared files that change several jobs: `launcher.toml:12 changes 104 jobs`."""
    jobs: dict[str, dict[JobKey, str]] = {}
    for step in steps:
        for path in (field(change.path) for change in step.changes):
            if step.launch is not None and (line := step.launch.shared_line(path)):
                jobs.setdefault(line, {}).setdefault(step.key, path)
    lines = []
    for line, changed in jobs.items():
        paths = {path.rpartition(".")[2] for path in changed.values()}
        what = f" (`{paths.pop()}`)" if len(paths) == 1 else ""
        if len(changed) > 1:
            lines.append(f"{line} changes {len(changed)} jobs{what}")
    return tuple(lines)


class Compared(NamedTuple):
    """The jobs of two commits, compared by their documents and the other parts of a start.

    Attributes:
        changed: each job with the differences of the documents, and names of other parts that differ.
        matrices: job → the name of its matrix; "" for a job of its own.
    """

    added: tuple[JobKey, ...]
    changed: tuple[tuple[JobKey, tuple[Change, ...], tuple[str, ...]], ...]
    removed: tuple[JobKey, ...]
    unchanged: int
    matrices: Mapping[JobKey, str]


def compared(head: Sequence[Launch], base: Sequence[Launch]) -> Compared:
    """Compare launches with launches; neither ledger nor engine is asked."""
    before = {launch.key: launch for launch in base if launch.enabled}
    now = {launch.key: launch for launch in head if launch.enabled}
    changed = []
    for key in sorted(now.keys() & before.keys()):
        old, new = start_of(before[key]), start_of(now[key])
        if old != new:
            changes = diff(canonical.document(before[key]), canonical.document(now[key]))
            changed.append((key, changes, _others(old, new)))
    return Compared(
        added=tuple(sorted(now.keys() - before.keys())),
        changed=tuple(changed),
        removed=tuple(sorted(before.keys() - now.keys())),
        unchanged=len(now.keys() & before.keys()) - len(changed),
        matrices={key: launch.matrix for key, launch in {**before, **now}.items()},
    )


def _others(old: Start, new: Start) -> tuple[str, ...]:
    words = {
        "trigger": "rerun_on",
        "inputs": "inputs",
        "needs": "needs",
        "origin": "repository",
        "path": "path",
    }
    return tuple(word for name, word in words.items() if getattr(old, name) != getattr(new, name))
