"""Each job file of `messages` gets exactly the messages that stand below it.

A line `## …` says what the cases below it have in common; lines below that begin each of their files. A case
begins with `@ PLACE: SENTENCE`. PLACE is `role` (fields of a role that has a program), `job` (fields of the
job), `yaml` or `toml` (the whole file), or `files` (files in a repository, each below a line `== NAME`).
Behind it may stand `target=NAME`, `given=FILE` for one of the files, `neighbours` to look for needs in the
others, and `NAME=VALUE` for a variable or, with `$NAME`, one of the environment.

The messages follow: place, code and sentence, then the label, the hint behind `=`, and each related place
behind `~`; then the jobs that can be launched beside errors. A case without messages is right.

`python -m tests.corpus.test_messages` writes the messages of today into the files.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from launcher.jobfile import Compiled, Diagnostic, Environment, Related, compile_files
from tests.unit.jobfile.folders import write
from tests.unit.jobfile.words import HEAD, ROLES, SCHEDULERS, git

FOLDER = Path(__file__).parent / "messages"
ROLE = f"{HEAD}roles:\n  main:\n    entrypoint: x\n"


class Case(NamedTuple):
    """A job file that is wrong, or only looks wrong.

    Attributes:
        about: the sentence about it, or about its group.
        place: the part of a job that its text makes up.
        messages: the lines of the expected messages.
    """

    about: str
    place: str
    text: str
    messages: tuple[str, ...]

    def compiled(self, folder: Path) -> Compiled:
        """Write the files into an empty folder, and compile them."""
        place, *words = self.place.split()
        named = dict(word.partition("=")[::2] for word in words)
        has_neighbours = "neighbours" in named and named.pop("neighbours") == ""
        target, name = named.pop("target", None), named.pop("given", ".")
        environ = {key[1:]: named.pop(key) for key in [*named] if key.startswith("$")}
        if place == "files":
            git(folder, "init", "-q")
            write(folder, self.text)
        else:
            name = f"job.launcher.{'toml' if place == 'toml' else 'yaml'}"
            text = HEAD + self.text + ROLES if place == "job" else self.text
            text = ROLE + re.sub("(?m)^(?=.)", "    ", self.text) if place == "role" else text
            (folder / name).write_text(text)
        environment = Environment(schedulers=SCHEDULERS, cwd=str(folder), environ=environ)
        options = {"target": target, "variables": named, "environment": environment}
        return compile_files([name], neighbours=has_neighbours, placeholders=has_neighbours, **options)

    def report(self, result: Compiled) -> tuple[str, ...]:
        """Return the diagnostics, and the jobs beside errors, as the lines of a case."""
        jobs = ", ".join(launch.key.job for launch in result.launches) if result.errors else ""
        more = [f"> launches: {jobs}"] if jobs else []
        return (*(line for each in result.diagnostics for line in self._lines(each)), *more)

    def _lines(self, found: Diagnostic) -> Iterator[str]:
        message = found.message.replace("\n", "\\n")
        yield f"> {self._at(found)} {found.severity}[{found.code}]: {message}"
        yield from (f">   {line}" for line in found.label.splitlines())
        yield from (f">   = {line}" for line in found.hint.splitlines())
        yield from (f">   ~ {self._at(each)} {each.message}" for each in found.related)

    def _at(self, found: Diagnostic | Related) -> str:
        place = f"{found.file}:{found.span.line}:{found.span.column}" if found.span else found.file
        return place.removeprefix("./") if self.place[:5] == "files" else place.partition(":")[2] or place


def read(path: Path) -> Iterator[tuple[str, Case | None]]:
    """Yield the text of each case without its messages, and of each head of a group; and the case."""
    group, start = "", ""
    for block in re.split(r"(?m)^(?=@ |## )", path.read_text())[1:]:
        head, *lines = block.rstrip("\n").split("\n")
        messages = (*(line for line in lines if line.startswith("> ")),)
        text = "".join(f"{line}\n" for line in lines[: len(lines) - len(messages)])
        if head.startswith("## "):
            group, start = head[3:], text
            yield f"{head}\n{text}", None
        else:
            place, _, about = head[2:].partition(": ")
            yield f"{head}\n{text}", Case(about or group, place, start + text, messages)


def cases() -> Iterator[object]:
    for path in sorted(FOLDER.glob("*.txt")):
        known = [case for _, case in read(path) if case is not None]
        for number, case in enumerate(known, 1):
            yield pytest.param(case, id=f"{path.stem}-{number}: {case.about}")


@pytest.mark.parametrize("case", [*cases()])
def test_a_job_file_gets_exactly_its_messages(tmp_path: Path, case: Case) -> None:
    result = case.compiled(tmp_path)
    assert case.report(result) == case.messages
    assert result.launches or result.errors


def main() -> None:
    for path in FOLDER.glob("*.txt"):
        blocks = []
        for text, case in read(path):
            with tempfile.TemporaryDirectory() as folder:
                lines = case.report(case.compiled(Path(folder))) if case is not None else ()
            blocks.append(text + "".join(f"{line}\n" for line in lines))
        path.write_text("\n".join(blocks))


if __name__ == "__main__":
    main()
