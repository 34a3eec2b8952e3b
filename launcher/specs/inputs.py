"""Files that attempts record: `inputs`, the triggers in `rerun_on`, seen files of a checkout. Reads no file.

Triggers have one digest per glob, because policies are no part of what a job is: editing the list of globs
must not look as if files had changed. A glob fires when both the attempt and the job file have it, and
the content of its files differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from launcher.hashes import sha256
from launcher.text import printable

PREFIX = "in1:sha256:"
MOST_NAMED = 10
"""How many changed files a reason names; it counts the others."""


class InputFiles(NamedTuple):
    """The globs of `inputs`, and the files that they match: path → SHA-256 (hex).

    Paths are relative to the job file's folder, as are globs.
    """

    globs: tuple[str, ...]
    files: Mapping[str, str]

    @property
    def digest(self) -> str:
        """ "in1:sha256:<hex>" of the globs and the files, in any order; "" without globs."""
        if not self.globs:
            return ""
        text = json.dumps([sorted(set(self.globs)), sorted(self.files.items())], separators=(",", ":"))
        return PREFIX + sha256(text.encode()).hexdigest()


UNDER = "while it waited or ran"
"""The time of a change that the holder of an app found, in a message."""


def changes(old: InputFiles, new: InputFiles, when: str = "") -> str:
    """ "train.py and conf/b.yaml (new) changed since attempt 1; `inputs` now has `data/*`"; "" for no change.

    Args:
        when: text that follows "changed".
    """
    paths = []
    for path in sorted({*old.files, *new.files}):
        if old.files.get(path) != new.files.get(path):
            mark = " (new)" if path not in old.files else " (removed)" if path not in new.files else ""
            paths.append(printable(path) + mark)
    parts = [f"{named(paths)} changed {when}".rstrip()] if paths else []
    for word, globs in (
        ("now has", {*new.globs} - {*old.globs}),
        ("no longer has", {*old.globs} - {*new.globs}),
    ):
        if globs:
            parts.append(f"`inputs` {word} {named([f'`{printable(glob)}`' for glob in sorted(globs)])}")
    return "; ".join(parts)


def named(names: Sequence[str]) -> str:
    """Return `a, b and c`; for more than MOST_NAMED names, the first ones and the number of the others."""
    shown, left = list(names[:MOST_NAMED]), len(names) - MOST_NAMED
    if left > 0:
        shown.append(f"{left} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


_PREFIX = "tr1:"
_MOST_GLOBS = 8


def combine(digests: Mapping[str, str]) -> str:
    """Return the trigger digest of globs, each with the hash (hex) of its files' contents; "" for none."""
    if not digests:
        return ""
    return _join({_mark(glob): content for glob, content in digests.items()})


def changed_globs(before: str, now: str, globs: Iterable[str]) -> list[str]:
    """Return the `globs` whose files have changed, in order.

    `before` and `now` are trigger digests.
    """
    old, new = _split(before), _split(now)
    marks = ((glob, _mark(glob)) for glob in dict.fromkeys(globs))
    return [glob for glob, mark in marks if mark in old and mark in new and old[mark] != new[mark]]


def adopted(before: str, now: str) -> str:
    """Return `before` for the globs of `now`: a glob that was not watched yet gets its present digest."""
    old, new = _split(before), _split(now)
    return _join({mark: old.get(mark, content) for mark, content in new.items()}) if new else ""


def earlier(digest: str) -> Iterator[str]:
    """Return the trigger digests from which `adopted` may have made this one: of the same files or fewer."""
    contents = _split(digest)
    yield digest
    for count in range(len(contents)) if len(contents) <= _MOST_GLOBS else ():
        for marks in combinations(contents, count):
            yield _join({mark: contents[mark] for mark in marks}) if marks else ""


def _mark(glob: str) -> str:
    return sha256(glob.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _join(contents: Mapping[str, str]) -> str:
    return _PREFIX + "+".join(f"{mark}.{contents[mark]}" for mark in sorted(contents))


def _split(text: str) -> dict[str, str]:
    """Return the digest of each glob; {} for a form that this version cannot read: no trigger fires."""
    if not text.startswith(_PREFIX):
        return {}
    pairs = (pair.partition(".") for pair in text.removeprefix(_PREFIX).split("+"))
    return {mark: content for mark, _, content in pairs}


DIGITS = 16
"""The number of hexadecimal digits in a recorded digest."""

MORE = ""
"""The key that marks an incomplete record; no file has an empty path."""


class Seen(NamedTuple):
    """The files of a checkout that a job names or imports, as they are now.

    Attributes:
        record: path below the root of the repository → digest, as an attempt records it; "" for a file that
            is gone. The key MORE says that a limit cut the search short.
        modules: the recorded paths of the modules that its Python files import.
    """

    record: Mapping[str, str]
    modules: frozenset[str] = frozenset()


NOTHING_SEEN = Seen({})


def recorded_paths(record: Mapping[str, str]) -> list[str]:
    """The paths in the record of an attempt."""
    return [path for path in record if path != MORE]


def differing(record: Mapping[str, str], now: Seen) -> tuple[str, ...]:
    """Return the sorted files that differ from those an attempt ran: changed, gone, or newly imported.

    A new file that the command of a job names does not count, because the job may have written it. A new
    module does not count where a limit cut the record or the search short. An attempt without a record has no
    differences.
    """
    if not record:
        return ()
    changed = {path for path in recorded_paths(record) if now.record.get(path, "") != record[path]}
    is_complete = MORE not in record and MORE not in now.record
    new = {path for path in now.modules if path not in record} if is_complete else set()
    return tuple(sorted(changed | new))
