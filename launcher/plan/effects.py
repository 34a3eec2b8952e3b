"""The effects of a plan, starts and stops, each with a digest; their approvals and their origins."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from launcher.dataclass import dataclass, field
from launcher.hashes import sha256
from launcher.plan.diff import Change, diff, field as field_at
from launcher.plan.step import Step
from launcher.specs import canonical
from launcher.specs.launch import JobKey, Launch

_EFFECT: Final = "le1:"
_EFFECT_DIGITS: Final = 20
_PREFIX: Final = "lp3:sha256:"
_OLD_PREFIXES: Final = ("lp1:", "lp2:")


class Start(NamedTuple):
    """The start of one job: everything that determines its run.

    `review` is the review digest of its document, in which values of `$<git.…>` are left symbolic. Origin and
    path count because relative paths, scripts and workspace are found from the folder of the job file. The
    digest leaves out whether the plan calls the start create, replace, rerun or resume; also times, commits
    and numbers.

    Attributes:
        workspace: digest of the files that travel with the job, also part of the document; "" for none.
        trigger: digest of the files of `rerun_on`; inputs: digest of the files of `inputs`; "" for none.
        needs: the jobs that it needs, sorted; with ` (rerun: never)` where the file says so.
        notify: the receivers of its outcomes that the project names, as JSON, sorted.
    """

    key: JobKey
    review: str
    workspace: str
    trigger: str
    inputs: str
    needs: tuple[str, ...]
    origin: str
    path: str
    notify: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """`le1:` and 20 hexadecimal characters."""
        return _digest("start", *(self if self.notify else self[:-1]))

    def __str__(self) -> str:
        return f"start {self.key}"


class Stop(NamedTuple):
    """The stop of one live attempt."""

    key: JobKey
    app_id: str

    @property
    def digest(self) -> str:
        """`le1:` and 20 hexadecimal characters."""
        return _digest("stop", self.app_id)

    def __str__(self) -> str:
        return f"stop {self.app_id}"


Effect = Start | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The effects of one plan that was approved.

    Attributes:
        id: the id of the plan; attempts that it starts remember the id, so that it starts each job once.
        starts: start → the number of the job's latest attempt when the plan was made; 0 for none.
        stops: the app ids of the attempts to stop.
        pull_request: the number of the merged pull request; "" without one.
        source: its name for users, such as the name of its file.
    """

    id: str
    starts: Mapping[Start, int] = field(default_factory=dict)
    stops: frozenset[str] = frozenset()
    pull_request: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"#{self.pull_request}" if self.pull_request else self.source or self.id


class Refusal(NamedTuple):
    """An effect that no approval holds.

    Attributes:
        approved: the effects of the job that approvals hold instead; "" for none.
        why: the reason for the refusal, as a phrase.
    """

    effect: Effect
    approved: str = ""
    why: str = ""

    def __str__(self) -> str:
        digests = f"approved {self.approved or 'nothing'}, now {self.effect.digest}"
        return f"{self.effect}: {self.why}\n  {digests}"


def start_of(launch: Launch, digest: str = "") -> Start:
    """Return the effect of starting a launch.

    Args:
        digest: the digest of its document, where the caller knows it; else it is computed.
    """
    review = launch.review_digest or digest or canonical.digest_of(launch)
    parts = launch.workspace.parts if launch.workspace is not None else ()
    return Start(
        key=launch.key,
        review=review,
        workspace=" ".join(part.digest for part in parts),
        trigger=launch.trigger_digest,
        inputs=launch.inputs_digest,
        needs=tuple(sorted(need.job + ("" if need.rerun else " (rerun: never)") for need in launch.needs)),
        origin=launch.origin,
        path=launch.file,
        notify=tuple(sorted(json.dumps(each.to_json(), sort_keys=True) for each in launch.notify)),
    )


def started_by(step: Step) -> Start | None:
    """Return the start among the effects of a step; None for a step that starts nothing."""
    if not step.starts or step.launch is None:
        return None
    return start_of(step.launch, step.digest)


def effects_of(steps: Iterable[Step]) -> tuple[Effect, ...]:
    """Return the effects of steps: all starts, then all stops, each kind sorted."""
    effective = [step for step in steps if step.has_effects]
    starts = [start for step in effective if (start := started_by(step)) is not None]
    stops = {Stop(step.key, stop.app_id) for step in effective for stop in step.stops}
    return (*sorted(starts), *sorted(stops))


def plan_digest(effects: Iterable[Effect]) -> str:
    """The digest of all effects of a plan: `lp3:sha256:<hex>+<app id>+<app id>…`. Order does not matter.

    The hash covers the starts. The app ids, sorted, are the live attempts that are stopped: they are spelled
    out because approval is not symmetric. A plan may start exactly what was approved, but an attempt that has
    ended since needs no stop any more (`covers`).
    """
    effects = tuple(effects)
    starts = sorted(each.digest for each in effects if isinstance(each, Start))
    stops = sorted({each.app_id for each in effects if isinstance(each, Stop)})
    return "+".join([_PREFIX + sha256("\n".join(starts).encode()).hexdigest(), *stops])


def covers(approved: str, digest: str) -> bool:
    """Return whether approval of one plan digest covers another: the same starts, and no additional stop."""
    approved_starts, *approved_stops = approved.strip().split("+")
    starts, *stops = digest.split("+")
    return starts == approved_starts and set(stops) <= set(approved_stops)


def is_superseded(digest: str) -> bool:
    """Return whether an older version made this plan digest; such a digest approves nothing today."""
    return digest.strip().startswith(_OLD_PREFIXES)


_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def _digest(*values: object) -> str:
    return _EFFECT + sha256(_encode(values).encode()).hexdigest()[:_EFFECT_DIGITS]


def shared_lines(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return sentences about shared lines that change several jobs: `launcher.toml:12 changes 104 jobs`."""
    jobs: dict[str, dict[JobKey, str]] = {}
    for step in steps:
        for path in (field_at(change.path) for change in step.changes):
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

    `changed`: each job with the differences of the documents, and names of other parts that differ.
    `matrices`: job → the name of its matrix; "" for a job of its own.
    """

    added: tuple[JobKey, ...]
    changed: tuple[tuple[JobKey, tuple[Change, ...], tuple[str, ...]], ...]
    removed: tuple[JobKey, ...]
    unchanged: int
    matrices: Mapping[JobKey, str]


_PARTS = {"trigger": "rerun_on", "inputs": "inputs", "needs": "needs", "origin": "repository", "path": "path"}
"""Field of a start beside its document → its name for users."""


def compared(head: Sequence[Launch], base: Sequence[Launch]) -> Compared:
    """Compare the launches of two commits. Neither the ledger nor an engine is read."""
    before = {launch.key: launch for launch in base if launch.enabled}
    now = {launch.key: launch for launch in head if launch.enabled}
    changed = []
    for key in sorted(now.keys() & before.keys()):
        old, new = start_of(before[key]), start_of(now[key])
        if old != new:
            changes = diff(canonical.document(before[key]), canonical.document(now[key]))
            others = tuple(word for name, word in _PARTS.items() if getattr(old, name) != getattr(new, name))
            changed.append((key, changes, others))
    return Compared(
        added=tuple(sorted(now.keys() - before.keys())),
        changed=tuple(changed),
        removed=tuple(sorted(before.keys() - now.keys())),
        unchanged=len(now.keys() & before.keys()) - len(changed),
        matrices={key: launch.matrix for key, launch in {**before, **now}.items()},
    )
