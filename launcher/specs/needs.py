"""The needs of a job: other jobs that must have succeeded, and the attempts of them that it stands on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Need(NamedTuple):
    """A job that must have succeeded before another one of the same project and target starts (`needs:`).

    `rerun` is False for `{rerun: never}`: the order is kept, and a new edition of the need re-runs nothing.
    """

    job: str
    rerun: bool = True


class StoodOn(NamedTuple):
    """The attempt of a need that an attempt stands on: bound when it is reserved, never re-bound.

    `edition` is the need's: the number of the attempt of the need that was the last to change something.
    """

    job: str
    number: int
    edition: int
    app_id: str
    scheduler: str


def to_json(needs: Iterable[StoodOn]) -> list[list[Any]]:
    """`[[job, number, edition, app id, scheduler], …]`, sorted by job."""
    return [list(each) for each in sorted(needs)]


def from_json(data: Sequence[Sequence[Any]]) -> tuple[StoodOn, ...]:
    """The inverse of `to_json`. Raises TypeError or ValueError for anything else."""
    return tuple(
        StoodOn(str(job), int(number), int(edition), str(app_id), str(scheduler))
        for job, number, edition, app_id, scheduler in data
    )


def dumps(needs: Iterable[StoodOn]) -> str:
    """The text that labels and the ledger hold; "" for none."""
    listed = to_json(needs)
    return json.dumps(listed, separators=(",", ":")) if listed else ""


def loads(text: str) -> tuple[StoodOn, ...]:
    """The inverse of `dumps`. Raises TypeError or ValueError for anything else."""
    return from_json(json.loads(text)) if text else ()
