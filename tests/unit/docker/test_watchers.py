"""Whether a process of a watcher on the engine runs: the engine shows it, whatever the time."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from launcher.schedulers.docker import watchers
from launcher.schedulers.owner import Owner, this_process

PROCESS = replace(this_process(), host=f"{watchers.PREFIX}0123", pid=1)


def engine(shown: Owner, *, started_at: float = 1.0, written_at: float = 2.0) -> Any:
    """Return an engine whose watcher runs since `started_at`, and has named its process at `written_at`."""
    return SimpleNamespace(
        inspect=lambda name: SimpleNamespace(state="running", started_at=started_at),
        path_stat=lambda name, path: SimpleNamespace(written_at=written_at),
        read_file=lambda name, path, most: shown.to_json().encode(),
    )


def test_a_process_of_an_earlier_run_of_the_watcher_is_dead_at_once() -> None:
    """The app was being submitted a moment ago: the next apply need not wait for the client."""
    before = replace(PROCESS, start=PROCESS.start - 1)
    assert watchers.may_be_alive(engine(PROCESS), PROCESS, time.time())
    assert not watchers.may_be_alive(engine(PROCESS), before, time.time())
    assert not watchers.may_be_alive(engine(PROCESS, started_at=3.0), PROCESS, time.time())
