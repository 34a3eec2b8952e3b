"""The store: every submitted app, every attempt of every job, and their outcomes.

One SQLite file with two tables. `attempts` is a primary record: it outlives containers, folders and reboots,
and a recorded outcome is never overwritten. `apps` is derived: a row says that an app's folder or containers
exist (or were about to be made), and how the app ended, so that readers need not ask the engine. Lost rows
are rebuilt from the schedulers' sources.

Only clients write here, never a supervisor or a watcher.
"""

from __future__ import annotations

import os

from launcher.errors import StateError
from launcher.state.reader import APPS_OF, HAS_ATTEMPT, Reader, json_rows, newest_first
from launcher.state.rows import (
    APP_RECORD,
    ATTEMPT_RECORD,
    COLUMNS,
    INSERT_APP,
    LIVE,
    from_attempt,
    from_record,
    known_use,
    text_of,
    to_attempts,
    to_record,
    used_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable
    from typing import Any

    from launcher.holding.use import Use
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey
    from launcher.state.records import AppRecord

    Keys = Collection[tuple[str, str, str]] | None
    """The keys of jobs: (project, target, job)."""

_FULL = ", ".join(f"attempts.{name}" for name in COLUMNS)
_DAY_S = 86400.0
_NUMBER = COLUMNS.index("number")
_STATE = COLUMNS.index("state")

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
    message = :message, exit_code = :exit_code, owner = '',
    inputs_changed = coalesce(nullif(:inputs_changed, ''), inputs_changed),
    used = coalesce(nullif(:used, ''), used),
    output_digest = coalesce(nullif(:output_digest, ''), output_digest),
    images = coalesce(nullif(:images, ''), images)
WHERE app_id = :app_id AND {_OPEN.format(table="attempts", live=LIVE, new=":state")}
"""

# Clients see the end of a container before its watcher has recorded what it has used and left.
_ADD_FOUND = """
UPDATE attempts
SET used = coalesce(nullif(used, ''), :used),
    output_digest = coalesce(nullif(output_digest, ''), :output_digest)
WHERE app_id = :app_id AND state = :state
    AND ((used = '' AND :used <> '') OR (output_digest = '' AND :output_digest <> ''))
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

_SAME_KEY = (
    "attempts.project = json_extract(value, '$[0]') AND attempts.target = json_extract(value, '$[1]') "
    "AND attempts.job = json_extract(value, '$[2]')"
)

# CROSS JOIN keeps the order of the loops: each wanted key is one look-up in the index.
_LATEST_OF = f"""
SELECT {_FULL} FROM json_each(?) CROSS JOIN attempts ON {_SAME_KEY}
WHERE number = (SELECT max(number) FROM attempts WHERE {_SAME_KEY})
"""
_APPS_OF_JOBS = f"""
SELECT app_id, scheduler, project, target, job
FROM json_each(?) CROSS JOIN apps ON {_SAME_KEY.replace("attempts.", "apps.")}
ORDER BY number DESC
"""

# Three look-ups for each wanted key, most of which find the same row.
_HIGHEST = "(SELECT number FROM attempts WHERE {where} ORDER BY number DESC LIMIT 1)"
_HAS_RUN = "state NOT IN ('reserved', 'created', 'waiting', 'queued', 'skipped')"
_DECISIVE_OF = f"""
SELECT {_FULL} FROM json_each(?) CROSS JOIN attempts ON {_SAME_KEY}
WHERE number IN (
    {_HIGHEST.format(where=_SAME_KEY)},
    {_HIGHEST.format(where=f"{_SAME_KEY} AND {_HAS_RUN}")},
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

_SUCCESSES = f"""
SELECT key, digest, ended_at - started_at, used FROM json_each(:keys) CROSS JOIN attempts ON {_SAME_KEY}
WHERE state = 'succeeded' AND ended_at > started_at AND number >= coalesce((
    SELECT number FROM attempts WHERE {_SAME_KEY} AND state = 'succeeded'
    ORDER BY number DESC LIMIT 1 OFFSET :most - 1
), 0) ORDER BY number DESC
"""


# A window of time, of one project or of some jobs; a parameter that is NULL narrows nothing.
_IN_WINDOW = f"""
(:since IS NULL OR created_at >= :since OR ended_at >= :since OR {LIVE})
    AND (:project IS NULL OR project = :project)
    AND (:keys IS NULL OR (project, target, job) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
        FROM json_each(:keys)
    ))
"""
_APPS_ALONE = f"NOT {HAS_ATTEMPT.format(app='apps')} AND {_IN_WINDOW}"
_WINDOW = f"""
SELECT * FROM (
    SELECT {ATTEMPT_RECORD} FROM attempts WHERE {_IN_WINDOW} ORDER BY created_at DESC LIMIT :limit
)
UNION ALL
SELECT * FROM (SELECT {APP_RECORD} FROM apps WHERE {_APPS_ALONE} ORDER BY created_at DESC LIMIT :limit)
ORDER BY created_at DESC LIMIT :limit
"""
_TALLY = f"""
SELECT state, count(*) FROM (
    SELECT state FROM attempts WHERE {_IN_WINDOW} UNION ALL SELECT state FROM apps WHERE {_APPS_ALONE}
) GROUP BY state
"""
_NEEDS = """
SELECT project, target, job, needs, max(number) FROM attempts GROUP BY job, project, target
"""


class Store(Reader):
    """An open store, to read and write everything. See `Reader`.

    Every write is durable when the call returns, unless it was opened otherwise.
    """

    # Writing

    def record(self, attempt: Attempt) -> bool:
        """Insert or replace `attempt`; True when it was written.

        A recorded outcome stays (only "lost" is replaced by a real one): then returns False.
        """
        if attempt.is_live:
            return self._write(_RECORD, from_attempt(attempt)) > 0
        return self._transact(lambda db: _record(db, attempt))

    def record_all(self, attempts: Iterable[Attempt]) -> None:
        """`record` several attempts in one transaction."""
        self._transact(lambda db: [_record(db, attempt) for attempt in attempts])

    def end(self, app: AppRecord) -> bool:
        """Record the outcome of an app; True when it was new. Unknown apps and known outcomes stay.

        The outcome of a lost app is replaced by a real one.
        """
        return bool(self.end_all((app,)))

    def end_all(self, apps: Iterable[AppRecord]) -> set[str]:
        """`end` several apps in one transaction; returns the ids of apps whose outcome was new."""
        return self._transact(lambda db: {app.app_id for app in apps if _end(db, app)})

    def end_and_tidy(self, app: AppRecord) -> bool:
        """`end` an app, and note that the scheduler has tidied up after it; True the first time."""
        return bool(self.end_and_tidy_all((app,)))

    def end_and_tidy_all(self, apps: Iterable[AppRecord]) -> set[str]:
        """`end_and_tidy` several apps in one transaction; returns the ids of the apps not tidied before."""

        def is_first(db: sqlite3.Connection, app: AppRecord) -> bool:
            _end(db, app)
            sql = "UPDATE apps SET live = 0 WHERE app_id = ? AND live"
            return db.execute(sql, (app.app_id,)).rowcount > 0

        return self._transact(lambda db: {app.app_id for app in apps if is_first(db, app)})

    def forget(self, app_id: str) -> bool:
        """Remove an attempt that never ran; True when there was one. Outcomes stay."""
        return self._write(f"DELETE FROM attempts WHERE app_id = ? AND {LIVE}", (app_id,)) > 0

    def watch(self, app_id: str, trigger_digest: str) -> bool:
        """Replace the digest of an attempt's `rerun_on` files, as it did not watch all; True when changed."""
        sql = "UPDATE attempts SET trigger_digest = ? WHERE app_id = ? AND trigger_digest <> ?"
        return self._write(sql, (trigger_digest, app_id, trigger_digest)) > 0

    # Writing rows of apps

    def add(self, record: AppRecord) -> None:
        """Insert the row of an app unless there is one; a row without a job gets the job."""
        self._write(_ADD, from_record(record))

    def add_all(self, records: Iterable[tuple[AppRecord, bool]]) -> None:
        """Insert the missing rows. Each record comes with whether its end is still to be recorded."""
        rows = [from_record(record, live=live) for record, live in records]
        self._do(lambda db: db.executemany(f"INSERT OR IGNORE {INSERT_APP}", rows))

    def remove(self, app_id: str) -> None:
        """Remove the row of an app. The row of its attempt stays."""
        self._write("DELETE FROM apps WHERE app_id = ?", (app_id,))

    def remove_void(self, app_id: str, folder: str) -> bool:
        """Remove the row of an app unless its folder exists; return whether the folder is missing.

        One transaction: a client that reserves an app makes the folder and then (again) the row. So either
        the folder is found here, or the row is written after the removal.
        """

        def act(db: sqlite3.Connection) -> bool:
            if os.path.isdir(folder):
                return False
            db.execute("DELETE FROM apps WHERE app_id = ?", (app_id,))
            return True

        return self._transact(act)

    def back_up(self, now: float) -> None:
        """Copy the file to `ledger.db.daily.bak`, at most once a day, and not on the first day.

        A failure is ignored: nothing is copied then.
        """
        from contextlib import suppress

        with suppress(StateError):
            ((first,),) = self._rows("SELECT min(created_at) FROM attempts")
            if first is not None and first < now - _DAY_S:
                from launcher.state.restore import back_up

                back_up(self.path, "daily", older_than_s=_DAY_S)

    # Attempts with their documents, for plans

    def latest(self, keys: Iterable[JobKey] | None = None) -> dict[JobKey, Attempt]:
        """The attempt with the highest number of each of `keys` (of all jobs when None), in one query."""
        rows = self._rows(_LATEST) if keys is None else self._rows(_LATEST_OF, (json_rows(keys),))
        return {attempt.key: attempt for attempt in to_attempts(rows)}

    def decisive(self, keys: Iterable[JobKey], *, all_whole: bool = True) -> list[Attempt]:
        """The latest attempt of each key, the latest that has run, and the latest success, in two queries.

        An attempt that is all three is returned once, as is a first attempt. `all_whole`: see `to_attempts`.
        """
        rows = self._rows(_LATEST_OF, (json_rows(keys),))
        others = {row[:3] for row in rows if row[_STATE] != "succeeded" and row[_NUMBER] > 1}
        earlier = self._rows(_DECISIVE_OF, (json_rows(others),)) if others else ()
        decisive = [*(row for row in rows if row[:3] not in others), *earlier]
        return to_attempts(decisive, all_whole=all_whole)

    def attempts(self, key: JobKey, limit: int | None = None) -> list[Attempt]:
        """The last `limit` attempts of a job (all when None), newest first."""
        where = "project = ? AND target = ? AND job = ? ORDER BY number DESC LIMIT ?"
        values = (*key, -1 if limit is None else limit)
        return to_attempts(self._rows(f"SELECT {_FULL} FROM attempts WHERE {where}", values))

    def successes(
        self, keys: Collection[JobKey], most: int
    ) -> dict[JobKey, list[tuple[str, float, dict[str, Use]]]]:
        """The last `most` successes of each job, the newest first, in one query that reads no documents.

        Each with the digest of its document, its duration in s, and role → what its runs have used. Jobs
        without any are absent.
        """
        asked = list(keys)
        found: dict[JobKey, list[tuple[str, float, dict[str, Use]]]] = {}
        for index, digest, took_s, used in self._rows(_SUCCESSES, {"keys": json_rows(asked), "most": most}):
            found.setdefault(asked[index], []).append((digest, took_s, known_use(used)))
        return found

    def by_app_id(self, app_id: str) -> Attempt | None:
        return self.by_app_ids((app_id,)).get(app_id)

    def by_app_ids(self, app_ids: Iterable[str]) -> dict[str, Attempt]:
        """App id → its attempt, in one query. Ids of no attempt are absent."""
        sql = (
            f"SELECT {_FULL} FROM json_each(?) AS asked CROSS JOIN attempts "
            "ON app_id = json_extract(asked.value, '$[0]') ORDER BY attempts.id"
        )
        rows = self._rows(sql, (json_rows((app_id,) for app_id in app_ids),))
        return {made.app_id: made for made in to_attempts(rows)}

    def live_besides(self, keys: Collection[JobKey]) -> list[str]:
        """The app ids of the attempts without a recorded end, except those of `keys`."""
        rows = self._rows(f"SELECT project, target, job, app_id FROM attempts WHERE {LIVE}")
        return [row[3] for row in rows if row[:3] not in keys]

    def counts(self, pairs: Collection[tuple[JobKey, str]]) -> dict[tuple[JobKey, str], int]:
        """The number of attempts of each (job, digest) since its last success, if any, in one query."""
        asked = list(pairs)
        rows = self._rows(_COUNTS, (json_rows((*key, digest) for key, digest in asked),))
        return {asked[index]: count for index, count in rows}

    # A window of time, for reports

    def window(self, limit: int, *, since: float | None, project: str | None, keys: Keys) -> list[AppRecord]:
        """The newest `limit` apps that were live at or after `since` (epoch seconds), newest first.

        Only apps of one project, or of the jobs `keys`; None for all.
        """
        values = {**_window(since, project, keys), "limit": limit}
        return [to_record(row) for row in self._rows(_WINDOW, values)]

    def tally(self, *, since: float | None, project: str | None, keys: Keys) -> dict[str, int]:
        """State → the number of apps that `window` would return without a limit."""
        return dict(self._rows(_TALLY, _window(since, project, keys)))

    def needs(self) -> dict[tuple[str, str, str], tuple[str, ...]]:
        """(project, target, job) → the jobs that its latest attempt needs, for jobs with needs."""
        from launcher.specs.attempt import needs_from_text

        found = {(project, target, job): text for project, target, job, text, _ in self._rows(_NEEDS) if text}
        return {key: tuple(need.job for need in needs_from_text(text)) for key, text in found.items()}

    # Rows of apps, for schedulers

    def to_tidy(self, schedulers: Collection[str], besides: Collection[str] = ()) -> list[AppRecord]:
        """The apps, except `besides`, after which their scheduler has not tidied up yet; the newest first."""
        rows = self._of_schedulers("app_id FROM apps INDEXED BY apps_live WHERE live AND", schedulers)
        return newest_first(self._app_rows([app_id for (app_id,) in rows if app_id not in besides]))

    def of_jobs(
        self, keys: Iterable[JobKey], schedulers: Collection[str], settled: Collection[str] = ()
    ) -> list[AppRecord]:
        """The rows of the jobs' apps, of each job the highest attempt first, down to one in `settled`."""
        found, done = [], set()
        for app_id, scheduler, *key in self._rows(_APPS_OF_JOBS, (json_rows(keys),)):
            if scheduler not in schedulers or (job := tuple(key)) in done:
                continue
            if app_id in settled:
                done.add(job)
            else:
                found.append(app_id)
        return [*map(to_record, self._app_rows(found))]

    def _app_rows(self, app_ids: list[str]) -> list[tuple[Any, ...]]:
        """The rows of apps that have one, in the order of `app_ids`."""
        return self._rows(APPS_OF, (json_rows((app_id,) for app_id in app_ids),)) if app_ids else []

    def is_tidied(self, app_id: str) -> bool:
        """Whether the app has a row and its scheduler has tidied up after its end."""
        return bool(self._rows("SELECT 1 FROM apps WHERE app_id = ? AND NOT live", (app_id,)))

    def app_ids(self, schedulers: Collection[str]) -> list[str]:
        """The ids of the apps that have a row."""
        return [app_id for (app_id,) in self._of_schedulers("app_id FROM apps WHERE", schedulers)]

    def count(self, schedulers: Collection[str]) -> int:
        """The number of apps with a row."""
        ((found,),) = self._of_schedulers("count(*) FROM apps WHERE", schedulers)
        return int(found)

    def _of_schedulers(self, what: str, schedulers: Collection[str]) -> list[tuple[Any, ...]]:
        holes = ", ".join("?" * len(schedulers))
        return self._rows(f"SELECT {what} scheduler IN ({holes})", tuple(schedulers))


def _record(db: sqlite3.Connection, attempt: Attempt) -> bool:
    changed = db.execute(_RECORD, from_attempt(attempt)).rowcount > 0
    if changed and not attempt.is_live:
        db.execute(_COPY_END, (attempt.app_id,))
    return changed


def _end(db: sqlite3.Connection, app: AppRecord) -> bool:
    fields = (
        "app_id", "state", "started_at", "ended_at", "message", "exit_code", "inputs_changed",
        "output_digest",
    )  # fmt: skip
    known = db.execute("SELECT 1 FROM attempts WHERE app_id = ?", (app.app_id,)).fetchone()
    end = {name: getattr(app, name) for name in fields}
    end |= {"used": used_text(app.used), "images": text_of(app.images)}
    changed = db.execute(_END if known else _END_APP, end).rowcount > 0
    if known:
        if not changed:
            db.execute(_ADD_FOUND, end)
        db.execute(_COPY_END, (app.app_id,))
    return changed


def _window(since: float | None, project: str | None, keys: Keys) -> dict[str, object]:
    return {"since": since, "project": project, "keys": None if keys is None else json_rows(keys)}
