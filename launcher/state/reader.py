"""Read records from the store, for lists and look-ups. Attempts with their documents: see `Store`."""

from __future__ import annotations

from launcher.state.rows import APP_RECORD, ATTEMPT_RECORD, LIVE, RECORD, to_record
from launcher.state.storefile import StoreFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from launcher.state.records import AppRecord

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


class Reader(StoreFile):
    """An open store, to read records from. See `StoreFile`."""

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
        return newest_first(self._rows(_MATCHING, wanted))

    def matching_ids(self, pattern: str) -> list[AppRecord]:
        """Every app whose id `pattern` matches, newest first."""
        return newest_first(self._rows(_MATCHING_IDS, {"pattern": _glob(pattern)}))

    def files(self, app_ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """App id → origin and path of its job file; see `Attempt`. Apps without a job are left out."""
        wanted = "json_each(?) CROSS JOIN attempts ON app_id = json_extract(value, '$[0]')"
        sql = f"SELECT app_id, origin, attempts.path FROM {wanted}"
        return {row[0]: row[1:] for row in self._rows(sql, (json_rows([app_id] for app_id in app_ids),))}

    def live(self) -> list[AppRecord]:
        """The apps that have no recorded end, newest first."""
        return newest_first([*self._rows(_LIVE_ATTEMPTS), *self._rows(_LIVE_APPS)])

    def live_attempts(self) -> list[AppRecord]:
        """The recorded attempts that have no recorded end, newest first."""
        return newest_first(self._rows(_LIVE_ATTEMPTS))

    def _one(self, sql: str, app_id: str) -> AppRecord | None:
        rows = self._rows(sql, (app_id,))
        return to_record(rows[0]) if rows else None


def _glob(pattern: str) -> str:
    """A pattern as SQLite reads it: there, `^` excludes characters."""
    return pattern.replace("[!", "[^")


def newest_first(rows: Iterable[tuple[Any, ...]]) -> list[AppRecord]:
    return sorted(map(to_record, rows), key=lambda record: record.created_at or 0.0, reverse=True)


def json_rows(values: Iterable[Iterable[str]]) -> str:
    import json

    return json.dumps([list(value) for value in values])
