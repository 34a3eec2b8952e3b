"""Collect the problems of one file, placed by field path; write names and values in their messages.

Secrets in source lines are masked. A single line is not enough to judge that: the name may be on the line
before, `--token` in the item before.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cache, lru_cache, partial
from itertools import count
from typing import Any, Literal, TypeVar

from launcher.dataclass import dataclass, field, replace
from launcher.jobfile.diagnostic import Diagnostic, Related, Severity, severity_of
from launcher.jobfile.text.document import Document, Format, Path, Range, Source, Spot
from launcher.specs.secret import is_sensitive, may_hold_secret
from launcher.specs.text import command, to_flow
from launcher.text import has_hints, nearest as _nearest

_SHOWN = 60

# Values of other tools → our values.
_FOREIGN_VALUES: Mapping[str, str] = {
    "boolean": "bool",
    "completed": "succeeded",
    "done": "succeeded",
    "double": "float",
    "healthy": "ready",
    "integer": "int",
    "job": "application",
    "number": "float",
    "pod": "replica",
    "restart": "rerun",
    "retry": "rerun",
    "running": "started",
    "service_completed_successfully": "succeeded",
    "service_healthy": "ready",
    "service_started": "started",
    "string": "str",
    "success": "succeeded",
    "text": "str",
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant: spelled alike, or like its name in another tool."""
    names = (*known,)
    spelt = name.lower().replace("-", "_")
    foreign = {other: ours for other, ours in _FOREIGN_VALUES.items() if ours in names}
    if spelt in foreign and spelt not in (candidate.lower().replace("-", "_") for candidate in names):
        return foreign[spelt]
    return spelt_alike(name, names) or foreign.get(spelt_alike(spelt, (*foreign,)) or "")


@lru_cache(maxsize=1024)
def spelt_alike(name: str, names: tuple[str, ...]) -> str | None:
    """As `launcher.text.nearest`; the jobs of a matrix repeat a misspelt name thousands of times."""
    return _nearest(name, names)


def suggest(name: str, known: Iterable[str]) -> str:
    """ "did you mean `x`?", or "" when nothing is near."""
    near = nearest(name, known)
    return did_you_mean(near) if near else ""


def did_you_mean(name: str) -> str:
    return f"did you mean `{name}`?"


def listing(title: str, names: Iterable[str], limit: int = 24) -> str:
    """ "fields here: args, env, …" for a help line."""
    found = sorted(names)
    if not found:
        return ""
    more = ", …" if len(found) > limit else ""
    return f"{title}: {', '.join(found[:limit])}{more}"


def place_name(path: Path) -> str:
    """Return the name of a mapping or list in a message: "role `trainer`", "mount 2 of role `trainer`"."""
    if not path:
        return "the job"
    if path[0] == "vars" and len(path) == 2:
        return f"variable `{path[1]}`"
    if path == ("defaults", "role"):
        return "`defaults.role`"
    if path[0] == "roles" and len(path) == 2:
        return f"role `{path[1]}`"
    if path[0] == "needs" and len(path) == 2:
        return f"need {path[1] + 1}" if isinstance(path[1], int) else f"need `{path[1]}`"
    if isinstance(path[-1], int):
        word = {"mounts": "mount", "args": "argument"}.get(str(path[-2]), f"`{path[-2]}` item")
        return f"{word} {path[-1] + 1}{_owner(path[:-2])}"
    return f"`{path[-1]}`{_owner(path[:-1])}"


def _owner(path: Path) -> str:
    if not path or path in (("roles",), ("vars",)):
        return ""
    if path[0] == "roles" and len(path) > 2:
        # Two levels are enough: "`LR` in `env` of role `trainer`".
        return f" {'in' if len(path) == 3 else 'of'} {place_name(path)}"
    return f" {'in' if path in (('metadata',), ('cfg',), ('lifecycle',)) else 'of'} {place_name(path)}"


def got(value: Any) -> str:
    """Return the description of a value, for "must be a number, not …"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"the number {_shortened(value)}"
    if isinstance(value, str):
        return "a text" if may_hold_secret(value) else f"the text {show(value)}"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else "a date or time"


def show(value: Any) -> str:
    """Return a value as a file would write it, cut to a readable length."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
        return f'"{text}"'
    if isinstance(value, int | float):
        return _shortened(value)
    return got(value)


def _shortened(value: float) -> str:
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:
        return "of more than 60 digits"  # str() refuses integers of more than 4,300 digits
    return str(value)


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_AMOUNT = re.compile(r"(?!0x)[0-9]+[A-Za-z]{1,3}")
"""A text such as `4GiB` or `90s`, which begins with a digit and is no number."""


def written(value: Any, form: Format) -> str:
    """Return a text, number, truth value, list or mapping as YAML or TOML text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value, form)
    if isinstance(value, Mapping):
        between = " = " if form == "toml" else ": "
        return f"{{{', '.join(_key(key, form) + between + written(value[key], form) for key in value)}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(written(item, form) for item in value)}]"
    return str(value)


def entry(key: str, value: Any, form: Format) -> str:
    """Return a key and its value: `image: x`, in TOML `image = "x"`."""
    return written({key: value}, form)[1:-1]


def _text(text: str, form: Format) -> str:
    is_plain = to_flow(text) == text or text == "…" or _AMOUNT.fullmatch(text)
    if form == "yaml" and is_plain:
        return text
    return json.dumps(text, ensure_ascii=False)


def _key(key: str, form: Format) -> str:
    return key if form == "toml" and _BARE.fullmatch(key) else _text(key, form)


At = Literal["value", "key"]


@dataclass(slots=True)
class Collector:
    """Gathers diagnostics of one document.

    Attributes:
        found: everything so far.
        broken: paths whose value is known to be wrong, so that further problems are not reported.
        assumed: paths whose value holds a placeholder, or was wrong and left out, and so cannot be judged.
        sources: path → names of the references in its value: "var.epochs", "matrix.lr".
        spelt: path of a value that is a single reference → the text of the referenced value.
        definitions: name of a reference → the place of its value, and a sentence about it.
        needs: job or matrix that `needs` names → its place.
        outputs: a job whose output folder is named, the path of the text, and the reference as written.
    """

    document: Document
    found: list[Diagnostic] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)
    assumed: set[Path] = field(default_factory=set)
    sources: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    definitions: dict[str, tuple[Path, At, str]] = field(default_factory=dict)
    spelt: dict[Path, str] = field(default_factory=dict)
    needs: dict[str, tuple[Path, At]] = field(default_factory=dict)
    outputs: list[tuple[str, Path, str]] = field(default_factory=list)
    _around: set[Path] = field(default_factory=set)  # the paths that are unsound, and those around them
    _counted: tuple[int, int] = (0, 0)
    _hints: Iterator[int] = field(default_factory=count)
    _parts: dict[tuple[Path, At], dict[str, int]] = field(default_factory=dict)

    def fork(self) -> Collector:
        """Return a collector with the known facts so far, and without problems."""
        broken, assumed, definitions = {*self.broken}, {*self.assumed}, {**self.definitions}
        return Collector(self.document, [], broken, assumed, {}, definitions, _hints=self._hints)

    def add(
        self,
        path: Path,
        code: str,
        message: str,
        *,
        at: At = "value",
        label: str = "",
        hint: str = "",
        severity: Severity | None = None,
        part: str = "",
        related: tuple[Related, ...] = (),
        reads: Iterable[Path] | None = None,
        is_final: bool = False,
        meant: str | None = None,
    ) -> None:
        """Note a problem at `path`, unless the value there was reported already.

        Args:
            meant: the name that the key probably means; the label asks so, unless there is another one.
            reads: where not None, nothing is noted if the value or one at these paths is wrong or unknown.
            severity: None for the severity of the code.
            part: narrows the range to this piece of the value, where the file holds it literally.
            is_final: whether no further problem of this value is reported.
        """
        severity = severity or severity_of(code)
        is_known = severity == "error" and self.is_broken(path)
        is_known = is_known or (reads is not None and not self.is_sound(path, *reads))
        if is_final:
            self.broken.add(path)
        if is_known:
            return
        source, start, end = self._range(path, at)
        within = self._offset(part, self._parts.setdefault((path, at), {}), Range(source, start, end))
        start, end = (within, within + len(part)) if within >= 0 else (start, end)
        known = (self.definitions.get(name) for name in self.sources.get(path, ()))
        related += tuple(self.place(where, text, at=there) for where, there, text in filter(None, known))
        about = {"label": label or (did_you_mean(meant) if meant else ""), "hint": hint, "meant": meant or ""}
        found = source.diagnostic(start, end, code, message, severity=severity, related=related, **about)
        self.found.append(found)

    def unknown(
        self,
        path: Path,
        code: str,
        message: str,
        name: str,
        known: Collection[str],
        title: str,
        *,
        at: At = "key",
        label: str = "",
        otherwise: str = "",
    ) -> None:
        """Note a `name` that is not among the `known` ones, with the nearest one (or `label`), and a list
        under a title (or `otherwise`, where no name is known), while the file has few problems."""
        meant = None
        if self.has_hints(known):
            meant, otherwise = None if label else nearest(name, known), listing(title, known) or otherwise
        self.add(path, code, message, at=at, label=label, hint=otherwise, meant=meant)

    def has_hints(self, known: Sized) -> bool:
        """Whether one more problem of this collector or its forks can be worded with all of these names."""
        return has_hints(next(self._hints), len(known))

    def written(self, value: Any) -> str:
        """Return a value on one line, in the file's format."""
        return written(value, self.document.source.format)

    def entry(self, key: str, value: Any) -> str:
        """Return a key and its value on one line, in the file's format."""
        return entry(key, value, self.document.source.format)

    def secret(self, name: str) -> str:
        """Return a reference to a secret in an environment variable, to write in place of a value."""
        return self.written({"secret": f"env:{name}"})

    def command(self, words: Sequence[str]) -> str:
        """Return a command as fields of a role: "`entrypoint: sh`, `args: ['-c', ls]`"."""
        if self.document.source.format == "yaml":
            return command(words)
        args = f", `{self.entry('args', words[1:])}`" if words[1:] else ""
        return f"`{self.entry('entrypoint', words[0])}`{args}"

    def is_broken(self, path: Path) -> bool:
        """Whether the value at `path`, or one around it, was reported already."""
        return bool(self.broken) and any(path[:size] in self.broken for size in range(len(path) + 1))

    def is_assumed(self, path: Path) -> bool:
        """Whether a placeholder is at `path`, or around it."""
        return bool(self.assumed) and any(path[:size] in self.assumed for size in range(len(path) + 1))

    def is_sound(self, *paths: Path) -> bool:
        """Whether nothing at the paths, around or inside them, is wrong or a placeholder; "*" is any name."""
        return not any(map(self._is_unsound, paths))

    def _is_unsound(self, path: Path) -> bool:
        if "*" in path:
            unsound = (*self.broken, *self.assumed)
            return any(all(a in (b, "*") for a, b in zip(path, each, strict=False)) for each in unsound)
        if self._counted != (sizes := (len(self.broken), len(self.assumed))):
            self._counted, new = sizes, self.broken.union(self.assumed).difference(self._around)
            self._around.update(each[:size] for each in new for size in range(len(each) + 1))
        return path in self._around or self.is_broken(path) or self.is_assumed(path)

    def place(self, path: Path, message: str, *, at: At = "key") -> Related:
        """Return a second place in this file."""
        source, start, end = self._range(path, at)
        return source.related(start, end, message)

    def _offset(self, part: str, known: dict[str, int], within: Range) -> int:
        """Return the offset of a piece of a range, -1 for none. A text may hold thousands of pieces, mostly
        asked for in their order: the search goes on from the last of the `known` ones."""
        if part and part not in known:
            source, start, end = within
            known[part] = source.text.find(part, max(start, next(reversed(known.values()), start)), end)
            if known[part] < 0 and has_hints(len(known), 0):
                known[part] = source.text.find(part, start, end)
        return known.get(part, -1)

    def _range(self, path: Path, at: At) -> Range:
        return self.document.value_range(path) if at == "value" else self.document.key_range(path)

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.severity == "error" for diagnostic in self.found)


_VALUES = ("default", "choices")
_REFERENCES = ("$", "env:", "file:")

AnyPlace = TypeVar("AnyPlace", Diagnostic, Related)


def masked(found: Iterable[Diagnostic], document: Document) -> list[Diagnostic]:
    """Return the diagnostics of a file and of its other layers, with secrets in source lines starred out."""
    found = [*found]
    for layer in document.layers or (document,) if found else ():
        if layer.value is not None and (ranges := sorted({*_secrets(layer.value, layer.root(), False)})):
            starred = cache(partial(_starred, source=layer.source, ranges=ranges))
            found = [_masked(each, layer.source.file, starred) for each in found]
    return found


def _masked(each: Diagnostic, file: str, starred: Callable[[str, int], str]) -> Diagnostic:
    def masked_at(place: AnyPlace) -> AnyPlace:
        if place.file != file or place.span is None or not place.source_line:
            return place
        return replace(place, source_line=starred(place.source_line, place.span.line))

    return replace(masked_at(each), related=tuple(map(masked_at, each.related)))


def _starred(text: str, line: int, source: Source, ranges: list[tuple[int, int]]) -> str:
    """Return the text of a line with these ranges of its file, in order and none in another, starred out."""
    first, done = source.start_of(line), 0
    shown: list[str] = []
    at = max(bisect_right(ranges, (first, 0)) - 1, 0)  # a range may begin in a line above
    for start, end in ranges[at : bisect_right(ranges, (first + len(text), 0))]:
        low, high = max(start - first, done), min(end - first, len(text))
        if low < high:
            shown += [text[done:low], "*" * (high - low)]
            done = high
    return "".join([*shown, text[done:]])


def _secrets(value: Any, spot: Spot, is_hidden: bool) -> Iterator[tuple[int, int]]:
    """The offsets of literals under sensitive-looking names, at any depth."""
    if isinstance(value, dict):
        for key, (_, _, inside) in (spot.entries or {}).items():
            hidden = is_sensitive(key) or (is_hidden and key in _VALUES)
            yield from _secrets(value.get(key), inside, hidden)
    elif isinstance(value, list):
        before: Any = ""
        for item, inside in zip(value, spot.items or (), strict=False):
            is_flag = isinstance(before, str) and before.startswith("-") and "=" not in before
            yield from _secrets(item, inside, is_hidden or (is_flag and is_sensitive(before)))
            before = item
    elif is_hidden and value is not None and not str(value).startswith(_REFERENCES):
        yield spot.start, spot.end
