"""A job file being built: its fields, their comments, and the secrets that it leaves out."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import Any

from launcher.dataclass import dataclass, field
from launcher.jobfile.format import Unformattable, format_text
from launcher.jobfile.text.document import Source
from launcher.jobfile.text.parse import parse
from launcher.specs.macros import escape
from launcher.specs.secret import HIDDEN, is_sensitive
from launcher.specs.text import to_yaml
from launcher.text import printable

Path = tuple[str | int, ...]

_WIDTH = 104
_BRACKETS = 76
_LITERAL = re.compile(
    r"(?<![\w$.-])(?P<name>(?P<option>--?[A-Za-z][\w-]*)(?=[= \t])|[A-Za-z_]\w*(?==))(?P<sign>=|[ \t]+)"
    r"""(?P<value>"[^"$`\n\0]+"|'[^'$`\n\0]+'|[^\s"'$`;|&<>()\0-][^\s"'$`;|&<>()\0]*)"""
    r"""|(?<![\w+.-])(?P<url>[A-Za-z][\w+.-]*://[^\s/:@"'$`;|&<>()\0]*:)"""
    r"""(?P<password>[^\s/:@"'$`;|&<>()\0\\]+)(?=@)"""
)
"""`NAME=value`, `--name=value` and `--name value` with a value that no shell has to expand, and the password
of `scheme://user:password@host`."""


def label(text: str) -> str:
    """The nearest valid name of a job or role: "My Project_2" → "my-project-2"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-") or "main"


def _replaced(text: str, change: Callable[[re.Match[str]], str]) -> str:
    """Replace the literal secrets in a text. A value may hold further ones: `--export=ALL,TOKEN=abc`."""
    out, done, at = [], 0, 0
    while found := _LITERAL.search(text, at):
        at = found.end("name") if found["name"] else found.end()
        if found["url"] or is_sensitive(found["name"]):
            out += [text[done : found.start()], change(found)]
            done = at = found.end()
    return "".join([*out, text[done:]])


def masked(text: str) -> str:
    """Text for people, without the values of literal secrets in it."""
    return _replaced(text, lambda found: _before(found) + HIDDEN)


def _before(found: re.Match[str]) -> str:
    return str(found["url"] or found["name"] + found["sign"])


def memory_text(mib: int) -> str:
    """4096 → "4GiB", 500 → "500MiB"."""
    return f"{mib >> 10}GiB" if mib % 1024 == 0 else f"{mib}MiB"


@dataclass(slots=True)
class Draft:
    """The job file made from a file of another tool.

    Attributes:
        file: the file as the user named it.
        fields: of the job, without `version`.
        lost: each part of the file that has no place, and why, in the order of the file.
        fates: option of an sbatch script → where its meaning went, for options that the job's request
            cannot show.
    """

    file: str
    fields: dict[str, Any]
    lost: dict[str, str] = field(default_factory=dict)
    fates: dict[str, str] = field(default_factory=dict)
    _notes: dict[Path, list[str]] = field(default_factory=dict)
    _values: dict[str, str] = field(default_factory=dict)
    _literals: dict[tuple[str, str], str] = field(default_factory=dict)

    def put(self, path: Path, value: Any) -> None:
        """Set a field, given by a path of keys."""
        into: dict[str | int, Any] = self.fields  # type: ignore[assignment]
        for key in path[:-1]:
            into = into.setdefault(key, {})
        into[path[-1]] = value

    def note(self, path: Path, text: str) -> None:
        """Add a comment above the field at a path, or above the nearest existing field around it."""
        notes, text = self._notes.setdefault(path, []), masked(text)
        if text not in notes:
            notes.append(text)

    def lose(self, path: Path, what: str, why: str) -> None:
        """Record that a part of the file has no place in the job file."""
        self.lost.setdefault(masked(what), masked(why))
        self.note(path, f"no place: {what}: {why}")

    def hide(self, role: str, name: str, value: str = "", source: str = "") -> None:
        """Make a variable of a role a reference to a secret.

        A variable whose value differs from an earlier one's is read under a name of its own.

        Args:
            value: the literal that is left out; "" for none.
            source: the variable to read; "" for a variable of the same name.
        """
        source = source or name
        if value and self._values.setdefault(source, value) != value:
            source = re.sub(r"\W", "_", f"{role}_{name}").upper()
        path = ("roles", role, "env", name)
        self.put(path, {"secret": f"env:{source}"})
        self.note(path, f"no value is copied: set {source} where launcher runs")

    def shell_text(self, role: str, text: str, *, is_shell: bool = True) -> str:
        """Return text for a shell, with literal secrets as variables of the role, and our references escaped.
        `is_shell` is False for a program that does not expand `$NAME`.
        """

        def replaced(found: re.Match[str]) -> str:
            name = found["name"] or "URL_PASSWORD"
            variable = re.sub(r"\W", "_", name.strip("-")).upper() if found["option"] else name
            variable = self._hidden(role, variable, found["password"] or found["value"].strip("\"'"))
            line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            is_quoted = line.count("'") % 2 == 1
            if is_quoted and is_shell and found["url"]:
                return f"{_before(found)}'\"${variable}\"'"
            if is_quoted or not is_shell:
                why = f"nothing expands ${variable} there: read it from the environment"
                self.lose(("roles", role, "args"), f"the value of {name}", why)
            return _before(found) + (f"${variable}" if found["url"] else f'"${variable}"')

        return escape(_replaced(text, replaced))

    def _hidden(self, role: str, name: str, value: str) -> str:
        """Make a literal a secret in a variable of the role; return its name, one for each value."""
        number, free = 1, name
        while self._literals.setdefault((role, free), value) != value:
            number += 1
            free = f"{name}_{number}"
        self.hide(role, free, value)
        return free

    def script(self, role: str, text: str, *options: str, program: str = "bash") -> None:
        """Make a role run a script unchanged, without the shell options of `run`."""
        text = self.shell_text(role, text.strip("\n"), is_shell=program.endswith("sh"))
        self.put(("roles", role, "entrypoint"), program)
        self.put(("roles", role, "args"), [*options, text + "\n" if "\n" in text else text])

    def has_secret(self, words: Sequence[str]) -> bool:
        """Whether a command line holds a literal secret."""
        line = shlex.join(words)
        return masked(line) != line

    # The text

    def text(self) -> str:
        """The job file in YAML, as `launcher fmt` writes it, unless that would change a text of blanks."""
        fields = {"version": 1, **self.fields}
        notes: dict[Path, list[str]] = {}
        for path, texts in self._notes.items():
            notes.setdefault(_nearest(fields, path), []).extend(texts)
        head = [f"# Converted from {printable(os.path.basename(self.file))} by `launcher convert`."]
        lines = [*head, *_comments(notes.get((), ()), 0), *_mapping(fields, (), notes, 0)]
        text = "\n".join(lines) + "\n"
        source = Source("job.launcher.yaml", "yaml", text)
        try:
            return format_text(source, parse(source))
        except Unformattable:
            return text


def _nearest(fields: Any, path: Path) -> Path:
    """Return the path, or its longest beginning that exists."""
    for depth, key in enumerate(path):
        is_item = isinstance(fields, list) and isinstance(key, int) and key < len(fields)
        if not is_item and not (isinstance(fields, dict) and key in fields):
            return path[:depth]
        fields = fields[key]
    return path


def _comments(texts: Sequence[str], indent: int) -> Iterator[str]:
    for text in texts:
        lines = wrap(printable(text), _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
        yield from (f"{' ' * indent}# {line}" for line in lines)


def _mapping(value: dict[str, Any], path: Path, notes: dict[Path, list[str]], indent: int) -> Iterator[str]:
    for key, inner in value.items():
        at = (*path, key)
        yield from _comments(notes.get(at, ()), indent)
        yield from _entry(f"{' ' * indent}{_scalar(key)}:", inner, at, notes, indent + 2)


def _entry(start: str, value: Any, path: Path, notes: dict[Path, list[str]], indent: int) -> Iterator[str]:
    if isinstance(value, dict) and value and not _is_short(value, path, notes):
        yield start
        yield from _mapping(value, path, notes, indent)
    elif isinstance(value, list) and value and not _is_short(value, path, notes):
        yield start
        for index, item in enumerate(value):
            at = (*path, index)
            yield from _comments(notes.get(at, ()), indent)
            yield from _entry(f"{' ' * indent}-", item, at, notes, indent + 2)
    elif isinstance(value, str) and _is_block(value):
        yield f"{start} |" if value.endswith("\n") else f"{start} |-"
        yield from (f"{' ' * indent}{line}" if line else "" for line in value.rstrip("\n").split("\n"))
    else:
        yield f"{start} {_flow(value)}"


def _is_short(value: Any, path: Path, notes: dict[Path, list[str]]) -> bool:
    """Whether a collection is written in brackets: a list of scalars, or a mapping that usually is."""
    if any(each[: len(path)] == path and len(each) > len(path) for each in notes):
        return False
    parts = list(value.values()) if isinstance(value, dict) else value
    is_axis = path[:1] == ("matrix",) and len(path) > 1
    if isinstance(value, dict) and not is_axis and path[-2:-1] not in (("env",), ("vars",), ("mounts",)):
        return False
    is_flat = is_axis or not any(isinstance(part, dict | list) for part in parts)
    return is_flat and "\n" not in "".join(map(str, parts)) and len(_flow(value)) <= _BRACKETS


def _is_block(text: str) -> bool:
    is_plain = all(char.isprintable() or char in "\n\t" for char in text)
    return "\n" in text and is_plain and text[0] not in " \t\n" and not text.endswith("\n\n")


def _flow(value: Any) -> str:
    if isinstance(value, dict) and value:
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list) and value:
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return to_yaml(value).rstrip("\n")
