"""Estimate the duration, core-hours and GPU-hours of a job by its last successes. Pure.

The range is a prediction interval of log-normal values with unknown mean and deviation: about four of five
attempts end within it. The newest attempts count most; a usual deviation counts as if two attempts had shown
it. Where two attempts ran the document that is to be started, only attempts of that document count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import exp, log, sqrt
from operator import mul
from typing import Final, NamedTuple

from launcher.dataclass import replace
from launcher.holding.use import Use
from launcher.plan.model import Plan
from launcher.plan.step import Estimate, Spread
from launcher.specs.launch import JobKey, Launch
from launcher.turns.machine import total

MOST: Final = 10
"""How many of a job's last successes are read."""
LEAST: Final = 2
_FADING: Final = 0.85
"""The weight of an attempt, relative to that of the next newer attempt."""
_USUAL_DEVIATION: Final = 0.15
_USUAL_WEIGHT: Final = 2.0
"""The number of attempts that the usual deviation of logarithms weighs as much as."""
_TENTH: Final = 1.2815515655446004
"""The quantile of the normal distribution that a tenth of its values exceed."""
_SHORTEST_S: Final = 1e-3


class Past(NamedTuple):
    """A success of a job: the digest of its document, its duration, and role → the use of its runs."""

    digest: str
    took_s: float
    used: Mapping[str, Use]


def with_estimates(plan: Plan, history: Mapping[JobKey, Sequence[Past]]) -> Plan:
    """Return the plan with an estimate for each job that it starts, if there are enough successes.

    Args:
        history: the last successes of jobs, each the newest first.
    """
    steps = [
        replace(step, estimate=estimate(step.launch, step.digest, history[step.key]))
        if step.starts and step.launch is not None and step.key in history
        else step
        for step in plan.steps
    ]
    return replace(plan, steps=tuple(steps))


def estimate(launch: Launch, digest: str, past: Sequence[Past]) -> Estimate | None:
    """Estimate an attempt of the document with that digest; None with fewer than two successes.

    Args:
        past: the last successes, the newest first.
    """
    same = [each for each in past if each.digest == digest]
    counted = same if len(same) >= LEAST else list(past)
    if len(counted) < LEAST:
        return None
    duration = range_of([each.took_s for each in counted])
    if launch.timeout_s is not None:  # an attempt that takes longer fails
        duration = Spread(*(min(each, launch.timeout_s) for each in duration))
    asked = total(launch.app)
    cores = _core_hours(launch, asked.cpu, duration, counted, is_same=counted is same)
    gpus = duration.times(asked.gpus / 3600) if asked.gpus else None
    return Estimate(
        attempts=len(counted),
        same_document=counted is same,
        duration_s=duration.rounded(),
        core_hours=cores and cores.rounded(),
        gpu_hours=gpus and gpus.rounded(),
    )


def _core_hours(
    launch: Launch, cores: float, duration: Spread, past: Sequence[Past], *, is_same: bool
) -> Spread | None:
    """The range of core-hours; None where unknown. `cores`: the cores that its roles ask for together."""
    others = {role.name: role.num_replicas for role in launch.app.roles if role.resource.cpu <= 0}
    if not others:
        return duration.times(cores / 3600)
    measured = [each for each in past if all(role in each.used for role in others)]
    if len(measured) < LEAST:
        return None

    def core_s(each: Past) -> float:
        """Return the core-seconds of a success, scaled when its document had another number of replicas."""
        uses = ((each.used[role], replicas) for role, replicas in others.items())
        used = sum(use.cpu_s if is_same else use.cpu_s / max(use.runs, 1) * count for use, count in uses)
        return cores * each.took_s + used

    return range_of([core_s(each) for each in measured]).times(1 / 3600)


def range_of(values: Sequence[float]) -> Spread:
    """Return the range of the next value, estimated from two or more earlier values, the newest first."""
    logs = [log(max(value, _SHORTEST_S)) for value in values]
    weights, count = _weights(len(logs))
    mean = sum(map(mul, weights, logs))
    spread = sum(map(mul, weights, [(each - mean) ** 2 for each in logs]))
    freedom = _USUAL_WEIGHT + count - 1
    variance = (_USUAL_WEIGHT * _USUAL_DEVIATION**2 + count * spread) / freedom
    reach = _student(freedom) * sqrt(variance * (1 + 1 / count))
    logs.sort()
    median = (logs[(len(logs) - 1) // 2] + logs[len(logs) // 2]) / 2
    return Spread(exp(median), exp(min(mean - reach, median)), exp(max(mean + reach, median)))


@cache
def _weights(number: int) -> tuple[tuple[float, ...], float]:
    """Return the weights of `number` attempts, with the sum 1, and the equivalent number of equal weights."""
    weights = [_FADING**age for age in range(number)]
    whole = sum(weights)
    return tuple(each / whole for each in weights), whole**2 / sum(each**2 for each in weights)


def _student(freedom: float) -> float:
    """Return the 90 % quantile of Student's distribution; off by less than 1 % from 2 degrees of freedom on.

    Source: Cornish and Fisher's expansion; Abramowitz and Stegun, 26.7.5.
    """
    z = _TENTH
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
