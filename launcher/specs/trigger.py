"""Triggers: one digest per glob of the files of `rerun_on`.

Per glob, because policies are no part of what a job is: editing the list of globs must not look as if files
had changed. A glob fires when both the attempt and the job file know it, and what it matches differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

_PREFIX = "tr1:"


def combine(digests: Mapping[str, str]) -> str:
    """The trigger digest of globs, each with the hash (hex) of what its files hold; "" for none."""
    if not digests:
        return ""
    return _join({_mark(glob): content for glob, content in digests.items()})


def changed_globs(before: str, now: str, globs: Iterable[str]) -> list[str]:
    """Those of `globs` whose files are not what they were, in order.

    `before` and `now` are trigger digests.
    """
    old, new = _split(before), _split(now)
    marks = ((glob, _mark(glob)) for glob in dict.fromkeys(globs))
    return [glob for glob, mark in marks if mark in old and mark in new and old[mark] != new[mark]]


def adopted(before: str, now: str) -> str:
    """`before` for the globs of `now`: one that was not watched yet is watched from now on."""
    old, new = _split(before), _split(now)
    return _join({mark: old.get(mark, content) for mark, content in new.items()}) if new else ""


def _mark(glob: str) -> str:
    return sha256(glob.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _join(contents: Mapping[str, str]) -> str:
    return _PREFIX + "+".join(f"{mark}.{contents[mark]}" for mark in sorted(contents))


def _split(text: str) -> dict[str, str]:
    """The digests; {} for a form that this version cannot read, so that no trigger fires."""
    if not text.startswith(_PREFIX):
        return {}
    pairs = (pair.partition(".") for pair in text.removeprefix(_PREFIX).split("+"))
    return {mark: content for mark, _, content in pairs}
