"""One diagnostic of a job file (problem, position, remedy): the value, its text and its JSON.

The explanations of all codes are read from `codes.md`, a page of the docs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from launcher.dataclass import asdict, dataclass, replace
from launcher.errors import JobFileError
from launcher.specs.secret import is_sensitive
from launcher.text import paint, printable, width, wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of a file. Lines and columns count from 1; columns count characters, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


_WIDTH = 110  # the most columns of source text to show; longer lines are cut around the range
_LEAST = 40  # the fewest columns to which source text is cut, and help is wrapped
_LEAD = 30  # columns to show before the range when a line is cut
_TAB = "    "
_HEAD = re.compile(r"""(?<![\w.-])["']?-{0,2}([A-Za-z_][\w.-]*)["']?\s*[:=]\s*""")
_VALUE = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',\[\]{}#][^,\]}#]*""")
_FLAG = re.compile(
    r"""(?<![\w-])(--?([A-Za-z][\w-]{0,63})["']?(?:\s*,\s*|\s+)["']?)([^\s"',\[\]{}$-][^\s"',\]}]*)"""
)
_USER_OF_URL = re.compile(r"(?<=://)[^/\s\"'@]+(?=@)")
_REFERENCES = ("$", "&", "*", "|", ">", "env:", "file:")


def code_frame(
    file: str,
    span: Span | None,
    source_line: str,
    label: str,
    shade: str,
    color: bool,
    columns: int | None = None,
) -> list[str]:
    """Return the lines `--> file:line:column`, the source line, and the carets with the label behind them.

    A label for which a terminal of this many columns has no room is a line of help below the carets.
    """
    arrow = paint("-->", "bold blue", color)
    if span is None:
        return [f"  {arrow} {printable(file)}", *_note(" ", "help", label, color, columns)]
    number = str(span.line)
    gutter = " " * len(number)
    bar = paint("|", "bold blue", color)
    room = max(_LEAST, columns - len(number) - 3) if columns else None
    shown, before, size = _window(without_secrets(source_line), span, min(_WIDTH, room or _WIDTH))
    has_room = room is None or before + size + 1 + width(printable(label)) <= room
    carets = paint("^" * size + (f" {printable(label)}" if label and has_room else ""), shade, color)
    return [
        f"{gutter}{arrow} {printable(file)}:{span.line}:{span.column}",
        f"{gutter} {bar}",
        f"{paint(number, 'blue', color)} {bar} {shown}".rstrip(),
        f"{gutter} {bar} {' ' * before}{carets}",
        *_note(gutter, "help", "" if has_room else label, color, columns),
    ]


# A file of one long line may have very many problems.
@lru_cache(maxsize=4)
def without_secrets(line: str) -> str:
    """Return a line with its secrets starred out, as long as before: literals under sensitive-looking names,
    and what precedes the host in a URL.

    Frames go into the logs of CI systems and onto pull requests.
    """

    def starred_flag(match: re.Match[str]) -> str:
        return match[1] + "*" * len(match[3]) if is_sensitive(match[2]) else match[0]

    shown = _FLAG.sub(starred_flag, "".join(_without_values(line)))
    return _USER_OF_URL.sub(lambda match: "*" * len(match[0]), shown)


def _without_values(line: str) -> Iterator[str]:
    """Yield the pieces of a line, with stars for values behind a sensitive `NAME:` or `NAME=`."""
    done = 0
    for head in _HEAD.finditer(line):
        value = _VALUE.match(line, head.end()) if head.start() >= done and is_sensitive(head[1]) else None
        if value is None or value[0].strip("\"'").startswith(_REFERENCES):
            continue
        yield line[done : value.start()] + ("*" * len(value[0].rstrip())).ljust(len(value[0]))
        done = value.end()
    yield line[done:]


def _window(line: str, span: Span, columns: int) -> tuple[str, int, int]:
    """Return the part of a line to show, the columns before the carets, and the number of carets."""
    end = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    start = min(span.column - 1, len(line))
    cut = max(0, start - _LEAD) if len(line) > columns else 0
    head = "…" if cut else ""
    before = head + _shown(line[cut:start])
    end = max(start, end)
    # Measure no more than can be shown: a line may be as long as a file.
    marked = _shown(line[start : min(end, start + columns + 1)])
    rest = _shown(line[end : end + columns + 1])
    limit = max(1, columns - width(before))
    text = marked + rest
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return before + text, width(before), max(1, width(text[: len(marked)]))


def _shown(text: str) -> str:
    return printable(text.replace("\t", _TAB))


Severity = Literal["error", "warning"]

CODES: Mapping[str, str] = {
    "command-line": "several words stand where one belongs: a program or an option with what follows it",
    "component-refused": "a job calls a component where only the built-in ones may run",
    "conflicting-fields": "two fields say the same thing in different ways; keep one of them",
    "constraint": "fields that are right one by one do not fit together",
    "dirty-tree": "a git reference while files differ from the commit",
    "duplicate-job": "two files declare the same job of one project",
    "duplicate-key": "a key stands twice in one mapping",
    "encoding": "the file is not UTF-8 text",
    "env-name": "a variable of the environment has a name that no shell can use",
    "environment-refused": "a variable is read from the environment where that is not allowed",
    "invalid-name": "a name that engines, hosts or paths could not take",
    "invalid-value": "the value has the right type and is not usable",
    "joined-lines": "YAML joins the lines of a script into one",
    "lookalike-character": "a quote, a blank or an escape looks like syntax and is part of the value",
    "lookalike-reference": "a text looks like a reference but is not one",
    "misplaced-field": "a variable of the environment has the name of a field that stands elsewhere",
    "missing-field": "a field that has no default is not there",
    "needs-across-engines": "a job reads the output folder of a job on an engine that it cannot reach",
    "needs-cycle": "a job needs itself, or jobs need each other in a circle",
    "newer-toml": "the text is TOML 1.1, which many tools refuse",
    "newer-version": "the file is written in a later version of the language",
    "no-commit": "a git reference where git has no commit or no branch to name",
    "no-job-files": "the directory holds no *.launcher.yaml, .yml or .toml file",
    "no-such-file": "the path does not exist",
    "out-of-range": "a number is too small or too large",
    "overridden-variable": "a variable of the environment that every replica gets from its scheduler",
    "reference-phase": "a reference stands where its value is not known or where none is resolved",
    "secret-literal": "a value is written out under a name that looks like a secret",
    "secret-variable": "a variable takes what looks like a secret from the environment into the document",
    "shell-argument": "a shell reads an argument as something else than it looks like",
    "too-large": "a file is larger or deeper than a job file can be, or a directory too large to search",
    "toml-syntax": "the text is not TOML",
    "unexpanded-argument": "an argument has text for a shell, and no shell reads it",
    "unexpanded-variable": "a variable of the environment has text for a shell, and no shell reads it",
    "unknown-field": "a key that this mapping does not have",
    "unknown-need": "a job needs another one that no job file of the project declares",
    "unknown-option": "the scheduler has no such run option",
    "unknown-reference": "a reference that names nothing",
    "unknown-target": "the file declares no such target",
    "unknown-variable": "a variable was given a value and no file declares it",
    "unknown-variant": "none of the values that are allowed here",
    "unmatched-glob": "a glob of `inputs` matches no file",
    "unpinned-image": "the image tag `latest`, or none, may name another image tomorrow",
    "unreadable": "the file or directory cannot be read",
    "unset-variable": "a variable has neither a value nor a default",
    "unused-field": "a field has no effect without another one, which is not there",
    "unused-variable": "a variable is declared, or a value given in `include`, and never used",
    "wrong-type": "a value of another type is wanted",
    "yaml-syntax": "the text is not YAML, or uses a part of YAML that job files do without",
}
"""Every code → one sentence about it; `launcher explain` has more."""

WARNINGS = frozenset({
    "command-line", "env-name", "joined-lines", "lookalike-character", "lookalike-reference",
    "misplaced-field", "newer-toml", "overridden-variable", "secret-literal", "secret-variable",
    "shell-argument", "unexpanded-argument", "unexpanded-variable", "unknown-need", "unmatched-glob",
    "unpinned-image", "unused-field", "unused-variable",
})  # fmt: skip
"""The codes of warnings, which stop nothing without `--strict`. All other codes are errors."""


def severity_of(code: str) -> Severity:
    return "warning" if code in WARNINGS else "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """A second place that explains a problem: the first of two equal keys, the definition of a variable."""

    file: str
    span: Span | None
    message: str
    source_line: str = ""

    def to_json(self) -> dict[str, Any]:
        span = self.span.to_json() if self.span else None
        return {"file": self.file, "span": span, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """A problem of a job file.

    Attributes:
        file: the path as the user typed it (or as it was found below the directory typed).
        span: the range; None when the problem is the whole file's, or no file's.
        code: one of CODES.
        message: what is wrong, one sentence without a full stop.
        label: the remedy in a few words, printed behind the carets.
        hint: more help, printed below the frame.
        source_line: the text of the span's first line.
        related: other places that explain the problem.
        meant: the key that an unknown one probably means; "" for none. Not part of the JSON.
    """

    file: str
    span: Span | None
    code: str
    message: str
    severity: Severity = "error"
    label: str = ""
    hint: str = ""
    source_line: str = ""
    related: tuple[Related, ...] = ()
    meant: str = ""

    @property
    def place(self) -> str:
        """`file:line:column`, or the file alone."""
        return f"{self.file}:{self.span.line}:{self.span.column}" if self.span else self.file

    @property
    def has_file(self) -> bool:
        """Whether `file` names a file, unlike in a problem with a variable of the command line."""
        return self.span is not None or self.code != "unknown-variable"

    @property
    def text(self) -> str:
        """The message, and the remedies below it."""
        return "\n".join(part for part in (self.message, self.label, self.hint) if part)

    def to_json(self) -> dict[str, Any]:
        """A JSON object; absent texts are left out, a missing span is null."""
        out: dict[str, Any] = {
            "file": self.file,
            "span": self.span.to_json() if self.span else None,
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
        }
        texts = {"label": self.label, "hint": self.hint}
        related = {"related": [place.to_json() for place in self.related]} if self.related else {}
        return {**out, **{name: text for name, text in texts.items() if text}, **related}

    def render(self, *, color: bool = False, columns: int | None = None) -> str:
        """The text form: headline, code frame with carets, help and related places.

        Args:
            columns: of the terminal, to which help is wrapped; None does not wrap.
        """
        shade = "bold red" if self.severity == "error" else "bold yellow"
        code = paint(f"{self.severity}[{self.code}]", shade, color)
        lines = [code + paint(f": {printable(self.message)}", "bold", color)]
        lines += code_frame(self.file, self.span, self.source_line, self.label, shade, color, columns)
        gutter = " " * len(str(self.span.line)) if self.span else " "
        lines += _note(gutter, "help", self.hint, color, columns)
        for place in self.related:
            lines += _note(gutter, "note", place.message, color, columns)
            lines += code_frame(place.file, place.span, place.source_line, "", "bold blue", color, columns)
        return "\n".join(lines)


def of_whole_file(file: str, code: str, message: str, hint: str = "") -> Diagnostic:
    """Return a diagnostic without a place in the file."""
    return Diagnostic(file=file, span=None, code=code, message=message, hint=hint)


def render(diagnostics: Iterable[Diagnostic], *, color: bool = False, columns: int | None = None) -> str:
    """All diagnostics as text, an empty line between them, without a trailing newline.

    Help that an earlier one has word for word is left out beside a label.
    """
    given, said = [*diagnostics], set[str]()
    for place, each in enumerate(given):
        given[place] = replace(each, hint="") if each.label and each.hint in said else each
        said.add(each.hint)
    return "\n\n".join(each.render(color=color, columns=columns) for each in given)


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics, of one file by position, each once."""

    def position(diagnostic: Diagnostic) -> tuple[int, int, int, int]:
        span = diagnostic.span
        return (span.line, span.column, span.end_line, span.end_column) if span else (0, 0, 0, 0)

    return sorted(dict.fromkeys(diagnostics), key=position)


def job_file_error(diagnostics: Sequence[Diagnostic]) -> JobFileError:
    """Return the exception for a failed compile: it names the first error and counts the others."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    if not errors:
        return JobFileError("the job files are wrong", diagnostics=tuple(diagnostics))
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    hint = "; ".join(text for text in (first.label, first.hint) if text) or None
    return JobFileError(f"{first.place}: {first.message}{more}", diagnostics=tuple(diagnostics), hint=hint)


def _note(gutter: str, word: str, text: str, color: bool, columns: int | None) -> list[str]:
    """Return the lines of a note behind `= help:`; none for an empty text."""
    if not text:
        return []
    room = max(_LEAST, columns - len(gutter) - 9) if columns else None
    given = map(printable, text.splitlines())
    lines = [part for line in given for part in wrapped(line, room)] if room else [*given]
    head = f"{gutter} {paint('=', 'blue', color)} {word}: {lines[0]}"
    return [head, *(f"{gutter}         {line}" for line in lines[1:])]


# -- explanations of codes -----------------------------------------------------------------------------------

Explanation = Mapping[str, "Section"]
"""Title → section: "Why"; of a diagnostic "Wrong" and "Right", of a reason "Example" and "What to do"."""

_FENCE = r"(?ms)^```(\w+)\n(.*?)^```$\n*"


class Section(NamedTuple):
    """One section of an explanation.

    Attributes:
        text: a paragraph, or "".
        files: name → content.
        commands: typed in a shell beside the files.
    """

    text: str
    files: Mapping[str, str]
    commands: tuple[str, ...]

    def __str__(self) -> str:
        """Every file under its name, then the commands."""
        shown = [f"# {name}\n{content}" for name, content in self.files.items()]
        return "\n".join([*shown, "".join(f"$ {line}\n" for line in self.commands)])


@lru_cache(maxsize=1)
def explanations() -> Mapping[str, Explanation]:
    """Code → explanation: codes of diagnostics, then those of reasons."""
    with open(os.path.join(os.path.dirname(__file__), "codes.md"), encoding="utf-8") as file:
        page = file.read()
    found = {}
    for text in page.split("\n## ")[1:]:
        code, _, rest = text.partition("\n")
        first, *others = rest.split("\n### ")
        titled = [
            ("Why", first),
            *((title, body) for title, _, body in (each.partition("\n") for each in others)),
        ]
        found[code] = {title: _section(body) for title, body in titled}
    return found


def _section(text: str) -> Section:
    named: dict[str, str] = {}
    commands: list[str] = []
    for language, block in re.findall(_FENCE, text):
        if language == "sh":
            commands += block.splitlines()
        else:
            head, _, content = block.partition("\n")
            named[head.removeprefix("# ")] = content
    return Section(" ".join(re.sub(_FENCE, "", text).split()), named, tuple(commands))
