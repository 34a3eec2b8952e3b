"""Launch an app without a job: from its dry run to its start, under a fresh id."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.records import record, rows
from launcher.schedulers.docker.records.owner import this_process
from launcher.schedulers.docker.request.derive import bind_request, build_request
from launcher.schedulers.docker.request.edits import check_head
from launcher.schedulers.docker.request.job import DockerJob
from launcher.schedulers.docker.request.labelling import app_labels, job_labels
from launcher.schedulers.docker.state import apps
from launcher.schedulers.docker.submit.submission import Submission
from launcher.schedulers.ids import make_unique, normalise
from launcher.specs.dryrun import AppDryRunInfo

if TYPE_CHECKING:
    Report = Callable[[str, Mapping[str, Any]], None]


def launch(
    engine: Engine,
    info: AppDryRunInfo[DockerJob],
    session: str,
    report_of: Callable[[str], Report],
    *,
    attached: bool,
) -> tuple[str, Submission]:
    """Start all replicas. Returns the app id and the submission, which can close or cancel the app.

    Raises StartError, with nothing left behind; SchedulerError for a request edited into an invalid one.
    """
    app, cfg = info.app, info.cfg
    if app is None:
        raise ValueError("want an info that submit_dryrun has made")
    check_head(info.request, build_request(app, cfg, session=session))
    app_id = make_unique(normalise(app.name, limit=32))
    request = bind_request(info.request, app_id)
    common = app_labels(app, cfg, app_id, session, time.time(), this_process()) | job_labels(request)
    lock = record.claim(record.folder(app_id))
    submission = Submission(engine, lock, report_of(app_id), attached=attached)
    try:
        record.write_attempt(lock.app_dir, apps.facts(engine, common))
        rows.add(common)
        submission.create(request, common)
    except BaseException:
        submission.abort()
        raise
    submission.start()
    return app_id, submission
