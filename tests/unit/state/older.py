"""Schemas of earlier versions of the store, as they were written."""

FIRST = """
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    project TEXT NOT NULL, target TEXT NOT NULL, job TEXT NOT NULL, number INTEGER NOT NULL,
    app_id TEXT NOT NULL, scheduler TEXT NOT NULL, digest TEXT NOT NULL,
    origin TEXT NOT NULL, path TEXT NOT NULL, git_commit TEXT NOT NULL, actor TEXT NOT NULL,
    action TEXT NOT NULL, plan_digest TEXT NOT NULL, plan_id TEXT NOT NULL, created_at REAL NOT NULL,
    state TEXT NOT NULL, started_at REAL, ended_at REAL, owner TEXT NOT NULL, message TEXT NOT NULL,
    exit_code INTEGER, metadata TEXT NOT NULL, document BLOB NOT NULL,
    UNIQUE (job, project, target, number)
);
CREATE INDEX attempts_by_app ON attempts (app_id);
CREATE INDEX attempts_by_plan ON attempts (plan_id) WHERE plan_id <> '';
CREATE INDEX attempts_live ON attempts (app_id) WHERE state IN ('reserved', 'created', 'running');
"""

SECOND = FIRST.replace("UNIQUE (job", "trigger_digest TEXT NOT NULL DEFAULT '', UNIQUE (job")

_NEXT = ("edition", "needs", "ticket", "instead_of", "run_url")
THIRD = SECOND.replace(
    "UNIQUE (job", ", ".join(f"{name} TEXT NOT NULL DEFAULT ''" for name in _NEXT) + ", UNIQUE (job"
)
THIRD += """
CREATE TABLE apps (
    app_id TEXT PRIMARY KEY,
    scheduler TEXT NOT NULL, session TEXT NOT NULL, name TEXT NOT NULL,
    project TEXT, target TEXT, job TEXT, number INTEGER,
    created_at REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'reserved', started_at REAL, ended_at REAL,
    message TEXT NOT NULL DEFAULT '', exit_code INTEGER,
    live INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX apps_created ON apps (created_at);
CREATE INDEX apps_of_scheduler ON apps (scheduler, created_at);
CREATE INDEX apps_live ON apps (scheduler) WHERE live;
CREATE INDEX apps_unended ON apps (app_id) WHERE state IN ('reserved', 'created', 'running');
CREATE INDEX apps_job ON apps (job, project, target, number) WHERE job IS NOT NULL;
CREATE INDEX attempts_created ON attempts (created_at);
CREATE INDEX attempts_of_scheduler ON attempts (scheduler, created_at)
"""
