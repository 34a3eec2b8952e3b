"""The jobs that the job files of a project declare, also those that are not compiled."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from launcher.errors import CommandError
from launcher.files import project_file
from launcher.git import repository
from launcher.jobfile.compile.discover import SUFFIXES, find_files
from launcher.jobfile.compile.needs import expanded
from launcher.jobfile.compile.one_file import Declared, declared_in
from launcher.jobfile.compile.project import Homes
from launcher.jobfile.compile.trace import Trace
from launcher.jobfile.compile.variables import Inputs
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import listing
from launcher.jobfile.text.document import Document, Path
from launcher.jobfile.text.parse import parse
from launcher.jobfile.text.source import leads_out, read_source
from launcher.specs import JobKey, Launch
from launcher.specs.needs import Need
from launcher.text import did_you_mean


def declared_elsewhere(name: str, launch: Launch, cwd: str = "") -> str:
    """The job file that declares the job or matrix `name` in the project and target of a launch.

    The path is relative to `cwd`, "" for the current directory. "" if no job file of the project declares it.
    """
    neighbours = Neighbours(os.path.abspath(cwd or os.getcwd()), Inputs({}, os.environ, placeholders=True))
    return next((each.file for each in neighbours.of(launch) if each.declares(name)), "")


def resolve_elsewhere(launches: Sequence[Launch], neighbours: Neighbours) -> list[Launch]:
    """Replace each matrix among `needs` that only a job file elsewhere in the project declares by its jobs.

    Job files are looked for when a need is not among the launches, else nothing is read.
    """
    known = {launch.key for launch in launches}
    found: dict[tuple[str, JobKey], Meaning] = {}

    def meaning(launch: Launch, need: Need) -> Meaning:
        place = launch.directory, launch.key._replace(job=need.job)
        if place not in found:
            itself = Meaning(frozenset({need.job}))
            found[place] = itself if place[1] in known else neighbours.meaning(launch, need.job)
        return found[place]

    return [_resolved(launch, {need: meaning(launch, need) for need in launch.needs}) for launch in launches]


def _resolved(launch: Launch, meanings: Mapping[Need, Meaning]) -> Launch:
    unresolved = {need.job: meaning.unresolved for need, meaning in meanings.items() if meaning.unresolved}
    needs = expanded(launch.needs, lambda need: meanings[need].jobs)
    if needs == launch.needs and not unresolved:
        return launch
    return replace(launch, needs=needs, unresolved=unresolved)


class Meaning(NamedTuple):
    """The jobs that a name among `needs` stands for.

    `unresolved` says why they are not known; "" where they are. `jobs` is then the name itself.
    """

    jobs: frozenset[str]
    unresolved: str = ""


def unknown_needs(
    launches: Sequence[Launch], traces: Mapping[JobKey, Trace], neighbours: Neighbours
) -> Iterator[tuple[Launch, Diagnostic]]:
    """A warning for each need of `launches`, not resolved yet, that no job file of the project declares.

    The jobs of one matrix have one warning for each need in their file.
    """
    jobs = {launch.key for launch in launches}
    jobs |= {launch.key._replace(job=launch.matrix) for launch in launches if launch.matrix}
    seen: set[tuple[str, str, Path]] = set()
    for launch in launches:
        for need in launch.needs:
            place = (launch.root, launch.file, traces[launch.key].needs[need.job][0])
            if launch.key._replace(job=need.job) in jobs or place in seen:
                continue
            known = neighbours.of(launch)
            if not any(each.declares(need.job) for each in known):
                seen.add(place)
                yield launch, _unknown(launch, need.job, traces[launch.key], known)


def _unknown(launch: Launch, name: str, trace: Trace, known: Sequence[Declared]) -> Diagnostic:
    problems, (path, at) = Collector(trace.document), trace.needs[name]
    message = f"no job file of project `{launch.key.project}` declares job `{name}`"
    names = sorted({each for file in known if launch.key.job not in file.jobs for each in file.names})
    label, hint = did_you_mean(name, names) or "", listing("jobs", names)
    if name in (role.name for role in launch.app.roles):
        label = "it is a role of this job: roles wait for each other with `depends_on`"
    problems.add(path, "unknown-need", message, at=at, label=label, hint=hint, severity="warning")
    return problems.found[0]


@dataclass(slots=True)
class Neighbours:
    """Looks up what job files declare: those below the folder of the project, and those in `given`.

    The folder is that of the nearest launcher.toml, else the work tree. Without both, the job files beside
    the launch's own count. No component is called and no other code runs; a file that cannot be read declares
    nothing.

    Attributes:
        cwd: where the paths of files begin; absolute.
        inputs: what variables in the values of a matrix are taken from.
        given: absolute paths.
    """

    cwd: str
    inputs: Inputs
    given: Sequence[str] = ()
    _homes: Homes = field(init=False)
    _paths: dict[str, list[str]] = field(default_factory=dict)
    _documents: dict[str, Document | None] = field(default_factory=dict)
    _declared: dict[tuple[str, str, str], list[Declared]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._homes = Homes(self.cwd, is_asked=False, components=False)

    def of(self, launch: Launch) -> Sequence[Declared]:
        """What is declared in the project of a launch, under its target."""
        key = (launch.directory, launch.key.project, launch.key.target)
        if key not in self._declared:
            found = [self._read(path, launch.key.target) for path in self._around(launch.directory)]
            self._declared[key] = [each for each in found if each and each.project == launch.key.project]
        return self._declared[key]

    def meaning(self, launch: Launch, name: str) -> Meaning:
        """The jobs that a name among the needs of a launch stands for; a job's own name goes first."""
        itself = Meaning(frozenset({name}))
        files = [each for each in self.of(launch) if each.declares(name)]
        if any(name in each.jobs and each.is_whole for each in files):
            return itself
        matrices = [each for each in files if each.name == name]
        unsure = next((each.file for each in matrices if each.is_guessed or not each.is_whole), "")
        if unsure:
            why = f"{unsure} declares `{name}`, and the names of its jobs are not known here"
            return itself._replace(unresolved=f"{why}; give that file as well")
        if matrices:
            return Meaning(frozenset().union(*(each.jobs for each in matrices)))
        unread = "" if files else next(self._unread(launch, name), "")
        why = f"no file that can be read declares `{name}`; mend {unread}" if unread else ""
        return itself._replace(unresolved=why)

    def _unread(self, launch: Launch, name: str) -> Iterator[str]:
        """The job files around a launch that may declare `name`, and cannot be read so far."""
        for path in self._around(launch.directory):
            if self._read(path, launch.key.target) is None:
                document = self._documents[path]
                if document is None or name in document.source.text:
                    yield os.path.relpath(path, self.cwd)

    def _around(self, folder: str) -> Sequence[str]:
        if folder not in self._paths:
            self._paths[folder] = [*dict.fromkeys([*self.given, *_files_of_project(folder)])]
        return self._paths[folder]

    def _read(self, path: str, target: str) -> Declared | None:
        if path not in self._documents:
            self._documents[path] = self._parsed(path)
        document = self._documents[path]
        if document is None:
            return None
        try:
            return declared_in(document, target, self.inputs, self._homes.of(os.path.dirname(path)))
        except CommandError:  # from git
            return None

    def _parsed(self, path: str) -> Document | None:
        shown = os.path.relpath(path, self.cwd)
        root = os.path.realpath(self._homes.of(os.path.dirname(path)).root)
        source = leads_out(shown, path, root) or read_source(shown, path)
        return None if isinstance(source, Diagnostic) else parse(source)


def _files_of_project(folder: str) -> list[str]:
    """The job files below the folder of the project that holds `folder`; those in `folder` without one."""
    project, tree = project_file(folder), repository(folder)
    top = os.path.dirname(project) if project else tree.root if tree else None
    try:
        if top is not None:
            return [each.path for each in find_files([top], top)[0]]
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(SUFFIXES)]
    except (CommandError, OSError):
        return []
