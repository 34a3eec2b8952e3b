"""Find the output folder of a job, and copy its files."""

from __future__ import annotations

from contextlib import closing
from shlex import quote
from typing import Any

from launcher.dataclass import dataclass
from launcher.errors import LauncherError, SchedulerError
from launcher.inventory import recorded
from launcher.inventory.recorded import scheduler_of
from launcher.inventory.status import inspect
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.app import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.handle import UnknownAppException
from launcher.specs.jobkey import DEFAULT_TARGET
from launcher.specs.outputs import own_output
from launcher.state.records import AppRecord
from launcher.unpacking import ArchiveMember, Unpacked, check_free, first_file, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output folder of an attempt.

    Attributes:
        address: a path where the replicas run, or the name of a volume.
        unseen: why the existence of the folder is unknown; "" where it is known.
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
    raise _missing(inspect(app), attempt)


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
    job, target = attempt.key.job, attempt.key.target
    again = f"launcher apply {quote(attempt.path)} --rerun {job}"
    return again if target == DEFAULT_TARGET else f"{again} --target {target}"


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


def _missing(app: AppRecord, attempt: Attempt) -> LauncherError:
    job, again = attempt.key.job, rerun_command(attempt)
    if not attempt.output:
        hint = "write `output: true` in its job file, and apply it"
        return LauncherError(f"attempt {attempt.number} of `{job}` has no output folder", hint=hint)
    if not app.made_output:
        hint = f"launcher wait {job}" if app.is_live else again
        return LauncherError(
            f"attempt {attempt.number} of `{job}` has not started, and made no output folder", hint=hint
        )
    text = f"the output folder of `{job}` is gone: {attempt.output}"
    return LauncherError(text, hint=f"to make it again: {again}")
