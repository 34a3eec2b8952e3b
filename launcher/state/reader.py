"""Read records from the store. `Store` reads attempts with their documents."""

from __future__ import annotations

from _thread import allocate_lock

from launcher import database, paths
from launcher.errors import DamagedError
from launcher.state.rows import (
    APP_RECORD,
    ATTEMPT_RECORD,
    FIRST_WITH_APPS,
    INSERT_APP,
    LIVE,
    RECORD,
    SCHEMA,
    UPGRADES,
    VERSION,
    WORDS_OF,
    from_record,
    known_use,
    to_record,
    unpacked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from array import array
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from launcher.state.records import AppRecord

    Source = Callable[[], Iterable[tuple[AppRecord, bool]]]
    S = TypeVar("S", bound="Reader")
    T = TypeVar("T")

HAS_ATTEMPT = "EXISTS (SELECT 1 FROM attempts WHERE attempts.app_id = {app}.app_id)"
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
    ) AS app WHERE NOT {HAS_ATTEMPT.format(app="app")}
) ORDER BY created_at DESC, place DESC LIMIT :limit
"""
# Few of many rows match, and without INDEXED BY SQLite would read the whole table in order.
_LIVE_ATTEMPTS = f"SELECT {ATTEMPT_RECORD} FROM attempts INDEXED BY attempts_live WHERE {LIVE}"
_LIVE_APPS = f"""
SELECT {APP_RECORD} FROM apps INDEXED BY apps_unended
WHERE {LIVE} AND NOT {HAS_ATTEMPT.format(app="apps")}
"""
# Beside max(), SQLite takes the other columns from the row with the maximum. An attempt that is being
# made has a row in `apps` only: it is found once its apply has recorded it.
_WANTED = """
job = :job AND (:target IS NULL OR target = :target) AND (:number IS NULL OR number = :number)
"""
_FIND = f"""
SELECT {RECORD}, max(number) FROM (
    SELECT {ATTEMPT_RECORD} FROM attempts WHERE {_WANTED}
    UNION ALL
    SELECT {APP_RECORD} FROM apps
    WHERE {_WANTED} AND state <> 'reserved' AND NOT {HAS_ATTEMPT.format(app="apps")}
) GROUP BY job, project, target ORDER BY created_at DESC
"""
_MATCHING = f"""
SELECT {RECORD} FROM (
    SELECT {RECORD}, max(number) FROM (
        SELECT {ATTEMPT_RECORD} FROM attempts
        UNION ALL
        SELECT {APP_RECORD} FROM apps
        WHERE job IS NOT NULL AND state <> 'reserved' AND NOT {HAS_ATTEMPT.format(app="apps")}
    )
    WHERE (:project IS NULL OR project = :project) AND (:target IS NULL OR target = :target)
    GROUP BY job, project, target
) WHERE job GLOB :pattern OR app_id GLOB :pattern OR matrix = :matrix
UNION ALL
SELECT {APP_RECORD} FROM apps WHERE job IS NULL AND app_id GLOB :pattern AND :target IS NULL
"""
_SINCE = f"""
SELECT created_at, app_id, EXISTS (SELECT 1 FROM apps WHERE apps.app_id = attempts.app_id)
FROM attempts WHERE {{where}}
UNION ALL
SELECT created_at, app_id, 1 FROM apps WHERE {{where}} AND NOT {HAS_ATTEMPT.format(app="apps")}
ORDER BY 1 DESC, 2
"""
_RUNS = """
SELECT project, target, job, number, app_id, digest, origin, path, state, started_at, ended_at, used
FROM attempts INDEXED BY attempts_created
WHERE created_at >= :since AND (:project IS NULL OR project = :project) ORDER BY created_at DESC, id DESC
"""
_ASKED = "json_each(?) AS asked CROSS JOIN {table} ON {table}.app_id = json_extract(asked.value, '$[0]')"
APPS_OF = f"SELECT {APP_RECORD} FROM {_ASKED.format(table='apps')}"
_ATTEMPTS_OF = f"SELECT {ATTEMPT_RECORD} FROM {_ASKED.format(table='attempts')} ORDER BY attempts.id"
_END_COUNTS = f"""
SELECT project, target, scheduler, state, count(*) FROM attempts WHERE NOT ({LIVE}) GROUP BY 1, 2, 3, 4
"""
# The rows of jobs that are left out are grouped, and not read.
_LAST_ENDS = f"""
WITH last AS (
    SELECT job, project, target, ended_at AS ended, max(number) AS number, count(*) OVER () AS jobs
    FROM attempts WHERE NOT ({LIVE}) GROUP BY job, project, target
    HAVING coalesce(ended_at, 0) >= :since ORDER BY ended DESC LIMIT :limit
)
SELECT {ATTEMPT_RECORD}, (
    SELECT good.ended_at FROM attempts AS good
    WHERE (good.job, good.project, good.target) = (last.job, last.project, last.target)
        AND good.state = 'succeeded' ORDER BY good.number DESC LIMIT 1
), used, last.jobs FROM last JOIN attempts USING (job, project, target, number)
"""
# A place is the id of a row of `attempts`, or the negative rowid of one of `apps`.
_ENDED = f"""
SELECT id AS place, coalesce(ended_at, created_at) AS at FROM attempts WHERE NOT {LIVE} {{where}}
UNION ALL
SELECT -rowid, coalesce(ended_at, created_at) FROM apps
WHERE NOT {LIVE} AND NOT {HAS_ATTEMPT.format(app="apps")} {{where}}
ORDER BY at DESC, place DESC
"""
_WORDS = "lower(" + " || ' ' || ".join(f"coalesce({name}, '')" for name in WORDS_OF) + ")"
_PLACES = "CROSS JOIN {table} ON {table}.{id} = {sign}json_each.value"
_AT = f"""
SELECT {RECORD} FROM (
    SELECT {ATTEMPT_RECORD}, key FROM json_each(:places) {_PLACES.format(table="attempts", id="id", sign="")}
    UNION ALL
    SELECT {APP_RECORD}, key FROM json_each(:places) {_PLACES.format(table="apps", id="rowid", sign="-")}
) ORDER BY key
"""
_MATCHING_IDS = f"""
SELECT {ATTEMPT_RECORD} FROM attempts WHERE app_id GLOB :pattern
UNION ALL
SELECT {APP_RECORD} FROM apps WHERE app_id GLOB :pattern AND NOT {HAS_ATTEMPT.format(app="apps")}
"""


class Reader:
    """An open store. A context manager; may be shared by threads.

    Every method raises StateError when the file cannot be read or written: a full disk, a lock that is never
    released, damage.
    """

    def __init__(self, path: str, *, readonly: bool, durable: bool, source: Source | None) -> None:
        self.path = path
        self._readonly = readonly
        self._durable = durable
        self._source = source
        self._lock = allocate_lock()
        try:
            self._connection = self._connect()
        except DamagedError as error:
            self._connection = self._recovered(error)

    @classmethod
    def open(
        cls: type[S], *, readonly: bool = False, durable: bool = True, source: Source | None = None
    ) -> S:
        """The store in LAUNCHER_HOME. Read-only, a missing store is not made.

        Args:
            durable: every write is on disk when its call returns. Otherwise a power cut may undo the last
                writes, which suits data that an engine still has.
            source: yields the existing apps, each with whether its end is still to be recorded: rows for a
                new file, or for one of an older version without rows of apps.

        Raises StateError when it cannot be used: see `database.connect`.
        """
        return cls(paths.ledger(), readonly=readonly, durable=durable, source=source)

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self, *, filled: bool = True) -> sqlite3.Connection:
        return database.connect(
            self.path,
            SCHEMA,
            VERSION,
            UPGRADES,
            readonly=self._readonly,
            durable=self._durable,
            fill=self._fill if filled else None,
        )

    def _fill(self, connection: sqlite3.Connection, version: int) -> None:
        if self._source is not None and version < FIRST_WITH_APPS:
            rows = (from_record(record, live=live) for record, live in self._source())
            connection.executemany(f"INSERT OR IGNORE {INSERT_APP}", rows)

    def _recovered(self, error: DamagedError) -> sqlite3.Connection:
        from launcher.state.restore import recovered

        return recovered(self.path, error, self._connect, self._fill, readonly=self._readonly)

    def close(self) -> None:
        self._connection.close()

    def _rows(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        return self._do(lambda db: db.execute(sql, values).fetchall())

    def _write(self, sql: str, values: Sequence[Any] | dict[str, Any]) -> int:
        """Run one statement as a transaction; return the number of changed rows."""
        return self._do(lambda db: db.execute(sql, values).rowcount)

    def _transact(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` in one transaction; returns its result."""

        def whole(db: sqlite3.Connection) -> T:
            db.execute("BEGIN IMMEDIATE")
            try:
                result = act(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return result

        return self._do(whole)

    def _do(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act`, and once more if the file was damaged and has been replaced; returns its result."""
        with self._lock:
            try:
                return self._try(act)
            except DamagedError as error:
                self._connection.close()
                self._connection = self._recovered(error)
                return self._try(act)

    def _try(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return act(self._connection)
        except database.DATABASE_ERRORS as error:
            raise database.explain(error, self.path) from error

    # Records

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
        clauses += _in_states(states, values)
        sql = _NEWEST.format(where=f"WHERE {' AND '.join(clauses)}" if clauses else "")
        return [to_record(row) for row in self._rows(sql, values)]

    def apps(self, scheduler: str) -> list[AppRecord]:
        """The apps of one scheduler that have a row, the newest first."""
        sql = f"SELECT {APP_RECORD} FROM apps WHERE scheduler = ? ORDER BY created_at DESC, app_id"
        return [to_record(row) for row in self._rows(sql, (scheduler,))]

    def app(self, app_id: str) -> AppRecord | None:
        """The app of that id; for an app with a job, the recorded attempt."""
        return self.attempt(app_id) or self._one(f"SELECT {APP_RECORD} FROM apps WHERE app_id = ?", app_id)

    def of_ids(self, app_ids: Iterable[str]) -> dict[str, AppRecord]:
        """App id → the app, as `app`; ids of unknown apps are absent."""
        values = (json_rows([app_id] for app_id in app_ids),)
        rows = [row for sql in (APPS_OF, _ATTEMPTS_OF) for row in self._rows(sql, values)]
        return {record.app_id: record for record in map(to_record, rows)}

    def attempt(self, app_id: str) -> AppRecord | None:
        """The recorded attempt; None for an app without a job."""
        sql = f"SELECT {ATTEMPT_RECORD} FROM attempts WHERE app_id = ? ORDER BY id DESC LIMIT 1"
        return self._one(sql, app_id)

    def find(self, job: str, *, target: str | None = None, number: int | None = None) -> list[AppRecord]:
        """The latest attempt (or attempt `number`) of every job of that name, newest first.

        More than one means that several projects or targets have a job of that name.
        """
        wanted = {"job": job, "target": target, "number": number}
        return [to_record(row[:-1]) for row in self._rows(_FIND, wanted)]

    def matching(
        self,
        pattern: str,
        *,
        project: str | None = None,
        target: str | None = None,
        matrix: str | None = None,
    ) -> list[AppRecord]:
        """The latest attempt of every job whose name or app id `pattern` matches, and apps without a job.

        Args:
            pattern: `*`, `?` and `[…]` as in file names.
            matrix: with the jobs of that matrix; None for none.
        """
        wanted = {"pattern": _glob(pattern), "project": project, "target": target, "matrix": matrix}
        return newest_first(self._rows(_MATCHING, wanted))

    def matching_ids(self, pattern: str) -> list[AppRecord]:
        """Every app whose id `pattern` matches, newest first."""
        return newest_first(self._rows(_MATCHING_IDS, {"pattern": _glob(pattern)}))

    def since(
        self,
        since: float | None,
        *,
        key: tuple[str, str, str] | None = None,
        project: str | None = None,
        target: str | None = None,
        numbers: Collection[tuple[int, int]] = (),
    ) -> list[tuple[float, str, bool]]:
        """Return (created at, app id, whether its scheduler still has it) of all apps that may have run since
        then, the newest first. Skipped apps never ran.

        Args:
            since: seconds since the epoch; None for all.
            key, project, target: only attempts of this job, or of jobs of these.
            numbers: only attempts with a number in one of these ranges; all when empty.
        """
        values = {"since": since, "project": project, "target": target}
        clauses = ["state <> 'skipped'", "(:since IS NULL OR ended_at IS NULL OR ended_at >= :since)"]
        if key is not None:
            values |= dict(zip(("project", "target", "job"), key, strict=True))
            clauses.append("job = :job")
        clauses += [f"{name} = :{name}" for name in ("project", "target") if values[name] is not None]
        if numbers:
            of_each = [f"number BETWEEN {int(first)} AND {int(last)}" for first, last in numbers]
            clauses.append(f"({' OR '.join(of_each)})")
        return self._rows(_SINCE.format(where=" AND ".join(clauses)), values)

    def end_counts(self) -> list[tuple[str, str, str, str, int]]:
        """Project, target, scheduler and state of attempts that ended, with their number."""
        return self._rows(_END_COUNTS)

    def last_ends(self, limit: int, since: float = 0.0) -> tuple[list[tuple[AppRecord, float | None]], int]:
        """Return the last ended attempts of the `limit` jobs that ended last, and how many jobs ended.

        Each attempt has its use, and comes with the time of its job's last success. Only of jobs that ended
        after `since`.
        """
        rows = self._rows(_LAST_ENDS, {"limit": limit, "since": since})
        found = []
        for *record, success, used, _ in rows:
            app = to_record(tuple(record))
            app.used = known_use(used)
            found.append((app, success))
        return found, rows[0][-1] if rows else 0

    def runs(self, since: float, project: str | None = None) -> list[tuple[Any, ...]]:
        """The columns of `_RUNS` of the attempts made since then, of one project or all, newest first."""
        return self._rows(_RUNS, {"since": since, "project": project})

    def documents(self, app_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """App id → the document of its attempt. Ids without any are absent. Raises DamagedError."""
        sql = f"SELECT app_id, document FROM {_ASKED.format(table='attempts')}"
        rows = self._rows(sql, (json_rows([app_id] for app_id in app_ids),))
        try:
            return {app_id: unpacked(document) for app_id, document in rows}
        except (ValueError, TypeError, RecursionError) as error:
            raise DamagedError(f"a document of the ledger is damaged: {error}") from error

    def live(self) -> list[AppRecord]:
        """The apps that have no recorded end, newest first."""
        return newest_first([*self._rows(_LIVE_ATTEMPTS), *self._rows(_LIVE_APPS)])

    def live_attempts(self) -> list[AppRecord]:
        """The recorded attempts that have no recorded end, newest first."""
        return newest_first(self._rows(_LIVE_ATTEMPTS))

    def ended(self, words: Collection[str] = (), states: Collection[str] = ()) -> array[int]:
        """The places of the apps that have ended, the last to end first; `at` reads them.

        Args:
            words: only apps with each of these in one of the fields of `WORDS_OF`, in any case.
            states: only apps in one of these states; all when empty.
        """
        from array import array

        values: dict[str, Any] = {f"word{n}": word.lower() for n, word in enumerate(words)}
        clauses = [f"instr({_WORDS}, :{name})" for name in values] + _in_states(states, values)
        sql = _ENDED.format(where=" ".join(f"AND {clause}" for clause in clauses))
        return self._do(lambda db: array("q", (row[0] for row in db.execute(sql, values))))

    def at(self, places: Iterable[int]) -> list[AppRecord]:
        """The apps at these places, in their order; apps that were removed since are absent."""
        import json

        rows = self._rows(_AT, {"places": json.dumps([*places])})
        return [to_record(row) for row in rows]

    def _one(self, sql: str, app_id: str) -> AppRecord | None:
        rows = self._rows(sql, (app_id,))
        return to_record(rows[0]) if rows else None


def _glob(pattern: str) -> str:
    """A pattern as SQLite reads it: there, `^` excludes characters."""
    return pattern.replace("[!", "[^")


def _in_states(states: Collection[str], values: dict[str, Any]) -> list[str]:
    """The clause for rows in one of these states, whose values it adds; none for all states."""
    names = {f"state{n}": state for n, state in enumerate(states)}
    values.update(names)
    return [f"state IN ({', '.join(f':{name}' for name in names)})"] if names else []


def newest_first(rows: Iterable[tuple[Any, ...]]) -> list[AppRecord]:
    return sorted(map(to_record, rows), key=lambda record: record.created_at or 0.0, reverse=True)


def json_rows(values: Iterable[Iterable[str]]) -> str:
    import json

    return json.dumps([list(value) for value in values])
