"""Wait for the end of an attempt that another one needs."""

from __future__ import annotations

import time

from launcher.schedulers.docker import apps
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.labels import SCHEDULER
from launcher.schedulers.docker.watching.waiting import wait_for_end
from launcher.schedulers.registry import get_scheduler
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.attempt import Attempt
from launcher.specs.needs import StoodOn

_AGAIN_S = 1.0
_MOST_MISSES = 10  # while an interrupted submission is resumed, an attempt has neither container nor record


def ended(engine: Engine, need: StoodOn) -> Attempt | None:
    """Block until the attempt has ended, also while it has no watcher; None when nothing is left of it.

    Raises EngineError.
    """
    misses = 0
    while misses < _MOST_MISSES:
        found = _of_engine(engine, need) if need.scheduler == SCHEDULER else _of_other(need)
        if found is not None and not found.is_live:
            return found
        misses = misses + 1 if found is None else 0
        time.sleep(_AGAIN_S)
    return None


def _of_engine(engine: Engine, need: StoodOn) -> Attempt | None:
    found = wait_for_end(engine, need.app_id, None)
    return apps.attempt_of(found) if found is not None else None


def _of_other(need: StoodOn) -> Attempt | None:
    scheduler = get_scheduler(need.scheduler, "")
    return scheduler.ended_attempt(need.app_id) if isinstance(scheduler, StagedScheduler) else None


def why_skipped(need: StoodOn, found: Attempt | None) -> str:
    """Why an attempt is skipped that needs this one, in a few words."""
    if found is None:
        return f"{need.job} was removed"
    return f"{need.job} failed" if found.state == "failed" else f"{need.job} was {found.state}"
