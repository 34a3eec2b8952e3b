"""Restarts of replicas, as schedulers report them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from launcher.schedulers.logs import RESTART, LogRecord

POLICIES: Final = {"replica": "REPLICA", "role": "ROLE", "app": "APPLICATION"}
"""What is restarted → the retry policy that says so."""


_LAST_S = 1e-6  # times of log lines count to the microsecond: the last one before another


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """One restart of a replica, of its role, or of the whole app.

    Attributes:
        role, k: the replica whose failure it follows.
        scope: what is restarted: replica, role or app.
        number: it is the first, the second, … that counts against `most`, the role's `max_retries`.
        delay_s: pause before it, in seconds.
        cause: how that replica failed: "exited with 1".
        at: when it was decided, epoch seconds.
    """

    role: str
    k: int
    scope: str
    number: int
    most: int
    delay_s: float
    cause: str
    at: float

    @property
    def policy(self) -> str:
        return POLICIES[self.scope]

    def __str__(self) -> str:
        pause = f" in {self.delay_s:g} s" if self.delay_s else ""
        return f"{self.role}/{self.k} {self.cause}; restart {self.number} of {self.most}{pause}"


def run_between(starts: Sequence[tuple[int, float]], restart: int) -> tuple[float, float | None] | None:
    """The first and the last moment of one of the runs that `run_starts` lists; None where it is not there.

    The last moment is None for the run that goes on.
    """
    for index, (number, at) in enumerate(starts):
        if number == restart:
            return at, starts[index + 1][1] - _LAST_S if index + 1 < len(starts) else None
    return None


def within(
    times: tuple[float, float | None], since: float | None, until: float | None
) -> tuple[float, float | None]:
    """`since` and `until` for the output of a run, as far as it lies between the given ones."""
    began, ended = times
    if ended is not None:
        until = ended if until is None else min(until, ended)
    return began if since is None else max(since, began), until


def until_restart(records: Iterable[LogRecord]) -> Iterator[LogRecord]:
    """The records up to the mark of the next run, which may begin while they are read."""
    for record in records:
        if record.stream == RESTART:
            return
        yield record
