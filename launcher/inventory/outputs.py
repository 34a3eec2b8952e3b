"""The output folder of a job: copy its files, and compare the numbers in its file of results."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple

from launcher.dataclass import dataclass
from launcher.errors import LauncherError, SchedulerError
from launcher.inventory import recorded
from launcher.inventory.attempts import attempts_of
from launcher.inventory.listing import apply_command
from launcher.inventory.recorded import scheduler_of
from launcher.inventory.status import inspect
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.app import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import UnknownAppException
from launcher.specs.outputs import own_output
from launcher.state.records import AppRecord, of_attempt
from launcher.text import printable
from launcher.unpacking import ArchiveMember, Unpacked, check_free, first_file, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output folder of an attempt.

    Attributes:
        address: a path where the replicas run, or the name of a volume.
        unseen: why it is unknown whether the folder exists; "" if that is known.
    """

    attempt: Attempt
    address: str
    unseen: str = ""


def output_of(app: AppRecord) -> Output:
    """Return the output folder of an app. Raises LauncherError when it has none, none yet, or it is gone."""
    attempt, scheduler = _attempt(app)
    try:
        is_there = own_output(attempt) in scheduler.output_folders.names()
    except SchedulerError as error:
        if not attempt.output:
            raise
        return Output(attempt=attempt, address=attempt.output, unseen=str(error))
    if is_there:  # also for attempts of an older version, which recorded no address
        address = attempt.output or scheduler.output_folders.address(attempt, AppDef("", output=True))
        return Output(attempt=attempt, address=address)
    raise _missing(inspect(app), attempt, scheduler.output_folders.elsewhere(attempt))


def copy_output(app: AppRecord, found: Output, folder: str) -> Unpacked:
    """Copy the files of an output folder into `folder`, which does not exist or is empty.

    Raises LauncherError after it has removed the files copied so far.
    """
    check_free(folder)
    if found.unseen:
        raise LauncherError(found.unseen)
    pieces, top = _attempt(app)[1].output_folders.archive(found.attempt)
    with closing(pieces):  # type: ignore[type-var]  # a generator
        return unpack(pieces, folder, top=top)


def read_output(app: AppRecord, name: str, most: int) -> ArchiveMember | None:
    """Read one file at the top of the output folder of an app.

    None where there is no such file, for a link, and for a file of more than `most` bytes. Raises
    LauncherError for an app without an output folder, and where it cannot be read.
    """
    found = output_of(app)
    if found.unseen:
        raise LauncherError(found.unseen)
    pieces, _ = _attempt(app)[1].output_folders.archive(found.attempt, name)
    with closing(pieces):  # type: ignore[type-var]  # a generator
        return first_file(pieces, name, most)


def rerun_command(attempt: Attempt) -> str:
    """The command that runs the job of an attempt again."""
    return apply_command(attempt, "--rerun", attempt.key.job)


def _attempt(app: AppRecord) -> tuple[Attempt, StagedScheduler[Any]]:
    """The attempt of an app, and its scheduler. Raises LauncherError where there is none."""
    scheduler = scheduler_of(app)
    attempt = recorded.attempt(app.app_id)
    if isinstance(scheduler, StagedScheduler):
        if attempt is None or attempt.handle != app.handle:
            attempt = scheduler.attempt(app.app_id)
        if attempt is not None and attempt.handle == app.handle:
            return attempt, scheduler
    if scheduler.record(app.app_id) is None:
        raise UnknownAppException(app.handle)
    raise LauncherError(
        f"{app.handle} has no output folder: no job file made it",
        hint="apply a job file: `launcher convert` prints that of a component",
    )


def _missing(app: AppRecord, attempt: Attempt, engine: str) -> LauncherError:
    job, again = attempt.key.job, rerun_command(attempt)
    if not attempt.output:
        hint = "write `output: true` in its job file, and apply it"
        return LauncherError(f"attempt {attempt.number} of `{job}` has no output folder", hint=hint)
    if not app.made_output:
        hint = f"launcher wait {job}" if app.is_live else again
        text = f"attempt {attempt.number} of `{job}` has not started, and made no output folder"
        return LauncherError(text, hint=hint)
    if engine:
        text = f"the output folder of `{job}` is at the engine {engine}: {attempt.output}"
        return LauncherError(text, hint=f"ask that engine, or make it here: {again}")
    text = f"the output folder of `{job}` is gone: {attempt.output}"
    return LauncherError(text, hint=f"to make it again: {again}")


FILE: Final = "metrics.json"
"""The file of results: a flat mapping of numbers, at the top of the output folder."""
_MOST_BYTES: Final = 64 << 10
_MOST_NUMBERS: Final = 1000
_LONGEST_NAME: Final = 80
_LOOKED_BACK: Final = 10
"""How many earlier attempts are searched for the previous success."""
_SLACK_S: Final = 60.0
"""Seconds by which a file's time may be off."""


class ResultRow(NamedTuple):
    """One result, before and now; None if it is missing."""

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
    """Return the results of an ended attempt, each with that of the success before it; [] without any."""
    new = read_results(app)
    if not new:
        return []
    before = success_before(app)
    return compare(read_results(before) if before is not None else None, new)


def read_results(app: AppRecord) -> dict[str, float] | None:
    """The numbers in the file of results; None where there is no such file, or it cannot be read_results.

    Attempts of one edition share an output folder. A file that was not written while this attempt ran belongs
    to another attempt.
    """
    try:
        found = read_output(app, FILE, _MOST_BYTES)
    except LauncherError:
        return None
    if found is None:
        return None
    begins = app.started_at is None or app.started_at <= found.changed_at + _SLACK_S
    ends = app.ended_at is None or found.changed_at <= app.ended_at + _SLACK_S
    return numbers_in(found.data) if begins and ends else None


def success_before(app: AppRecord) -> AppRecord | None:
    """Return the latest earlier success with another output folder; None if none is known."""
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
    pairs = ((printable(key), _number(value)) for key, value in found.items())
    known = [(name, value) for name, value in pairs if value is not None]
    return {
        name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…": value
        for name, value in known[:_MOST_NUMBERS]
    }


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
