"""The store: every submitted app, every attempt of every job, and their outcomes.

One SQLite file with two tables. `attempts` is a primary record: it outlives containers, folders and reboots,
and a recorded outcome is never overwritten. `apps` is derived: a row says that an app's folder or containers
exist (or were about to be made), and how the app ended, so that readers need not ask the engine. Lost rows
are rebuilt from the schedulers' sources.

Only clients write here, never a supervisor or a watcher.
"""

from __future__ import annotations

import os

from launcher import paths
from launcher.state.rows import (
    APP_RECORD,
    ATTEMPT_RECORD,
    COLUMNS,
    INSERT_APP,
    LIVE,
    RECORD,
    from_attempt,
    from_record,
    to_attempt,
    to_record,
)
from launcher.state.storefile import StoreFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable
    from typing import Any

    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey
    from launcher.specs.needs import StoodOn
    from launcher.state.records import AppRecord
    from launcher.state.storefile import Source

_BATCH = 300  # keys per query: old versions of SQLite refuse more than 999 parameters

_FULL = ", ".join(f"attempts.{name}" for name in COLUMNS)

# Rows that may still change: live attempts, and lost ones whose outcome is found later.
_OPEN = (
    "({table}.{live} OR {table}.state = 'lost' AND {new} IN ('succeeded', 'failed', 'cancelled', 'skipped'))"
)

_RECORD = f"""
INSERT INTO attempts ({", ".join(COLUMNS)}) VALUES ({", ".join("?" * len(COLUMNS))})
ON CONFLICT (job, project, target, number) DO UPDATE
SET {", ".join(f"{name} = excluded.{name}" for name in COLUMNS)}
WHERE {_OPEN.format(table="attempts", live=LIVE, new="excluded.state")}
"""

_END = f"""
UPDATE attempts
SET state = :state, ended_at = :ended_at, started_at = coalesce(:started_at, started_at),
    message = :message, exit_code = :exit_code, owner = ''
WHERE app_id = :app_id AND {_OPEN.format(table="attempts", live=LIVE, new=":state")}
"""

_END_APP = f"""
UPDATE apps
SET state = :state, ended_at = :ended_at, started_at = coalesce(:started_at, started_at),
    message = :message, exit_code = :exit_code
WHERE app_id = :app_id AND {_OPEN.format(table="apps", live=LIVE, new=":state")}
"""

# An attempt has one outcome: the one that `attempts` holds.
_COPY_END = """
UPDATE apps SET (state, started_at, ended_at, message, exit_code) = (
    SELECT state, coalesce(started_at, apps.started_at), ended_at, message, exit_code
    FROM attempts WHERE attempts.app_id = apps.app_id ORDER BY id DESC LIMIT 1
)
WHERE app_id = ?
"""

_KEY = ("scheduler", "session", "name", "project", "target", "job", "number")
_ADD = f"""
INSERT {INSERT_APP}
ON CONFLICT (app_id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _KEY)}
WHERE apps.job IS NULL AND excluded.job IS NOT NULL
"""

_HAS_ATTEMPT = "EXISTS (SELECT 1 FROM attempts WHERE attempts.app_id = {app}.app_id)"

# The newest rows of the union are among the newest rows of each table.
_NEWEST = f"""
SELECT {RECORD} FROM (
    SELECT * FROM (
        SELECT {ATTEMPT_RECORD}, id AS place FROM attempts {{where}}
        ORDER BY created_at DESC, id DESC LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT {APP_RECORD}, rowid AS place FROM apps {{where}}
        ORDER BY created_at DESC, rowid DESC LIMIT :limit
    ) AS app WHERE NOT {_HAS_ATTEMPT.format(app="app")}
) ORDER BY created_at DESC, place DESC LIMIT :limit
"""

# Few of many rows match. Without INDEXED BY, SQLite would read the whole table in order.
_LIVE_ATTEMPTS = f"SELECT {ATTEMPT_RECORD} FROM attempts INDEXED BY attempts_live WHERE {LIVE}"
_LIVE_APPS = f"""
SELECT {APP_RECORD} FROM apps INDEXED BY apps_unended
WHERE {LIVE} AND NOT {_HAS_ATTEMPT.format(app="apps")}
"""

_SAME_KEY = (
    "attempts.project = json_extract(value, '$[0]') AND attempts.target = json_extract(value, '$[1]') "
    "AND attempts.job = json_extract(value, '$[2]')"
)

# CROSS JOIN keeps the order of the loops: each wanted key is one look-up in the index.
_LATEST_OF = f"""
SELECT {_FULL} FROM json_each(?) CROSS JOIN attempts ON {_SAME_KEY}
WHERE number = (SELECT max(number) FROM attempts WHERE {_SAME_KEY})
"""

# Three look-ups for each wanted key, of which most find the same row.
_HIGHEST = "(SELECT number FROM attempts WHERE {where} ORDER BY number DESC LIMIT 1)"
_DECISIVE_OF = f"""
SELECT {_FULL} FROM json_each(?) CROSS JOIN attempts ON {_SAME_KEY}
WHERE number IN (
    {_HIGHEST.format(where=_SAME_KEY)},
    {_HIGHEST.format(where=f"{_SAME_KEY} AND state NOT IN ('reserved', 'created', 'waiting', 'skipped')")},
    {_HIGHEST.format(where=f"{_SAME_KEY} AND state = 'succeeded'")}
)
"""

_LATEST = f"""
SELECT {_FULL} FROM (
    SELECT job, project, target, max(number) AS number FROM attempts GROUP BY job, project, target
) CROSS JOIN attempts USING (job, project, target, number)
"""

# Only attempts after the last success count: a job that a trigger re-runs starts again at zero. A skipped
# one does not: nothing of it has run.
_COUNTS = f"""
SELECT key, count(*) FROM json_each(?) CROSS JOIN attempts
ON {_SAME_KEY} AND attempts.digest = json_extract(value, '$[3]')
    AND attempts.state <> 'skipped' AND attempts.number > (
    SELECT coalesce(max(good.number), 0) FROM attempts AS good
    WHERE good.project = attempts.project AND good.target = attempts.target AND good.job = attempts.job
        AND good.digest = attempts.digest AND good.state = 'succeeded'
) GROUP BY key
"""

# Beside max(), SQLite takes the other columns from the row with the maximum. An attempt that is being
# made has a row in `apps` only: it is found once its apply has recorded it.
_WANTED = """
job = :job AND (:project IS NULL OR project = :project) AND (:target IS NULL OR target = :target)
    AND (:number IS NULL OR number = :number)
"""
_FIND = f"""
SELECT {RECORD}, max(number) FROM (
    SELECT {ATTEMPT_RECORD} FROM attempts WHERE {_WANTED}
    UNION ALL
    SELECT {APP_RECORD} FROM apps
    WHERE {_WANTED} AND state <> 'reserved' AND NOT {_HAS_ATTEMPT.format(app="apps")}
) GROUP BY job, project, target ORDER BY created_at DESC
"""

_MATCHING = f"""
SELECT {RECORD} FROM (
    SELECT {RECORD}, max(number) FROM (
        SELECT {ATTEMPT_RECORD} FROM attempts
        UNION ALL
        SELECT {APP_RECORD} FROM apps
        WHERE job IS NOT NULL AND state <> 'reserved' AND NOT {_HAS_ATTEMPT.format(app="apps")}
    )
    WHERE (:project IS NULL OR project = :project) AND (:target IS NULL OR target = :target)
    GROUP BY job, project, target
) WHERE job GLOB :pattern OR app_id GLOB :pattern
UNION ALL
SELECT {APP_RECORD} FROM apps WHERE job IS NULL AND app_id GLOB :pattern AND :target IS NULL
"""
_MATCHING_IDS = f"""
SELECT {ATTEMPT_RECORD} FROM attempts WHERE app_id GLOB :pattern
UNION ALL
SELECT {APP_RECORD} FROM apps WHERE app_id GLOB :pattern AND NOT {_HAS_ATTEMPT.format(app="apps")}
"""


class Store(StoreFile):
    """An open store. A context manager; may be shared by threads.

    Every write is durable when the call returns, unless it was opened otherwise. Every method raises
    StateError when the file cannot be read or written: a full disk, a lock that is never released, damage.
    """

    @classmethod
    def open(cls, *, readonly: bool = False, durable: bool = True, source: Source | None = None) -> Store:
        """The store in LAUNCHER_HOME. Read-only, one that does not exist yet is not made.

        Args:
            durable: every write is on disk when its call returns. Otherwise a power cut may undo the last
                ones, which suits data that an engine still has.
            source: yields the existing apps, each with whether its end is still to be recorded: rows for a
                new file, called with 0, or for one of an older version, called with that version.

        Raises StateError when it cannot be used: see `database.connect`.
        """
        return cls(paths.ledger(), readonly=readonly, durable=durable, source=source)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing

    def record(self, attempt: Attempt) -> bool:
        """Insert or replace `attempt`; True when it was written.

        An attempt is identified by job key and number. A recorded outcome stays (only "lost" is replaced
        by a real one): then returns False.
        """
        if attempt.is_live:
            return self._write(_RECORD, from_attempt(attempt)) > 0

        def act(db: sqlite3.Connection) -> bool:
            changed = db.execute(_RECORD, from_attempt(attempt)).rowcount > 0
            if changed:
                db.execute(_COPY_END, (attempt.app_id,))
            return changed

        return self._transact(act)

    def end(self, app: AppRecord) -> bool:
        """Record the outcome of an app; True when it was new. Unknown apps and known outcomes stay.

        The outcome of a lost app is replaced by a real one.

        Args:
            app: its id, state, times, message and exit code are recorded.
        """
        return self._transact(lambda db: _end(db, app))

    def end_and_tidy(self, app: AppRecord) -> bool:
        """`end`, and note that the scheduler has tidied up after the app; True the first time."""

        def act(db: sqlite3.Connection) -> bool:
            _end(db, app)
            sql = "UPDATE apps SET live = 0 WHERE app_id = ? AND live"
            return db.execute(sql, (app.app_id,)).rowcount > 0

        return self._transact(act)

    def forget(self, app_id: str) -> bool:
        """Remove an attempt that never ran; True when there was one. Outcomes stay."""
        return self._write(f"DELETE FROM attempts WHERE app_id = ? AND {LIVE}", (app_id,)) > 0

    def watch(self, app_id: str, trigger_digest: str) -> bool:
        """Update the digest of the `rerun_on` files of an attempt that did not watch all of them."""
        sql = "UPDATE attempts SET trigger_digest = ? WHERE app_id = ? AND trigger_digest <> ?"
        return self._write(sql, (trigger_digest, app_id, trigger_digest)) > 0

    def adopt(self, app_id: str, stood_on: Iterable[StoodOn]) -> bool:
        """Update what an attempt stands on, that it had no record of."""
        from launcher.specs import needs

        sql = "UPDATE attempts SET needs = ? WHERE app_id = ?"
        return self._write(sql, (needs.dumps(stood_on), app_id)) > 0

    # Writing rows of apps

    def add(self, record: AppRecord) -> None:
        """Insert the row of an app unless there is one; a row without a job gets the job."""
        self._write(_ADD, from_record(record))

    def add_all(self, records: Iterable[tuple[AppRecord, bool]]) -> None:
        """Insert the missing rows. With each record: whether its end is still to be recorded."""
        rows = [from_record(record, live=live) for record, live in records]
        self._do(lambda db: db.executemany(f"INSERT OR IGNORE {INSERT_APP}", rows))

    def remove(self, app_id: str) -> None:
        """Remove the row of an app. The row of its attempt stays."""
        self._write("DELETE FROM apps WHERE app_id = ?", (app_id,))

    def remove_void(self, app_id: str, folder: str) -> bool:
        """Remove the row of an app unless its folder exists; True when it does not.

        One transaction: a client that reserves an app makes the folder and then (again) the row. So either
        the folder is found here, or the row is written after the removal.
        """

        def act(db: sqlite3.Connection) -> bool:
            gone = not os.path.isdir(folder)
            if gone:
                db.execute("DELETE FROM apps WHERE app_id = ?", (app_id,))
            return gone

        return self._transact(act)

    # Attempts with their documents, for plans

    def latest(self, keys: Iterable[JobKey] | None = None) -> dict[JobKey, Attempt]:
        """The attempt with the highest number of each of `keys` (of all jobs when None), in one query."""
        rows = self._rows(_LATEST) if keys is None else self._rows(_LATEST_OF, (_json(keys),))
        return {attempt.key: attempt for attempt in map(to_attempt, rows)}

    def decisive(self, keys: Iterable[JobKey]) -> list[Attempt]:
        """The attempts that plans go by, in one query.

        Of each key the latest, the latest of which anything has run, and the latest success.
        """
        return [to_attempt(row) for row in self._rows(_DECISIVE_OF, (_json(keys),))]

    def attempts(self, key: JobKey) -> list[Attempt]:
        """Every attempt of a job, newest first."""
        sql = (
            f"SELECT {_FULL} FROM attempts WHERE project = ? AND target = ? AND job = ? ORDER BY number DESC"
        )
        return [to_attempt(row) for row in self._rows(sql, tuple(key))]

    def by_app_id(self, app_id: str) -> Attempt | None:
        rows = self._rows(
            f"SELECT {_FULL} FROM attempts WHERE app_id = ? ORDER BY id DESC LIMIT 1", (app_id,)
        )
        return to_attempt(rows[0]) if rows else None

    def counts(self, pairs: Collection[tuple[JobKey, str]]) -> dict[tuple[JobKey, str], int]:
        """How many attempts of each (job, digest) there were since its last success, in one query.

        Pairs without any are absent.
        """
        asked = list(pairs)
        rows = self._rows(_COUNTS, (_json((*key, digest) for key, digest in asked),))
        return {asked[index]: count for index, count in rows}

    # Records, for lists and look-ups

    def newest(
        self,
        limit: int | None = 50,
        scheduler: str | None = None,
        *,
        project: str | None = None,
        states: Collection[str] = (),
    ) -> list[AppRecord]:
        """The last `limit` apps (all when None), newest first.

        As fast with many recorded as with few, unless they are narrowed by project or state.

        Args:
            scheduler, project: only its apps; None for all.
            states: only apps in one of these states; all when empty.
        """
        values: dict[str, Any] = {"limit": -1 if limit is None else limit}
        clauses = []
        for column, value in (("scheduler", scheduler), ("project", project)):
            if value is not None:
                clauses.append(f"{column} = :{column}")
                values[column] = value
        if states:
            values.update((f"state{n}", state) for n, state in enumerate(states))
            clauses.append(f"state IN ({', '.join(f':state{n}' for n in range(len(states)))})")
        sql = _NEWEST.format(where=f"WHERE {' AND '.join(clauses)}" if clauses else "")
        return [to_record(row) for row in self._rows(sql, values)]

    def apps(self, scheduler: str, limit: int | None = None) -> list[AppRecord]:
        """The newest apps of one scheduler that have a row (all when None)."""
        sql = f"SELECT {APP_RECORD} FROM apps WHERE scheduler = ? ORDER BY created_at DESC, app_id LIMIT ?"
        return [to_record(row) for row in self._rows(sql, (scheduler, -1 if limit is None else limit))]

    def app(self, app_id: str) -> AppRecord | None:
        """The app of that id; for an app with a job, the recorded attempt."""
        return self.attempt(app_id) or self._one(f"SELECT {APP_RECORD} FROM apps WHERE app_id = ?", app_id)

    def attempt(self, app_id: str) -> AppRecord | None:
        """The recorded attempt; None for an app without a job."""
        sql = f"SELECT {ATTEMPT_RECORD} FROM attempts WHERE app_id = ? ORDER BY id DESC LIMIT 1"
        return self._one(sql, app_id)

    def find(
        self, job: str, *, project: str | None = None, target: str | None = None, number: int | None = None
    ) -> list[AppRecord]:
        """The latest attempt (or attempt `number`) of every job of that name, newest first.

        More than one means that several projects or targets have a job of that name.
        """
        wanted = {"job": job, "project": project, "target": target, "number": number}
        return [to_record(row[:-1]) for row in self._rows(_FIND, wanted)]

    def matching(
        self, pattern: str, *, project: str | None = None, target: str | None = None
    ) -> list[AppRecord]:
        """The latest attempt of every job whose name or app id `pattern` matches, and apps without a job.

        Args:
            pattern: `*`, `?` and `[…]` as in file names.
        """
        wanted = {"pattern": _glob(pattern), "project": project, "target": target}
        return _newest_first(self._rows(_MATCHING, wanted))

    def matching_ids(self, pattern: str) -> list[AppRecord]:
        """Every app whose id `pattern` matches, newest first."""
        return _newest_first(self._rows(_MATCHING_IDS, {"pattern": _glob(pattern)}))

    def files(self, app_ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """App id → origin and path of its job file; see `Attempt`. Apps without a job are left out."""
        wanted = "json_each(?) CROSS JOIN attempts ON app_id = json_extract(value, '$[0]')"
        sql = f"SELECT app_id, origin, attempts.path FROM {wanted}"
        return {row[0]: row[1:] for row in self._rows(sql, (_json([app_id] for app_id in app_ids),))}

    def live(self) -> list[AppRecord]:
        """The apps that have no recorded end, newest first."""
        return _newest_first([*self._rows(_LIVE_ATTEMPTS), *self._rows(_LIVE_APPS)])

    def live_attempts(self) -> list[AppRecord]:
        """The recorded attempts that have no recorded end, newest first."""
        return _newest_first(self._rows(_LIVE_ATTEMPTS))

    def to_tidy(self, schedulers: Collection[str]) -> list[AppRecord]:
        """The rows of apps that their scheduler has not tidied up after, newest first; ended or not."""
        holes = ", ".join("?" * len(schedulers))
        sql = f"SELECT {APP_RECORD} FROM apps INDEXED BY apps_live WHERE live AND scheduler IN ({holes})"
        return _newest_first(self._rows(sql, tuple(schedulers)))

    def of_jobs(self, keys: Iterable[JobKey], schedulers: Collection[str]) -> list[AppRecord]:
        """The rows of the jobs' apps, of each job the highest attempt first."""
        wanted = list(keys)
        out: list[AppRecord] = []
        for at in range(0, len(wanted), _BATCH):
            batch = wanted[at : at + _BATCH]
            holes = ", ".join(["(?, ?, ?)"] * len(batch))
            sql = f"SELECT {APP_RECORD} FROM apps WHERE (job, project, target) IN (VALUES {holes})"
            values = [part for project, target, job in batch for part in (job, project, target)]
            out += map(to_record, self._rows(f"{sql} AND job IS NOT NULL ORDER BY number DESC", values))
        return [record for record in out if record.scheduler in schedulers]

    def is_tidied(self, app_id: str) -> bool:
        """Whether the app has a row and its scheduler has tidied up after its end."""
        return bool(self._rows("SELECT 1 FROM apps WHERE app_id = ? AND NOT live", (app_id,)))

    def app_ids(self, schedulers: Collection[str]) -> list[str]:
        """The ids of the apps that have a row."""
        holes = ", ".join("?" * len(schedulers))
        sql = f"SELECT app_id FROM apps WHERE scheduler IN ({holes})"
        return [app_id for (app_id,) in self._rows(sql, tuple(schedulers))]

    def count(self, schedulers: Collection[str]) -> int:
        """How many apps have a row."""
        holes = ", ".join("?" * len(schedulers))
        ((found,),) = self._rows(f"SELECT count(*) FROM apps WHERE scheduler IN ({holes})", tuple(schedulers))
        return int(found)

    def _one(self, sql: str, app_id: str) -> AppRecord | None:
        rows = self._rows(sql, (app_id,))
        return to_record(rows[0]) if rows else None


def _end(db: sqlite3.Connection, app: AppRecord) -> bool:
    fields = ("app_id", "state", "started_at", "ended_at", "message", "exit_code")
    known = db.execute("SELECT 1 FROM attempts WHERE app_id = ?", (app.app_id,)).fetchone()
    end = {name: getattr(app, name) for name in fields}
    changed = db.execute(_END if known else _END_APP, end).rowcount > 0
    if known:
        db.execute(_COPY_END, (app.app_id,))
    return changed


def _glob(pattern: str) -> str:
    """A pattern as SQLite reads it: there, `^` excludes characters."""
    return pattern.replace("[!", "[^")


def _newest_first(rows: Iterable[tuple[Any, ...]]) -> list[AppRecord]:
    return sorted(map(to_record, rows), key=lambda record: record.created_at or 0.0, reverse=True)


def _json(values: Iterable[Iterable[str]]) -> str:
    import json

    return json.dumps([list(value) for value in values])
