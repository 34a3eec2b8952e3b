"""The threads of a watcher."""

import os
import time
from threading import Event, active_count

from launcher.schedulers.docker.watching.services import Pool
from launcher.schedulers.loop import Loop

BLOCKED = 40
"""More calls than a pool usually has threads."""


def turn_until(loop: Loop, happened: Event) -> None:
    deadline = time.monotonic() + 120.0
    while not happened.is_set():
        assert time.monotonic() < deadline, "the call was not run"
        loop.turn(time.monotonic() + 0.01)


def threads_end(before: int) -> None:
    """Wait until a pool has only its idle threads."""
    deadline = time.monotonic() + 120.0
    while active_count() > before + 2:
        assert time.monotonic() < deadline, "they live on"
        os.sched_yield()


def test_a_call_is_run_while_all_calls_before_it_block_and_all_but_idle_threads_end_afterwards() -> None:
    loop, release, happened = Loop(), Event(), Event()
    pool, before = Pool(loop.after), active_count()
    try:
        for _ in range(BLOCKED):
            pool.submit(release.wait)
        pool.submit(happened.set)
        turn_until(loop, happened)
        assert active_count() > before + BLOCKED / 2
    finally:
        release.set()
        threads_end(before)
    again = Event()
    pool.submit(again.set)
    assert again.wait(120.0)
    assert active_count() <= before + 2
