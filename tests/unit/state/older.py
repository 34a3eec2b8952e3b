"""Schemas of earlier versions of the store, as they were written."""

from __future__ import annotations

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
