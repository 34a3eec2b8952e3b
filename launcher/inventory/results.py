"""The results of jobs: numbers that an attempt leaves in a file of its output folder, and how they change."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from launcher.errors import LauncherError
from launcher.inventory.history import attempts_of
from launcher.inventory.outputs import read_output
from launcher.specs.outputs import own_output
from launcher.state.records import AppRecord, of_attempt
from launcher.text import printable

FILE: Final = "metrics.json"
"""A flat mapping of numbers, at the top of the output folder."""
_MOST_BYTES: Final = 64 << 10
_MOST_NUMBERS: Final = 1000
_LONGEST_NAME: Final = 80
_LOOKED_BACK: Final = 10
"""How many earlier attempts are searched for the success before."""
_SLACK_S: Final = 60.0
"""Seconds by which a file's time may be off."""


class ResultRow(NamedTuple):
    """One result, before and now; None where it is missing."""

    name: str
    old: float | None
    new: float | None

    def to_json(self) -> dict[str, Any]:
        """A JSON object, with `"nan"`, `"inf"` and `"-inf"` for the numbers that JSON lacks."""
        old, new = (each if each is None or math.isfinite(each) else shown(each) for each in self[1:])
        return {"name": self.name, "old": old, "new": new}

    @property
    def change(self) -> str:
        """`+0.02 (+3.1 %)`, `0`; "" where a value is missing or not finite."""
        if self.old is None or self.new is None or not math.isfinite(self.new - self.old):
            return ""
        change = self.new - self.old
        if not change:
            return "0"
        share = 100 * change / abs(self.old) if self.old else math.inf
        of_old = f" ({share:+.3g} %)" if math.isfinite(share) else ""
        return f"{change:+.4g}{of_old}"


def results_of(app: AppRecord) -> list[ResultRow]:
    """Return the results of an ended attempt beside those of the success before it; [] without any."""
    new = read(app)
    if not new:
        return []
    before = success_before(app)
    return compare(read(before) if before is not None else None, new)


def read(app: AppRecord) -> dict[str, float] | None:
    """The numbers in the file of results; None where there is no such file, or it cannot be read.

    Attempts of one edition share an output folder. A file that was not written while this attempt ran belongs
    to another attempt.
    """
    try:
        found = read_output(app, FILE, _MOST_BYTES)
    except LauncherError:
        return None
    if found is None or not _while_it_ran(app, found.changed_at):
        return None
    return numbers_in(found.data)


def _while_it_ran(app: AppRecord, moment: float) -> bool:
    begins = app.started_at is None or app.started_at <= moment + _SLACK_S
    return begins and (app.ended_at is None or moment <= app.ended_at + _SLACK_S)


def success_before(app: AppRecord) -> AppRecord | None:
    """The latest success before an attempt that has another output folder; None where none is known."""
    try:
        attempts = attempts_of(app, _LOOKED_BACK)
    except LauncherError:
        return None
    own = {own_output(each) for each in attempts if each.app_id == app.app_id}
    earlier = (
        each
        for each in attempts
        if each.state == "succeeded" and each.number < (app.number or 0) and own_output(each) not in own
    )
    found = next(earlier, None)
    return None if found is None else of_attempt(found)


def numbers_in(data: bytes) -> dict[str, float] | None:
    """Return the numbers of a flat JSON mapping, without its other values; None for anything else.

    NaN and infinities count: some programs write them for a result that went wrong.
    """
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    pairs = ((_name(key), _number(value)) for key, value in found.items())
    known = [(name, value) for name, value in pairs if value is not None]
    return dict(known[:_MOST_NUMBERS])


def _name(key: str) -> str:
    shown_ = printable(key)
    return shown_ if len(shown_) <= _LONGEST_NAME else f"{shown_[: _LONGEST_NAME - 1]}…"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def compare(old: Mapping[str, float] | None, new: Mapping[str, float] | None) -> list[ResultRow]:
    """Return a row for each name, in the order of `new`, then the names that only `old` has."""
    old, new = old or {}, new or {}
    return [ResultRow(name, old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])]


def shown(value: float | None) -> str:
    """`0.0213`, `1.2e-07`; `-` for None."""
    return "-" if value is None else f"{value:.6g}"
