"""Each job file of `messages` gets exactly the messages that stand below it.

A line `## …` says what the cases below it have in common; lines below that begin each of their files. A case
begins with `@ PLACE: SENTENCE`. PLACE is `role` (fields of a role that has a program), `job` (fields of the
job), `yaml` or `toml` (the whole file), or `files` (files in a repository, each below a line `== NAME`). The
messages follow: place, code and sentence, then the label, the hint behind `=`, and each related place behind
`~`. A case without messages is right.

`python -m tests.corpus.test_messages` writes the messages of today into the files.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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

    def compiled(self, folder: Path, environ: Mapping[str, str] | None = None, **options: Any) -> Compiled:
        """Write the files into an empty folder, and compile them with options of `compile_files`."""
        name = f"job.launcher.{'toml' if self.place == 'toml' else 'yaml'}"
        if self.place == "files":
            git(folder, "init", "-q")
            write(folder, self.text)
            name = "."
        elif self.place == "role":
            (folder / name).write_text(ROLE + re.sub("(?m)^(?=.)", "    ", self.text))
        else:
            (folder / name).write_text(HEAD + self.text + ROLES if self.place == "job" else self.text)
        environment = Environment(schedulers=SCHEDULERS, cwd=str(folder), environ=environ or {})
        return compile_files([name], environment=environment, **options)

    def said(self, found: Sequence[Diagnostic]) -> tuple[str, ...]:
        """Return diagnostics as the lines of a case."""
        return tuple(line for each in found for line in self._lines(each))

    def _lines(self, found: Diagnostic) -> Iterator[str]:
        message = found.message.replace("\n", "\\n")
        yield f"> {self._at(found)} {found.severity}[{found.code}]: {message}"
        yield from (f">   {line}" for line in found.label.splitlines())
        yield from (f">   = {line}" for line in found.hint.splitlines())
        yield from (f">   ~ {self._at(each)} {each.message}" for each in found.related)

    def _at(self, found: Diagnostic | Related) -> str:
        place = f"{found.file}:{found.span.line}:{found.span.column}" if found.span else found.file
        return place.removeprefix("./") if self.place == "files" else place.partition(":")[2] or place


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
    assert case.said(result.diagnostics) == case.messages
    assert result.launches or result.errors


def main() -> None:
    for path in FOLDER.glob("*.txt"):
        blocks = []
        for text, case in read(path):
            with tempfile.TemporaryDirectory() as folder:
                said = case.said(case.compiled(Path(folder)).diagnostics) if case is not None else ()
            blocks.append(text + "".join(f"{line}\n" for line in said))
        path.write_text("\n".join(blocks))


if __name__ == "__main__":
    main()
