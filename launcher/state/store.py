"""The ledger: every attempt of every job, and how it ended. Shared by all checkouts of this user.

Engines forget (containers are pruned, folders removed, machines reboot); this does not. An outcome, once
recorded, is never overwritten.
"""

from __future__ import annotations

import sqlite3
from _thread import allocate_lock

from launcher import database, paths
from launcher.state.rows import COLUMNS, SCHEMA, SHORT, UPGRADES, VERSION, from_attempt, to_attempt, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any, Literal

    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey
    from launcher.state.records import AppRecord

    Ended = Literal["succeeded", "failed", "cancelled", "lost"]

_FULL = ", ".join(f"attempts.{name}" for name in COLUMNS)
_SHORT = ", ".join(SHORT)
_LIVE = "state IN ('reserved', 'created', 'running')"

# What may still change: a live attempt, and a lost one whose outcome turns up after all.
_OPEN = "(attempts.{live} OR attempts.state = 'lost' AND {new} IN ('succeeded', 'failed', 'cancelled'))"

_RECORD = f"""
INSERT INTO attempts ({", ".join(COLUMNS)}) VALUES ({", ".join("?" * len(COLUMNS))})
ON CONFLICT (job, project, target, number) DO UPDATE
SET {", ".join(f"{name} = excluded.{name}" for name in COLUMNS)}
WHERE {_OPEN.format(live=_LIVE, new="excluded.state")}
"""

_SETTLE = f"""
UPDATE attempts
SET state = :state, ended_at = :ended_at, started_at = coalesce(:started_at, started_at),
    message = :message, exit_code = :exit_code, owner = ''
WHERE app_id = :app_id AND {_OPEN.format(live=_LIVE, new=":state")}
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

_LATEST = f"""
SELECT {_FULL} FROM (
    SELECT job, project, target, max(number) AS number FROM attempts GROUP BY job, project, target
) CROSS JOIN attempts USING (job, project, target, number)
"""

# What came before a success is settled: a job that a trigger runs again begins to count anew.
_COUNTS = f"""
SELECT key, count(*) FROM json_each(?) CROSS JOIN attempts
ON {_SAME_KEY} AND attempts.digest = json_extract(value, '$[3]') AND attempts.number > (
    SELECT coalesce(max(good.number), 0) FROM attempts AS good
    WHERE good.project = attempts.project AND good.target = attempts.target AND good.job = attempts.job
        AND good.digest = attempts.digest AND good.state = 'succeeded'
) GROUP BY key
"""

# Beside max(), SQLite takes the other columns from the row that has the maximum.
_FIND = f"""
SELECT {_SHORT}, max(number) FROM attempts
WHERE job = :job AND (:project IS NULL OR project = :project) AND (:target IS NULL OR target = :target)
    AND (:number IS NULL OR number = :number)
GROUP BY job, project, target ORDER BY created_at DESC
"""


class Store:
    """An open ledger. A context manager; may be shared by threads.

    Every write is durable when the call returns. Every method raises StateError when the file cannot be
    read or written: a full disk, a lock that nobody gives back, damage.
    """

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = allocate_lock()

    @classmethod
    def open(cls, *, readonly: bool = False, durable: bool = True) -> Store:
        """The ledger in LAUNCHER_HOME. Read-only, one that does not exist yet is empty and stays unmade.

        Args:
            durable: every write is on disk when its call returns. Without, a power cut may take back the
                last ones: right for what an engine still knows and would be asked again.

        Raises StateError when it cannot be used: see `database.connect`.
        """
        path = paths.ledger()
        connection = database.connect(path, SCHEMA, VERSION, UPGRADES, readonly=readonly, durable=durable)
        return cls(path, connection)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing

    def record(self, attempt: Attempt) -> bool:
        """Keep `attempt`, in place of what was known of it; True when that was written.

        An attempt is known by job key and number. What the ledger holds as ended stays as it is (a lost
        one takes a true outcome that turns up): then the answer is False.
        """
        return self._write(_RECORD, from_attempt(attempt)) > 0

    def end(
        self,
        app_id: str,
        state: Ended,
        ended_at: float | None,
        message: str = "",
        exit_code: int | None = None,
        *,
        started_at: float | None = None,
    ) -> bool:
        """Record how an attempt ended; True when that was news. Unknown apps and known outcomes stay."""
        values = {"app_id": app_id, "state": state, "ended_at": ended_at, "message": message}
        return self._write(_SETTLE, {**values, "exit_code": exit_code, "started_at": started_at}) > 0

    def forget(self, app_id: str) -> bool:
        """Take back an attempt that never came to run; True when there was one. Outcomes stay."""
        return self._write(f"DELETE FROM attempts WHERE app_id = ? AND {_LIVE}", (app_id,)) > 0

    def watch(self, app_id: str, trigger_digest: str) -> bool:
        """Keep what the files of `rerun_on` hold from now on, for an attempt that did not watch them all."""
        sql = "UPDATE attempts SET trigger_digest = ? WHERE app_id = ? AND trigger_digest <> ?"
        return self._write(sql, (trigger_digest, app_id, trigger_digest)) > 0

    # Attempts with their documents, for plans

    def latest(self, keys: Iterable[JobKey] | None = None) -> dict[JobKey, Attempt]:
        """The attempt with the highest number of each of `keys` (of all jobs when None), in one query."""
        rows = self._rows(_LATEST) if keys is None else self._rows(_LATEST_OF, (_json(keys),))
        return {attempt.key: attempt for attempt in map(to_attempt, rows)}

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

    # Entries, for lists and look-ups

    def newest(self, limit: int = 50) -> list[AppRecord]:
        """The last `limit` attempts recorded, newest first. As fast with many recorded as with few."""
        rows = self._rows(f"SELECT {_SHORT} FROM attempts ORDER BY id DESC LIMIT ?", (limit,))
        return _newest_first(rows)

    def app(self, app_id: str) -> AppRecord | None:
        rows = self._rows(
            f"SELECT {_SHORT} FROM attempts WHERE app_id = ? ORDER BY id DESC LIMIT 1", (app_id,)
        )
        return to_record(rows[0]) if rows else None

    def find(
        self, job: str, *, project: str | None = None, target: str | None = None, number: int | None = None
    ) -> list[AppRecord]:
        """The latest attempt (or attempt `number`) of every job of that name, newest first.

        More than one means that several projects or targets have a job of that name.
        """
        wanted = {"job": job, "project": project, "target": target, "number": number}
        return [to_record(row[:-1]) for row in self._rows(_FIND, wanted)]

    def live(self) -> list[AppRecord]:
        """The attempts that have no recorded end, newest first."""
        # They are few among many. Left to itself, SQLite would rather read the whole table in order.
        return _newest_first(
            self._rows(f"SELECT {_SHORT} FROM attempts INDEXED BY attempts_live WHERE {_LIVE}")
        )

    def plan_used(self, plan_id: str) -> list[AppRecord]:
        """The attempts that a saved plan has made so far; empty when it was never applied."""
        sql = f"SELECT {_SHORT} FROM attempts WHERE plan_id = ? AND plan_id <> '' ORDER BY id"
        return [to_record(row) for row in self._rows(sql, (plan_id,))]

    def _rows(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(sql, values).fetchall()
            except database.DATABASE_ERRORS as error:
                raise database.explain(error, self.path) from error

    def _write(self, sql: str, values: Sequence[Any] | dict[str, Any]) -> int:
        """Rows changed by one statement, which is one transaction."""
        with self._lock:
            try:
                return self._connection.execute(sql, values).rowcount
            except database.DATABASE_ERRORS as error:
                raise database.explain(error, self.path) from error


def _newest_first(rows: Iterable[tuple[Any, ...]]) -> list[AppRecord]:
    return sorted(map(to_record, rows), key=lambda record: record.created_at or 0.0, reverse=True)


def _json(values: Iterable[Iterable[str]]) -> str:
    import json

    return json.dumps([list(value) for value in values])
