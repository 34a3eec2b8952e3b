"""Compare the amounts that attempts asked for with their use, and suggest amounts that would suffice."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Any, NamedTuple

from launcher.dataclass import dataclass
from launcher.errors import DamagedError
from launcher.holding.use import ACCOUNTING, CGROUP, PROCESS, SAMPLES, Use, from_json
from launcher.inventory.project import declared, matrix_of
from launcher.schedulers.registry import open_reader
from launcher.specs.jobkey import JobKey
from launcher.state.records import ENDED

EXACT = (CGROUP, ACCOUNTING)
"""The ways of measuring memory that are exact enough for a suggestion."""
AGREEING = 2
"""How many attempts a suggestion needs."""

_MIB, _GIB = 2**20, 2**30
_MEMORY_STEPS = ((_GIB, 64 * _MIB), (4 * _GIB, 256 * _MIB), (32 * _GIB, _GIB), (math.inf, 4 * _GIB))
_TIME_STEPS = ((7200, 600), (86400, 3600), (math.inf, 21600))
_CORE_STEPS = ((math.inf, 1000),)


class Sample(NamedTuple):
    """The use of one attempt.

    Attributes:
        value: in millicores, bytes or seconds.
        source: how memory was measured; "" for other amounts.
        is_whole: whether the attempt succeeded; other attempts may have ended before their highest use.
    """

    value: float
    source: str
    is_whole: bool


class SuggestionRule(NamedTuple):
    """The rule for suggesting an amount.

    Attributes:
        headroom: the highest use is multiplied by this factor.
        least: a lower suggestion is at most this part of the amount asked for.
        over: use above the amount asked for times this factor raises it; None: it is never raised.
        steps: (up to this amount, rounded up to multiples of this).
        floor: no lower amount is suggested.
    """

    headroom: float
    least: float
    over: float | None
    steps: Sequence[tuple[float, int]]
    floor: int


RULES = {
    "cpu_millis": SuggestionRule(1.5, 0.5, 1.1, _CORE_STEPS, 1000),
    "memory_bytes": SuggestionRule(1.25, 0.75, 1.0, _MEMORY_STEPS, 64 * _MIB),
    "timeout_s": SuggestionRule(2.0, 0.25, None, _TIME_STEPS, 600),
}
"""Name of the amount in a document → rule. Fewer cores are suggested if that halves them, at 1.5 times the
highest use; memory at 1.25 times; a time limit at twice the longest run, if that quarters it.
"""

_NO_SUGGESTION = {
    PROCESS: "the largest process alone was measured, and several processes read as one",
    SAMPLES: "use was sampled, and a sample may miss a peak",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """One amount that replicas of a role, or the whole job, asked for and used.

    Attributes:
        path: of the amount in a document: "timeout_s", "roles.main.resource.memory_bytes".
        role: "" for the whole job.
        asked: the request of each job's newest attempt; None where it has none.
        jobs: the jobs that asked for it.
        samples: the use of the attempts whose use is known, newest first.
        suggested: the amount to ask for instead; None for no suggestion.
        reason: why there is no suggestion although use is far from `asked`; "" otherwise.
    """

    path: str
    role: str
    asked: int | None
    jobs: tuple[JobKey, ...]
    samples: tuple[Sample, ...]
    suggested: int | None
    reason: str

    @property
    def name(self) -> str:
        """`cpu_millis`, `memory_bytes` or `timeout_s`."""
        return self.path.rpartition(".")[2]

    @property
    def median(self) -> float:
        return median(sample.value for sample in self.samples)

    @property
    def highest(self) -> float:
        return max(sample.value for sample in self.samples)

    @property
    def source(self) -> str:
        """The method by which the memory was measured; "" for other amounts."""
        return self.samples[0].source


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUse:
    """The use of a job, or of all jobs of a matrix, whose requests are the same text in one file.

    Attributes:
        name: of the job or the matrix.
        keys: the jobs, the one with the newest attempt first.
        origin, path: of the job file; see `Attempt`.
        attempts: number of attempts that have ended.
    """

    name: str
    project: str
    target: str
    origin: str
    path: str
    keys: tuple[JobKey, ...]
    attempts: int
    amounts: tuple[Amount, ...]


class _Run(NamedTuple):
    """A row of `Reader.runs`."""

    project: str
    target: str
    job: str
    number: int
    app_id: str
    digest: str
    origin: str
    path: str
    state: str
    started_at: float | None
    ended_at: float | None
    used: str

    @property
    def key(self) -> JobKey:
        return JobKey(self.project, self.target, self.job)


def uses(
    since: float,
    keys: Collection[JobKey] | None = None,
    *,
    target: str = "",
    project: str | None = None,
    limit: int | None = None,
) -> tuple[list[JobUse], int]:
    """Return the use of the newest `limit` jobs (all when None), the newest first, and the number of all.

    The jobs of a matrix count as one.

    Args:
        since: only attempts that were made since then.
        keys: only these jobs; None for all.
        target, project: only of these; "" and None for all.

    Raises DamagedError.
    """
    with open_reader() as store:
        runs = [run for row in store.runs(since, project) if target in ("", (run := _Run(*row)).target)]
        groups = _grouped(runs, keys)
        shown = list(groups.items())[:limit]
        newest = {run.app_id: run for _, jobs in shown for run, *_ in jobs.values()}
        by_digest = {run.digest: run.app_id for run in newest.values()}  # equal documents are read once
        read = store.documents(by_digest.values())
    documents = {digest: read[app_id] for digest, app_id in by_digest.items() if app_id in read}
    return [_job_use(head, jobs, documents) for head, jobs in shown], len(groups)


_Head = tuple[str, str, str, str, str]  # name, project, target, origin, path


def _grouped(runs: Sequence[_Run], keys: Collection[JobKey] | None) -> dict[_Head, dict[JobKey, list[_Run]]]:
    """Return head of a group → its jobs → their runs; all in the order of `runs`.

    When only some jobs of a matrix are chosen, each is a group of its own.
    """
    wanted = None if keys is None else {tuple(key) for key in keys}
    by_job: dict[tuple[str, str, str], list[_Run]] = {}
    for run in runs:
        by_job.setdefault(run[:3], []).append(run)
    named_by = cache(declared)
    groups: dict[_Head, dict[JobKey, list[_Run]]] = {}
    for (project, target, job), found in by_job.items():
        first = found[0]
        name = matrix_of(job, named_by(first.origin, first.path)) or job
        head = name, project, target, first.origin, first.path
        groups.setdefault(head, {})[first.key] = found
    if wanted is None:
        return groups
    chosen: dict[_Head, dict[JobKey, list[_Run]]] = {}
    for head, jobs in groups.items():
        if wanted.issuperset(jobs):
            chosen[head] = jobs
            continue
        for key, found in jobs.items():
            if key in wanted:
                alone = (key.job, *head[1:])
                chosen[alone] = {key: found}
    return chosen


def _job_use(
    head: _Head, jobs: Mapping[JobKey, Sequence[_Run]], documents: Mapping[str, Mapping[str, Any]]
) -> JobUse:
    name, project, target, origin, path = head
    asked: dict[tuple[str, str, int | None], dict[JobKey, list[Sample]]] = {}
    ended = [run for runs in jobs.values() for run in runs if run.state in ENDED and run.started_at]
    try:  # one call for all is twice as fast
        found = json.loads(f"[{','.join(run.used or '{}' for run in ended)}]")
        used = {run.app_id: from_json(each) for run, each in zip(ended, found, strict=True)}
    except ValueError as error:
        problem = f"the ledger's use of {ended[0].job}, or of a job of its matrix, is damaged: {error!r}"
        raise DamagedError(problem) from error
    for key, runs in jobs.items():
        samples = _samples([(run, used[run.app_id]) for run in runs if run.app_id in used])
        for role, amount, value in asked_in(documents.get(runs[0].digest, {})):
            known = samples.get((role, amount.rpartition(".")[2]), [])
            asked.setdefault((amount, role, value), {}).setdefault(key, []).extend(known)
    amounts = [_amount(*what, of_jobs) for what, of_jobs in asked.items()]
    return JobUse(
        name=name,
        project=project,
        target=target,
        origin=origin,
        path=path,
        keys=tuple(jobs),
        attempts=len(ended),
        amounts=tuple(amount for amount in amounts if amount.samples),
    )


def asked_in(document: Mapping[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """The role, path and value of each amount that a document may ask for."""
    for role in document.get("roles", ()):
        resource = role.get("resource", {})
        for name in ("cpu_millis", "memory_bytes"):
            yield role["name"], f"roles.{role['name']}.resource.{name}", resource.get(name)
    yield "", "timeout_s", document.get("timeout_s")


def asked_at(document: Mapping[str, Any], path: str) -> int | None:
    """The amount at a path that `asked_in` yields."""
    return next((value for _, other, value in asked_in(document) if other == path), None)


def _samples(runs: Sequence[tuple[_Run, Mapping[str, Use]]]) -> dict[tuple[str, str], list[Sample]]:
    """Return role and name of an amount → the use of it in each attempt where the use is known."""
    found: dict[tuple[str, str], list[Sample]] = {}
    for run, used in runs:
        is_whole = run.state == "succeeded"
        if run.started_at and run.ended_at:
            took = Sample(run.ended_at - run.started_at, "", is_whole)
            found.setdefault(("", "timeout_s"), []).append(took)
        for role, use in used.items():
            if role and use.has_cores:
                sample = Sample(use.cores * 1000, use.source if use.source == SAMPLES else "", is_whole)
                found.setdefault((role, "cpu_millis"), []).append(sample)
            if role and use.memory:
                sample = Sample(use.memory, use.source, is_whole)
                found.setdefault((role, "memory_bytes"), []).append(sample)
    return found


def _amount(path: str, role: str, asked: int | None, of_jobs: Mapping[JobKey, Sequence[Sample]]) -> Amount:
    samples = [sample for each in of_jobs.values() for sample in each]
    best = next((name for name in (*EXACT, SAMPLES, PROCESS) if any(s.source == name for s in samples)), "")
    ways = EXACT if best in EXACT else (best,)
    samples = [sample for sample in samples if sample.source in ways]
    suggested, reason = judge(path.rpartition(".")[2], asked, samples)
    return Amount(
        path=path,
        role=role,
        asked=asked,
        jobs=tuple(of_jobs),
        samples=tuple(samples),
        suggested=suggested,
        reason=reason,
    )


def judge(name: str, asked: int | None, samples: Sequence[Sample]) -> tuple[int | None, str]:
    """Return the amount to ask for instead. If None, a text says why use that is far from it gives no amount.

    A lower amount needs AGREEING successes, and is derived from the highest use of all attempts; a higher
    amount needs the use of AGREEING attempts.

    Args:
        name: of the amount, a key of RULES.
        samples: measured in one way.
    """
    rule = RULES[name]
    if asked is None or not samples:
        return None, ""
    values = sorted((sample.value for sample in samples), reverse=True)
    wanted = values[0] * rule.headroom
    step = next(step for limit, step in rule.steps if wanted < limit)
    enough = max(rule.floor, math.ceil(wanted / step) * step)
    is_lower = enough <= asked * rule.least
    above = [] if rule.over is None else [value for value in values if value > asked * rule.over]
    if not is_lower and not above:
        return None, ""
    if samples[0].source and samples[0].source not in EXACT:
        return None, _NO_SUGGESTION[samples[0].source]
    agreeing = sum(sample.is_whole for sample in samples) if is_lower else len(above)
    if agreeing < AGREEING:
        verb = "succeeded" if is_lower else "used more"
        return None, f"{AGREEING} attempts have to agree, and {agreeing or 'none'} has {verb}"
    return enough, ""
