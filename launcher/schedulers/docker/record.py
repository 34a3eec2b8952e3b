"""The record of a Docker app: a folder with what its containers cannot show.

::

    $LAUNCHER_HOME/docker/apps/<app id>/
        lock            held by the submitting client, then by the watcher; its content names the holder
        attempt.json    the labels of the app, and its engine
        journal.jsonl   events (`journal.py`); every process may append a line
        watcher.log     stderr of the watcher

The whole folder may be removed at any moment: the containers and their labels are enough to go on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from launcher import paths
from launcher.errors import SchedulerError
from launcher.filelock import is_at
from launcher.files import write_whole
from launcher.schedulers import appfolder
from launcher.schedulers.appfolder import GONE, lock
from launcher.schedulers.appfolder import is_locked as is_locked
from launcher.schedulers.docker.journal import Journal, fold
from launcher.schedulers.owner import Owner, from_json, this_process


class HeldError(SchedulerError):
    """Another process works on the app."""

    def __init__(self, app_dir: str, holder: Owner | None) -> None:
        super().__init__(f"{os.path.basename(app_dir)} is being worked on by {holder or 'another process'}")
        self.holder = holder


class RecordLock:
    """The lock of an app, held until `release`. A process with a copy of `fd` holds it, too."""

    def __init__(self, app_dir: str, fd: int) -> None:
        self.app_dir = app_dir
        self.fd = fd

    def sign(self, owner: Owner | None = None) -> None:
        """Write the holder into the lock file."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, (owner or this_process()).to_json().encode(), 0)

    @property
    def is_valid(self) -> bool:
        """Whether it still is the lock of that folder: not when the folder was removed or made again."""
        return self.fd >= 0 and is_at(self.fd, lock(self.app_dir))

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def root() -> str:
    """The folder of all records of Docker apps."""
    return os.path.join(paths.home(), "docker")


def apps_dir() -> str:
    return os.path.join(root(), "apps")


def folder(app_id: str) -> str:
    return os.path.join(apps_dir(), app_id)


def folder_below(home: str, app_id: str) -> str:
    """The record of an app in another LAUNCHER_HOME."""
    return os.path.join(home, "docker", "apps", app_id)


def is_locked_elsewhere(app_id: str, owner: Owner | None) -> bool:
    """Whether a process holds the app's lock in another state folder of this machine: its owner's.

    False where that folder cannot be read.
    """
    if owner is None or not owner.is_here or owner.home in ("", paths.home()):
        return False
    there = folder_below(owner.home, app_id)
    return os.access(lock(there), os.R_OK) and is_locked(there)


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
        taken = RecordLock(app_dir, appfolder.make_and_lock(app_dir))
    except BlockingIOError:
        raise HeldError(app_dir, holder(app_dir)) from None
    except OSError as error:
        raise paths.unusable(error, app_dir) from error
    taken.sign()
    return taken


def holder(app_dir: str) -> Owner | None:
    """The process that took the lock last."""
    return from_json(_read(lock(app_dir)).decode(errors="replace"))


def append(app_dir: str, e: str, **facts: Any) -> bool:
    """Add an event of the kind `e` to the journal, with the time `t` in ns unless it has one.

    False when that is not possible: no such folder, or a full disk.
    """
    facts["t"] = facts.get("t") or time.time_ns()
    line = json.dumps({"e": e, **facts}, separators=(",", ":")).encode() + b"\n"
    try:
        fd = os.open(journal_path(app_dir), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":  # a full disk cut the last line short
            line = b"\n" + line
        return os.write(fd, line) == len(line)
    except OSError:
        return False
    finally:
        os.close(fd)


class Recorder:
    """The journal of an app for its watcher. What cannot be written counts, and is written later.

    Other processes append to the same journal: a cancellation, for example.
    """

    def __init__(self, app_dir: str) -> None:
        self._app_dir = app_dir
        self._unwritten: list[dict[str, Any]] = []

    def append(self, event: dict[str, Any]) -> None:
        """Add an event, with the time `t` in ns unless it has one."""
        event["t"] = event.get("t") or time.time_ns()
        self._unwritten.append(event)
        self.is_written()

    def is_written(self) -> bool:
        """Whether every event is on the disk; tries again to write those that are not."""
        while self._unwritten and append(self._app_dir, **self._unwritten[0]):
            del self._unwritten[0]
        return not self._unwritten

    def journal(self) -> Journal:
        found = journal(self._app_dir) or Journal()
        for event in self._unwritten:
            found.take(event)
        return found


def journal(app_dir: str) -> Journal | None:
    """The journal; None where there is none: the app was not started yet, or its record was removed."""
    lines = _read(journal_path(app_dir))
    return fold(lines) if lines else None


def exists(app_dir: str) -> bool:
    return os.path.isdir(app_dir)


def write_attempt(app_dir: str, attempt: Mapping[str, Any]) -> None:
    """Write attempt.json. Raises StateError when the disk is full or read-only; the old file stays then."""
    path = _attempt(app_dir)
    text = json.dumps(attempt, ensure_ascii=False, separators=(",", ":"))
    try:
        write_whole(path, text, mode=0o600, errors="surrogateescape")
    except OSError as error:
        raise paths.unusable(error, path) from error


def read_attempt(app_dir: str) -> dict[str, Any] | None:
    """The content of attempt.json; None where there is none: its writer was killed, or there is no folder."""
    try:
        data = json.loads(_read(_attempt(app_dir)).decode("utf-8", "surrogateescape"))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def clear(app_dir: str) -> None:
    """Empty the record of an app that was never started and is submitted again. The caller holds the lock."""
    for path in (journal_path(app_dir), _attempt(app_dir), watcher_log(app_dir)):
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise paths.unusable(error, path) from error


def remove(app_dir: str) -> None:
    """Remove the record: in one step for other processes, even if this one is killed while deleting."""
    with suppress(OSError):
        appfolder.remove(app_dir)


def sweep() -> None:
    """Finish removals whose process was killed."""
    appfolder.sweep(apps_dir())


def watcher_log(app_dir: str) -> str:
    return os.path.join(app_dir, "watcher.log")


def _attempt(app_dir: str) -> str:
    return os.path.join(app_dir, "attempt.json")


def journal_path(app_dir: str) -> str:
    return os.path.join(app_dir, "journal.jsonl")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
