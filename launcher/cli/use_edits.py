"""Edit job files to ask for the suggested amounts: values change in place, all other text stays."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from launcher.cli.fmt import Rewrite
from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.git import repository
from launcher.inventory.project import declared, file_of, matrix_of
from launcher.inventory.use import Amount, JobUse, asked_at, asked_in
from launcher.jobfile.compile.compiled import Compiled
from launcher.jobfile.compile.files import Environment, compile_files
from launcher.jobfile.compile.one_job import Trace
from launcher.jobfile.text.document import Path, Range, Source, read_source
from launcher.jobfile.text.parse import parse
from launcher.plan.diff import field, show_at
from launcher.specs.canonical import document
from launcher.specs.jobkey import DEFAULT_TARGET, JobKey
from launcher.text import typed

_VALUE = re.compile(r"(?P<lead>(?:&\S+\s+)?)(?P<quote>[\"']?)(?P<value>[\w.]+(?: \w+)?)(?P=quote)\s*")
"""Matches a number, or a text on one line, behind its anchor; no alias and no reference."""
_MIB = 2**20

Documents = dict[JobKey, dict[str, Any]]
Reader = tuple[str, JobKey, str]
"""A target, a job, and the path of an amount in the job's document."""


class Refused(LauncherError):
    """A value cannot be edited in its place."""


@dataclass(frozen=True, slots=True)
class Edits:
    """The edits of one file.

    Attributes:
        expected: target → the documents of its jobs after the edits.
        notes: sentences on what else the edits change.
    """

    rewrite: Rewrite
    expected: Mapping[str, Documents]
    notes: Sequence[str]

    def check(self, beside: str) -> None:
        """Raise LauncherError if the file `beside` defines another job, or asks for more than expected."""
        if any(_documents(_compiled(beside, target)) != made for target, made in self.expected.items()):
            raise LauncherError(
                f"{self.rewrite.file}: not edited: more would change than the suggested amounts",
                hint="edit the file by hand",
            )


def edits(found: Sequence[JobUse]) -> tuple[list[Edits], list[str]]:
    """Return the edits that the suggestions lead to, and a sentence for each edit that cannot be made."""
    wanted: dict[tuple[str, str], list[tuple[JobUse, Amount]]] = {}
    for use in found:
        for amount in use.amounts:
            if amount.suggested is not None:
                wanted.setdefault((use.origin, use.path), []).append((use, amount))
    made, refused = [], []
    for place, suggestions in wanted.items():
        try:
            file = _File(*place)
            file.compile({use.target for use, _ in suggestions})
        except LauncherError as error:
            refused += [f"{_title(*each)}: {error}" for each in suggestions]
            continue
        for use, amount in suggestions:
            try:
                file.want(use, amount)
            except Refused as error:
                refused.append(f"{_title(use, amount)}: {error}")
        refused += file.unshared()
        if file.texts:
            made.append(file.edits())
    return made, refused


def _title(use: JobUse, amount: Amount) -> str:
    """`train, role main: memory`."""
    name = field(amount.path).rpartition(".")[2]
    return f"{use.name}{amount.role and f', role {amount.role}'}: {name}"


class _Wanted(NamedTuple):
    """The value to write for an amount, and the readers of that value."""

    title: str
    suggested: int
    text: str
    readers: set[Reader]


class _File:
    """The edits of one job file.

    Attributes:
        texts: start and end of a value in the file → the value wanted there.
    """

    def __init__(self, origin: str, path: str) -> None:
        """Raises Refused for a file that is not here, CommandError."""
        self.path = file_of(origin, path)
        if not self.path or not os.path.isfile(self.path):
            raise Refused(f"{path} is not here: use the command in the repository that has it")
        tree = repository(self.path)
        here = tree.origin if tree is not None else None
        if here != origin and not os.path.isabs(origin):
            raise Refused(f"{path} here is that of {here or 'a folder without a remote'}, not of {origin}")
        self.file = os.path.relpath(self.path)
        source = read_source(self.file, self.path)
        if not isinstance(source, Source):
            raise Refused(source.message)
        self.source = source
        self.matrix = declared(origin, path)
        self.texts: dict[tuple[int, int], _Wanted] = {}
        self.expected: dict[str, Documents] = {}
        self._compiled: dict[str, Compiled] = {}
        self._readers: dict[tuple[int, int], set[Reader]] = {}

    def compile(self, wanted: set[str]) -> None:
        """Compile the file under these targets; find the readers of its values under any. Raises Refused."""
        targets = (parse(self.source).value or {}).get("targets")
        names = (
            {name for name in targets if isinstance(name, str)} if isinstance(targets, dict | list) else ()
        )
        for target in {*wanted, *names, DEFAULT_TARGET}:
            made = _compiled(self.file, target)
            if target in wanted:
                if made.errors:
                    raise Refused(
                        f"{self.file} has errors: `launcher validate {typed(self.file)}` shows them"
                    )
                self._compiled[target], self.expected[target] = made, deepcopy(_documents(made))
            for launch in made.launches:
                trace = made.traces[launch.key]
                for _, path, _ in asked_in(document(launch)):
                    at = trace.document.value_range(_path(trace, path))
                    if self._is_own(at):
                        self._readers.setdefault((at.start, at.end), set()).add((target, launch.key, path))

    def want(self, use: JobUse, amount: Amount) -> None:
        """Note the edit for a suggestion. Raises Refused."""
        compiled, documents = self._compiled[use.target], self.expected[use.target]
        judged, asking = set(use.keys), set(amount.jobs)
        keys = [
            each.key
            for each in compiled.launches
            # Matrix jobs that have not run read the value too.
            if each.key in asking
            or (
                each.key not in judged
                and each.key.job != use.name
                and matrix_of(each.key.job, self.matrix) == use.name
            )
        ]
        if not keys:
            raise Refused(f"{self.file} does not declare it any more")
        suggested = amount.suggested or 0
        wanted: dict[tuple[int, int], _Wanted] = {}
        for key in keys:
            if (now := asked_at(documents[key], amount.path)) != amount.asked:
                shown = "nothing" if now is None else show_at(amount.path, now)
                was = show_at(amount.path, amount.asked)
                raise Refused(f"{self.file} asks for {shown} now, and the newest attempt asked for {was}")
            at, text = self._edit(compiled.traces[key], amount.path, suggested)
            known = wanted.setdefault(
                (at.start, at.end), _Wanted(_title(use, amount), suggested, text, set())
            )
            known.readers.add((use.target, key, amount.path))
        for place, each in wanted.items():
            other = self.texts.get(place)
            if other is not None:
                each.readers.update(other.readers)
                each = max(other, each, key=lambda one: one.suggested)._replace(readers=each.readers)
            self.texts[place] = each

    def _is_own(self, at: Range) -> bool:
        return at.source.text == self.source.text and os.path.realpath(at.source.file) == self.path

    def _edit(self, trace: Trace, path: str, suggested: int) -> tuple[Range, str]:
        """Return the place of an amount's value, and the text that replaces it. Raises Refused."""
        where, wanted = _path(trace, path), show_at(path, suggested)
        name = field(path).rpartition(".")[2]
        origin, at = trace.origin(where), trace.document.value_range(where)
        if origin.through and origin.layer != "target":
            raise Refused(f"it comes from {origin}; write `{name}: {wanted}` there")
        if not self._is_own(at):
            raise Refused(f"it is written in {origin}, for other jobs, too; write `{name}: {wanted}` there")
        found = _VALUE.fullmatch(at.text)
        if not origin.file or not _is_written(trace, where):
            raise Refused(f"{origin} has no `{name}` of its own, but `{at.text}`; write `{name}: {wanted}`")
        if found is None:
            raise Refused(f"{origin} has `{at.text}`, which is no plain amount; write `{name}: {wanted}`")
        text = wanted
        if where[-1] == "memMB":
            text = str(suggested // _MIB)
        elif path == "timeout_s" and found["value"].isdigit() and not found["quote"]:
            text = str(suggested)
        return at, f"{found['lead']}{found['quote']}{text}{found['quote']}{at.text[len(at.text.rstrip()) :]}"

    def unshared(self) -> Iterator[str]:
        """Drop edits of values that other, unjudged amounts read too; yield a sentence for each."""
        for place, wanted in [*self.texts.items()]:
            others = {each for each in self._readers.get(place, ()) if each[0] in self.expected}
            others -= wanted.readers
            if others:
                del self.texts[place]
                _, key, path = min(others)
                what = f"`{field(path)}` of {key.job}"
                yield f"{wanted.title}: {self.file} says it together with {what}, which is not to change"

    def edits(self) -> Edits:
        """Return all edits of the file."""
        text, notes = self.source.text, []
        for (start, end), wanted in sorted(self.texts.items(), reverse=True):
            text = text[:start] + wanted.text + text[end:]
            for target, key, path in wanted.readers:
                _set(self.expected[target][key], path, wanted.suggested)
            others = {each[0] for each in self._readers.get((start, end), ())} - {*self.expected}
            notes += [f"{wanted.title} changes for target `{name}`, too" for name in sorted(others)]
        return Edits(Rewrite(self.file, self.path, self.source.text, text), self.expected, notes)


def _compiled(path: str, target: str) -> Compiled:
    """Return the jobs of one file. Unset variables get placeholders; the checkout's components do not run."""
    environment = Environment(components=False)
    return compile_files([path], target=target, environment=environment, placeholders=True)


def _documents(compiled: Compiled) -> Documents:
    return {launch.key: document(launch) for launch in compiled.launches}


def _path(trace: Trace, path: str) -> Path:
    """Return where the job file has the amount that the job's document has at `path`."""
    if path == "timeout_s":
        return ("timeout",)
    where: Path = tuple(field(path).split("."))
    in_mib = (*where[:-1], "memMB")
    return in_mib if where[-1] == "memory" and _is_written(trace, in_mib) else where


def _is_written(trace: Trace, where: Path) -> bool:
    """Whether a job file has a whole value at a path, not part of a text."""
    value: Any = trace.document.value
    for key in where:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _set(made: dict[str, Any], path: str, value: int) -> None:
    if path == "timeout_s":
        made[path] = value
        return
    _, name, *_, amount = path.split(".")
    role = next(role for role in made["roles"] if role["name"] == name)
    role["resource"][amount] = value
