"""Choose jobs by name: `train`, with what needs it (`train+`), with what it needs (`+train`). Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from launcher.errors import UsageError
from launcher.plan.grounds import needs_of
from launcher.specs.launch import JobKey, Launch
from launcher.text import nearest


def select(launches: Sequence[Launch], words: Collection[str]) -> tuple[list[Launch], list[Launch]]:
    """The jobs that --select names, and the others; without a word all are selected.

    Raises UsageError for a name of no job.
    """
    chosen: set[JobKey] = set()
    for word in words:
        keys = {launch.key for launch in named(launches, word.strip("+"), "--select")}
        chosen |= keys
        chosen |= reached(launches, keys, "dependents") if word.endswith("+") else set()
        chosen |= reached(launches, keys, "needs") if word.startswith("+") else set()
    return (
        [launch for launch in launches if not words or launch.key in chosen],
        [launch for launch in launches if words and launch.key not in chosen],
    )


def named(launches: Sequence[Launch], name: str, option: str) -> list[Launch]:
    """The jobs with a name, each as `job` or `project/job`; all those of a matrix by its name.

    Raises UsageError when there is none.
    """
    found = {launch.key: launch for launch in launches if name in _names(launch)}
    if not found:
        names = sorted({each.key.job for each in launches} | {str(each.key) for each in launches})
        near = nearest(name, names)
        hint = f"did you mean {near}?" if near else f"the jobs here: {', '.join(names) or 'none'}"
        raise UsageError(f"{option} {name}: no such job in the given files", hint=hint)
    return list(found.values())


def one_named(launches: Sequence[Launch], name: str, option: str) -> Launch:
    """The job with a name. Raises UsageError when there is none, or several."""
    found = named(launches, name, option)
    if len(found) > 1:
        hint = f"say which one: {', '.join(sorted(str(launch.key) for launch in found))}"
        raise UsageError(f"{option} {name}: several jobs have this name", hint=hint)
    return found[0]


def _names(launch: Launch) -> tuple[str, ...]:
    matrix = launch.matrix and str(launch.key._replace(job=launch.matrix))
    return tuple(filter(None, (launch.key.job, str(launch.key), launch.matrix, matrix)))


def reached(
    launches: Sequence[Launch], start: Collection[JobKey], way: Literal["needs", "dependents"]
) -> set[JobKey]:
    """The jobs at `start`, and all that they need, or that need them, over any number of steps."""
    edges = [(key, need) for key, needs in needs_of(launches).items() for need in needs]
    if way == "dependents":
        edges = [(need, key) for key, need in edges]
    found, new = set(start), set(start)
    while new:
        new = {there for here, there in edges if here in new} - found
        found |= new
    return found & {launch.key for launch in launches}
