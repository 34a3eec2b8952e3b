"""Ends a process of ours in the middle of starting an app in containers: killed, or interrupted."""

import os
from collections.abc import Iterable
from typing import Any

from tests import processes


def dies_starting() -> None:
    """From now on this process kills the watcher, starts the first replica, and then kills itself."""
    from launcher.schedulers.docker import submission

    submission.start_all = _start


def interrupted_starting() -> None:
    """From now on this process starts the first replica, and then somebody presses Ctrl-C."""
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
