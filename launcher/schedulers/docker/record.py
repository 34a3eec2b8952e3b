"""The record of a Docker app: a folder with facts that its containers cannot show, and a row in the store.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from launcher import paths
from launcher.dataclass import replace
from launcher.errors import SchedulerError, StateError
from launcher.filelock import is_at
from launcher.holding.journal import JournalWriter
from launcher.schedulers.appfolder import GONE, AppFolder, is_id, sweep as sweep_folders
from launcher.schedulers.docker import records_root
from launcher.schedulers.docker.journal import Event, Journal, fold
from launcher.schedulers.docker.labels import APP_ID, SCHEDULER, Labels, read_labels
from launcher.schedulers.ended_process import last_line
from launcher.schedulers.owner import Owner, from_json, this_process
from launcher.schedulers.record import SeenApp, row_of, write_json
from launcher.schedulers.registry import open_store
from launcher.state.records import AppRecord, as_seen, of_attempt

if TYPE_CHECKING:
    from collections.abc import Collection

    from launcher.schedulers.docker.client.view import EngineView
    from launcher.specs.attempt import Attempt
    from launcher.specs.jobkey import JobKey

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
        """Whether the lock still belongs to its folder: not once the folder was removed, or made again."""
        return self.fd >= 0 and is_at(self.fd, AppFolder(self.app_dir).lock)

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def discard(self) -> None:
        """Remove the record, if the lock is still valid, with the row of the app, and release the lock."""
        if self.is_valid:
            remove(self.app_dir)
        remove_row(os.path.basename(self.app_dir))  # also where the watcher removed the record first
        self.release()


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
    """The app's folder in the state folder of its owner, on this machine, while a process locks it.

    "" where no process locks it, or where it cannot be read.
    """
    if owner is None or not owner.is_here or owner.home in ("", paths.home()):
        return ""
    there = AppFolder(folder_below(owner.home, app_id))
    return there.path if os.access(there.lock, os.R_OK) and there.is_locked() else ""


def started_elsewhere(app_id: str, owner: Owner | None) -> float | None:
    """The start of an app, epoch seconds, from the record that `locked_elsewhere` finds; None without one."""
    there = locked_elsewhere(app_id, owner)
    recorded = journal(there) if there else None
    return recorded.app.started_at if recorded is not None else None


def is_free(app_id: str, holder: Owner | None) -> bool:
    """Whether a process of this machine has released the app; a watcher of many apps may live on."""
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


def write_labels(app_dir: str, engine: EngineView, labels: Mapping[str, str]) -> None:
    """As `write_attempt`, with the labels of the containers of the app, and the engine."""
    facts = {"labels": dict(labels), "engine": engine.engine_id(), "host": engine.host}
    write_attempt(app_dir, facts)


def read_attempt(app_dir: str) -> dict[str, Any] | None:
    """The content of attempt.json; None without it: its writer was killed, or there is no folder."""
    with suppress(OSError):
        return AppFolder(app_dir).read_json(_ATTEMPT)
    return None


def recorded_labels(app_dir: str) -> Mapping[str, str]:
    """The labels of the containers of the app; {} where they are not on record."""
    found = (read_attempt(app_dir) or {}).get("labels")
    return found if isinstance(found, dict) else {}


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
    """Write into the watcher's log why the watcher gave up the app."""
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


# -- apps from records -----------------------------------------------------------------------------------


def of_labels(app_id: str, labels: Labels) -> AppRecord:
    """The app as it was reserved, from the labels of its containers."""
    recorded = {name: labels.text(name) for name in ("session", "name", "digest", "commit", "actor")}
    about = {
        "key": labels.key if labels.is_job else None,
        "number": labels.attempt_number,
        "created_at": labels.created_at,
        "output": labels.output,
    }
    return row_of(SCHEDULER, app_id, {**recorded, **about})


def read(app_id: str) -> AppRecord | None:
    """The app as last recorded: reserved until it was started, running, or with its outcome.

    None where there is no record of it.
    """
    if not is_id(app_id):
        return None
    app_dir = folder(app_id)
    if not (labels := recorded_labels(app_dir)):
        return None
    found = of_labels(app_id, Labels(labels))
    recorded = journal(app_dir)
    if recorded is not None and recorded.app.started_at is not None:
        found.state, found.started_at = "running", recorded.app.started_at
    elif recorded is not None and recorded.held is not None:
        found.state, found.message = recorded.held
    if recorded is not None and recorded.outcome is not None:
        outcome = recorded.outcome
        found.state, found.message, found.exit_code = outcome.state, outcome.message, outcome.exit_code
        found.ended_at = outcome.ended_at
        found.inputs_changed = outcome.inputs_changed or recorded.app.inputs_changed
        found.used, found.output_digest = recorded.app.used, recorded.app.output_digest
    return found


def attempt_here(app_id: str) -> Attempt | None:
    """The attempt of an app, by its record in this state folder alone."""
    app, labels = read(app_id), read_labels(recorded_labels(folder(app_id)))
    found = labels.attempt if labels is not None else None
    return None if found is None or app is None else as_seen(found, app)


# -- rows in the store --------------------------------------------------------------------------------------

# Clients write rows; a watcher writes only the record.


def apps() -> Iterator[tuple[AppRecord, bool]]:
    """Every app that has a record here, as `registry.every_app` yields them."""
    yield from _records(app_ids())


def add_row(labels: Mapping[str, str]) -> None:
    """Add the row of an app. Its record must exist: a row without one is void. Raises StateError."""
    with open_store(durable=False) as store:
        store.add(of_labels(labels[APP_ID], Labels(labels)))


def remove_row(app_id: str) -> None:
    """Remove the row of an app, unless the app has a record again."""
    # A row that stays is void, and the next call of `match_rows` removes it.
    with suppress(StateError), open_store(durable=False) as store:
        store.remove_void(app_id, folder(app_id))


def end_row(app: AppRecord, *, durable: bool) -> None:
    """Write the end of an app into its row. Where the store cannot be written, the record has the end."""
    with suppress(StateError), open_store(durable=durable) as store:
        store.end_and_tidy(app)


def match_rows() -> None:
    """Add missing rows for records, and remove rows whose record was removed."""
    ids = app_ids()
    with open_store(readonly=True) as store:
        known = set(store.app_ids([SCHEDULER]))
    if known == set(ids):
        return
    with suppress(StateError), open_store(durable=False) as store:
        store.add_all(_records([app_id for app_id in ids if app_id not in known]))
        for app_id in known.difference(ids):
            store.remove_void(app_id, folder(app_id))


def _records(ids: list[str]) -> Iterator[tuple[AppRecord, bool]]:
    for app_id in ids:
        found = read(app_id)
        if found is not None:
            recorded = journal(folder(app_id))
            yield found, recorded is None or not recorded.end_recorded


# -- at other engines ---------------------------------------------------------------------------------------

# When DOCKER_HOST or the docker context was changed, apps at the other engine are known only from their
# records here: they never count as lost, and cannot be stopped through this engine.


def attempt_elsewhere(engine: EngineView, app_id: str) -> Attempt | None:
    """The attempt of an app at another engine, as last recorded.

    None for an app without a job, of this engine, or without an outcome.
    """
    host = other_engine(engine, app_id)
    found = attempt_here(app_id) if host else None
    if found is None or not found.is_live:
        return found
    recorded = journal(folder(app_id))
    if recorded is not None and recorded.end_recorded:
        return None  # the attempt has ended, and only the ledger has the outcome
    state = "created" if found.state == "reserved" else found.state
    return replace(found, state=state, message=f"at the engine {host}", elsewhere=host)


def other_engine(engine: EngineView, app_id: str) -> str:
    """The address of the engine that has the app, by its record here; "" for this engine, or without one."""
    facts = read_attempt(folder(app_id)) or {}
    return "" if facts.get("engine") in (None, engine.engine_id()) else str(facts.get("host"))


def elsewhere(engine: EngineView, app_id: str) -> SeenApp | None:
    """The app of `attempt_elsewhere`."""
    attempt = attempt_elsewhere(engine, app_id)
    return None if attempt is None else SeenApp(of_attempt(attempt), attempt.to_json(), attempt.owner)


def live_elsewhere(engine: EngineView, keys: Collection[JobKey], settled: Collection[str]) -> list[Attempt]:
    """The live attempts of these jobs at other engines."""
    there = (attempt_elsewhere(engine, app_id) for app_id in app_ids() if app_id not in settled)
    return [each for each in there if each is not None and each.key in keys and each.is_live]


def refuse_elsewhere(engine: EngineView, app_id: str) -> None:
    """Raise SchedulerError, with the engine's address, for a live app of another engine."""
    found = attempt_elsewhere(engine, app_id)
    if found is not None and found.is_live:
        raise _is_at(found.elsewhere, engine, app_id)


def refuse_logs_elsewhere(engine: EngineView, app_id: str) -> None:
    """Raise SchedulerError, as `refuse_elsewhere`, for an app of another engine that may have its logs."""
    host, recorded = other_engine(engine, app_id), journal(folder(app_id))
    if host and not (recorded is not None and recorded.logs_removed):
        raise _is_at(host, engine, app_id)


def _is_at(host: str, engine: EngineView, app_id: str) -> SchedulerError:
    return SchedulerError(
        f"{app_id} is at the engine {host}, and this is {engine.host}",
        hint=f"DOCKER_HOST={host} says which engine to ask",
    )
