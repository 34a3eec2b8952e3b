"""Resolve the `needs` of all files to jobs, find circles, and look up jobs in other files of the project."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from launcher.dataclass import dataclass, field, replace
from launcher.errors import CommandError
from launcher.jobfile.compile.discover import files_of_project
from launcher.jobfile.compile.layers import Parents
from launcher.jobfile.compile.one_file import Declared, declared_in
from launcher.jobfile.compile.one_job import Trace
from launcher.jobfile.compile.project import Homes
from launcher.jobfile.compile.variables import Inputs
from launcher.jobfile.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import Collector, listing
from launcher.jobfile.text.document import Document, Path, read_source
from launcher.jobfile.text.parse import parse
from launcher.specs.jobkey import JobKey
from launcher.specs.launch import Launch, Need
from launcher.text import did_you_mean, has_hints

Declaration = tuple[str, str, str]
"""The folder and file that declare a job, and the name of the job or of its matrix there."""


def declaration(launch: Launch) -> Declaration:
    return launch.root, launch.file, launch.matrix or launch.key.job


def declared_elsewhere(name: str, launch: Launch, cwd: str = "") -> str:
    """Return the job file that declares the job or matrix `name` in the project and target of a launch.

    The path is relative to `cwd`, "" for the current directory. "" if no job file of the project declares it.
    """
    neighbours = Neighbours(os.path.abspath(cwd or os.getcwd()), Inputs({}, os.environ, placeholders=True))
    return next((each.file for each in neighbours.declaring(launch, name)), "")


def resolve_elsewhere(launches: Sequence[Launch], neighbours: Neighbours) -> list[Launch]:
    """Replace each matrix among `needs` that only a job file elsewhere in the project declares by its jobs.

    Job files are looked for when a need is not among the launches, else nothing is read.
    """
    known = {launch.key for launch in launches}
    found: dict[tuple[str, JobKey], Meaning] = {}
    out = []
    for launch in launches:
        meanings = {}
        for need in launch.needs:
            key = launch.key._replace(job=need.job)
            place = launch.directory, key
            if place not in found:
                itself = Meaning(frozenset({need.job}))
                found[place] = itself if key in known else neighbours.meaning(launch, need.job)
            meanings[need] = found[place]
        needs = expanded({need: meaning.jobs for need, meaning in meanings.items()})
        unresolved = {need.job: why for need, (_, why) in meanings.items() if why}
        is_same = needs == launch.needs and not unresolved
        out.append(launch if is_same else replace(launch, needs=needs, unresolved=unresolved))
    return out


class Meaning(NamedTuple):
    """The jobs that a name among `needs` means.

    `unresolved` is the reason why they are unknown, and `jobs` is then the name itself; "" if they are known.
    """

    jobs: frozenset[str]
    unresolved: str = ""


def unknown_needs(
    launches: Sequence[Launch], traces: Mapping[JobKey, Trace], neighbours: Neighbours
) -> Iterator[tuple[Launch, Diagnostic]]:
    """Yield a warning for each unresolved need of `launches` that no job file of the project declares.

    The jobs of one matrix have one warning for each need in their file.
    """
    jobs = {launch.key for launch in launches}
    jobs |= {launch.key._replace(job=launch.matrix) for launch in launches if launch.matrix}
    seen: set[tuple[Declaration, Path]] = set()
    for launch in launches:
        for need in launch.needs:
            place = (declaration(launch), traces[launch.key].facts.needs[need.job][0])
            if launch.key._replace(job=need.job) in jobs or place in seen:
                continue
            if neighbours.declaring(launch, need.job):
                continue
            seen.add(place)
            trace = traces[launch.key]
            problems, (path, at) = Collector(trace.document), trace.facts.needs[need.job]
            message = f"no job file of project `{launch.key.project}` declares job `{need.job}`"
            known, label, hint = neighbours.of(launch), "", ""
            if has_hints(len(seen), len(known)):
                own = launch.key.job
                names = sorted(name for name in known if name and any(own not in f.jobs for f in known[name]))
                label, hint = did_you_mean(need.job, names) or "", listing("jobs", names)
            if need.job in (role.name for role in launch.app.roles):
                label = "it is a role of this job: roles wait for each other with `depends_on`"
            problems.add(path, "unknown-need", message, at=at, label=label, hint=hint)
            yield launch, problems.found[0]


@dataclass(slots=True)
class Neighbours:
    """Looks up the jobs that job files declare, below the project's folder and in `given`.

    The folder is that of the nearest launcher.toml, else the work tree. Without both, the job files beside
    the launch's own count. No component is called and no other code runs; a file that cannot be read declares
    nothing.

    Attributes:
        cwd: where the paths of files begin; absolute.
        given: absolute paths.
    """

    cwd: str
    inputs: Inputs
    given: Sequence[str] = ()
    parents: Parents = field(default_factory=Parents)
    _homes: Homes = field(init=False)
    _paths: dict[str, list[str]] = field(default_factory=dict)
    _documents: dict[str, Document | None] = field(default_factory=dict)
    _unread: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    _declared: dict[tuple[str, str, str], dict[str, list[Declared]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._homes = Homes(self.cwd, is_asked=False, components=False)

    def of(self, launch: Launch) -> Mapping[str, Sequence[Declared]]:
        """Return name that a launch may need → the declarations that have it, in the same project and target;
        "" → those that may have further names."""
        key = (launch.directory, launch.key.project, launch.key.target)
        if key not in self._declared:
            found = {path: self._read(path, launch.key.target) for path in self._around(launch.directory)}
            self._unread[key] = [path for path, jobs in found.items() if jobs is None]
            self._declared[key] = {}
            for each in (each for jobs in found.values() for each in jobs or ()):
                is_of_project = each.project == launch.key.project
                for name in (*each.names, *[""] * each.is_guessed) if is_of_project else ():
                    self._declared[key].setdefault(name, []).append(each)
        return self._declared[key]

    def declaring(self, launch: Launch, name: str) -> Sequence[Declared]:
        """Return the declarations that have, or may have, a job or matrix of this name."""
        known = self.of(launch)
        guessed = (each for each in known.get("", ()) if name not in each.names and each.declares(name))
        return [*known.get(name, ()), *guessed]

    def meaning(self, launch: Launch, name: str) -> Meaning:
        """Return the jobs that a name among a launch's needs means; a single job of that name comes first."""
        itself = Meaning(frozenset({name}))
        files = self.declaring(launch, name)
        if any(name in each.jobs and each.is_whole for each in files):
            return itself
        matrices = [each for each in files if each.name == name]
        unsure = next((each.file for each in matrices if each.is_guessed or not each.is_whole), "")
        if unsure:
            why = f"{unsure} declares `{name}`, and the names of its jobs are not known here"
            return itself._replace(unresolved=f"{why}; give that file as well")
        if matrices:
            return Meaning(frozenset().union(*(each.jobs for each in matrices)))
        unread = "" if files else next(self._maybe_declaring(launch, name), "")
        why = f"no file that can be read declares `{name}`; mend {unread}" if unread else ""
        return itself._replace(unresolved=why)

    def _maybe_declaring(self, launch: Launch, name: str) -> Iterator[str]:
        """Yield the job files around a launch that may declare `name` but cannot be fully read."""
        for path in self._unread[launch.directory, launch.key.project, launch.key.target]:
            document = self._documents[path]
            if document is None or name in document.source.text:
                yield os.path.relpath(path, self.cwd)

    def _around(self, folder: str) -> Sequence[str]:
        if folder not in self._paths:
            self._paths[folder] = [*dict.fromkeys([*self.given, *files_of_project(folder)])]
        return self._paths[folder]

    def _read(self, path: str, target: str) -> list[Declared] | None:
        """Return the declarations of a file; None when they cannot be read."""
        home = self._homes.of(os.path.dirname(path))
        if path not in self._documents:
            shown = os.path.relpath(path, self.cwd)
            source = read_source(shown, path, home.real_root)
            self._documents[path] = None if isinstance(source, Diagnostic) else parse(source)
        document = self._documents[path]
        if document is None:
            return None
        if (document.value or {}).get("abstract") is True:
            return []
        try:
            return declared_in(document, path, target, self.inputs, home, self.parents) or None
        except CommandError:  # raised by git
            return None


_SHOWN = 8
"""The most jobs of a circle that a message shows."""


class Circle(NamedTuple):
    """Jobs that need each other, each with the need, as written in its file, that leads to the next job."""

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
        """Return the diagnostic of the circle, at the need of its first job."""
        (launch, need), *others = self.steps
        related = tuple(
            Collector(trace.document).place(trace.facts.needs[need.job][0], "and this one")
            for other, need in others[: _SHOWN - 1]
            for trace in (traces[other.key],)
        )
        trace = traces[launch.key]
        problems, (path, at) = Collector(trace.document), trace.facts.needs[need.job]
        problems.add(path, "needs-cycle", self.message, at=at, label="delete it here", related=related)
        return problems.found[0]


def resolve_needs(launches: Sequence[Launch]) -> tuple[list[Launch], list[Circle]]:
    """Replace each name of a matrix among `needs` by the names of its jobs; find the circles.

    A job's name takes precedence over a matrix's. A name that none of the launches has stays as it is. Equal
    declarations have only one circle.
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
    """Name in `needs` → indexes of launches of the same project and target."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = launches
        self._jobs = {launch.key: index for index, launch in enumerate(launches)}
        self._matrices: dict[JobKey, list[int]] = {}
        for index, launch in enumerate(launches):
            if launch.matrix:
                self._matrices.setdefault(launch.key._replace(job=launch.matrix), []).append(index)

    def of(self, launch: Launch, job: str) -> Sequence[int]:
        key = launch.key._replace(job=job)
        return [self._jobs[key]] if key in self._jobs else self._matrices.get(key, ())

    def resolved(self, launch: Launch) -> tuple[Need, ...]:
        """Return the needs of a launch as names of single jobs, sorted."""
        jobs = {
            need: [self.launches[each].key.job for each in self.of(launch, need.job)] for need in launch.needs
        }
        return expanded({need: found or [need.job] for need, found in jobs.items()})


def expanded(needs: Mapping[Need, Collection[str]]) -> tuple[Need, ...]:
    """Return need → its jobs, as needs of one job each, sorted. The name of a single job wins."""
    found: dict[str, Need] = {}
    for need, jobs in needs.items():
        if [*jobs] == [need.job]:
            found[need.job] = need
        for job in jobs:
            found.setdefault(job, Need(job, need.rerun))
    return tuple(sorted(found.values()))


def _circles(launches: Sequence[Launch], names: Names) -> Iterator[Circle]:
    """Yield circles of launches that have no job in common."""
    done: set[int] = set()
    reported: set[int] = set()
    declarations: set[frozenset[Declaration]] = set()

    def steps(index: int) -> Iterator[tuple[int, Need]]:
        launch = launches[index]
        return ((other, need) for need in launch.needs for other in names.of(launch, need.job))

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
                through = frozenset(declaration(launches[each]) for each in inside)
                if through not in declarations:
                    declarations.add(through)
                    start = inside.index(min(inside))
                    order = [*range(start, len(inside)), *range(start)]
                    yield Circle(tuple((launches[inside[each]], needs[each]) for each in order))
            elif other not in path and other not in done:
                path[other] = len(stack)
                stack.append((other, steps(other)))
                taken.append(need)


Reach = Callable[[str, str], str]
"""(scheduler of a job, scheduler of a needed job) → why it cannot read the needed job's output, or ""."""


def out_of_reach(
    launches: Sequence[Launch],
    traces: Mapping[JobKey, Trace],
    reach: Reach | None,
    neighbours: Neighbours | None = None,
) -> Iterator[tuple[Launch, Diagnostic]]:
    """Yield an error for each reference to the folder of a matrix, or of a job on an unreachable engine.

    The scheduler of a need that none of the launches declares is not known. The jobs of one matrix have one
    error for each place in their file.

    Args:
        launches: with their needs as their files have them.
        reach: None where schedulers are unknown.
        neighbours: knows the matrices of other files.
    """
    names = Names(launches)
    seen: set[tuple[Declaration, Path, str]] = set()
    for launch in launches:
        trace = traces[launch.key]
        for job, path, written in trace.facts.outputs:
            place = (declaration(launch), path, written)
            if place in seen:
                continue
            seen.add(place)
            problems = Collector(trace.document)
            needed = next((launches[index] for index in names.of(launch, job)), None)
            if needed is not None:
                is_matrix = needed.key.job != job
            else:
                declared = neighbours.declaring(launch, job) if neighbours is not None else ()
                is_matrix = any(each.name == job and job not in each.jobs for each in declared)
            if is_matrix:
                _note_folder_of_matrix(job, path, written, problems)
            elif needed and reach is not None and (why := reach(launch.scheduler, needed.scheduler)):
                message = f"`{written}`: {needed.scheduler} keeps the output folder of `{job}`, and {why}"
                label = f"run it and `{job}` on one engine"
                problems.add(path, "needs-across-engines", message, label=label, part=written)
            yield from ((launch, found) for found in problems.found)


def _note_folder_of_matrix(job: str, path: Path, written: str, problems: Collector) -> None:
    message = f"`{written}`: `{job}` is a matrix, and each of its jobs has a folder of its own"
    hint = "the variable LAUNCHER_NEEDS lists each job that this one needs with its output folder, as JSON"
    problems.add(path, "unknown-reference", message, label="read LAUNCHER_NEEDS", hint=hint, part=written)
