"""`needs`: what a job file writes → needs, and the needs of all files together → jobs, without circles."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from launcher.jobfile.compile.references import References
from launcher.jobfile.compile.trace import Trace
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import At, Collector
from launcher.jobfile.messages.wording_fields import bad_label
from launcher.jobfile.model.base import LABEL
from launcher.jobfile.model.job_file import NeedSpec
from launcher.jobfile.text.document import Path
from launcher.specs import JobKey, Launch
from launcher.specs.needs import Need

_SHOWN = 8
"""Jobs of a circle in a message."""


def build_needs(
    given: Mapping[str, NeedSpec | None] | Sequence[str], job: str, references: References
) -> tuple[Need, ...]:
    """The needs of a job, in the order of the file; those with a placeholder in their name are left out."""
    problems = references.problems
    found: dict[str, Need] = {}
    for name, spec, path, at in _entries(given, references):
        if problems.is_broken(path) or problems.is_assumed(path):
            continue
        if not re.fullmatch(LABEL[1:-1], name):
            bad_label(path, name, "job", problems, at_key=at == "key")
        elif name == job:
            message = f"job `{job}` needs itself"
            problems.add(path, "needs-cycle", message, at=at, label="name another job")
        elif name in found:
            first = problems.place(problems.needs[name][0], "the other one is here", at=at)
            message = f"job `{name}` stands twice in `needs`"
            problems.add(path, "duplicate-key", message, at=at, label="delete one of them", related=(first,))
        else:
            found[name] = Need(name, spec is None or spec.rerun is None)
            problems.needs[name] = path, at
    return tuple(found.values())


def _entries(
    given: Mapping[str, NeedSpec | None] | Sequence[str], references: References
) -> Iterator[tuple[str, NeedSpec | None, Path, At]]:
    """Each name, its options, and where it stands."""
    if isinstance(given, Mapping):
        for key, spec in given.items():
            path: Path = ("needs", key)
            yield references.job_name(key, path), spec, path, "key"
    else:
        for index, name in enumerate(given):
            yield name, None, ("needs", index), "value"


class Circle(NamedTuple):
    """Jobs that need each other: each with the need that leads to the next one, as its file has it."""

    steps: tuple[tuple[Launch, Need], ...]

    @property
    def message(self) -> str:
        """`jobs need each other: a -> b -> a`."""
        jobs = [launch.key.job for launch, _ in self.steps]
        if len(jobs) == 1:
            need = self.steps[0][1].job
            why = f": `{need}` names every job of its matrix" if need != jobs[0] else ""
            return f"job `{jobs[0]}` needs itself{why}"
        shown = jobs if len(jobs) <= _SHOWN else [*jobs[: _SHOWN - 1], "…", jobs[-1]]
        count = f" ({len(jobs):,} jobs)" if len(jobs) > _SHOWN else ""
        return f"jobs need each other: {' -> '.join([*shown, jobs[0]])}{count}"

    def diagnostic(self, traces: Mapping[JobKey, Trace]) -> Diagnostic:
        """The circle at the need of its first job."""
        (launch, need), *others = self.steps
        related = tuple(
            Collector(trace.document).place(trace.needs[need.job][0], "and this one")
            for other, need in others[: _SHOWN - 1]
            for trace in (traces[other.key],)
        )
        trace = traces[launch.key]
        problems, (path, at) = Collector(trace.document), trace.needs[need.job]
        problems.add(path, "needs-cycle", self.message, at=at, label="delete it here", related=related)
        return problems.found[0]


def resolve_needs(launches: Sequence[Launch]) -> tuple[list[Launch], list[Circle]]:
    """Replace each name of a matrix among `needs` by the names of its jobs; find the circles.

    A job's name takes precedence over a matrix's. A name that none of the launches has stays as it is. Of
    circles through the same files one is found.
    """
    names = Names(launches)
    known: dict[tuple[str, str, tuple[Need, ...]], tuple[Need, ...]] = {}
    out = []
    for launch in launches:
        shape = (launch.key.project, launch.key.target, launch.needs)
        if shape not in known:
            known[shape] = names.resolved(launch)
        out.append(replace(launch, needs=known[shape]) if launch.needs else launch)
    return out, [*_circles(launches, names)]


class Names:
    """What the names in `needs` stand for: indexes of launches of the same project and target."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = launches
        self._jobs = {launch.key: index for index, launch in enumerate(launches)}
        self._matrices: dict[JobKey, list[int]] = {}
        for index, launch in enumerate(launches):
            if launch.matrix:
                self._matrices.setdefault(launch.key._replace(job=launch.matrix), []).append(index)

    def of(self, launch: Launch, need: Need) -> Sequence[int]:
        key = launch.key._replace(job=need.job)
        return [self._jobs[key]] if key in self._jobs else self._matrices.get(key, ())

    def resolved(self, launch: Launch) -> tuple[Need, ...]:
        """The needs of a launch by the names of jobs, sorted."""

        def jobs_of(need: Need) -> list[str]:
            return [self.launches[index].key.job for index in self.of(launch, need)] or [need.job]

        return expanded(launch.needs, jobs_of)


def expanded(needs: Sequence[Need], jobs_of: Callable[[Need], Collection[str]]) -> tuple[Need, ...]:
    """Needs by the names of jobs, each once, sorted. What a job's own name says goes before its matrix's."""
    found: dict[str, Need] = {}
    for need in needs:
        jobs = jobs_of(need)
        if [*jobs] == [need.job]:
            found[need.job] = need
        for job in jobs:
            found.setdefault(job, Need(job, need.rerun))
    return tuple(sorted(found.values()))


def _circles(launches: Sequence[Launch], names: Names) -> Iterator[Circle]:
    """Circles of launches, none of which has a job of another one."""
    done: set[int] = set()
    reported: set[int] = set()
    files: set[frozenset[str]] = set()

    def steps(index: int) -> Iterator[tuple[int, Need]]:
        launch = launches[index]
        return ((other, need) for need in launch.needs for other in names.of(launch, need))

    for first in range(len(launches)):
        stack = [] if first in done else [(first, steps(first))]
        path = {first: 0} if stack else {}
        taken: list[Need] = []
        while stack:
            index, rest = stack[-1]
            other, need = next(rest, (-1, None))
            if need is None:
                done.add(index)
                stack.pop()
                del path[index]
                if taken:
                    taken.pop()
            elif other in path and not {index, other} & reported:
                inside = [each for each, _ in stack[path[other] :]]
                needs = [*taken[path[other] :], need]
                reported.update(inside)
                through = frozenset(f"{launches[each].root}/{launches[each].file}" for each in inside)
                if through not in files:
                    files.add(through)
                    start = inside.index(min(inside))
                    order = [*range(start, len(inside)), *range(start)]
                    yield Circle(tuple((launches[inside[each]], needs[each]) for each in order))
            elif other not in path and other not in done:
                path[other] = len(stack)
                stack.append((other, steps(other)))
                taken.append(need)
