"""The record of a Docker app: a folder with facts that its containers cannot show.

::

    $LAUNCHER_HOME/docker/apps/<app id>/
        lock            held by the submitting client, then by the watcher; its content names the holder
        attempt.json    the labels of the app, and its engine
        journal.jsonl   events (`journal.py`); every process may append a line
        watcher.log     stderr of the watcher

The whole folder may be removed at any moment: the containers and their labels are enough to go on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from launcher import paths
from launcher.errors import SchedulerError
from launcher.filelock import is_at
from launcher.holding.journal import JournalWriter
from launcher.schedulers.appfolder import GONE, AppFolder
from launcher.schedulers.appfolder import sweep as sweep_folders
from launcher.schedulers.docker import records_root
from launcher.schedulers.docker.journal import Event, Journal, fold
from launcher.schedulers.ended_process import last_line
from launcher.schedulers.owner import Owner, from_json, this_process
from launcher.schedulers.record import write_json

_ATTEMPT, _JOURNAL = "attempt.json", "journal.jsonl"


class HeldError(SchedulerError):
    """Another process works on the app."""

    def __init__(self, app_dir: str, holder: Owner | None) -> None:
        super().__init__(f"{os.path.basename(app_dir)} is being worked on by {holder or 'another process'}")
        self.holder = holder


class RecordLock:
    """The lock of an app, held until `release`. A process with a copy of `fd` holds the lock, too."""

    def __init__(self, app_dir: str, fd: int) -> None:
        self.app_dir = app_dir
        self.fd = fd

    def sign(self) -> None:
        """Write this process into the lock file as the holder."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, this_process().to_json().encode(), 0)

    @property
    def is_valid(self) -> bool:
        """Whether it is still the lock of that folder: not when the folder was removed or made anew."""
        return self.fd >= 0 and is_at(self.fd, AppFolder(self.app_dir).lock)

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def apps_dir() -> str:
    return os.path.join(records_root(), "apps")


def folder(app_id: str) -> str:
    return os.path.join(apps_dir(), app_id)


def folder_below(home: str, app_id: str) -> str:
    """The record of an app in another LAUNCHER_HOME."""
    return os.path.join(home, "docker", "apps", app_id)


def is_locked(app_dir: str) -> bool:
    """Whether a process holds the app's lock."""
    return AppFolder(app_dir).is_locked()


def locked_elsewhere(app_id: str, owner: Owner | None) -> str:
    """The app's folder in its owner's state folder, another one on this machine, while a process locks it.

    "" where no process does, or that folder cannot be read.
    """
    if owner is None or not owner.is_here or owner.home in ("", paths.home()):
        return ""
    there = AppFolder(folder_below(owner.home, app_id))
    return there.path if os.access(there.lock, os.R_OK) and there.is_locked() else ""


def is_free(app_id: str, holder: Owner | None) -> bool:
    """Whether a process of this machine has let the app go; a watcher of many apps may live on."""
    if holder is None or not holder.is_here or not holder.home:
        return False
    there = AppFolder(folder_below(holder.home, app_id))
    return os.access(there.lock, os.R_OK) and not there.is_locked()


def app_ids() -> list[str]:
    """Every app that has a record here."""
    try:
        return sorted(name for name in os.listdir(apps_dir()) if not name.startswith(GONE))
    except FileNotFoundError:
        return []


def claim(app_dir: str) -> RecordLock:
    """Take the lock of an app, making its folder if there is none.

    Raises HeldError, which names the holder; StateError when the folder cannot be written.
    """
    paths.ensure(os.path.dirname(app_dir))
    try:
        taken = RecordLock(app_dir, AppFolder(app_dir).make_and_lock())
    except BlockingIOError:
        raise HeldError(app_dir, holder(app_dir)) from None
    except OSError as error:
        raise paths.unusable(error, app_dir) from error
    taken.sign()
    return taken


def holder(app_dir: str) -> Owner | None:
    """The process that took the lock last."""
    return from_json(_read(app_dir, "lock").decode(errors="replace"))


def append(app_dir: str, e: str, **facts: Any) -> bool:
    """Add an event of the kind `e` to the journal, with the time `t` in ns unless it has one.

    False when that is not possible: no such folder, or a full disk.
    """
    return JournalWriter(journal_path(app_dir), is_shared=True).append({"e": e, **facts})


def begin(app_dir: str, declared: Event | None, e: str, **facts: Any) -> bool:
    """As `append`, after the declaration of the app where the journal is empty."""
    writer = JournalWriter(journal_path(app_dir), is_shared=True)
    if declared is not None and not _read(app_dir, _JOURNAL):
        writer.hold_back(declared)
    return writer.append({"e": e, **facts})


class Recorder(JournalWriter):
    """The journal of an app for its watcher. Events count at once, and are written later if need be.

    Other processes append to the same journal: a cancellation, for example.

    Args:
        write_end: writes the event of the end, at the engine first.
    """

    def __init__(self, app_dir: str, write_end: Callable[[Event], None]) -> None:
        super().__init__(journal_path(app_dir), is_shared=True)
        self._app_dir = app_dir
        self._write_end = write_end

    def append(self, event: Event) -> bool:
        if event["e"] != "ended":
            return super().append(event)
        self._write_end(event)
        return self.is_written()

    def journal(self) -> Journal:
        found = journal(self._app_dir) or Journal()
        return Journal([*found.events, *self.unwritten])


def journal(app_dir: str) -> Journal | None:
    """The journal; None where it has only the declaration of an app that was not started yet, or where the
    record was removed."""
    lines = _read(app_dir, _JOURNAL)
    found = fold(lines) if lines else None
    return None if found is None or (found.is_declared and len(found.events) == 1) else found


def exists(app_dir: str) -> bool:
    return os.path.isdir(app_dir)


def write_attempt(app_dir: str, attempt: Mapping[str, Any]) -> None:
    """Write attempt.json. Raises StateError when the disk is full or read-only; the old file stays then."""
    write_json(app_dir, _ATTEMPT, attempt)


def read_attempt(app_dir: str) -> dict[str, Any] | None:
    """The content of attempt.json; None without it: its writer was killed, or there is no folder."""
    with suppress(OSError):
        return AppFolder(app_dir).read_json(_ATTEMPT)
    return None


def clear(app_dir: str) -> None:
    """Empty the record of an app that was never started and is submitted again. The caller holds the lock."""
    for path in (journal_path(app_dir), os.path.join(app_dir, _ATTEMPT), watcher_log(app_dir)):
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise paths.unusable(error, path) from error


def remove(app_dir: str) -> None:
    """Remove the record: in one step for other processes, even if this one is killed while deleting."""
    with suppress(OSError):
        AppFolder(app_dir).remove()


def sweep() -> None:
    """Finish removals whose process was killed."""
    sweep_folders(apps_dir())


def watcher_log(app_dir: str) -> str:
    return os.path.join(app_dir, "watcher.log")


def note_failure(app_dir: str, text: str) -> None:
    """Add the reason why the watcher gave the app up to the watcher's log."""
    with suppress(OSError):
        fd = os.open(watcher_log(app_dir), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as log:
            log.write(text)


def last_failure(app_dir: str) -> str:
    """The last line of the watcher's log; "" for none."""
    return last_line(_read(app_dir, os.path.basename(watcher_log(app_dir))))


def journal_path(app_dir: str) -> str:
    return os.path.join(app_dir, _JOURNAL)


def _read(app_dir: str, name: str) -> bytes:
    """The bytes of a file; b"" where there is none, or it cannot be read."""
    with suppress(OSError):
        return AppFolder(app_dir).read(name) or b""
    return b""
