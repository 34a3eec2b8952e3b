"""Attempts for the tests of the ledger."""

from typing import Any

from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey, attempt_id
from launcher.state.records import AppRecord

DOCUMENT = {
    "scheduler": "local_cwd",
    "roles": [{"name": "main", "entrypoint": "python", "args": ["-c", "ä"]}],
}


def digest(word: str) -> str:
    return f"lr1:sha256:{word:0>64}"


def key(job: str = "train", project: str = "vision", target: str = "default") -> JobKey:
    return JobKey(project, target, job)


def attempt(job: JobKey | str = "train", number: int = 1, **changes: Any) -> Attempt:
    """Return an attempt with something in every field; `created_at` grows with the number."""
    job = key(job) if isinstance(job, str) else job
    fields = {
        "scheduler": "local_cwd", "digest": digest("a"), "document": DOCUMENT, "metadata": {"team": "vision"},
        "origin": "host/team/jobs", "path": "jobs/train.launcher.yaml", "commit": "0123456789abcdef-dirty",
        "actor": "me@here", "action": "rerun", "plan_digest": "p1", "created_at": 1000.0 + number,
    }  # fmt: skip
    return Attempt(key=job, number=number, app_id=attempt_id(job, number), **{**fields, **changes})


def end_of(
    app_id: str,
    state: str,
    ended_at: float,
    message: str = "",
    exit_code: int | None = None,
    started_at: float | None = None,
) -> AppRecord:
    """Return the record of an app that has ended."""
    end = {"message": message, "exit_code": exit_code, "started_at": started_at}
    return AppRecord("local_cwd", "s", app_id, state=state, ended_at=ended_at, **end)
