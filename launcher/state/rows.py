"""The tables of the store, and the conversion of attempts and apps to rows."""

from __future__ import annotations

from launcher.errors import DamagedError
from launcher.state.records import AppRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from launcher.holding.use import Use
    from launcher.specs.attempt import Attempt

    T = TypeVar("T")

VERSION = 10
FIRST_WITH_APPS = 3
"""The first version with a row for each app."""

LIVE = "state IN ('reserved', 'created', 'waiting', 'queued', 'running')"
"""The condition for rows without a recorded end. It repeats the text of the partial indexes, so that SQLite
uses them."""

_APPS_UNENDED = f"CREATE INDEX apps_unended ON apps (app_id) WHERE {LIVE}"
_ATTEMPTS_LIVE = f"CREATE INDEX attempts_live ON attempts (app_id) WHERE {LIVE}"

_APPS = f"""
CREATE TABLE apps (
    app_id TEXT PRIMARY KEY,
    scheduler TEXT NOT NULL, session TEXT NOT NULL, name TEXT NOT NULL,
    project TEXT, target TEXT, job TEXT, number INTEGER,  -- NULL for an app that no job file made
    created_at REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'reserved', started_at REAL, ended_at REAL,
    message TEXT NOT NULL DEFAULT '', exit_code INTEGER,
    live INTEGER NOT NULL DEFAULT 1  -- 0 when its scheduler has tidied up after its end
);
CREATE INDEX apps_created ON apps (created_at);
CREATE INDEX apps_of_scheduler ON apps (scheduler, created_at);
CREATE INDEX apps_live ON apps (scheduler) WHERE live;
{_APPS_UNENDED};
CREATE INDEX apps_job ON apps (job, project, target, number) WHERE job IS NOT NULL;
CREATE INDEX attempts_created ON attempts (created_at);
CREATE INDEX attempts_of_scheduler ON attempts (scheduler, created_at)
"""

_NEXT = ("edition", "needs", "ticket", "run_url")
_STANDS_ON = ("order_only", "home", "inputs", "seen", "output", "inputs_changed")
_APPROVED = ("effect", "approval", "pull_request")
_SINCE_9 = ("matrix", "reason")
_SINCE_10 = ("review", "receivers", "output_digest", "images")
_ADDED = (*_NEXT, *_STANDS_ON, *_APPROVED, "used", *_SINCE_9, *_SINCE_10)

SCHEMA = f"""
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    project TEXT NOT NULL, target TEXT NOT NULL, job TEXT NOT NULL, number INTEGER NOT NULL,
    app_id TEXT NOT NULL, scheduler TEXT NOT NULL, digest TEXT NOT NULL,
    origin TEXT NOT NULL, path TEXT NOT NULL, git_commit TEXT NOT NULL, actor TEXT NOT NULL,
    action TEXT NOT NULL, plan_digest TEXT NOT NULL, plan_id TEXT NOT NULL, created_at REAL NOT NULL,
    state TEXT NOT NULL, started_at REAL, ended_at REAL, owner TEXT NOT NULL, message TEXT NOT NULL,
    exit_code INTEGER, metadata TEXT NOT NULL, document BLOB NOT NULL,
    trigger_digest TEXT NOT NULL DEFAULT '',
    {", ".join(f"{name} TEXT NOT NULL DEFAULT ''" for name in _ADDED)},
    UNIQUE (job, project, target, number)
);
CREATE INDEX attempts_by_app ON attempts (app_id);
CREATE INDEX attempts_by_plan ON attempts (plan_id) WHERE plan_id <> '';
{_ATTEMPTS_LIVE};
{_APPS};
"""
"""`attempts` is a primary record: no other place holds all of it. `apps` is derived: every row can be rebuilt
from the folders and engines of the schedulers."""

_RENEW_INDEXES = ("DROP INDEX apps_unended", "DROP INDEX attempts_live", _APPS_UNENDED, _ATTEMPTS_LIVE)


_added = "ALTER TABLE attempts ADD COLUMN {} TEXT NOT NULL DEFAULT ''".format

UPGRADES = {
    1: (_added("trigger_digest"),),
    2: (*map(_added, _NEXT), *_APPS.split(";")),
    3: _RENEW_INDEXES,
    4: _RENEW_INDEXES,  # the set of live states has changed again
    5: (*map(_added, _STANDS_ON),),
    6: (*map(_added, _APPROVED),),
    7: (_added("used"),),
    8: (*map(_added, _SINCE_9),),
    9: (*map(_added, _SINCE_10),),
}
"""Version of the schema → the statements that upgrade it to the next version."""

# The order of an attempt's values in a row; packed values come last.
_KEY = ("project", "target", "job")
_PLAIN = (
    "number", "app_id", "scheduler", "digest", "origin", "path", "git_commit", "actor",
    "action", "plan_digest", "plan_id", "created_at",
    "state", "started_at", "ended_at", "owner", "message", "exit_code", "trigger_digest",
    "home", "inputs", "output", "inputs_changed", "effect", "approval", "pull_request", "run_url",
    "matrix", "reason", "review", "receivers", "output_digest",
)  # fmt: skip
_PACKED = ("edition", "needs", "order_only", "seen", "metadata", "used", "images", "document")
COLUMNS = (*_KEY, *_PLAIN, *_PACKED)
_FIELDS = tuple("commit" if name == "git_commit" else name for name in _PLAIN)  # COMMIT is a word of SQL

_SHORT = (
    "app_id", "scheduler", "session", "name", "project", "target", "job", "number", "digest", "plan_id",
    "git_commit", "actor", "state", "created_at", "started_at", "ended_at", "message", "exit_code", "output",
    "matrix", "origin", "path",
)  # fmt: skip
_OF_ATTEMPT = {  # session: `session_of` in SQL
    "session": "CASE target WHEN 'default' THEN project ELSE project || '.' || target END",
    "name": "job",
    "path": "attempts.path",  # json_each has a column `path`, too
}
_OF_APP = {
    **dict.fromkeys(("output", "matrix", "digest", "plan_id", "git_commit", "actor"), "''"),
    **dict.fromkeys(("origin", "path"), "NULL"),
}

ATTEMPT_RECORD = ", ".join(f"{_OF_ATTEMPT.get(name, name)} AS {name}" for name in _SHORT)
"""The columns to select from `attempts` for `to_record`."""
APP_RECORD = ", ".join(f"{_OF_APP.get(name, name)} AS {name}" for name in _SHORT)
"""The columns to select from `apps` for `to_record`."""
RECORD = ", ".join(_SHORT)
"""The columns to select from the union of `attempts` and `apps`."""

WORDS_OF = ("job", "project", "target", "app_id", "scheduler", "state", "message")
"""The columns, and fields of a record, in which words are searched."""

APP_COLUMNS = (
    "app_id", "scheduler", "session", "name", "project", "target", "job", "number", "created_at",
    "state", "started_at", "ended_at", "message", "exit_code", "live",
)  # fmt: skip
INSERT_APP = f"INTO apps ({', '.join(APP_COLUMNS)}) VALUES ({', '.join('?' * len(APP_COLUMNS))})"


def to_record(row: tuple[Any, ...]) -> AppRecord:
    """The record of a row with the columns of RECORD."""
    app_id, scheduler, session, name, project, target, job, number, digest, plan_id, *more = row
    commit, actor, state, created_at, started_at, ended_at, message, exit_code, output, *rest = more
    matrix, origin, path = rest
    return AppRecord(
        scheduler,
        session,
        app_id,
        name=name,
        key=None if job is None else (project, target, job),
        number=number,
        digest=digest,
        plan_id=plan_id,
        state=state,
        created_at=created_at,
        started_at=started_at,
        ended_at=ended_at,
        message=message,
        exit_code=exit_code,
        output=output,
        matrix=matrix,
        job_file=None if path is None else (origin, path),
        commit=commit,
        actor=actor,
    )


def from_record(record: AppRecord, *, live: bool = True) -> tuple[Any, ...]:
    """Return the row of an app: its values in the order of APP_COLUMNS."""
    values = {name: getattr(record, name) for name in APP_COLUMNS[:-1]}
    values["created_at"] = record.created_at or 0.0
    return *values.values(), int(live)


def from_attempt(attempt: Attempt) -> tuple[Any, ...]:
    """Return the row of an attempt: its values in the order of COLUMNS."""
    import zlib

    from launcher.specs.attempt import needs_to_text

    return (
        *attempt.key,
        *(getattr(attempt, name) for name in _FIELDS),
        "" if attempt.edition == attempt.number else str(attempt.edition),
        needs_to_text(attempt.needs) if attempt.needs else "",
        " ".join(attempt.order_only),
        text_of(attempt.seen),
        json_text(attempt.metadata),
        used_text(attempt.used),
        text_of(attempt.images),
        zlib.compress(json_text(dict(attempt.document)).encode(), 1),
    )


def to_attempts(rows: Iterable[tuple[Any, ...]], *, all_whole: bool = True) -> list[Attempt]:
    """The attempts of rows with the columns of COLUMNS.

    Raises DamagedError for values that no version of launcher wrote. Without `all_whole`, the attempt of such
    a row is `unreadable`, and lacks them.
    """
    import json
    from functools import cache, partial

    from launcher.dataclass import filler
    from launcher.specs.attempt import Attempt, LateDocument, needs_from_text
    from launcher.specs.launch import JobKey

    read = cache(json.loads)  # jobs of one matrix have the same texts
    fill = filler(Attempt, ("key", *_FIELDS, *_PACKED))
    found = []
    for *plain, edition, stood_on, order_only, seen, metadata, used, images, document in rows:
        try:
            made = fill(
                (
                    JobKey(*plain[:3]),
                    *plain[3:],
                    int(edition or plain[3]),
                    needs_from_text(stood_on),
                    tuple(order_only.split()),
                    read(seen or "{}"),
                    read(metadata),
                    LateDocument(partial(_read, read_used, used, plain[:4])) if used else {},
                    read(images or "{}"),
                    LateDocument(partial(_read, unpacked, document, plain[:4])),
                )
            )
        except (ValueError, TypeError, RecursionError) as error:
            damage = _damaged(plain, error)
            if all_whole:
                raise damage from error
            named = dict(zip(_FIELDS, plain[3:], strict=True))
            made = Attempt(key=JobKey(*plain[:3]), **named, document={}, unreadable=str(damage))
        found.append(made)
    return found


def _read(read: Callable[[T], dict[str, Any]], value: T, plain: Sequence[Any]) -> dict[str, Any]:
    """A value of a row of `attempts` whose first values are `plain`. Raises DamagedError."""
    try:
        return read(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(plain, error) from error


def unpacked(document: bytes) -> dict[str, Any]:
    """The value of the column `document`. Raises ValueError, TypeError, RecursionError if damaged."""
    import json
    import zlib

    try:
        found: dict[str, Any] = json.loads(zlib.decompress(document))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    return found


def _damaged(plain: Sequence[Any], error: Exception) -> DamagedError:
    """The error for a row of `attempts` whose first values are `plain`."""
    from launcher.specs.launch import JobKey

    return DamagedError(
        f"the ledger's document of {JobKey(*plain[:3])}, attempt {plain[3]}, is damaged: {error}"
    )


def used_text(used: Mapping[str, Use]) -> str:
    """The value of the column `used`; "" where no use is known."""
    if not used:
        return ""
    from launcher.holding import use
    from launcher.holding.journal import as_json  # `json` would delay the end of `wait` by some milliseconds

    found = sorted(use.to_json(used).items())
    return as_json({role: dict(sorted(each.items())) for role, each in found})


def text_of(value: Mapping[str, Any]) -> str:
    """The value of a column with a mapping; "" for an empty one."""
    return json_text(value) if value else ""


def read_used(text: str) -> dict[str, Use]:
    """The inverse of `used_text`. Raises ValueError for text that no version of launcher wrote."""
    if not text:
        return {}
    import json

    from launcher.holding import use

    return use.from_json(json.loads(text))


def known_use(text: str) -> dict[str, Use]:
    """The use in a record; {} for a damaged record."""
    try:
        return read_used(text)
    except (ValueError, RecursionError):
        return {}


def json_text(value: Mapping[str, Any]) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
