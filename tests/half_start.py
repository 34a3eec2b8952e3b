"""Kill or interrupt a client in the middle of starting an app in containers."""

import os
from collections.abc import Iterable
from typing import Any

from tests import processes


def dies_starting() -> None:
    """Make this process, at a start, kill the watcher, start the first replica, and then kill itself."""
    from launcher.schedulers.docker import submission

    submission.start_all = _start


def interrupted_starting() -> None:
    """Make this process, at a start, start the first replica and then get a Ctrl-C."""
    from launcher.schedulers.docker import submission

    submission.start_all = _start_one


def _start_one(engine: Any, containers: Iterable[tuple[str, Any]], _rules: Any) -> None:
    engine.start(next(iter(containers))[0])
    raise KeyboardInterrupt


def _start(engine: Any, containers: Iterable[tuple[str, Any]], _rules: Any) -> None:
    watchers = processes.watchers(os.environ["LAUNCHER_HOME"])
    processes.kill(watchers)
    processes.gone(watchers, timeout_s=60)
    engine.start(next(iter(containers))[0])
    os.kill(os.getpid(), 9)
