"""The table of wrong job files: the edit that makes each right, and how well the messages lead to it.

A row of `wrong/KIND.txt` is a line `@ PLACE MARK CODE LINE, CODE LINE : ADVICE; ADVICE` and an edit below it:
lines with `-` are of the wrong file, with `+` of the right one, with a blank of both. PLACE is the part of a
minimal job that the lines make up: `job` (fields of the job), `role` (fields of a role that has a program),
`command` (fields of one that has none), `file` (everything); `toml` before it is the format. `[job]`,
`[role]` and `[user]` put a line among the fields of the job, of the role, or of a second role. CODE and LINE
are those of each diagnostic. Each ADVICE is text that the messages hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from launcher.jobfile import Compiled, Diagnostic, Environment, compile_files
from launcher.schedulers.registry import SchedulerRules
from launcher.specs import canonical

FOLDER = Path(__file__).parent / "wrong"
SCHEDULERS = SchedulerRules()
MARKS = ("very good", "fair", "poor", "wrong", "silent")
_HEAD = re.compile(
    r"@ (?:(toml) )?(\w+)(?: (very good|fair|poor|wrong|silent)((?: [a-z0-9-]+ \d+,?)*))?(?: : (.*))?"
)
_MOVED = re.compile(r"\[(job|role|user)\] (.*)")
_LISTS = re.compile(r"^(?:fields here|there are|one of|units|declared|axes): .*", re.MULTILINE)
_WORD = re.compile(r"[\w$/%-]+")


class Row(NamedTuple):
    """A wrong file and the right one.

    Attributes:
        mark: one of MARKS.
        expected: `CODE LINE` of each diagnostic, in order.
        advice: texts that the messages hold, beside the words that the right file has more.
        edit: the lines of the wrong and of the right file, each with `-`, `+` or a blank before it.
    """

    kind: str
    number: int
    form: str
    place: str
    mark: str
    expected: Sequence[str]
    advice: Sequence[str]
    edit: Sequence[str]

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.number}"

    @property
    def file(self) -> str:
        return f"job.launcher.{self.form}"

    def text(self, sign: str) -> str:
        """Return the wrong file for "-", the right one for "+"."""
        placed: dict[str, list[str]] = {"job": [], "role": [], "user": [], "here": []}
        for line in self.edit:
            if line[0] in (sign, " "):
                moved = _MOVED.fullmatch(line[1:])
                placed[moved[1] if moved else "here"].append(moved[2] if moved else line[1:])
        here, job, role, user = placed["here"], placed["job"], placed["role"], placed["user"]
        if self.place == "file":
            return "".join(f"{line}\n" for line in [*job, *here])
        if self.place == "job":
            job = here + job
        program = [] if self.place == "command" else ["entrypoint: train"]
        role = program + (role if self.place == "job" else here + role)
        if self.form == "toml":
            role = [line.replace("entrypoint: train", 'entrypoint = "train"') for line in role]
            table = any(line.startswith("[") for line in job)
            other = ["[roles.user]", *user] if user else []
            before, after = ([], job) if table else (job, [])
            lines = ["version = 1", 'name = "job"', *before, "[roles.main]", *role, *other, *after, ""]
            return "\n".join(lines)
        name = [] if any(line.startswith("name: ") for line in job) else ["name: job"]
        roles = ["  main:", *("    " + line for line in role)]
        if user:
            roles += ["  user:", *("    " + line for line in user)]
        return "\n".join(["version: 1", *name, *job, "roles:", *roles, ""])

    @property
    def added(self) -> set[str]:
        """The words that the right file has and the wrong one has not."""
        return words(self.text("+")) - words(self.text("-"))

    @property
    def fields(self) -> set[str]:
        """The fields that the edit adds."""
        lines = "\n".join(line[1:] for line in self.edit if line[0] == "+")
        return self.added & set(re.findall(r"([\w.-]+)\"?(?: =|:)(?!\S)", lines))


def words(text: str) -> set[str]:
    return {word.strip(".") for word in _WORD.findall(text)} - {""}


def read_rows() -> Iterator[Row]:
    for path in sorted(FOLDER.glob("*.txt")):
        for number, block in enumerate(path.read_text().strip("\n").split("\n\n@ "), 1):
            head, *edit = block.split("\n")
            found = _HEAD.fullmatch("@ " + head.removeprefix("@ "))
            assert found, (path.name, head)
            expected = [each.strip() for each in (found[4] or "").split(",") if each.strip()]
            advice = (found[5] or "").split("; ") if found[5] else []
            yield Row(path.stem, number, found[1] or "yaml", found[2], found[3] or "", expected, advice, edit)


def compiled(folder: Path, file: str, text: str) -> Compiled:
    """Return a text as `launcher validate` compiles the job file of the table's folder."""
    (folder / file).write_text(text)
    environment = Environment(schedulers=SCHEDULERS, rules=SCHEDULERS.problems, cwd=str(folder), environ={})
    return compile_files([file], environment=environment, placeholders=True, neighbours=True)


def meaning(result: Compiled) -> list[str]:
    """Return the digests of the jobs of a file without any diagnostic; empty for other files."""
    return [canonical.digest(canonical.document(made)) for made in result.launches if not result.diagnostics]


_SAYS = re.compile(r"(?:did you mean|write) ((?:`[^`]+`(?:, )?)+|\"[^\"]*\"|\[.*\]|\{.*\}|[\w.]+)\??")
"""A label that is nothing but the text to write."""


def pasted(text: str, found: Diagnostic) -> Iterator[str]:
    """The texts where a user writes what a label says: in place of the range, or of the rest of the line."""
    advice, span = _SAYS.fullmatch(found.label), found.span
    if advice is None or span is None or "PATH" in found.label:
        return
    pieces = re.findall(r"`([^`]+)`", advice[1]) or [advice[1]]
    lines = text.split("\n")
    line = lines[span.line - 1]
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    before = line[: span.column - 1]
    entries = f"\n{before}".join(pieces) if not before.strip() else ", ".join(pieces)
    for new in (before + pieces[0] + line[end:], before + entries):
        yield "\n".join([*lines[: span.line - 1], new, *lines[span.line :]])


def mark(row: Row, found: Sequence[Diagnostic]) -> str:
    """Judge the messages on a wrong file by the edit that makes it right.

    very good: label and hint name all words that the edit adds, and the messages hold the row's advice.
    fair: they name the field that the edit writes, or the messages hold the row's advice.
    poor: neither. wrong: their text to paste is not in the right file. silent: there is no message.
    """
    if not found:
        return "silent"
    advice = _LISTS.sub("", "\n".join(f"{each.label}\n{each.hint}" for each in found))
    said = "\n".join([advice, *(each.message for each in found)])
    told = re.findall(r"(?:did you mean|^write|^add) `([^`]*)`", advice, re.MULTILINE)
    lines = [line[1:] for line in row.edit if line[0] == "+"]
    moved = {found[1] for line in lines if (found := _MOVED.fullmatch(line))}
    known = words("\n".join(lines)) | moved | {"NAME", "…", "value"}
    if told and not any({word for word in words(each) if len(word) > 1} <= known for each in told):
        return "wrong"
    holds = all(each in said for each in row.advice)
    is_placed = all(each in advice for each in moved)
    if row.added <= words(advice) and holds and is_placed and (row.added or row.advice or moved):
        return "very good"
    # An edit that adds no word changes quotes or brackets: then the whole value is in the advice.
    shown = words("\n".join(re.findall(r"(?:write|such as|did you mean) (.+)", advice)))
    values = words("\n".join(re.sub(r"[\w-]+\"?(?::| =)(?!\S)", "", line) for line in lines))
    if not (row.added or row.advice or moved) and values and values <= shown:
        return "very good"
    is_named = bool(row.fields) and row.fields <= words(advice) and is_placed
    return "fair" if (row.advice and holds) or is_named else "poor"
